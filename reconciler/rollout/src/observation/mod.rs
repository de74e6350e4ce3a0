//! What was read from a cluster: the dozen fields that gates look at, as plain values.
//!
//! Absent is never the same as false: a field that the API server did not report is `None`, and a gate that needs it waits.

mod api_requests;
mod cluster_api;
mod drain;
mod drift;
mod eks;
mod extension;
mod fargate;
mod flux;
mod image;
mod inspection;
mod node;
mod room;
mod sidecars;
mod tanzu;
mod workload;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::identity::Identification;

pub use api_requests::{ApiReading, ApiRequests};
pub use cluster_api::attempts::{ATTEMPTS, Attempts, FailedAttempt, MADE_IN, MachineId};
pub use cluster_api::control_plane::{ControlPlane, ControlPlaneKind, ControlPlaneReference};
pub use cluster_api::eks_anywhere::{EKSA_CLUSTERS, EksaCluster};
pub use cluster_api::etcd::{
    EtcdAlarm, EtcdDatabase, EtcdDisk, EtcdHealth, EtcdInspection, EtcdMember, EtcdMembership,
};
pub use cluster_api::extension_config::{IN_PLACE_HOOKS, RuntimeExtension, RuntimeExtensions};
pub use cluster_api::in_place::{InPlaceState, InPlaceUpgrade};
pub use cluster_api::machine_pool::MachinePool;
pub use cluster_api::mark::{BRAKE, DELETE_FIRST, MachineMark, Marked};
pub use cluster_api::{EtcdadmCluster, Machine, MachineDeployment, MachineSet, MachineTopology, Templates};
pub use drain::{
    DrainReading, DrainedPod, DrainingNode, FailingPod, ForcedPods, Serving, Termination, UnattachedVolume,
};
pub use drift::{Drift, DriftKind};
pub use eks::{
    EksAddon, EksAutoScalingGroup, EksControlPlane, EksInsight, EksInstanceType, EksIssue, EksNodeGroup, EksReading,
    EksStack, EksSubnet, EksUpdate, EksctlHold, EksctlOutcome, EksctlRun,
};
pub use extension::{
    CustomResourceDefinition, ObjectOrigin, ObjectPresence, TakenField, Unfinished, WebhookOutcome, WebhookProbe,
};
pub use fargate::{FargatePod, FargateReading, FargateWorkload};
pub use flux::{
    Artifacts, FluxKustomization, FluxObservation, FluxReference, FluxSource, HelmRelease, Hold, SourceKind,
};
pub use image::{ImageReading, ImageState, LoginReading, LoginSource, UnpulledImage};
pub use inspection::{
    AdmissionWebhook, ApiUse, ApiUseKind, Certificate, DisruptionBudget, EvictedPod, Inspection, SystemRequest,
    UnfitObject,
};
pub use node::{BackupFailure, BackupReport, Node, NodeOrigin, Survey, VirtualAddress};
pub use room::{NodeRoom, Resources, VpcCni};
pub use sidecars::SidecarReading;
pub use tanzu::{MachineHardware, TANZU_CLUSTER, TanzuAddon, TanzuAddonState, TanzuCluster, TanzuImage};
pub use workload::{DaemonSet, Deployment, PlacedPod, Pod, RunningImage, WorkloadObservation};

