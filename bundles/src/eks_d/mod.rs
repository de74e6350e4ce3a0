//! EKS-D releases: a Kubernetes version and a release number.

mod release;

pub use release::{EksdAsset, EksdComponent, EksdRelease};

use std::fmt;
use std::str::FromStr;

use crate::kubernetes::{KubernetesMinor, KubernetesVersion, number};

/// The version of an EKS-D release: `v1.30.14-eks-1-30-58`.
///
/// Ordered by Kubernetes version, then by release number as a number: 9 comes before 58. Release numbers count within
/// one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EksDVersion {
    minor: KubernetesMinor,
    patch: u64,
    number: u64,
}

/// Why a text is not a valid EKS-D version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid EKS-D version: expected the form v1.30.14-eks-1-30-58")]
pub struct EksDVersionError {
    text: String,
}

impl EksDVersion {
    /// The EKS-D release `number` of a full Kubernetes version; `None` when `kubernetes` has no patch number.
    #[must_use]
    pub fn new(kubernetes: &KubernetesVersion, number: u64) -> Option<Self> {
        Some(Self { minor: kubernetes.minor(), patch: kubernetes.patch()?, number })
    }

    /// The Kubernetes version as three numbers.
    #[must_use]
    pub fn kubernetes(&self) -> (u64, u64, u64) {
        (self.minor.major, self.minor.minor, self.patch)
    }

    /// The release channel: `1-30`.
    #[must_use]
    pub fn channel(&self) -> String {
        self.minor.channel()
    }

    /// The release number within the channel.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl FromStr for EksDVersion {
    type Err = EksDVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (kubernetes, release) = text.split_once("-eks-")?;
            let kubernetes: KubernetesVersion = kubernetes.parse().ok()?;
            let (channel, release) = release.rsplit_once('-')?;
            let version = Self::new(&kubernetes, number(release)?)?;
            // `v1.30.14-eks-1-31-2` contradicts itself.
            (version.channel() == channel).then_some(version)
        };
        parse().ok_or_else(|| EksDVersionError { text: text.chars().take(100).collect() })
    }
}

impl fmt::Display for EksDVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minor, patch, number } = self;
        formatter.pad(&format!("v{minor}.{patch}-eks-{}-{number}", minor.channel()))
    }
}

/// The release number in the name of an EKS-D release or of its manifest: 45 in `kubernetes-1-31-eks-45`, in
/// `kubernetes-1-31-45` and in `https://…/kubernetes-1-31/kubernetes-1-31-eks-45.yaml`.
#[must_use]
pub fn release_number(name: &str) -> Option<u64> {
    let stem = name.rsplit('/').next().unwrap_or(name);
    let stem = stem.strip_suffix(".yaml").or_else(|| stem.strip_suffix(".yml")).unwrap_or(stem);
    let release = stem.strip_prefix("kubernetes-")?;
    let mut parts = release.split('-');
    number(parts.next()?)?;
    number(parts.next()?)?;
    let last = match parts.next()? {
        "eks" => parts.next()?,
        other => other,
    };
    parts.next().is_none().then(|| number(last)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for text in ["v1.30.14-eks-1-30-58", "v1.21.2-eks-1-21-4"] {
            assert_eq!(text.parse::<EksDVersion>().unwrap().to_string(), text);
        }
        for text in
            ["v1.30.14", "v1.30-eks-1-30-58", "v1.30.14-eks-1-31-58", "v1.30.14-eks-1-30-", "v1.30.14-eks-58", ""]
        {
            assert!(text.parse::<EksDVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn release_numbers_are_found_in_names_and_addresses() {
        let check = |name: &str, expect: Option<u64>| assert_eq!(release_number(name), expect, "{name}");
        check("kubernetes-1-31-eks-45", Some(45));
        check("kubernetes-1-31-46", Some(46));
        check("embed:///testdata/kubernetes-1-18-eks-4.yaml", Some(4));
        check("https://distro.eks.amazonaws.com/kubernetes-1-31/kubernetes-1-31-eks-45.yaml", Some(45));
        check("eks-d-1-18", None);
        check("kubernetes-1-31", None);
        check("kubernetes-1-31-eks-45-rc", None);
        check("", None);
    }
}
