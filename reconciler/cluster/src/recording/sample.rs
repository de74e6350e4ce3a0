//! One line of a recording, as it is written.
//!
//! The format is that of the recordings of real Cluster API rollouts: short keys, conditions as `status/reason`. Fields
//! that are not known here are ignored; `null` means absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// What was seen at one moment.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Sample {
    /// Seconds since the recording began.
    pub t: f64,
    /// Why the sample failed; the lists are empty then.
    #[serde(default)]
    pub err: Option<serde_json::Value>,
    /// `KubeadmControlPlanes`.
    #[serde(default, deserialize_with = "null_as_default", rename = "kcp")]
    pub control_planes: Vec<RecordedOwner>,
    /// `MachineDeployments`.
    #[serde(default, deserialize_with = "null_as_default", rename = "md")]
    pub machine_deployments: Vec<RecordedOwner>,
    /// Clusters.
    #[serde(default, deserialize_with = "null_as_default", rename = "cl")]
    pub clusters: Vec<RecordedCluster>,
    /// Machines.
    #[serde(default, deserialize_with = "null_as_default", rename = "m")]
    pub machines: Vec<RecordedMachine>,
}

/// A KubeadmControlPlane or a MachineDeployment.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RecordedOwner {
    /// `metadata.name`.
    pub name: String,
    /// `spec.clusterName` (the label `cluster.x-k8s.io/cluster-name`), where it was recorded.
    pub cluster: Option<String>,
    /// `metadata.generation`.
    #[serde(rename = "gen")]
    pub generation: Option<i64>,
    /// `status.observedGeneration`.
    #[serde(rename = "obs")]
    pub observed_generation: Option<i64>,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(rename = "del", deserialize_with = "null_as_default")]
    pub deleting: bool,
    /// The version that is asked for.
    #[serde(rename = "specver")]
    pub desired_version: Option<String>,
    /// The replicas that are asked for.
    #[serde(rename = "specrep")]
    pub desired_replicas: Option<i64>,
    /// `status.version` (KubeadmControlPlane only): the lowest version of its machines.
    #[serde(rename = "ver")]
    pub version: Option<String>,
    /// `status.replicas`.
    pub replicas: Option<i64>,
    /// `status.upToDateReplicas`.
    #[serde(rename = "upToDateReplicas")]
    pub up_to_date_replicas: Option<i64>,
    /// `status.readyReplicas`.
    #[serde(rename = "readyReplicas")]
    pub ready_replicas: Option<i64>,
    /// `status.availableReplicas`.
    #[serde(rename = "availableReplicas")]
    pub available_replicas: Option<i64>,
    /// `spec.paused`.
    #[serde(deserialize_with = "null_as_default")]
    pub paused: bool,
    /// Keys of annotations that matter; `cluster.x-k8s.io/paused` pauses.
    #[serde(rename = "ann", deserialize_with = "null_as_default")]
    pub annotations: Vec<String>,
    /// Conditions.
    #[serde(rename = "c", deserialize_with = "without_nulls")]
    pub conditions: BTreeMap<String, String>,
    /// Messages of conditions.
    #[serde(rename = "msg", deserialize_with = "without_nulls")]
    pub messages: BTreeMap<String, String>,
}

/// A Cluster.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RecordedCluster {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.generation`.
    #[serde(rename = "gen")]
    pub generation: Option<i64>,
    /// `status.observedGeneration`.
    #[serde(rename = "obs")]
    pub observed_generation: Option<i64>,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(rename = "del", deserialize_with = "null_as_default")]
    pub deleting: bool,
    /// `spec.topology.version`, absent without a `ClusterClass`.
    #[serde(rename = "topver")]
    pub topology_version: Option<String>,
    /// `spec.paused`.
    #[serde(deserialize_with = "null_as_default")]
    pub paused: bool,
    /// Conditions.
    #[serde(rename = "c", deserialize_with = "without_nulls")]
    pub conditions: BTreeMap<String, String>,
    /// Messages of conditions.
    #[serde(rename = "msg", deserialize_with = "without_nulls")]
    pub messages: BTreeMap<String, String>,
}

/// A Machine.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RecordedMachine {
    /// `metadata.name`.
    pub name: String,
    /// `spec.clusterName`, where it was recorded.
    pub cluster: Option<String>,
    /// The name of the KubeadmControlPlane or MachineDeployment it belongs to, where it was recorded.
    pub owner: Option<String>,
    /// `metadata.generation`.
    #[serde(rename = "gen")]
    pub generation: Option<i64>,
    /// `status.observedGeneration`.
    #[serde(rename = "obs")]
    pub observed_generation: Option<i64>,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(rename = "del", deserialize_with = "null_as_default")]
    pub deleting: bool,
    /// `spec.version`.
    #[serde(rename = "specver")]
    pub version: Option<String>,
    /// `status.phase`.
    pub phase: Option<String>,
    /// `status.nodeRef.name`.
    pub node: Option<String>,
    /// `status.nodeInfo.kubeletVersion`; empty where the node does not say.
    #[serde(rename = "kv")]
    pub kubelet_version: Option<String>,
    /// Whether it carries the label `cluster.x-k8s.io/control-plane`; where it was not recorded, its owner tells.
    #[serde(rename = "cp")]
    pub control_plane: Option<bool>,
    /// Conditions.
    #[serde(rename = "c", deserialize_with = "without_nulls")]
    pub conditions: BTreeMap<String, String>,
    /// Messages of conditions.
    #[serde(rename = "msg", deserialize_with = "without_nulls")]
    pub messages: BTreeMap<String, String>,
}

fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn without_nulls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let texts: Option<BTreeMap<String, Option<String>>> = Option::deserialize(deserializer)?;
    Ok(texts.unwrap_or_default().into_iter().filter_map(|(name, text)| Some((name, text?))).collect())
}

/// The parts of a recorded condition: `True/Available` is status `True`, reason `Available`.
pub(super) fn status_and_reason(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or((text, ""))
}
