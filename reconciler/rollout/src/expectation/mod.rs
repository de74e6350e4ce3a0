//! What a stage's gate expects of the cluster, as data.

mod addons;
mod attempts;
mod eks;
mod secrets;
mod tanzu;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::before::Before;
use crate::check::{DefinitionChange, PlannedImage, RemovedApis, ToldNote, UnprovenManifest};
use crate::observation::{EksInstanceType, EksSubnet, ObjectReference};
use domain::GroupName;
use policy::{ControlPlaneGate, DriftIgnore, InjectionRule, Waiver};

pub use addons::{AddonsExpectation, ExpectedAddon, ExpectedAddonState};
pub use attempts::{AttemptedPart, AttemptsExpectation};
pub use eks::{ADDON_NAMESPACE, AddonWorkload, EksExpectation, EksPart, NewGroup, ReplacedGroup, addon_workload};
pub use secrets::SecretsExpectation;
pub use tanzu::{TanzuExpectation, TanzuMachines, TanzuPart};

/// One thing that must hold before a stage counts as passed.
///
/// Image references are written as in the rendered manifest, `repository:tag@sha256:…`; where a digest is given the *running* digest
/// has to be that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Expectation {
    /// The cluster is healthy as it is: nodes ready, control planes, worker groups and Flux settled at what they declare.
    ClusterHealthy {
        /// Name of the Cluster API `Cluster`; none where the cluster has no Cluster API objects.
        cluster: Option<String>,
    },
    /// All workloads of the cluster were looked at: what is well before a rollout has to be well after it.
    Surveyed,
    /// All pods were looked at for the sidecars that they ask for.
    SidecarsRead {
        /// Sidecars of the team's own.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<InjectionRule>,
    },
    /// No check of the cluster finds what forbids a rollout.
    Checks(ChecksExpectation),
    /// Cluster API objects were saved for this rollout and read back.
    BackupTaken {
        /// How long ago at most.
        #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
        maximum_age: Duration,
    },
    /// The object exists and is not being deleted.
    Object {
        /// Which object.
        object: ObjectReference,
    },
    /// The object does not exist (what an earlier version left behind, or a finished pre-pull).
    Absent {
        /// Which object.
        object: ObjectReference,
    },
    /// The Deployment is rolled out with exactly these images.
    Deployment {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Images that its template must hold.
        images: Vec<String>,
    },
    /// The DaemonSet runs with exactly these images on every node it wants.
    DaemonSet {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Images that its template must hold.
        images: Vec<String>,
    },
    /// The `CustomResourceDefinition` is established, and nothing is stored at a version it no longer has.
    CustomResourceDefinition {
        /// Name, `<plural>.<group>`.
        name: String,
        /// Versions that must be served.
        served: Vec<String>,
        /// The storage version.
        storage: String,
    },
    /// The webhook answers a dry-run request made after the commit.
    Webhook {
        /// Name of the probe.
        name: String,
    },
    /// These Kustomizations have applied a commit of the stage's lineage and are Ready, and so is their source.
    Flux {
        /// Namespace of the Kustomizations.
        namespace: String,
        /// Their names.
        kustomizations: Vec<String>,
    },
    /// Flux' helm-controller has installed or upgraded the release as it is specified now, and says that it is Ready.
    HelmRelease {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// EKS Anywhere's controller has carried out the cluster's specification as Flux applied it.
    EksaCluster(EksaClusterExpectation),
    /// The external etcd cluster has its members.
    Etcd(EtcdExpectation),
    /// The control plane is fully rolled out.
    ControlPlane(ControlPlaneExpectation),
    /// One worker group is fully rolled out.
    Workers(WorkersExpectation),
    /// One worker group is gone, and its machines with it.
    WorkersGone {
        /// Namespace of the Cluster API `Cluster`.
        namespace: String,
        /// Its name.
        cluster: String,
        /// The group.
        group: GroupName,
    },
    /// A part of a cluster of EKS is as its specification says.
    Eks(EksExpectation),
    /// A part of a `TanzuKubernetesCluster` is as its specification says.
    Tanzu(TanzuExpectation),
    /// Nothing of a rendered cluster of Tanzu is on its way, and nothing of it has failed.
    RenderedSettled {
        /// Namespace of the Cluster API `Cluster`.
        namespace: String,
        /// Its name.
        cluster: String,
    },
    /// Secrets of the management cluster that a cluster cannot be without are there.
    Secrets(SecretsExpectation),
    /// Machines come up in their time, or in that of another attempt.
    Attempts(AttemptsExpectation),
    /// Every add-on that is managed is applied.
    AddonsApplied(AddonsExpectation),
    /// Pods of a DaemonSet that is updated by hand run on every node of a release as its template has them.
    PodsOnNewNodes {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// The release, as the label of its nodes has it.
        release: String,
    },
    /// The state before and after agrees with the plan and nothing is left over.
    Verified(VerifiedExpectation),
}

