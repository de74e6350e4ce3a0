//! `MachinePools`: workers whose machines the infrastructure makes, often without a Machine for each.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::observation::Condition;
use domain::GroupName;

/// A `MachinePool` (upstream types: `api/core/v1beta2/machinepool_types.go`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachinePool {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `spec.clusterName`.
    pub cluster: String,
    /// Worker group it carries: the topology's name, or its own; none where that is not a valid group name.
    #[serde(default)]
    pub group: Option<GroupName>,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// `spec.paused` or annotation `cluster.x-k8s.io/paused`.
    #[serde(default)]
    pub paused: bool,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(default)]
    pub deleting: bool,
    /// `spec.template.spec.version`.
    #[serde(default)]
    pub spec_version: Option<String>,
    /// `spec.replicas`; kept by the infrastructure where an autoscaler of its own decides.
    #[serde(default)]
    pub spec_replicas: Option<u32>,
    /// `status.replicas`.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// `status.readyReplicas`: its nodes that are Ready.
    #[serde(default)]
    pub ready_replicas: Option<u32>,
    /// `status.upToDateReplicas`, where it is reported.
    #[serde(default)]
    pub up_to_date_replicas: Option<u32>,
    /// `status.phase`.
    #[serde(default)]
    pub phase: Option<String>,
    /// `status.failureMessage`, or `status.failureReason` without it.
    #[serde(default)]
    pub failure: Option<String>,
    /// Names in `status.nodeRefs`; none where there is no such list.
    #[serde(default)]
    pub nodes: Option<BTreeSet<String>>,
    /// Conditions by type, those of v1beta2 before those of v1beta1.
    #[serde(default)]
    pub conditions: BTreeMap<String, Condition>,
    /// Name of the infrastructure pool.
    #[serde(default)]
    pub infrastructure_template: Option<String>,
    /// Name of the bootstrap configuration.
    #[serde(default)]
    pub bootstrap_template: Option<String>,
}
