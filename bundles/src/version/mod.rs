//! Component versions in every form that real manifests contain.

mod build_metadata;

pub use build_metadata::{BuildMetadataVerdict, recompute_build_metadata};

use std::cmp::Ordering;
use std::fmt;

use semver::Prerelease;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::eks_d::EksDVersion;
use crate::kubernetes::number;

/// The version of a component.
///
/// Any text is a version: what has no known form is [`VersionForm::Opaque`], which is *different* from every other
/// text and never newer or older. The text is kept verbatim. It is split at the first `+`; what follows is build
/// metadata, mostly a hash, and is compared for equality only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    text: String,
    form: VersionForm,
}

/// What a version text says, without its build metadata.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VersionForm {
    /// `v1.18.2`, `v0.4.3-RC1`, `v1.17.8-0`.
    Semantic(SemanticVersion),
    /// `v1.30.14-eks-1-30-58`.
    EksD(EksDVersion),
    /// A git SHA, a word such as `deprecated`, an empty string: nothing that has an order.
    Opaque,
}

/// Three numbers, a prerelease and a packaging revision.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SemanticVersion {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
    /// `RC1` in `v0.4.3-RC1`; empty when there is none. Ordered as `SemVer` 2.0 orders them (its item 11).
    pub prerelease: Prerelease,
    /// How often the same upstream version was packaged: 0 in `v1.17.8-0`, 2 in `v1.15.16-eksa.2`. Strict `SemVer`
    /// would read it as a prerelease and put `v1.17.8-0` below `v1.17.8`.
    pub revision: Option<u64>,
}

/// What orders two versions: core, prerelease, packaging revision (the release number of EKS-D). Build metadata has no
/// part in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Precedence {
    /// Major, minor and patch.
    pub core: (u64, u64, u64),
    /// Empty (no prerelease) is the highest.
    pub prerelease: Prerelease,
    /// A version without packaging revision counts as revision 0.
    pub revision: u64,
}

impl Version {
    /// Reads any text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let plain = text.split_once('+').map_or(text.as_str(), |(plain, _)| plain);
        let form = VersionForm::read(plain);
        Self { text, form }
    }

    /// The text as it was read.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What the text says.
    #[must_use]
    pub fn form(&self) -> &VersionForm {
        &self.form
    }

    /// The text before the first `+`.
    #[must_use]
    pub fn without_build_metadata(&self) -> &str {
        self.text.split_once('+').map_or(self.text.as_str(), |(plain, _)| plain)
    }

    /// The text behind the first `+`, which may hold further `+`: `build.17+c76980a` in
    /// `v0.25.0-dev+build.17+c76980a`. `None` where there is none or it is empty.
    #[must_use]
    pub fn build_metadata(&self) -> Option<&str> {
        self.text.split_once('+').map(|(_, build)| build).filter(|build| !build.is_empty())
    }

    /// Whether it has no order.
    #[must_use]
    pub fn is_opaque(&self) -> bool {
        matches!(self.form, VersionForm::Opaque)
    }

    /// Its place in the order of versions; `None` when opaque.
    #[must_use]
    pub fn precedence(&self) -> Option<Precedence> {
        match &self.form {
            VersionForm::Semantic(version) => Some(Precedence {
                core: (version.major, version.minor, version.patch),
                prerelease: version.prerelease.clone(),
                revision: version.revision.unwrap_or_default(),
            }),
            VersionForm::EksD(version) => Some(Precedence {
                core: version.kubernetes(),
                prerelease: Prerelease::EMPTY,
                revision: version.number(),
            }),
            VersionForm::Opaque => None,
        }
    }

    /// Compares by [`Version::precedence`]; `None` when either side is opaque. Versions that differ in build metadata
    /// alone are `Equal` here.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        Some(self.precedence()?.cmp(&other.precedence()?))
    }
}

impl VersionForm {
    /// `plain` is without build metadata.
    fn read(plain: &str) -> Self {
        if let Ok(version) = plain.parse() {
            return Self::EksD(version);
        }
        SemanticVersion::read(plain).map_or(Self::Opaque, Self::Semantic)
    }
}

impl SemanticVersion {
    fn read(plain: &str) -> Option<Self> {
        let plain = plain.strip_prefix('v').unwrap_or(plain);
        let (core, suffix) = plain.split_once('-').map_or((plain, None), |(core, suffix)| (core, Some(suffix)));
        let mut numbers = core.split('.').map(number);
        let (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) =
            (numbers.next(), numbers.next(), numbers.next(), numbers.next())
        else {
            return None;
        };
        let (prerelease, revision) = suffix.map_or(Some((Prerelease::EMPTY, None)), split_suffix)?;
        Some(Self { major, minor, patch, prerelease, revision })
    }
}

/// Splits what follows the core into prerelease and packaging revision.
///
/// Revisions are a lone number (`0`) and `eksa.N`, alone or behind a prerelease (`rc.1-eksa.2`). Any other number
/// belongs to the prerelease (`rc.1`, `beta-3.3`).
fn split_suffix(suffix: &str) -> Option<(Prerelease, Option<u64>)> {
    if let Some(revision) = number(suffix) {
        return Some((Prerelease::EMPTY, Some(revision)));
    }
    if let Some(revision) = suffix.strip_prefix("eksa.").and_then(number) {
        return Some((Prerelease::EMPTY, Some(revision)));
    }
    if let Some((prerelease, revision)) = suffix.rsplit_once("-eksa.")
        && let Some(revision) = number(revision)
    {
        return (!prerelease.is_empty()).then(|| Prerelease::new(prerelease).ok().map(|it| (it, Some(revision))))?;
    }
    // An empty suffix (`v1.2.3-`) is no prerelease but a broken text.
    (!suffix.is_empty()).then(|| Prerelease::new(suffix).ok().map(|it| (it, None)))?
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Version {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests;
