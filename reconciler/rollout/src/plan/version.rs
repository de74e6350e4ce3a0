//! Just enough of a version to count minors.

use std::fmt;

use bundles::KubernetesVersion;

/// Who numbers a version: that decides which of two is higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Kubernetes and the vendors that build it: build metadata counts.
    Kubernetes,
    /// Any other component: build metadata has no order.
    Component,
}

impl Numbering {
    /// Whether one version is above another, as far as both are written out.
    pub(super) fn is_known_above(self, one: &str, other: &str) -> bool {
        match self {
            Self::Kubernetes => {
                let read = |text: &str| text.parse::<KubernetesVersion>().ok();
                Option::zip(read(one), read(other)).is_some_and(|(one, other)| one.order(&other).is_gt())
            }
            Self::Component => Option::zip(Version::parse(one), Version::parse(other))
                .is_some_and(|(one, other)| one.is_known_above(other)),
        }
    }
}

/// What numbers a cluster by that version: Kubernetes is at major 1, and `OpenShift` has numbers of its own.
pub(super) fn product(version: &str) -> &'static str {
    match Version::parse(version) {
        Some(version) if version.major > 1 => "OpenShift",
        _ => "Kubernetes",
    }
}

/// Major, minor, patch and packaging revision of a version such as `v1.17.8-0`, `1.30`, `v0.25.0-dev+build.17` or `v1.27.1-eks-1-27-4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) major: u64,
    pub(super) minor: u64,
    patch: Option<u64>,
    revision: Option<u64>,
}

impl Version {
    /// Reads a version; none for a text without `major.minor`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (core, suffix) = text.split_once('-').map_or((text, ""), |(core, suffix)| (core, suffix));
        let mut numbers = core.split('.');
        let mut next = || numbers.next().map(|part| part.parse::<u64>().ok());
        let (major, minor) = (next()??, next()??);
        let patch = match next() {
            None => None,
            Some(patch) => Some(patch?),
        };
        // `-0` and `-eksa.1` are packaging revisions, `-eks-1-27-4` ends in a release number; all are numbers of their own.
        let revision = suffix.rsplit(['.', '-']).next().and_then(|last| last.parse().ok());
        Some(Self { major, minor, patch, revision })
    }

    /// Whether this version is above another, as far as both are written out: `1.30` is neither above nor below `v1.30.2`.
    pub(super) fn is_known_above(self, other: Self) -> bool {
        let minor = (self.major, self.minor).cmp(&(other.major, other.minor));
        let patch = match (self.patch, other.patch) {
            (Some(own), Some(other)) => own.cmp(&other),
            _ => std::cmp::Ordering::Equal,
        };
        let revision = match (self.patch, other.patch, self.revision, other.revision) {
            (Some(_), Some(_), Some(own), Some(other)) => own.cmp(&other),
            _ => std::cmp::Ordering::Equal,
        };
        minor.then(patch).then(revision).is_gt()
    }

    /// Sorts by what is known, absent parts first.
    pub(super) fn key(self) -> (u64, u64, Option<u64>, Option<u64>) {
        (self.major, self.minor, self.patch, self.revision)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)?;
        if let Some(patch) = self.patch {
            write!(formatter, ".{patch}")?;
        }
        if let Some(revision) = self.revision {
            write!(formatter, "-{revision}")?;
        }
        Ok(())
    }
}
