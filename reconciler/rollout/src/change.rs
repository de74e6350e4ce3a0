//! What a stage changes, component by component. Classes and artifacts are those of the package `bundles`.

use serde::{Deserialize, Serialize};

pub use bundles::{ArtifactChange, ChangeClass};

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

impl From<bundles::Change> for ComponentChange {
    fn from(change: bundles::Change) -> Self {
        Self {
            component: change.component,
            class: change.class,
            old_version: change.old_version,
            new_version: change.new_version,
            artifacts: change.artifacts,
        }
    }
}