impl Expectation {
    /// The object that has to be gone; none where something else is expected.
    pub(crate) fn absent(&self) -> Option<&ObjectReference> {
        match self {
            Self::Absent { object } => Some(object),
            _ => None,
        }
    }

    /// Whether pods move on the way to it: nodes are drained or come anew, or what runs on all of them does.
    #[must_use]
    pub fn moves_pods(&self) -> bool {
        match self {
            Self::ControlPlane(_) | Self::Workers(_) | Self::WorkersGone { .. } => true,
            Self::Eks(expected) => matches!(
                expected.part,
                EksPart::ControlPlane { .. }
                    | EksPart::Addon { .. }
                    | EksPart::NodeGroup { .. }
                    | EksPart::NodeGroupGone { .. }
            ),
            Self::Tanzu(expected) => matches!(
                expected.part,
                TanzuPart::ControlPlane(_) | TanzuPart::Workers { .. } | TanzuPart::WorkersGone { .. }
            ),
            _ => false,
        }
    }

    /// Whether what holds follows from Cluster API's machines, or from the controllers that make them.
    #[must_use]
    pub fn is_of_machines(&self) -> bool {
        match self {
            Self::ClusterHealthy { .. }
            | Self::EksaCluster(_)
            | Self::Etcd(_)
            | Self::ControlPlane(_)
            | Self::Workers(_)
            | Self::WorkersGone { .. }
            | Self::Eks(_)
            | Self::Tanzu(_)
            | Self::Attempts(_)
            | Self::RenderedSettled { .. }
            | Self::PodsOnNewNodes { .. }
            | Self::Verified(_) => true,
            Self::Surveyed
            | Self::SidecarsRead { .. }
            | Self::Checks(_)
            | Self::BackupTaken { .. }
            | Self::Object { .. }
            | Self::Absent { .. }
            | Self::Deployment { .. }
            | Self::DaemonSet { .. }
            | Self::CustomResourceDefinition { .. }
            | Self::Webhook { .. }
            | Self::Flux { .. }
            | Self::AddonsApplied(_)
            | Self::Secrets(_)
            | Self::HelmRelease { .. } => false,
        }
    }
}

/// What checks are asked about a cluster and a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChecksExpectation {
    /// Namespace and name of the Cluster API `Cluster`; none where the cluster has no Cluster API objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<(String, String)>,
    /// Findings that the team lives with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waivers: Vec<Waiver>,
    /// Those that were pushed, and do not count yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waivers_to_come: Vec<Waiver>,
    /// The definitions that the plan changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<DefinitionChange>,
    /// API versions that go; none where the version that the cluster goes to is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_apis: Option<RemovedApis>,
    /// Which nodes roll; none where no machine is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling: Option<RollingNodes>,
    /// Node groups of EKS that go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_groups: Vec<ReplacedGroup>,
    /// What the team says of free addresses; none where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_addresses: Option<GivenAddresses>,
    /// The images that nodes pull.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<PlannedImage>,
    /// By what the control plane's address is carried now; none where no machine of it is replaced, or nothing tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Box<ControlPlaneAddress>>,
    /// Files of the deploy branch whose objects are compared with the cluster's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<String>,
    /// Manifests whose signatures are missing or do not fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<UnprovenManifest>,
    /// What releases on the way say has to be read, or done, before them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<ToldNote>,
    /// What is no drift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift_ignores: Vec<DriftIgnore>,
    /// The namespaces in which Cluster API has to ask by its hooks, so that machines stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_place_hooks: Vec<String>,
}

