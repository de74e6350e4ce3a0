//! Kubernetes versions as machines and kubelets report them.

use std::cmp::Ordering;

/// A Kubernetes version taken apart: `1.35`, `v1.35.0`, `v1.27.1-eks-1-27-4`, `v1.27.3-eks-6f07bbc`, `v1.36.0-rc.1`.
///
/// What follows a `+` is build metadata and is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KubernetesVersion {
    major: u64,
    minor: u64,
    patch: Option<u64>,
    suffix: Suffix,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Suffix {
    None,
    /// Release number of EKS-D, from `eks-<major>-<minor>-<release>`: a number, never to be compared as text.
    Release(u64),
    /// A build of EKS-D without its release number, as kubelets report it: `eks-6f07bbc`.
    Build,
    /// Anything else, such as `rc.1`.
    Other(String),
}

impl KubernetesVersion {
    /// Reads a version; none for a text that has no `major.minor`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (core, suffix) = text.split_once('-').map_or((text, None), |(core, suffix)| (core, Some(suffix)));
        let mut numbers = core.split('.').map(number);
        let (major, minor) = (numbers.next()??, numbers.next()??);
        let patch = match numbers.next() {
            None => None,
            Some(patch) => Some(patch?),
        };
        if numbers.next().is_some() {
            return None;
        }
        Some(Self { major, minor, patch, suffix: suffix.map_or(Suffix::None, Suffix::parse) })
    }

    /// Major and minor.
    pub(crate) fn minor(&self) -> (u64, u64) {
        (self.major, self.minor)
    }

    /// Whether a declared version (`spec.version`) is this one, as far as this one is known: `1.35` is met by every patch of 1.35, a version
    /// without an EKS-D release by every release.
    pub(crate) fn is_met_by_declared(&self, declared: &str) -> bool {
        let Some(declared) = Self::parse(declared) else { return false };
        let suffix = match (&self.suffix, &declared.suffix) {
            (Suffix::None, Suffix::Other(_)) => false,
            (Suffix::None, _) => true,
            (own, other) => own == other,
        };
        self.core_is_met_by(&declared) && suffix
    }

    /// Whether a kubelet that reports this text runs this version. A kubelet of EKS-D names a build instead of the release, so only two release
    /// numbers, or two suffixes of another sort, can contradict each other:
    /// a Machine says `v1.27.1-eks-1-27-4` where its kubelet says `v1.27.3-eks-6f07bbc`.
    pub(crate) fn is_met_by_kubelet(&self, reported: &str) -> bool {
        let Some(reported) = Self::parse(reported) else { return false };
        let suffix = match (&self.suffix, &reported.suffix) {
            (Suffix::Release(own), Suffix::Release(other)) => own == other,
            (Suffix::Other(own), Suffix::Other(other)) => own == other,
            (Suffix::Other(_), _) | (_, Suffix::Other(_)) => false,
            _ => true,
        };
        self.core_is_met_by(&reported) && suffix
    }

    /// The order of two versions, as far as both are known.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let patch = match (self.patch, other.patch) {
            (Some(own), Some(other)) => own.cmp(&other),
            _ => Ordering::Equal,
        };
        let release = match (&self.suffix, &other.suffix) {
            (Suffix::Release(own), Suffix::Release(other)) => own.cmp(other),
            (Suffix::Other(_), Suffix::None) => Ordering::Less,
            (Suffix::None, Suffix::Other(_)) => Ordering::Greater,
            _ => Ordering::Equal,
        };
        self.minor().cmp(&other.minor()).then(patch).then(release)
    }

    fn core_is_met_by(&self, other: &Self) -> bool {
        self.minor() == other.minor() && self.patch.is_none_or(|patch| other.patch == Some(patch))
    }
}

impl Suffix {
    fn parse(text: &str) -> Self {
        let Some(rest) = text.strip_prefix("eks-") else { return Self::Other(text.to_owned()) };
        let parts: Vec<&str> = rest.split('-').collect();
        match parts.as_slice() {
            [major, minor, release] => match (number(major), number(minor), number(release)) {
                (Some(_), Some(_), Some(release)) => Self::Release(release),
                _ => Self::Build,
            },
            _ => Self::Build,
        }
    }
}

fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> KubernetesVersion {
        KubernetesVersion::parse(text).unwrap()
    }

    #[test]
    fn kubelets_are_compared_by_meaning() {
        for (expected, reported, met) in [
            ("v1.27.3-eks-1-27-4", "v1.27.3-eks-6f07bbc", true),
            ("v1.27.3-eks-1-27-4", "v1.27.3-eks-1-27-4", true),
            ("v1.27.3-eks-1-27-4", "v1.27.3-eks-1-27-9", false),
            ("v1.27.3-eks-1-27-4", "v1.27.3", true),
            ("v1.27.3-eks-1-27-4", "v1.27.1-eks-6f07bbc", false),
            ("1.27", "v1.27.3-eks-6f07bbc", true),
            ("1.27", "v1.28.0", false),
            ("v1.36.0", "v1.36.0-rc.1", false),
            ("v1.36.0-rc.1", "v1.36.0", false),
            ("v1.36.0", "v1.36.0+k3s1", true),
            ("v1.36.0", "", false),
        ] {
            assert_eq!(parse(expected).is_met_by_kubelet(reported), met, "{expected} {reported}");
        }
    }

    #[test]
    fn declared_versions_are_met_as_far_as_the_expectation_goes() {
        for (expected, declared, met) in [
            ("1.35", "v1.35.4", true),
            ("v1.35.0", "v1.35.0", true),
            ("v1.35.0", "v1.34.0", false),
            ("v1.35.0", "v1.35.1", false),
            ("v1.35.0", "v1.35", false),
            ("v1.35.0", "v1.35.0-eks-1-35-4", true),
            ("v1.35.0-eks-1-35-4", "v1.35.0-eks-1-35-10", false),
            ("v1.35.0-eks-1-35-4", "v1.35.0", false),
            ("v1.35.0", "v1.35.0-rc.0", false),
            ("v1.35.0", "latest", false),
        ] {
            assert_eq!(parse(expected).is_met_by_declared(declared), met, "{expected} {declared}");
        }
    }

    #[test]
    fn release_numbers_of_eks_d_are_ordered_as_numbers() {
        for (left, right, order) in [
            ("v1.32.5-eks-1-32-9", "v1.32.5-eks-1-32-10", Ordering::Less),
            ("v1.32.5-eks-1-32-100", "v1.32.5-eks-1-32-99", Ordering::Greater),
            ("v1.9.0", "v1.10.0", Ordering::Less),
            ("1.35", "v1.35.9", Ordering::Equal),
            ("v1.35.0-rc.1", "v1.35.0", Ordering::Less),
        ] {
            assert_eq!(parse(left).order(&parse(right)), order, "{left} {right}");
        }
    }

    #[test]
    fn what_is_no_version_is_none() {
        for text in ["", "v", "1", "one.two", "1.2.3.4", "1..2", "1.-2", "deprecated", "99999999999999999999.1"] {
            assert_eq!(KubernetesVersion::parse(text), None, "{text:?}");
        }
    }
}
