//! Kubernetes versions: minors such as `1.30`, and full ones such as `v1.30.14`, with whatever vendors write behind them.

mod build;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use build::Build;

/// A Kubernetes minor release: `1.30`.
///
/// Ordered as numbers, so `1.9` comes before `1.10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubernetesMinor {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
}

/// A Kubernetes version as a manifest writes it: `1.30` in a versionsBundle and in an EKS Anywhere cluster, `v1.30.14`
/// in EKS-D and in Cluster API, `v1.30.14+rke2r1` or `v1.28.8---vmware.1-fips.1-tkg.2` as vendors build it.
///
/// The text is kept verbatim. Two versions are equal when their numbers and builds are: `v1.30` equals `1.30`, and differs
/// from `1.30.0`, which names a patch release. `Ord` is a total order for maps; [`KubernetesVersion::order`] is the one that
/// has a meaning.
#[derive(Debug, Clone)]
pub struct KubernetesVersion {
    text: String,
    minor: KubernetesMinor,
    patch: Option<u64>,
    build: Build,
}

/// Why a text is no Kubernetes version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid Kubernetes version: expected two or three numbers, such as \"1.30\" or \"v1.30.14\"")]
pub struct KubernetesVersionError {
    text: String,
}

impl KubernetesMinor {
    /// How many minor releases `self` lies above `older`; negative when it lies below, `None` across majors.
    #[must_use]
    pub fn minors_above(self, older: Self) -> Option<i64> {
        (self.major == older.major)
            .then(|| i64::try_from(self.minor).ok()?.checked_sub(i64::try_from(older.minor).ok()?))
            .flatten()
    }

    /// The EKS-D release channel of this minor: `1-30`.
    #[must_use]
    pub fn channel(self) -> String {
        format!("{}-{}", self.major, self.minor)
    }
}

impl KubernetesVersion {
    /// The text as it was read.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its minor release.
    #[must_use]
    pub fn minor(&self) -> KubernetesMinor {
        self.minor
    }

    /// The third number, where there is one.
    #[must_use]
    pub fn patch(&self) -> Option<u64> {
        self.patch
    }

    fn key(&self) -> (KubernetesMinor, Option<u64>, &Build) {
        (self.minor, self.patch, &self.build)
    }

    /// Whether a version that an object declares (`spec.version`) is this one, as far as this one is written out: `1.35` is met
    /// by every patch of 1.35, a version without a vendor's build by every build, a release by the build of Kubernetes in it.
    #[must_use]
    pub fn is_met_by_declared(&self, declared: &str) -> bool {
        declared.parse().is_ok_and(|declared: Self| {
            self.numbers_are_met_by(&declared) && self.build.is_met_by_declared(&declared.build)
        })
    }

    /// Whether a kubelet that reports this text runs this version. It may name a commit instead of a release, or no build at
    /// all: a Machine says `v1.27.1-eks-1-27-4` where its kubelet says `v1.27.1-eks-6f07bbc`.
    #[must_use]
    pub fn is_met_by_kubelet(&self, reported: &str) -> bool {
        reported.parse().is_ok_and(|reported: Self| {
            self.numbers_are_met_by(&reported) && self.build.is_met_by_kubelet(&reported.build)
        })
    }

    /// Whether both are the same as far as both are written out: a managed service may name its minor alone.
    #[must_use]
    pub fn is_met_as_far_as_both_are_known(&self, reported: &str) -> bool {
        reported.parse().is_ok_and(|reported: Self| match reported.patch {
            None => self.minor == reported.minor,
            Some(_) => self.numbers_are_met_by(&reported) && self.build.is_met_by_kubelet(&reported.build),
        })
    }

    /// Whether the label of a release (`v1.28.8---vmware.1-fips.1-tkg.2`) names another release than this version does.
    #[must_use]
    pub fn is_contradicted_by_release(&self, label: &str) -> bool {
        label.parse().is_ok_and(|release: Self| {
            !self.numbers_are_met_by(&release)
                || !self.build.is_met_by_declared(&release.build)
                || !self.build.is_of_same_release(&release.build)
        })
    }

    /// The order of two versions as far as both are written out: by Kubernetes' numbers, then by the vendor's as numbers.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        let Some((own, others)) = Option::zip(self.patch, other.patch) else { return self.minor.cmp(&other.minor) };
        self.minor.cmp(&other.minor).then(own.cmp(&others)).then_with(|| self.build.order(&other.build))
    }

    fn numbers_are_met_by(&self, other: &Self) -> bool {
        self.minor == other.minor && self.patch.is_none_or(|patch| other.patch == Some(patch))
    }
}

/// `digits` as a number; no sign, no blank, not empty.
pub(crate) fn number(digits: &str) -> Option<u64> {
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}

/// No version is longer than a tag of an image may be.
const LONGEST: usize = 128;

impl FromStr for KubernetesVersion {
    type Err = KubernetesVersionError;

    /// Accepts a leading `v`, and behind three numbers whatever tags are made of (`-eks-1-30-58`, `+k3s1`, `---vmware.2-tkg.1`).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || KubernetesVersionError { text: text.chars().take(100).collect() };
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_' | b'~');
        if text.len() > LONGEST || !text.bytes().all(is_part) {
            return Err(error());
        }
        let plain = text.strip_prefix('v').unwrap_or(text);
        let numbers = plain.split(['-', '+', '_']).next().unwrap_or(plain);
        let mut parts = numbers.split('.').map(number);
        let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) else { return Err(error()) };
        let patch = match parts.next() {
            None if numbers.len() == plain.len() => None,
            Some(Some(patch)) => Some(patch),
            None | Some(None) => return Err(error()),
        };
        if parts.next().is_some() {
            return Err(error());
        }
        let build = Build::read(plain.get(numbers.len()..).unwrap_or_default());
        Ok(Self { text: text.to_owned(), minor: KubernetesMinor { major, minor }, patch, build })
    }
}

impl FromStr for KubernetesMinor {
    type Err = KubernetesVersionError;

    /// Accepts exactly two numbers, with or without a leading `v`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let version: KubernetesVersion = text.parse()?;
        match version.patch {
            None => Ok(version.minor),
            Some(_) => Err(KubernetesVersionError { text: text.chars().take(100).collect() }),
        }
    }
}

impl PartialEq for KubernetesVersion {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for KubernetesVersion {}

impl Hash for KubernetesVersion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Ord for KubernetesVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for KubernetesVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

impl fmt::Display for KubernetesMinor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("{}.{}", self.major, self.minor))
    }
}

impl Serialize for KubernetesVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for KubernetesVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for KubernetesMinor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KubernetesMinor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
