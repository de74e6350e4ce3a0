//! Nodes that are being drained, what keeps them, and what fails beside them.

use domain::RolloutId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::inspection::{DisruptionBudget, EvictedPod};

/// What was read while nodes roll.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainReading {
    /// Nodes that are being drained.
    #[serde(default)]
    pub nodes: Vec<DrainingNode>,
    /// The pods on them that a drain waits for.
    #[serde(default)]
    pub pods: Vec<DrainedPod>,
    /// The budgets that decide when these may go.
    #[serde(default)]
    pub budgets: Vec<DisruptionBudget>,
    /// Pods that were deleted past a budget, as these count them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<ForcedPods>,
    /// Pods of critical namespaces of which a container waits or was started again.
    #[serde(default)]
    pub failing: Vec<FailingPod>,
    /// Volumes that are not attached to the node that wants them.
    #[serde(default)]
    pub unattached: Vec<UnattachedVolume>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// A node that is being drained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainingNode {
    /// Its name.
    pub name: String,
    /// Since when, where its Machine or its taint tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether its kubelet can be heard.
    pub is_reachable: bool,
    /// Its worker group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Pods of a worker group that were deleted past a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForcedPods {
    /// Namespace of the budget.
    pub namespace: String,
    /// Its name.
    pub budget: String,
    /// The rollout for which they were.
    pub rollout: RolloutId,
    /// The worker group.
    pub group: String,
    /// How many.
    pub pods: u32,
}

/// A pod that a drain waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainedPod {
    /// What decides about its eviction.
    #[serde(flatten)]
    pub pod: EvictedPod,
    /// What it belongs to, as `Kind namespace/name`.
    pub owner: String,
    /// `status.phase`.
    pub phase: String,
    /// Its deletion, where it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination: Option<Termination>,
    /// `metadata.finalizers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// What serves by it, where its number of replicas is not its Deployment's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<Serving>,
}

/// The deletion of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// When it was asked for.
    pub since: Timestamp,
    /// When its grace is over.
    pub due: Timestamp,
}

/// What a pod serves for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serving {
    /// A Service of Knative.
    Knative(String),
    /// An `InferenceService` of `KServe`.
    Kserve(String),
}

/// A pod of a critical namespace that fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What it belongs to, as `Kind namespace/name`.
    pub owner: String,
    /// Its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The container.
    pub container: String,
    /// Its image.
    pub image: String,
    /// Why it waits; none where it runs, and has been started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// How often it was started again.
    #[serde(default)]
    pub restarts: u32,
    /// When it last ended, or the pod was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// A volume that is not attached to the node that wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnattachedVolume {
    /// The `PersistentVolume`.
    pub volume: String,
    /// The node.
    pub node: String,
    /// Since when it is wanted there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether its driver has told of an error.
    #[serde(default)]
    pub failed: bool,
}
