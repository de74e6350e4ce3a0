//! Which hosts and which addresses may be connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Hosts, or `host/path` prefixes, that may be fetched from: `fetch.allow` of `stepgate.yaml`.
///
/// An empty list allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<String>);

impl AllowList {
    /// A list of hosts and `host/path` prefixes, without scheme.
    pub fn new(entries: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(entries.into_iter().map(Into::into).collect())
    }

    /// Whether `host` (with its port where it is not 443) and `path` are on the list. A prefix ends at a slash: an entry
    /// `github.com/fluxcd` does not allow `github.com/fluxcd-other`. Dot segments are never allowed.
    #[must_use]
    pub fn allows(&self, host: &str, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        if path.split('/').any(|segment| segment == ".." || segment == ".") || path.contains(['\\', '%']) {
            return false;
        }
        self.0.iter().any(|entry| {
            let (entry_host, prefix) = entry.split_once('/').unwrap_or((entry, ""));
            let prefix = prefix.trim_end_matches('/');
            entry_host.eq_ignore_ascii_case(host)
                && (prefix.is_empty()
                    || path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
        })
    }
}

/// Whether an address belongs to a host on the public internet: not loopback, link-local (where cloud metadata lives),
/// private, shared, documentation, multicast or reserved. IPv4 addresses inside IPv6 ones are judged as IPv4.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || a >= 224
        // Shared address space (RFC 6598), IETF protocol assignments, benchmarks, and the retired 6to4 relays.
        || a == 100 && (64..128).contains(&b)
        || a == 192 && b == 0 && c == 0
        || a == 198 && (b == 18 || b == 19)
        || a == 192 && b == 88 && c == 99)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // IPv4-mapped, and NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        // 6to4.
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, ORCHID, documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Global unicast is 2000::/3, and nothing else.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_a_slash() {
        let list = AllowList::new(["distro.eks.amazonaws.com", "github.com/fluxcd", "mirror.example.org:8443/a/"]);
        for (host, path) in [
            ("distro.eks.amazonaws.com", "/any/path"),
            ("DISTRO.eks.amazonaws.com", "/"),
            ("github.com", "/fluxcd/flux2/install.yaml"),
            ("github.com", "/fluxcd"),
            ("mirror.example.org:8443", "/a/b"),
        ] {
            assert!(list.allows(host, path), "{host}{path}");
        }
        for (host, path) in [
            ("eks.amazonaws.com", "/"),
            ("evil-distro.eks.amazonaws.com", "/"),
            ("distro.eks.amazonaws.com.evil.org", "/"),
            ("distro.eks.amazonaws.com:444", "/"),
            ("github.com", "/fluxcd-other/a"),
            ("github.com", "/fluxcd/../other/a"),
            ("github.com", "/fluxcd/%2e%2e/other"),
            ("mirror.example.org", "/a/b"),
        ] {
            assert!(!list.allows(host, path), "{host}{path}");
        }
        assert!(!AllowList::default().allows("github.com", "/"));
    }

    #[test]
    fn only_public_addresses_are_public() {
        for address in
            ["8.8.8.8", "52.94.236.248", "2600:1f18::1", "2a04:4e42::81", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.192",
            "198.18.0.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:169.254.169.254",
            "::ffff:10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }
}
