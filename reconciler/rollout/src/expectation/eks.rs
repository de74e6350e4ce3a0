//! What gates expect of a cluster of EKS that eksctl provisions, as far as the cluster itself tells.

use serde::{Deserialize, Serialize};

use crate::before::Before;
use domain::GroupName;

/// One part of a cluster of EKS, and that nothing of the system is worse for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksExpectation {
    /// What is expected.
    #[serde(flatten)]
    pub part: EksPart,
    /// What the cluster was like before the rollout, where its ledger says: what was broken then need not be ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
}

/// One part of a cluster of EKS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "part")]
pub enum EksPart {
    /// The API servers are at this minor, and no kubelet is newer.
    ControlPlane {
        /// As `1.33`.
        version: String,
    },
    /// An add-on is at this version, where its workloads are known, and they are ready.
    Addon {
        /// Its name.
        name: GroupName,
        /// Its version; none where the file names none.
        version: Option<String>,
    },
    /// A node group has its nodes, ready and at this version.
    NodeGroup {
        /// Its name.
        name: GroupName,
        /// Minor of its kubelets; none where it keeps the one that it was made with.
        version: Option<String>,
        /// How many nodes it has at least.
        nodes: u32,
    },
    /// No node of a group is left.
    NodeGroupGone {
        /// Its name.
        name: GroupName,
    },
    /// No workload runs on a Fargate node of another version.
    Fargate {
        /// As `1.33`.
        version: String,
        /// Whether Stepgate restarts what runs there.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        restarts: bool,
    },
    /// Every node belongs to one of these groups, or to Fargate, or to nobody as before.
    Leftovers {
        /// The name by which eksctl knows the cluster.
        cluster: String,
        /// Its node groups.
        groups: Vec<String>,
    },
}

impl From<EksPart> for EksExpectation {
    fn from(part: EksPart) -> Self {
        Self { part, before: None }
    }
}

/// A node group that goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedGroup {
    /// Its name.
    pub name: String,
    /// The group that is made in its place; none where none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<NewGroup>,
}

/// A node group that is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewGroup {
    /// Its name.
    pub name: String,
    /// Types of its instances; none where something else chooses them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instance_types: Vec<String>,
    /// How many nodes it begins with.
    pub desired: u32,
    /// How many nodes it may have.
    pub most: u32,
}

/// A workload of an add-on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddonWorkload {
    /// `Deployment` or `DaemonSet`.
    pub kind: &'static str,
    /// Its name in `kube-system`.
    pub name: &'static str,
}

/// The namespace of add-ons.
pub const ADDON_NAMESPACE: &str = "kube-system";

/// The workload whose image tells the version of an add-on; none of add-ons that are not known.
#[must_use]
pub fn addon_workload(name: &str) -> Option<AddonWorkload> {
    let workload = |kind, name| Some(AddonWorkload { kind, name });
    match name {
        "kube-proxy" => workload("DaemonSet", "kube-proxy"),
        "vpc-cni" => workload("DaemonSet", "aws-node"),
        "coredns" => workload("Deployment", "coredns"),
        "aws-ebs-csi-driver" => workload("DaemonSet", "ebs-csi-node"),
        "aws-efs-csi-driver" => workload("DaemonSet", "efs-csi-node"),
        "eks-pod-identity-agent" => workload("DaemonSet", "eks-pod-identity-agent"),
        "metrics-server" => workload("Deployment", "metrics-server"),
        _ => None,
    }
}