/// Free addresses of a cluster of EKS as the team gives them, for processes that ask AWS nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenAddresses {
    /// The subnets.
    pub subnets: Vec<EksSubnet>,
    /// What instances take of them.
    pub instance_types: Vec<EksInstanceType>,
}

/// By what the address of a control plane is carried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneAddress {
    /// Namespace of the Cluster API `Cluster`.
    pub namespace: String,
    /// Its name.
    pub cluster: String,
    /// Whether kube-vip runs on each node.
    pub kube_vip: bool,
    /// The Lease in `kube-system` that says which node holds it.
    pub lease: Option<String>,
}

/// The nodes that a rollout replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RollingNodes {
    /// Name of the Cluster API `Cluster`.
    pub cluster: String,
    /// Whether those of the control plane are among them.
    pub control_plane: bool,
    /// The worker groups that are.
    pub groups: Vec<GroupName>,
}

/// EKS Anywhere's `Cluster` carried out: Cluster API's objects are what follows from it, and not from the specification before
/// (`aws/eks-anywhere`, `controllers/cluster_controller.go`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksaClusterExpectation {
    /// Namespace of the `Cluster`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it refers to and its controller watches: datacenter, machine configurations and what these refer to. The controller
    /// must count each of them; it may count others.
    #[serde(default)]
    pub children: Vec<ObjectReference>,
    /// How far its controller has to be.
    #[serde(default, skip_serializing_if = "Extent::is_whole")]
    pub extent: Extent,
}

/// How far a controller has to be with a specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// It has carried out the whole of it.
    #[default]
    Whole,
    /// It has taken it up: what comes first of it is on its way.
    Begun,
}

impl Extent {
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// An external etcd cluster with its members.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdExpectation {
    /// Namespace of the `EtcdadmCluster`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its members.
    pub replicas: u32,
    /// Name of its infrastructure template, where the deploy tree holds the `EtcdadmCluster` itself.
    #[serde(default)]
    pub infrastructure_template: Option<String>,
    /// Whether its members have to be heard.
    #[serde(default, skip_serializing_if = "MembersHeard::is_when_reported")]
    pub members: MembersHeard,
    /// What becomes of the members that it had before.
    #[serde(default, skip_serializing_if = "OldMembers::are_gone")]
    pub old_members: OldMembers,
    /// Whether the stage makes every member anew for certain: then the object has to be of a later
    /// generation than it was when the stage was committed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolls: bool,
    /// That generation, as the ledger records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above_generation: Option<i64>,
}

/// Whether the members of an external etcd have to be heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MembersHeard {
    /// What they say counts where they could be asked.
    #[default]
    WhenReported,
    /// While they cannot be asked, the gate waits.
    Required,
}

impl MembersHeard {
    fn is_when_reported(&self) -> bool {
        *self == Self::WhenReported
    }
}

/// What becomes of the members that an external etcd had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OldMembers {
    /// They are gone.
    #[default]
    Gone,
    /// They stay as long as a machine of the control plane was made with their addresses.
    MayStay,
}

impl OldMembers {
    fn are_gone(&self) -> bool {
        *self == Self::Gone
    }
}

/// Whether a kubelet's version has to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KubeletVersions {
    /// A machine whose kubelet version is not reported makes the gate wait.
    #[default]
    Required,
    /// A kubelet version is checked where it is reported (in-memory machines report none).
    WhenReported,
}

