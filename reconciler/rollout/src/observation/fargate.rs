//! What runs on nodes of Fargate: each goes with its pod alone.

use serde::{Deserialize, Serialize};

/// What runs on nodes of Fargate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FargateReading {
    /// Workloads with pods there, in order.
    pub workloads: Vec<FargateWorkload>,
    /// Pods on nodes of another version that no restart of a workload replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<FargatePod>,
    /// Why something of it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// A Deployment or a `StatefulSet` with pods on nodes of Fargate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FargateWorkload {
    /// `Deployment` or `StatefulSet`.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// How many of its pods are on nodes of another version than the cluster's.
    pub old_pods: u32,
    /// Whether all of its pods are as it wants them, and ready.
    pub is_settled: bool,
    /// Why a restart replaces none of its pods; none where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_roll: Option<String>,
    /// Why the API server would refuse its restart; none where it would not, or it is not its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The rollout for which Stepgate has restarted it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_for: Option<String>,
}

impl FargateWorkload {
    /// As `Deployment kube-system/coredns`.
    #[must_use]
    pub fn subject(&self) -> String {
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A pod that no restart replaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FargatePod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What owns it, as `Job batch/nightly`; itself where nothing does.
    pub owner: String,
}
