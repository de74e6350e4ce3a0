//! Kubernetes versions: minors such as `1.30`, and full ones such as `v1.30.14`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
/// in EKS-D and in Cluster API.
///
/// The text is kept verbatim. Two versions are equal when their numbers are: `v1.30` equals `1.30`, and differs from
/// `1.30.0`, which names a patch release. Order: minor, then no patch before any patch.
#[derive(Debug, Clone)]
pub struct KubernetesVersion {
    text: String,
    minor: KubernetesMinor,
    patch: Option<u64>,
}

/// Why a text is no Kubernetes version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no Kubernetes version: expected two or three numbers, such as \"1.30\" or \"v1.30.14\"")]
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

    fn numbers(&self) -> (KubernetesMinor, Option<u64>) {
        (self.minor, self.patch)
    }
}

/// `digits` as a number; no sign, no blank, not empty.
pub(crate) fn number(digits: &str) -> Option<u64> {
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}

impl FromStr for KubernetesVersion {
    type Err = KubernetesVersionError;

    /// Accepts a leading `v`. Anything behind the numbers (`-eks-1-30-58`, `+k3s1`) is kept in the text and has no
    /// part in order or equality.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || KubernetesVersionError { text: text.chars().take(100).collect() };
        let plain = text.strip_prefix('v').unwrap_or(text);
        let numbers = plain.split(['-', '+']).next().unwrap_or(plain);
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
        Ok(Self { text: text.to_owned(), minor: KubernetesMinor { major, minor }, patch })
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
        self.numbers() == other.numbers()
    }
}

impl Eq for KubernetesVersion {}

impl Hash for KubernetesVersion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.numbers().hash(state);
    }
}

impl Ord for KubernetesVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers().cmp(&other.numbers())
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
mod tests {
    use super::*;

    #[test]
    fn every_spelling_parses_and_keeps_its_text() {
        let check = |text: &str, minor: (u64, u64), patch: Option<u64>| {
            let version: KubernetesVersion = text.parse().unwrap();
            assert_eq!((version.minor().major, version.minor().minor), minor, "{text}");
            assert_eq!(version.patch(), patch, "{text}");
            assert_eq!(version.to_string(), text);
        };
        check("1.30", (1, 30), None);
        check("v1.30", (1, 30), None);
        check("v1.30.14", (1, 30), Some(14));
        check("v1.30.14-eks-1-30-58", (1, 30), Some(14));
        check("v1.27.3+k3s1", (1, 27), Some(3));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "1",
            "v1",
            "1.",
            "1.x",
            "1.30.",
            "1.30.1.2",
            "latest",
            "1.-3",
            "+1.30",
            " 1.30",
            "1.30-eks",
            "99999999999999999999.1",
        ] {
            assert!(text.parse::<KubernetesVersion>().is_err(), "{text}");
        }
        assert!("1.30.1".parse::<KubernetesMinor>().is_err());
    }

    #[test]
    fn order_is_by_number() {
        let version = |text: &str| text.parse::<KubernetesVersion>().unwrap();
        assert!(version("1.9") < version("1.10"));
        assert!(version("v1.30") < version("1.30.0"));
        assert_eq!(version("v1.30"), version("1.30"));
        let minor = |text: &str| text.parse::<KubernetesMinor>().unwrap();
        assert_eq!(minor("1.31").minors_above(minor("1.29")), Some(2));
        assert_eq!(minor("1.28").minors_above(minor("1.29")), Some(-1));
        assert_eq!(minor("2.0").minors_above(minor("1.29")), None);
        assert_eq!(minor("1.30").channel(), "1-30");
    }
}
