//! Versions of the distribution, in every form in which they are written, and their prefixes.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::kubernetes::{KubernetesVersion, number};

/// A version of the distribution: `v1.23.8+vmware.3-tkg.1`, as an object's name `v1.23.8---vmware.3-tkg.1`.
///
/// Both forms are one version, and so is the one without `v`. What follows the number of `tkg` is mostly a commit; it tells
/// versions apart and has no order.
#[derive(Debug, Clone)]
pub struct DistributionVersion {
    /// With `v` and `+`.
    text: String,
    kubernetes: (u64, u64, u64),
    /// The numbers of `vmware`, `fips` and `tkg`, in this order; zero where there is none.
    numbers: [u64; 3],
}

/// Why a text is not a version of the distribution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid Tanzu Kubernetes release: expected a version such as v1.27.11+vmware.1-fips.1-tkg.2")]
pub struct DistributionVersionError {
    text: String,
}

/// The beginning of a version: `v1.21`, `v1.24.9---vmware.1`, or a whole one.
///
/// It ends where a part of the version ends: `v1.2` is the beginning of no version of 1.21.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionHint {
    /// With `v` and `---`.
    name: String,
}

/// The words whose numbers have an order.
const WORDS: [&str; 3] = ["vmware", "fips", "tkg"];

/// The text of a version with a leading `v`, its first `---` as `+`.
fn normal(text: &str) -> String {
    let plain = text.strip_prefix('v').unwrap_or(text);
    format!("v{}", plain.replacen("---", "+", 1))
}

impl DistributionVersion {
    /// With a leading `v`, as `spec.version` of a release has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As the name of the object of the release: `v1.23.8---vmware.3-tkg.1`.
    #[must_use]
    pub fn name(&self) -> String {
        self.text.replacen('+', "---", 1)
    }

    /// The build of Kubernetes in it, which machines and kubelets name: `v1.23.8+vmware.3`.
    #[must_use]
    pub fn kubernetes_build(&self) -> &str {
        self.text.split_once("-tkg").map_or(self.text.as_str(), |(build, _)| build)
    }

    /// Whether `hint` is the beginning of it.
    #[must_use]
    pub fn begins_with(&self, hint: &VersionHint) -> bool {
        let name = self.name();
        let Some(rest) = name.strip_prefix(hint.name.as_str()) else { return false };
        rest.is_empty() || rest.starts_with(|next: char| !next.is_ascii_alphanumeric())
    }

    /// The order of releases: by Kubernetes' numbers, then those of `vmware`, `fips` and `tkg`. Two different versions may be
    /// equal in it.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        (self.kubernetes, self.numbers).cmp(&(other.kubernetes, other.numbers))
    }
}

impl FromStr for DistributionVersion {
    type Err = DistributionVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || DistributionVersionError { text: text.chars().take(100).collect() };
        let normal = normal(text);
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "+-._".contains(character);
        let version: KubernetesVersion = normal.parse().map_err(|_| error())?;
        let (numbers, build) = normal.split_once('+').ok_or_else(error)?;
        let (Some(patch), true) = (version.patch(), normal.chars().all(is_plain) && !numbers.contains('-')) else {
            return Err(error());
        };
        let parts: Vec<&str> = build.split(['-', '+', '.', '_']).collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(error());
        }
        let after = |word: &str| {
            let at = parts.iter().position(|part| *part == word)?;
            parts.get(at + 1).and_then(|next| number(next))
        };
        let numbers = WORDS.map(|word| after(word).unwrap_or_default());
        let minor = version.minor();
        Ok(Self { kubernetes: (minor.major, minor.minor, patch), numbers, text: normal })
    }
}

impl FromStr for VersionHint {
    type Err = DistributionVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || DistributionVersionError { text: text.chars().take(100).collect() };
        let name = normal(text).replacen('+', "---", 1);
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
        let begins = name.strip_prefix('v').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
        let ends = name.ends_with(|last: char| last.is_ascii_alphanumeric());
        if !(begins && ends && name.chars().all(is_plain)) {
            return Err(error());
        }
        Ok(Self { name })
    }
}

impl VersionHint {
    /// As the label of a release: `v1.24.9---vmware.1`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl PartialEq for DistributionVersion {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for DistributionVersion {}

impl Hash for DistributionVersion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for DistributionVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

impl fmt::Display for VersionHint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.name)
    }
}
