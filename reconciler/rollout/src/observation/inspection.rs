//! What checks look at before a rollout, beyond what gates read anyway.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ObjectReference;
use super::drift::Drift;
use super::image::{ImageReading, UnpulledImage};
use super::room::{NodeRoom, Resources, VpcCni};
use crate::observation::cluster_api::etcd::EtcdInspection;
use policy::CheckName;

/// What was read for checks alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// Checks for which something could not be read, and why: what they find is unknown then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<CheckName, String>,
    /// Admission webhooks whose silence refuses requests without which no node joins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<AdmissionWebhook>,
    /// Certificates, without their keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<Certificate>,
    /// Objects that do not go with the schemas that the plan brings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<UnfitObject>,
    /// What refers to API versions that are not served at the end of the rollout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_uses: Vec<ApiUse>,
    /// Pods that leave nodes which roll.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<EvictedPod>,
    /// Nodes with what they have room for, where node groups are replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rooms: Vec<NodeRoom>,
    /// How the VPC CNI is set, where node groups are replaced; none where it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_cni: Option<VpcCni>,
    /// The budgets that decide when these may go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<DisruptionBudget>,
    /// What etcd tells of itself.
    #[serde(default, skip_serializing_if = "EtcdInspection::is_empty")]
    pub etcd: EtcdInspection,
    /// What registries say of the images of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageReading>,
    /// Images that nodes could not pull.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpulled: Vec<UnpulledImage>,
    /// The architectures of its nodes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub architectures: BTreeSet<String>,
    /// Objects that are not as the deploy branch has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifts: Vec<Drift>,
}

/// An admission webhook with `failurePolicy: Fail` that is called for requests of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionWebhook {
    /// The configuration that it stands in.
    pub configuration: ObjectReference,
    /// Its own name.
    pub name: String,
    /// The requests of the system that it is called for.
    pub called_for: Vec<SystemRequest>,
    /// Whether it has `matchConditions`, which may leave some of them out.
    #[serde(default)]
    pub conditional: bool,
    /// What serves it: `Service namespace/name`, or a URL.
    pub backend: String,
    /// Why nothing can answer there; none where something is ready, or where only a call can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unserved: Option<String>,
}

/// A request without which no node joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemRequest {
    /// A kubelet registers its Node.
    Node,
    /// A kubelet asks for its certificate.
    CertificateSigningRequest,
    /// A kubelet renews its Lease.
    NodeLease,
    /// Pods of `kube-system` are created.
    SystemPod,
    /// Controllers of `kube-system` renew their Leases.
    SystemLease,
}

impl SystemRequest {
    /// In words, as part of a list.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::CertificateSigningRequest => "certificatesigningrequests",
            Self::NodeLease => "leases in kube-node-lease",
            Self::SystemPod => "pods in kube-system",
            Self::SystemLease => "leases in kube-system",
        }
    }
}

/// A certificate that somebody relies on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// The object that holds it.
    pub object: ObjectReference,
    /// The field, such as `data["tls.crt"]`.
    pub field: String,
    /// What it is for, such as `certificate authority of the cluster`.
    pub purpose: String,
    /// When it ends.
    pub ends: Timestamp,
}

/// An object that does not meet what a new schema asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfitObject {
    /// The object, in the version whose schema it is.
    pub object: ObjectReference,
    /// The field; empty where it is the object itself.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
    /// Whether that is known; none of what is not evaluated here is.
    pub is_certain: bool,
    /// How many more objects have the same wrong.
    #[serde(default)]
    pub others: u32,
}

/// What refers to an API version that goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiUse {
    /// The object; none where no object tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectReference>,
    /// Group and version.
    pub api_version: String,
    /// The first minor of Kubernetes 1 that does not serve it.
    pub removed: u32,
    /// What to use instead.
    pub advice: String,
    /// How it refers to it.
    pub kind: ApiUseKind,
}

/// How something refers to an API version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiUseKind {
    /// An autoscaler scales what it names so.
    ScaleTarget,
    /// A release of Helm holds objects of it.
    HelmRelease,
    /// A rule of a webhook names it and no other.
    WebhookRule,
    /// An object was last written in it, as far as its metadata tells; stale where the writer has moved on.
    LastWritten {
        /// The writer.
        by: String,
    },
    /// Somebody asked the API server for it, as its metrics tell.
    Requested,
    /// Who uses it could not be read.
    Unread {
        /// Why.
        reason: String,
    },
}

/// A pod that a drain evicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictedPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Whether anything makes it anew.
    pub has_controller: bool,
    /// Condition `Ready`.
    pub ready: bool,
    /// Whether it keeps data on its node, other than in memory.
    pub local_data: bool,
    /// Whether the drain of its node ends at some time, whatever stays there.
    pub drain_ends: bool,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: u32,
    /// What it asks its node for.
    #[serde(default)]
    pub requests: Resources,
    /// Names of the budgets that select it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<String>,
}

/// A `PodDisruptionBudget`, as its status tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionBudget {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `status.expectedPods`.
    pub expected: u32,
    /// `status.currentHealthy`.
    pub healthy: u32,
    /// `status.desiredHealthy`.
    pub desired: u32,
    /// `status.disruptionsAllowed`.
    pub allowed: u32,
    /// Whether pods that are not ready may always go (`unhealthyPodEvictionPolicy: AlwaysAllow`).
    #[serde(default)]
    pub always_allows_unhealthy: bool,
    /// Whether its status is of another generation.
    #[serde(default)]
    pub is_stale: bool,
    /// Since when it allows nothing, where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuses_since: Option<Timestamp>,
}
