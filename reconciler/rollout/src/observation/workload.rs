//! Deployments, `DaemonSets` and pods, as far as gates read them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Condition;

/// A container that runs, as its pod reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningImage {
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// `status.containerStatuses[].image`.
    pub image: String,
    /// Digest in `status.containerStatuses[].imageID`, `sha256:…`; none where the runtime reports none.
    #[serde(default)]
    pub digest: Option<String>,
    /// Whether the container is ready.
    pub ready: bool,
    /// Reason in which it waits (`ImagePullBackOff`, `CrashLoopBackOff`), where it does.
    #[serde(default)]
    pub waiting: Option<String>,
    /// Whether the pod is being deleted.
    #[serde(default)]
    pub deleting: bool,
}

/// A pod of a DaemonSet, by the node that it is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedPod {
    /// Name of the pod.
    pub pod: String,
    /// Name of its node.
    pub node: String,
    /// Which template it was made from, as its label `pod-template-generation` counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Condition `Ready`.
    pub ready: bool,
}

/// A Deployment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// Whether it is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// `spec.paused`.
    #[serde(default)]
    pub paused: bool,
    /// `spec.replicas` (1 where the manifest leaves it out).
    pub spec_replicas: u32,
    /// `status.replicas`: pods of this Deployment, old ones included.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// `status.updatedReplicas`.
    #[serde(default)]
    pub updated_replicas: Option<u32>,
    /// `status.readyReplicas`.
    #[serde(default)]
    pub ready_replicas: Option<u32>,
    /// `status.availableReplicas`.
    #[serde(default)]
    pub available_replicas: Option<u32>,
    /// Conditions by type (`Available`, `Progressing`, `ReplicaFailure`).
    #[serde(default)]
    pub conditions: BTreeMap<String, Condition>,
    /// Images of its pod template, init containers included.
    #[serde(default)]
    pub images: Vec<String>,
    /// Containers of its pods, init containers left out.
    #[serde(default)]
    pub running: Vec<RunningImage>,
}

/// A DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSet {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// Whether it is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// `status.desiredNumberScheduled`.
    #[serde(default)]
    pub desired_scheduled: Option<u32>,
    /// `status.currentNumberScheduled`.
    #[serde(default)]
    pub current_scheduled: Option<u32>,
    /// `status.updatedNumberScheduled`.
    #[serde(default)]
    pub updated_scheduled: Option<u32>,
    /// `status.numberReady`.
    #[serde(default)]
    pub ready: Option<u32>,
    /// `status.numberAvailable`.
    #[serde(default)]
    pub available: Option<u32>,
    /// `status.numberMisscheduled`.
    #[serde(default)]
    pub misscheduled: Option<u32>,
    /// Images of its pod template, init containers included.
    #[serde(default)]
    pub images: Vec<String>,
    /// Containers of its pods, init containers left out.
    #[serde(default)]
    pub running: Vec<RunningImage>,
    /// Its template, as its annotation counts them (`deprecated.daemonset.template.generation`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Its pods by node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PlacedPod>,
}

/// Deployments and `DaemonSets` with their pods, as they were told by watches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadObservation {
    /// Deployments.
    pub deployments: Vec<Deployment>,
    /// `DaemonSets`.
    pub daemon_sets: Vec<DaemonSet>,
}

/// A single pod that a gate names, such as kube-vip's static pod on a control-plane node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Application, for kube-vip `kube-vip`.
    pub application: String,
    /// Node it runs on.
    #[serde(default)]
    pub node: Option<String>,
    /// Condition `Ready`.
    pub ready: bool,
    /// Its containers.
    #[serde(default)]
    pub running: Vec<RunningImage>,
}