/// One reading of a cluster (and, for Cluster API objects, of the cluster that manages it).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// When the reading was finished, by the clock of the reader.
    pub read_at: Timestamp,
    /// Whether the API servers answered.
    pub reachable: Reachability,
    /// Which cluster it is of. Recordings from before it was noted down say nothing of that, and prove nothing.
    #[serde(default)]
    pub identity: Identification,
    /// Whether every object in it comes from a fresh GET or LIST of the API server, not from a watch's cache.
    #[serde(default)]
    pub confirmed: bool,
    /// Kinds whose reading failed, with the reason; what they hold is unknown, not absent. Keys are Kubernetes kinds, and
    /// [`EKSA_CLUSTERS`] for the one that has its name in common with another.
    #[serde(default)]
    pub unread: BTreeMap<String, String>,
    /// Flux sources and Kustomizations.
    #[serde(default)]
    pub flux: FluxObservation,
    /// Deployments that gates name.
    #[serde(default)]
    pub deployments: Vec<Deployment>,
    /// `DaemonSets` that gates name.
    #[serde(default)]
    pub daemon_sets: Vec<DaemonSet>,
    /// `CustomResourceDefinitions` that gates name.
    #[serde(default)]
    pub custom_resource_definitions: Vec<CustomResourceDefinition>,
    /// Answers of admission webhooks to dry-run requests.
    #[serde(default)]
    pub webhooks: Vec<WebhookProbe>,
    /// Presence of single objects.
    #[serde(default)]
    pub objects: Vec<ObjectPresence>,
    /// Fields of what was read that the deploy branch sets and a second writer has taken over.
    #[serde(default)]
    pub taken: Vec<TakenField>,
    /// Control planes of any kind.
    #[serde(default)]
    pub control_planes: Vec<ControlPlane>,
    /// `MachineDeployments`.
    #[serde(default)]
    pub machine_deployments: Vec<MachineDeployment>,
    /// `MachinePools`.
    #[serde(default)]
    pub machine_pools: Vec<MachinePool>,
    /// `MachineSets`.
    #[serde(default)]
    pub machine_sets: Vec<MachineSet>,
    /// Machines.
    #[serde(default)]
    pub machines: Vec<Machine>,
    /// `EtcdadmClusters`.
    #[serde(default)]
    pub etcd_clusters: Vec<EtcdadmCluster>,
    /// Cluster API `Cluster` objects: their own pause and topology version.
    #[serde(default)]
    pub clusters: Vec<MachineTopology>,
    /// EKS Anywhere's `Cluster` objects.
    #[serde(default)]
    pub eksa_clusters: Vec<EksaCluster>,
    /// `TanzuKubernetesClusters`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tanzu_clusters: Vec<TanzuCluster>,
    /// Nodes of the cluster itself.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// Upgrades on the machines that are there, where nodes are to be upgraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_place: Vec<InPlaceUpgrade>,
    /// Whom Cluster API asks before machines are replaced; none where it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_extensions: Option<RuntimeExtensions>,
    /// `gitVersion` of the API server; none where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// What AWS says of a cluster of EKS; none where nobody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eks: Option<EksReading>,
    /// What runs on nodes of Fargate; none where that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fargate: Option<FargateReading>,
    /// Single pods that gates name (kube-vip).
    #[serde(default)]
    pub pods: Vec<Pod>,
    /// Who holds the control plane's virtual address; none where it is not known.
    #[serde(default)]
    pub virtual_address: Option<VirtualAddress>,
    /// All workloads of the cluster; none where they were not asked for.
    #[serde(default)]
    pub survey: Option<Survey>,
    /// Sidecars that pods ask for and lack; none where they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecars: Option<SidecarReading>,
    /// Templates of machines; none where they were not asked for, or not all that could name them was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub templates: Option<Templates>,
    /// How many requests the API server answers with an error; none where that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_requests: Option<ApiReading>,
    /// Nodes that are being drained, and what keeps them; none where no nodes roll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drains: Option<DrainReading>,
    /// What checks look at before a rollout; none where they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Inspection>,
    /// The newest backup of Cluster API objects; none where there is none.
    #[serde(default)]
    pub backup: Option<BackupReport>,
    /// Why the last one failed; none where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_failure: Option<BackupFailure>,
}

impl Observation {
    /// A reachable, confirmed reading in which nothing was found yet, not even which cluster it is of.
    #[must_use]
    pub fn empty(read_at: Timestamp) -> Self {
        Self {
            read_at,
            reachable: Reachability::Reachable,
            identity: Identification::default(),
            confirmed: true,
            unread: BTreeMap::new(),
            flux: FluxObservation::default(),
            deployments: Vec::new(),
            daemon_sets: Vec::new(),
            custom_resource_definitions: Vec::new(),
            webhooks: Vec::new(),
            objects: Vec::new(),
            taken: Vec::new(),
            control_planes: Vec::new(),
            machine_deployments: Vec::new(),
            machine_pools: Vec::new(),
            machine_sets: Vec::new(),
            machines: Vec::new(),
            etcd_clusters: Vec::new(),
            clusters: Vec::new(),
            eksa_clusters: Vec::new(),
            tanzu_clusters: Vec::new(),
            nodes: Vec::new(),
            in_place: Vec::new(),
            runtime_extensions: None,
            server_version: None,
            eks: None,
            fargate: None,
            pods: Vec::new(),
            virtual_address: None,
            survey: None,
            sidecars: None,
            templates: None,
            api_requests: None,
            drains: None,
            inspection: None,
            backup: None,
            backup_failure: None,
        }
    }

    /// The Kustomization that `stepgate hold` pauses longest, with that pause.
    #[must_use]
    pub fn hold(&self) -> Option<(&FluxKustomization, &Hold)> {
        let held = self.flux.kustomizations.iter().filter(|known| known.suspended);
        held.filter_map(|known| Some((known, known.hold.as_ref()?))).max_by_key(|(_, hold)| hold.until)
    }
}

/// Whether the API servers answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Reachability {
    /// They did.
    Reachable,
    /// They did not; why, in one line.
    Unreachable {
        /// What went wrong.
        reason: String,
    },
}

/// A condition's status, as Kubernetes writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        })
    }
}

/// One condition of an object's status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its status.
    pub status: ConditionStatus,
    /// Its machine-readable reason.
    #[serde(default)]
    pub reason: String,
    /// Its text.
    #[serde(default)]
    pub message: String,
    /// The generation it was computed from; none where the API version carries none (Cluster API v1beta1).
    #[serde(default)]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether something has failed, and is not merely on its way. Whoever says so tries again, or waits for somebody.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.status == ConditionStatus::False && self.reason != "Progressing"
    }
}

/// Conditions by type, from `(type, status)` pairs without reason: for tests and simulations.
pub fn conditions<'a>(pairs: impl IntoIterator<Item = (&'a str, ConditionStatus)>) -> BTreeMap<String, Condition> {
    pairs
        .into_iter()
        .map(|(name, status)| {
            (
                name.to_owned(),
                Condition { status, reason: String::new(), message: String::new(), observed_generation: None },
            )
        })
        .collect()
}

/// Which object, in the words of `kubectl`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group and version, such as `anywhere.eks.amazonaws.com/v1alpha1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; none for cluster-scoped objects.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{} {namespace}/{}", self.kind, self.name),
            None => write!(formatter, "{} {}", self.kind, self.name),
        }
    }
}
