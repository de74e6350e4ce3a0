//! The hosts that something was not fetched from because nobody allowed it.

use std::collections::BTreeMap;

/// Hosts that many people publish on: an entry for one of them names whose things are meant.
const SHARED: [&str; 8] = [
    "docker.io",
    "gcr.io",
    "ghcr.io",
    "github.com",
    "public.ecr.aws",
    "quay.io",
    "raw.githubusercontent.com",
    "registry-1.docker.io",
];

/// What would have to be allowed, with how many addresses each is for.
#[derive(Debug, Default)]
pub struct Hosts(BTreeMap<String, usize>);

impl Hosts {
    /// The host of an address is not allowed. Told in the summary, so there is nothing to say of the address alone.
    pub fn add_address(&mut self, uri: &str) -> Option<String> {
        let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
        let mut parts = rest.split('/');
        let host = parts.next().unwrap_or_default();
        let entry = match parts.next() {
            Some(first) if SHARED.contains(&host) => format!("{host}/{first}"),
            _ => host.to_owned(),
        };
        self.add(&entry)
    }

    /// A host is not allowed.
    pub fn add(&mut self, host: &str) -> Option<String> {
        *self.0.entry(host.to_owned()).or_default() += 1;
        None
    }

    /// One line that says what to allow; none where everything was.
    pub fn summary(&self) -> Option<String> {
        let (hosts, addresses) = (self.0.len(), self.0.values().sum::<usize>());
        let flags: Vec<String> = self.0.keys().map(|host| format!("--allow {host}")).collect();
        let plural =
            |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
        (hosts > 0).then(|| {
            format!(
                "{} not allowed, for {}: `{}`, or the same under fetch.allow in stepgate.yaml",
                plural(hosts, "host", "hosts"),
                plural(addresses, "address", "addresses"),
                flags.join(" ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_summed_up_by_host() {
        let mut hosts = Hosts::default();
        assert_eq!(hosts.summary(), None);
        for uri in [
            "https://distro.eks.amazonaws.com/kubernetes-1-33/kubernetes-1-33-eks-18.yaml",
            "https://distro.eks.amazonaws.com/kubernetes-1-34/kubernetes-1-34-eks-7.yaml",
            "https://github.com/fluxcd/flux2/releases/download/v2.7.5/install.yaml",
            "oci://public.ecr.aws/eks/cilium/cilium:1.19.4-1",
        ] {
            assert_eq!(hosts.add_address(uri), None);
        }
        hosts.add("release-assets.githubusercontent.com");
        assert_eq!(
            hosts.summary().unwrap(),
            "4 hosts not allowed, for 5 addresses: `--allow distro.eks.amazonaws.com --allow github.com/fluxcd --allow \
             public.ecr.aws/eks --allow release-assets.githubusercontent.com`, or the same under fetch.allow in stepgate.yaml"
        );
    }
}
