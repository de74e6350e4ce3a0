//! `NodeKubeadmUpgrade`: one node, to one version.

use bundles::KubernetesVersion;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use serde_json::Value;

use super::{Condition, NamedObject, Role, name_for};
use crate::files::NodeFile;

/// One node's way to one version. The target of an object never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeUpgrade {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The annotation [`super::RETRY`].
    pub retry: Option<String>,
    /// What is wanted.
    pub spec: NodeUpgradeSpec,
    /// Where it stands.
    pub status: NodeUpgradeStatus,
}

/// What is wanted of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUpgradeSpec {
    /// The Cluster.
    pub cluster_name: String,
    /// The Machine.
    pub machine: NamedObject,
    /// The Node.
    pub node: String,
    /// What the node does for its cluster.
    pub role: Role,
    /// The version that it goes to.
    pub kubernetes_version: KubernetesVersion,
    /// The image of the upgrader, which holds the release.
    pub image: String,
    /// What else is written on the node, besides the release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<NodeFile>,
    /// The containers of its Pod, in order: one for each step. They follow from what is above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Value>,
}

impl NodeUpgradeSpec {
    /// The name of the object: a Machine has one for each version.
    #[must_use]
    pub fn object_name(&self) -> String {
        name_for(&self.machine.name, self.kubernetes_version.as_str())
    }

    /// Whether both want the same of the same machine.
    #[must_use]
    pub fn has_target_of(&self, other: &Self) -> bool {
        self.machine == other.machine
            && self.kubernetes_version == other.kubernetes_version
            && self.image == other.image
            && self.files == other.files
    }
}

/// Where a node stands on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUpgradeStatus {
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where it stands.
    #[serde(default)]
    pub phase: NodePhase,
    /// The step that it is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Each step, in its order.
    #[serde(default)]
    pub steps: Vec<StepStatus>,
    /// What kubelet said of its version before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_version_before: Option<String>,
    /// When its Pod was made first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it was completed, or given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// Since when the node has been proven without a break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_since: Option<Timestamp>,
    /// Since when the phase has been the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_since: Option<Timestamp>,
    /// Whether the node is proven at the version.
    #[serde(default)]
    pub completed: bool,
    /// The value of [`super::RETRY`] that was followed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried: Option<String>,
    /// One line.
    #[serde(default)]
    pub message: String,
    /// `Ready`, `Reconciling` and `Stalled`, as kstatus reads them.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Where a node stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodePhase {
    /// Nothing was begun.
    #[default]
    Pending,
    /// The steps run.
    Running,
    /// All steps are done; the node has to be healthy for a while.
    Proving,
    /// Proven at the version.
    Completed,
    /// The steps are undone.
    RollingBack,
    /// The node is as it was before.
    RolledBack,
    /// Given up: the node may be cordoned, and nothing goes on by itself.
    Failed,
}

impl NodePhase {
    /// Whether something is being done to the node.
    #[must_use]
    pub fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Proving | Self::RollingBack)
    }

    /// Whether somebody has to look before it goes on.
    #[must_use]
    pub fn has_failed(self) -> bool {
        matches!(self, Self::RolledBack | Self::Failed)
    }

    /// As in the object.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Proving => "Proving",
            Self::Completed => "Completed",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
            Self::Failed => "Failed",
        }
    }
}

/// One step on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: StepState,
    /// Attempts that failed.
    #[serde(default)]
    pub attempts: u32,
    /// When the newest attempt began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it succeeded, or failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// What it said last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Where a step stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// Not begun, or an attempt failed and another one is left.
    #[default]
    Pending,
    /// Begun.
    Running,
    /// Done.
    Succeeded,
    /// Not tried again by itself.
    Failed,
}

impl StepState {
    /// As in the object.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}
