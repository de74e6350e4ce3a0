//! What a stage changes, component by component.

use serde::{Deserialize, Serialize};

pub use bundles::ChangeClass;

/// One component that a stage changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentChange {
    /// The manifest's own key (`certManager`, `cilium`, `eksD`, …).
    pub component: String,
    /// How it differs.
    pub class: ChangeClass,
    /// What is deployed, verbatim.
    pub old_version: Option<String>,
    /// What the stage leads to, verbatim.
    pub new_version: Option<String>,
    /// The artifacts that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactChange>,
}

/// One artifact that a stage changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactChange {
    /// Dotted path inside the component.
    pub name: String,
    /// How it differs.
    pub class: ChangeClass,
    /// Reference on the deployed side.
    pub old_uri: Option<String>,
    /// Reference on the target side.
    pub new_uri: Option<String>,
    /// Digest on the deployed side.
    pub old_digest: Option<String>,
    /// Digest on the target side.
    pub new_digest: Option<String>,
}

impl From<&bundles::Change> for ComponentChange {
    /// What a stage changes, out of what changed between two Bundles: unchanged artifacts are left out.
    fn from(change: &bundles::Change) -> Self {
        let artifacts = change.artifacts.iter().filter(|artifact| artifact.class != ChangeClass::Unchanged);
        Self {
            component: change.component.clone(),
            class: change.class,
            old_version: change.old_version.clone(),
            new_version: change.new_version.clone(),
            artifacts: artifacts.map(ArtifactChange::from).collect(),
        }
    }
}

impl From<&bundles::ArtifactChange> for ArtifactChange {
    fn from(change: &bundles::ArtifactChange) -> Self {
        Self {
            name: change.name.clone(),
            class: change.class,
            old_uri: change.old_uri.clone(),
            new_uri: change.new_uri.clone(),
            old_digest: change.old_digest.clone(),
            new_digest: change.new_digest.clone(),
        }
    }
}