/// A control plane rolled out as far as its gate asks: every machine at the version, and the control plane says so at its own
/// generation; or the first of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneExpectation {
    /// Namespace of the KubeadmControlPlane.
    pub namespace: String,
    /// Name of the Cluster API `Cluster` it belongs to.
    pub cluster: String,
    /// The version, as far as it is known: `1.35`, `v1.35.0` or `v1.35.0-eks-1-35-4`.
    pub version: String,
    /// Machines, where the cluster's own specification says how many.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// Name of its infrastructure template, where the deploy tree holds the KubeadmControlPlane itself.
    #[serde(default)]
    pub infrastructure_template: Option<String>,
    /// Whether etcd runs on the control-plane machines.
    pub stacked_etcd: bool,
    /// Whether kubelet versions have to be known.
    #[serde(default)]
    pub kubelet_versions: KubeletVersions,
    /// kube-vip, where it carries the control plane's address.
    #[serde(default)]
    pub kube_vip: Option<KubeVipExpectation>,
    /// In which order its machines go, and how far it has to be.
    #[serde(default, skip_serializing_if = "MachineOrderRules::is_default")]
    pub order: MachineOrderRules,
    /// How far it has to be.
    #[serde(default, skip_serializing_if = "ControlPlaneGate::is_whole")]
    pub gate: ControlPlaneGate,
}

impl ControlPlaneExpectation {
    /// The Lease in `kube-system` of the cluster that says which node holds the control plane's address; none where none does.
    #[must_use]
    pub fn lease(&self) -> Option<&str> {
        // What kube-vip is told counts: nothing waits for a Lease that somebody has misspelt.
        let of_kube_vip = self.kube_vip.as_ref();
        let of_kube_vip = of_kube_vip.map(|it| it.lease.as_deref().unwrap_or(KubeVipExpectation::LEASE));
        of_kube_vip.or(self.order.lease.as_deref())
    }
}

/// In which order the machines of a control plane go while its stage runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineOrderRules {
    /// The Lease that says which node holds the address, where the specification does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Whether no machine is drained before the newest one is proven.
    pub brakes: bool,
}

impl MachineOrderRules {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// kube-vip on each control-plane node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeVipExpectation {
    /// Its image; none where others decide which registry it comes from, so that only that it runs can be expected.
    #[serde(default)]
    pub image: Option<String>,
    /// The Lease that says which node holds the address, where it is not [`Self::LEASE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
}

impl KubeVipExpectation {
    /// The Lease in `kube-system` that says which node holds the address, where nobody has given it another name (kube-vip, `vip_leasename`).
    pub const LEASE: &str = "plndr-cp-lock";
}

/// One worker group fully rolled out: every machine at the version, and the MachineDeployment says so at its own generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkersExpectation {
    /// Namespace of its `MachineDeployments`.
    pub namespace: String,
    /// Name of the Cluster API `Cluster` they belong to.
    pub cluster: String,
    /// The group.
    pub group: GroupName,
    /// The version, as far as it is known: `1.35`, `v1.35.0` or `v1.35.0-eks-1-35-4`. Empty where the group's object names none, and
    /// its infrastructure keeps the one that it has.
    pub version: String,
    /// Machines, where the cluster's own specification says how many (none under an autoscaler).
    #[serde(default)]
    pub replicas: Option<u32>,
    /// Name of its infrastructure template, where the deploy tree holds the MachineDeployment itself.
    #[serde(default)]
    pub infrastructure_template: Option<String>,
    /// Name of its bootstrap template, likewise.
    #[serde(default)]
    pub bootstrap_template: Option<String>,
    /// Whether kubelet versions have to be known.
    #[serde(default)]
    pub kubelet_versions: KubeletVersions,
}

impl WorkersExpectation {
    /// The version as part of a sentence; nothing where none is expected.
    pub(crate) fn at_version(&self) -> String {
        if self.version.is_empty() { String::new() } else { format!(" at {}", self.version) }
    }
}

/// The end of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedExpectation {
    /// Name of the Cluster API `Cluster`; none where the cluster has no Cluster API objects.
    #[serde(default)]
    pub cluster: Option<String>,
    /// Version that every node's kubelet must have; none where the rollout concerns no nodes.
    #[serde(default)]
    pub version: Option<String>,
    /// Whether kubelet versions have to be known.
    #[serde(default)]
    pub kubelet_versions: KubeletVersions,
    /// Objects that must be gone.
    #[serde(default)]
    pub leftovers: Vec<ObjectReference>,
    /// What the cluster was like before the rollout, where its ledger says: whatever was ready then has to be ready.
    #[serde(default)]
    pub before: Option<Before>,
}
