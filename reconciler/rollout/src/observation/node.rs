//! Nodes, the virtual address and backups.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ConditionStatus;
use domain::RolloutId;

/// A Node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Name.
    pub name: String,
    /// Condition `Ready`.
    pub ready: ConditionStatus,
    /// `spec.unschedulable`.
    #[serde(default)]
    pub unschedulable: bool,
    /// Since when it is unschedulable, where its taint tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unschedulable_since: Option<Timestamp>,
    /// Conditions that are True and ought not to be, such as `DiskPressure`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pressures: Vec<String>,
    /// Whether it has the label `node-role.kubernetes.io/control-plane`.
    #[serde(default)]
    pub control_plane: bool,
    /// `status.nodeInfo.kubeletVersion`; none where it is empty.
    #[serde(default)]
    pub kubelet_version: Option<String>,
    /// Release of `VMware`'s distribution that it was made from, where a label names one
    /// (`run.tanzu.vmware.com/kubernetesDistributionVersion`); its kubelet names the build of Kubernetes alone.
    #[serde(default)]
    pub release: Option<String>,
    /// What made it, where a label of EKS tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<NodeOrigin>,
}

/// What made a node of EKS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeOrigin {
    /// The node group of this name.
    Group(String),
    /// Fargate, for one pod.
    Fargate,
    /// Something else that makes nodes as they are needed, such as Auto Mode or Karpenter.
    Other(String),
}

/// All workloads of the cluster in short.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Survey {
    /// Deployments, `DaemonSets` and `StatefulSets` in all namespaces.
    pub workloads: u32,
    /// Those that have fewer ready pods than they want, as `Kind namespace/name`.
    #[serde(default)]
    pub broken: Vec<String>,
}

/// The control plane's virtual address (kube-vip).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualAddress {
    /// Node that holds it (kube-vip's Lease `plndr-cp-lock`); none while nobody does.
    #[serde(default)]
    pub holder: Option<String>,
    /// When the Lease was last renewed.
    #[serde(default)]
    pub renewed_at: Option<Timestamp>,
    /// How often it has changed hands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transitions: Option<u32>,
}

/// Why the last backup of Cluster API objects failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupFailure {
    /// The rollout it was to be taken for.
    pub rollout: RolloutId,
    /// When it was begun.
    pub at: Timestamp,
    /// Whether nothing was wrong but that the volume has no room for it.
    pub volume_full: bool,
    /// What was attempted and what went wrong.
    pub message: String,
}

/// A backup of Cluster API objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupReport {
    /// The rollout it was taken for.
    pub rollout: RolloutId,
    /// When it was finished.
    pub taken_at: Timestamp,
    /// How many objects it holds.
    pub objects: u32,
    /// Whether it was read back and found equal.
    pub read_back: bool,
    /// Where it lies.
    pub location: String,
}
