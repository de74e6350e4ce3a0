//! What changed: classes, components, artifacts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::kubernetes::KubernetesVersion;

/// What kind of change a component or an artifact went through. [`mod@crate::compare`] says which rule gives which
/// class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeClass {
    /// Nothing differs that has a meaning.
    Unchanged,
    /// Another address for the same content: a tag was renamed.
    Retag,
    /// Other content of the same upstream version.
    Rebuild,
    /// A higher version within the same minor. For EKS-D: a higher Kubernetes version.
    Patch,
    /// The next minor.
    Minor,
    /// A higher major.
    Major,
    /// A minor higher by more than one.
    SkipMinor,
    /// A lower version.
    Downgrade,
    /// On the new side only.
    Added,
    /// On the old side only.
    Removed,
    /// The texts differ and have no order.
    Opaque,
    /// Other content under the same version text. An alarm: nothing may be rolled out on it.
    DigestDrift,
}

impl ChangeClass {
    /// Every class.
    pub const ALL: [Self; 12] = [
        Self::Unchanged,
        Self::Retag,
        Self::Rebuild,
        Self::Patch,
        Self::Minor,
        Self::Major,
        Self::SkipMinor,
        Self::Downgrade,
        Self::Added,
        Self::Removed,
        Self::Opaque,
        Self::DigestDrift,
    ];

    /// The spelling in JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Retag => "retag",
            Self::Rebuild => "rebuild",
            Self::Patch => "patch",
            Self::Minor => "minor",
            Self::Major => "major",
            Self::SkipMinor => "skip-minor",
            Self::Downgrade => "downgrade",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Opaque => "opaque",
            Self::DigestDrift => "digest-drift",
        }
    }
}

impl fmt::Display for ChangeClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// Why a text is no [`ChangeClass`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid change class")]
pub struct ChangeClassError(String);

impl FromStr for ChangeClass {
    type Err = ChangeClassError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|class| class.as_str() == text).ok_or_else(|| ChangeClassError(text.to_owned()))
    }
}

/// What changed between two Bundles, unchanged components included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// One entry for each component of each Kubernetes version, by Kubernetes version and then by name. A component of
    /// a Kubernetes version that one side does not have is [`ChangeClass::Added`] or [`ChangeClass::Removed`].
    pub changes: Vec<Change>,
    /// Kubernetes versions that only the new side has.
    #[serde(skip)]
    pub kubernetes_versions_added: Vec<KubernetesVersion>,
    /// Kubernetes versions that only the old side has.
    #[serde(skip)]
    pub kubernetes_versions_removed: Vec<KubernetesVersion>,
}

/// What changed in one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The Kubernetes version of the versionsBundle.
    pub kubernetes_version: KubernetesVersion,
    /// The manifest's own key: `certManager`, `eksD`.
    pub component: String,
    /// The class of the component.
    pub class: ChangeClass,
    /// `version` of the old side, verbatim.
    pub old_version: Option<String>,
    /// `version` of the new side, verbatim.
    pub new_version: Option<String>,
    /// Every artifact of either side, by name.
    pub artifacts: Vec<ArtifactChange>,
    /// For `eksD`, which has no `version`: the old release in words, for people.
    #[serde(skip)]
    pub old_release: Option<String>,
    /// For `eksD`, which has no `version`: the new release in words, for people.
    #[serde(skip)]
    pub new_release: Option<String>,
}

/// What changed in one artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactChange {
    /// The dotted path inside the component.
    pub name: String,
    /// [`ChangeClass::DigestDrift`] or [`ChangeClass::Rebuild`] when a digest differs (under the same version text of
    /// the component, or under another), [`ChangeClass::Retag`] when only the address differs, or one of `Unchanged`,
    /// `Added`, `Removed`.
    pub class: ChangeClass,
    /// Address on the old side.
    pub old_uri: Option<String>,
    /// Address on the new side.
    pub new_uri: Option<String>,
    /// Digest on the old side: as the manifest writes it, or from `bundles.lock`.
    pub old_digest: Option<String>,
    /// Digest on the new side.
    pub new_digest: Option<String>,
}

impl Changes {
    /// Whether nothing changed: every component is [`ChangeClass::Unchanged`] and both sides have the same Kubernetes
    /// versions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kubernetes_versions_added.is_empty()
            && self.kubernetes_versions_removed.is_empty()
            && self.changes.iter().all(|change| change.class == ChangeClass::Unchanged)
    }

    /// The changes of one Kubernetes version.
    pub fn for_kubernetes<'a>(&'a self, version: &'a KubernetesVersion) -> impl Iterator<Item = &'a Change> {
        self.changes.iter().filter(move |change| change.kubernetes_version == *version)
    }

    /// The change of one component under one Kubernetes version.
    #[must_use]
    pub fn get(&self, version: &KubernetesVersion, component: &str) -> Option<&Change> {
        self.changes.iter().find(|change| change.kubernetes_version == *version && change.component == component)
    }

    /// Leaves out what is unchanged.
    #[must_use]
    pub fn without_unchanged(mut self) -> Self {
        self.changes.retain(|change| change.class != ChangeClass::Unchanged);
        self
    }

    /// Leaves one Kubernetes version.
    #[must_use]
    pub fn only_kubernetes(mut self, version: &KubernetesVersion) -> Self {
        self.changes.retain(|change| change.kubernetes_version == *version);
        self.kubernetes_versions_added.retain(|it| it == version);
        self.kubernetes_versions_removed.retain(|it| it == version);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_is_that_of_json_and_comes_back() {
        for class in ChangeClass::ALL {
            assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{class}\""));
            assert_eq!(class.as_str().parse(), Ok(class));
        }
        assert!("Rebuild".parse::<ChangeClass>().is_err());
    }
}
