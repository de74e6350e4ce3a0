//! Control planes: KubeadmControlPlane, and every other kind by Cluster API's contract for control-plane providers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::observation::Condition;

/// The kind of a control plane.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ControlPlaneKind {
    /// Cluster API's own, whose rules are known.
    #[default]
    Kubeadm,
    /// Another provider's: all that is known of it is Cluster API's contract.
    Contract(String),
}

impl ControlPlaneKind {
    const KUBEADM: &str = "KubeadmControlPlane";

    /// The Kubernetes kind.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Kubeadm => Self::KUBEADM,
            Self::Contract(kind) => kind,
        }
    }
}

impl From<String> for ControlPlaneKind {
    fn from(kind: String) -> Self {
        if kind == Self::KUBEADM { Self::Kubeadm } else { Self::Contract(kind) }
    }
}

impl From<ControlPlaneKind> for String {
    fn from(kind: ControlPlaneKind) -> Self {
        kind.as_str().to_owned()
    }
}

impl FromStr for ControlPlaneKind {
    type Err = Infallible;

    fn from_str(kind: &str) -> Result<Self, Self::Err> {
        Ok(kind.to_owned().into())
    }
}

impl fmt::Display for ControlPlaneKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What a Cluster's `spec.controlPlaneRef` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneReference {
    /// API group, out of `apiGroup` or `apiVersion`.
    pub group: String,
    /// Kind.
    pub kind: ControlPlaneKind,
    /// Namespace: its own in v1beta1, else the Cluster's.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// A control plane: a KubeadmControlPlane, or any other kind as far as the contract goes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlane {
    /// Its kind.
    #[serde(default)]
    pub kind: ControlPlaneKind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Name of the Cluster that refers to it, else its label `cluster.x-k8s.io/cluster-name`.
    pub cluster: String,
    /// The rollout that changed it last, as we have written on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<String>,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`; absent until a KubeadmControlPlane is initialised, and in kinds that do not report it.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// Annotation `cluster.x-k8s.io/paused`.
    #[serde(default)]
    pub paused: bool,
    /// Whether that is the pause under which its machines are upgraded in place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused_in_place: bool,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(default)]
    pub deleting: bool,
    /// `spec.version`.
    pub spec_version: String,
    /// `status.version`: the lowest version of its machines.
    #[serde(default)]
    pub status_version: Option<String>,
    /// `spec.replicas`.
    #[serde(default)]
    pub spec_replicas: Option<u32>,
    /// `status.replicas`.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// `status.upToDateReplicas`.
    #[serde(default)]
    pub up_to_date_replicas: Option<u32>,
    /// `status.readyReplicas`.
    #[serde(default)]
    pub ready_replicas: Option<u32>,
    /// `status.availableReplicas`.
    #[serde(default)]
    pub available_replicas: Option<u32>,
    /// Conditions by type.
    #[serde(default)]
    pub conditions: BTreeMap<String, Condition>,
    /// Name of the infrastructure template that its machines are made from.
    #[serde(default)]
    pub infrastructure_template: Option<String>,
    /// `status.ready` of the v1beta1 contract.
    #[serde(default)]
    pub ready: Option<bool>,
    /// `status.initialization.controlPlaneInitialized`, in v1beta1 `status.initialized`.
    #[serde(default)]
    pub initialized: Option<bool>,
    /// `status.externalManagedControlPlane`: it has no machines in the cluster.
    #[serde(default)]
    pub external: bool,
    /// `status.failureMessage`, or `status.failureReason` without it.
    #[serde(default)]
    pub failure: Option<String>,
}
