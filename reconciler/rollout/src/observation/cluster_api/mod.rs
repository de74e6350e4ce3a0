//! Cluster API objects, as far as gates read them (upstream types: `api/core/v1beta2` of Cluster API).
//!
//! Field names are those of v1beta2. Where only v1beta1 is served, the reader translates.

pub(in crate::observation) mod attempts;
pub(in crate::observation) mod control_plane;
pub(in crate::observation) mod eks_anywhere;
pub(in crate::observation) mod etcd;
pub(in crate::observation) mod extension_config;
pub(in crate::observation) mod in_place;
pub(in crate::observation) mod machine_pool;
pub(in crate::observation) mod mark;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::observation::Attempts;
use crate::observation::Condition;
use crate::observation::ControlPlaneReference;
use crate::observation::EtcdMembership;
use crate::observation::Hold;
use crate::observation::MachineHardware;
use crate::observation::Marked;
use crate::observation::ObjectReference;
use domain::GroupName;

/// A MachineDeployment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeployment {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Label `cluster.x-k8s.io/cluster-name`.
    pub cluster: String,
    /// Worker group it carries: EKS-A's group, the topology's name, or its own name; none where none is a valid group name.
    #[serde(default)]
    pub group: Option<GroupName>,
    /// The rollout that changed it last, as we have written on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<String>,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// `spec.paused` or annotation `cluster.x-k8s.io/paused`.
    #[serde(default)]
    pub paused: bool,
    /// Whether that is the pause under which its machines are upgraded in place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused_in_place: bool,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(default)]
    pub deleting: bool,
    /// `spec.template.spec.version`.
    #[serde(default)]
    pub spec_version: Option<String>,
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
    /// Name of the bootstrap template that its machines are made from.
    #[serde(default)]
    pub bootstrap_template: Option<String>,
}

/// A `MachineSet`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSet {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Owning MachineDeployment.
    #[serde(default)]
    pub machine_deployment: Option<String>,
    /// `spec.template.spec.version`.
    #[serde(default)]
    pub spec_version: Option<String>,
    /// Name of the infrastructure template of its machines.
    #[serde(default)]
    pub infrastructure_template: Option<String>,
    /// Name of the bootstrap template of its machines.
    #[serde(default)]
    pub bootstrap_template: Option<String>,
    /// `spec.replicas`.
    #[serde(default)]
    pub spec_replicas: Option<u32>,
    /// `status.replicas`.
    #[serde(default)]
    pub replicas: Option<u32>,
}

/// A Machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Label `cluster.x-k8s.io/cluster-name`.
    pub cluster: String,
    /// `metadata.uid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// `metadata.creationTimestamp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// The rollout that it was made in, as we have written on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<String>,
    /// `metadata.generation`; none where it was not read, and conditions are then not compared with it.
    #[serde(default)]
    pub generation: Option<i64>,
    /// Whether it has the label `cluster.x-k8s.io/control-plane`.
    #[serde(default)]
    pub control_plane: bool,
    /// Name of the KubeadmControlPlane, the MachineDeployment (through its `MachineSet`) or the `EtcdadmCluster` that owns it.
    #[serde(default)]
    pub owner: Option<String>,
    /// The `EtcdadmCluster` that it is or was a member of, in label
    /// `cluster.x-k8s.io/etcd-cluster`: one that is replaced has no owner any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_cluster: Option<String>,
    /// `status.addresses` of a member of an external etcd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The `MachinePool` that it belongs to, in label `cluster.x-k8s.io/pool-name`.
    #[serde(default)]
    pub pool: Option<String>,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(default)]
    pub deleting: bool,
    /// When that is: since when its node is to be drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    /// `spec.version`.
    #[serde(default)]
    pub spec_version: Option<String>,
    /// Name of the template its infrastructure was cloned from: that of its `MachineSet`, else the annotation
    /// `cluster.x-k8s.io/cloned-from-name` of the infrastructure machine.
    #[serde(default)]
    pub infrastructure_template: Option<String>,
    /// `status.nodeRef.name`.
    #[serde(default)]
    pub node: Option<String>,
    /// `status.nodeInfo.kubeletVersion`; none where it is absent or empty.
    #[serde(default)]
    pub kubelet_version: Option<String>,
    /// `status.phase`.
    #[serde(default)]
    pub phase: Option<String>,
    /// `status.certificatesExpiryDate`: when the certificates of its API server end, where Cluster API tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates_end: Option<Timestamp>,
    /// Annotation `cluster.x-k8s.io/delete-machine`: it goes before others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_first: Option<Marked>,
    /// Our deletion hook: it is not drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brake: Option<Marked>,
    /// Of what it is made; none where no gate asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<MachineHardware>,
    /// Conditions by type.
    #[serde(default)]
    pub conditions: BTreeMap<String, Condition>,
}

/// An `EtcdadmCluster`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdadmCluster {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Label `cluster.x-k8s.io/cluster-name`.
    pub cluster: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// Annotation `cluster.x-k8s.io/paused`.
    #[serde(default)]
    pub paused: bool,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(default)]
    pub deleting: bool,
    /// `spec.replicas`.
    #[serde(default)]
    pub spec_replicas: Option<u32>,
    /// `status.replicas`, which counts the *ready* members (a quirk of the provider).
    #[serde(default)]
    pub ready_replicas: Option<u32>,
    /// `status.ready`. The `Ready` condition is not used: it turns true only after the control plane's rollout.
    #[serde(default)]
    pub ready: Option<bool>,
    /// `status.creationComplete`.
    #[serde(default)]
    pub creation_complete: Option<bool>,
    /// Conditions by type.
    #[serde(default)]
    pub conditions: BTreeMap<String, Condition>,
    /// Name of the infrastructure template that its members are made from.
    #[serde(default)]
    pub infrastructure_template: Option<String>,
    /// The version of etcd that its members are made with, as its specification has it; none where
    /// it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether that annotation has Stepgate's own words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused_by_us: bool,
    /// What its members say of themselves; none where they were not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub membership: Option<EtcdMembership>,
}

/// A Cluster API `Cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineTopology {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.generation`; none where it was not read, and conditions are then not compared with it.
    #[serde(default)]
    pub generation: Option<i64>,
    /// `spec.paused` or annotation `cluster.x-k8s.io/paused`.
    #[serde(default)]
    pub paused: bool,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(default)]
    pub deleting: bool,
    /// The pause of ours that stands on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Hold>,
    /// Attempts of a stage that have failed, as it records them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Attempts>,
    /// `spec.topology.version`; none without a `ClusterClass`.
    #[serde(default)]
    pub topology_version: Option<String>,
    /// `spec.controlPlaneRef`; none where it was not read, or not set.
    #[serde(default)]
    pub control_plane: Option<ControlPlaneReference>,
    /// Conditions by type.
    #[serde(default)]
    pub conditions: BTreeMap<String, Condition>,
}

/// Templates from which machines, their infrastructure and their bootstrap data are made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Templates {
    /// Those that objects of the cluster name, in order.
    pub named: Vec<ObjectReference>,
    /// Those that were named before the rollout, are there, and are named no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaned: Vec<ObjectReference>,
}
