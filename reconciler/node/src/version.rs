//! Versions of Kubernetes, and which of them follow on each other in place.

use std::fmt;
use std::str::FromStr;

use semver::Version;
use serde::{Deserialize, Serialize};

/// A version as Kubernetes writes it: `v1.36.4`, `v1.36.4-eks-1-36-4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubernetesVersion(Version);

impl KubernetesVersion {
    /// Whether both are the same release, whoever built them.
    #[must_use]
    pub fn is_same_release(&self, other: &Self) -> bool {
        self.release() == other.release()
    }

    /// Whether it is of the minor version of `other`, or of a newer one.
    #[must_use]
    pub fn has_minor_of_at_least(&self, other: &Self) -> bool {
        (self.0.major, self.0.minor) >= (other.0.major, other.0.minor)
    }

    /// Why a node of version `self` cannot be upgraded in place to `target`; none when it can.
    #[must_use]
    pub fn why_not_to(&self, target: &Self) -> Option<String> {
        let (from, to) = (self.release(), target.release());
        if to < (1, 32, 0) {
            Some(format!("kubeadm {target} cannot leave CoreDNS alone: in place, 1.32 and newer are possible"))
        } else if to < from {
            Some(format!("the node runs {self}: Kubernetes does not go back to {target}"))
        } else if to.0 != from.0 || to.1 > from.1 + 1 {
            Some(format!("the node runs {self}: {target} is more than one minor version away"))
        } else {
            None
        }
    }

    fn release(&self) -> (u64, u64, u64) {
        (self.0.major, self.0.minor, self.0.patch)
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "v{}", self.0)
    }
}

impl FromStr for KubernetesVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let version = text.strip_prefix('v').and_then(|text| Version::parse(text).ok());
        version.map(Self).ok_or_else(|| format!("{text:?} is not a version of Kubernetes such as v1.36.4"))
    }
}

impl TryFrom<String> for KubernetesVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<KubernetesVersion> for String {
    fn from(version: KubernetesVersion) -> Self {
        version.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_minor_up_and_patches_are_possible_and_nothing_else() {
        let why = |from: &str, to: &str| {
            from.parse::<KubernetesVersion>().unwrap().why_not_to(&to.parse().unwrap()).unwrap_or_default()
        };
        for (from, to) in [("v1.35.4", "v1.36.0"), ("v1.36.1", "v1.36.4"), ("v1.35.4-eks-1-35-3", "v1.35.4-eks-1-35-4")]
        {
            assert_eq!(why(from, to), "");
        }
        assert!(why("v1.34.9", "v1.36.0").contains("more than one minor"));
        assert!(why("v1.36.1", "v1.36.0").contains("does not go back"));
        assert!(why("v1.30.1", "v1.31.0").contains("CoreDNS"));
        assert!("1.36".parse::<KubernetesVersion>().is_err());
    }
}
