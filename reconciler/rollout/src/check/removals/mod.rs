//! Which API versions Kubernetes and what is installed in clusters stop serving, and from which version on.

mod components;
mod kubernetes;
mod standing;

pub use components::{ApiComponent, Release};
pub use kubernetes::REMOVALS;
pub use standing::{ApiFinding, ApiStanding, ApiTargets, standing};

/// An API version that goes.
#[derive(Debug, PartialEq, Eq)]
pub struct ApiRemoval {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// The kinds that go.
    pub kinds: &'static [&'static str],
    /// The first minor of Kubernetes 1 that warns of it.
    pub deprecated: u32,
    /// The first minor of Kubernetes 1 that does not serve it.
    pub removed: u32,
    /// Group and version that take its place; none where nothing does.
    pub replacement: Option<&'static str>,
}

impl ApiRemoval {
    /// Group and version.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Whether API servers serve it where nobody has asked for it (`--runtime-config`): no alpha, and of betas those from before 1.24.
    /// Betas that were deprecated from 1.30 on came after that.
    #[must_use]
    pub fn is_on_by_default(&self) -> bool {
        !self.version.contains("alpha") && (!self.version.contains("beta") || self.deprecated < 30)
    }

    /// What to use instead.
    #[must_use]
    pub fn advice(&self) -> String {
        match self.replacement {
            Some(replacement) => format!("use {replacement}"),
            None => "nothing takes its place: take the object out".to_owned(),
        }
    }
}

/// The removal of a kind in a group and version; none where it stays.
#[must_use]
pub fn removal_of(api_version: &str, kind: &str) -> Option<&'static ApiRemoval> {
    let (group, version) = api_version.split_once('/')?;
    REMOVALS.iter().find(|known| known.group == group && known.version == version && known.kinds.contains(&kind))
}

/// The minor of `1.34`, `v1.34.1` or `v1.34.1-eks-1-34-5`; none of anything else.
#[must_use]
pub fn minor_of(version: &str) -> Option<u32> {
    let rest = version.strip_prefix('v').unwrap_or(version).strip_prefix("1.")?;
    let digits = rest.split(|sign: char| !sign.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_goes_with_its_own_minor_and_has_its_own_successor() {
        let told = |api_version: &str, kind: &str| removal_of(api_version, kind).map(|it| (it.removed, it.replacement));
        assert_eq!(told("extensions/v1beta1", "Deployment"), Some((16, Some("apps/v1"))));
        assert_eq!(told("extensions/v1beta1", "Ingress"), Some((22, Some("networking.k8s.io/v1"))));
        assert_eq!(told("policy/v1beta1", "PodSecurityPolicy"), Some((25, None)));
        assert_eq!(told("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema").map(|it| it.0), Some(26));
        assert_eq!(told("resource.k8s.io/v1beta1", "ResourceClaim").map(|it| it.0), Some(38));
        for (api_version, kind) in [("apps/v1", "Deployment"), ("v1", "Pod"), ("policy/v1beta1", "Eviction")] {
            assert_eq!(told(api_version, kind), None, "{api_version} {kind}");
        }
        let minors: Vec<u32> = REMOVALS.iter().map(|known| known.removed).collect();
        assert!(minors.is_sorted() && REMOVALS.iter().all(|known| !known.kinds.is_empty()));
    }

    #[test]
    fn a_minor_is_read_off_any_form_of_a_version() {
        for (version, minor) in [
            ("1.34", Some(34)),
            ("v1.34.1", Some(34)),
            ("v1.34.1-eks-1-34-5", Some(34)),
            ("v1.9.0+k3s1", Some(9)),
            ("2.0", None),
            ("", None),
            ("v1.x", None),
        ] {
            assert_eq!(minor_of(version), minor, "{version}");
        }
    }
}
