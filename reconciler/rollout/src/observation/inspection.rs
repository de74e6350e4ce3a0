//! What checks look at before a rollout, beyond what gates read anyway.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ObjectReference;
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
