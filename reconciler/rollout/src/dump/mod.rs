//! Dumps: what a cluster was like at one moment, and what differs between two of them.
//!
//! A dump holds no Secret, no value of an environment variable, no argument and no annotation: what of a pod asks for a
//! sidecar is judged when the dump is taken, and the answer is kept. It stays outside of git; a ledger names its digest.

mod compare;
mod injection;
mod owners;
mod pods;
mod sidecars;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::identity::ClusterIdentity;
use crate::observation::{ConditionStatus, DisruptionBudget};

pub use compare::{Comparison, Difference, DifferenceKind, compare};
pub use injection::{BUILT_IN, InjectedPod, wanted_injections};
pub use owners::owner_of_pod;
pub use sidecars::{MissingSidecar, missing_sidecars};

/// The layout of the dumps that this program writes.
pub const DUMP_FORMAT: u32 = 1;

/// What a cluster was like at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dump {
    /// How it is laid out.
    pub format: u32,
    /// The cluster.
    pub cluster: String,
    /// When it was taken.
    pub taken_at: Timestamp,
    /// Which cluster answered; none where that is not proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ClusterIdentity>,
    /// Kinds that could not be read, and why: nothing is said of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, String>,
    /// Nodes, by name.
    pub nodes: Vec<DumpedNode>,
    /// Deployments, `DaemonSets` and `StatefulSets`.
    pub workloads: Vec<DumpedWorkload>,
    /// Pods.
    pub pods: Vec<DumpedPod>,
    /// Budgets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<DisruptionBudget>,
    /// Claims of volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<DumpedClaim>,
    /// Attachments of volumes to nodes that are not done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<DumpedAttachment>,
    /// Autoscalers of workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub autoscalers: Vec<DumpedAutoscaler>,
    /// Admission webhooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<DumpedWebhook>,
    /// `APIServices` that are not available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable_api_services: Vec<String>,
    /// Events of type Warning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<DumpedEvent>,
}

/// A Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpedNode {
    /// Name.
    pub name: String,
    /// The group that it belongs to, as far as labels tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `status.nodeInfo.kubeletVersion`.
    #[serde(default)]
    pub kubelet: String,
    /// `status.nodeInfo.osImage`, which names the machine image.
    #[serde(default)]
    pub os_image: String,
    /// `status.nodeInfo.kernelVersion`.
    #[serde(default)]
    pub kernel: String,
    /// `status.nodeInfo.containerRuntimeVersion`.
    #[serde(default)]
    pub runtime: String,
    /// `status.nodeInfo.architecture`.
    #[serde(default)]
    pub architecture: String,
    /// Label `topology.kubernetes.io/zone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Label `node.kubernetes.io/instance-type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Condition `Ready`.
    pub ready: ConditionStatus,
    /// `spec.unschedulable`.
    #[serde(default)]
    pub unschedulable: bool,
    /// Status of each condition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, ConditionStatus>,
    /// `status.allocatable`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, String>,
    /// How many pods run there.
    #[serde(default)]
    pub pods: u32,
}

/// What pods belong to, whatever the pods themselves are called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodOwner {
    /// Kind, such as `Deployment`; `StaticPod` of what kubelets run by themselves, `Pod` of what belongs to nothing.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for PodOwner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A Deployment, `DaemonSet` or `StatefulSet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpedWorkload {
    /// Which one.
    #[serde(flatten)]
    pub owner: PodOwner,
    /// Pods that it wants.
    pub desired: u32,
    /// Pods that are ready.
    pub ready: u32,
    /// Pods of its newest template.
    pub updated: u32,
    /// Images of its template, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

/// A Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpedPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What it belongs to.
    pub owner: PodOwner,
    /// Its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `status.phase`.
    pub phase: String,
    /// Containers that are ready, those among the init containers that go on running included.
    pub ready: u32,
    /// Containers that have to be.
    pub expected: u32,
    /// Restarts of all containers.
    pub restarts: u32,
    /// Its containers.
    pub containers: Vec<DumpedContainer>,
    /// `status.qosClass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<String>,
    /// `metadata.creationTimestamp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// `metadata.deletionTimestamp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    /// What asks for sidecars, and whether they are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injections: Vec<Injection>,
}

impl DumpedPod {
    /// Whether it has ended, as Jobs' pods do.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether all is ready of it.
    pub(crate) fn is_ready(&self) -> bool {
        self.phase == "Running" && self.deleted_at.is_none() && self.ready >= self.expected
    }
}

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpedContainer {
    /// Name.
    pub name: String,
    /// Image, as the manifest has it.
    pub image: String,
    /// `imageID` of what runs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image_id: String,
    /// Whether it is an init container.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub init: bool,
    /// Whether it is ready; of an init container that ends, whether it has ended well.
    pub ready: bool,
    /// `restartCount`.
    #[serde(default)]
    pub restarts: u32,
    /// Why it waits, such as `ImagePullBackOff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
}

/// A sidecar that a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Injection {
    /// Who puts it in, such as `istio`.
    pub injector: String,
    /// What is missing: containers, or the word that the injector leaves; empty where nothing is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A claim of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpedClaim {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `status.phase`.
    pub phase: String,
}

/// A volume that is not attached to the node that wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpedAttachment {
    /// The volume.
    pub volume: String,
    /// The node.
    pub node: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether its driver has told of an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// An autoscaler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpedAutoscaler {
    /// What it scales.
    #[serde(flatten)]
    pub target: PodOwner,
    /// The fewest replicas.
    pub minimum: u32,
    /// The most.
    pub maximum: u32,
}

/// An admission webhook.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpedWebhook {
    /// Kind and name of its configuration.
    pub configuration: String,
    /// Its own name.
    pub name: String,
}

/// What happened several times to one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpedEvent {
    /// The object, as `Kind namespace/name`.
    pub object: String,
    /// What.
    pub reason: String,
    /// How often.
    pub count: u32,
    /// When last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
}
