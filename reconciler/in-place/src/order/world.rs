//! What was read of one cluster.

use std::collections::BTreeMap;

use bundles::KubernetesVersion;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::files::NodeFile;
use crate::objects::{GroupUpgrade, Lease, NamedObject, NodeUpgrade};

/// One cluster, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// Name of the Cluster.
    pub cluster: String,
    /// Whether `Cluster.spec.paused` is set.
    pub paused: bool,
    /// Whether etcd runs on the machines of the control plane.
    pub stacked_etcd: bool,
    /// Why the cluster's own API server was not read; what it would tell is unknown then.
    pub unreachable: Option<String>,
    /// Owners of machines.
    pub owners: Vec<Owner>,
    /// Machines.
    pub machines: Vec<Machine>,
    /// Upgrades of single nodes.
    pub node_upgrades: Vec<NodeUpgrade>,
    /// Upgrades of groups.
    pub group_upgrades: Vec<GroupUpgrade>,
    /// `MachineHealthChecks`.
    pub health_checks: Vec<HealthCheck>,
    /// The upgraders' Pods, by the name of the upgrade that they are of.
    pub pods: BTreeMap<String, Pod>,
    /// The node that holds the control plane's virtual address.
    pub address_holder: Holder,
    /// The machine whose member of etcd leads.
    pub etcd_leader: Holder,
    /// The image of the upgrader for each version.
    pub releases: BTreeMap<String, Release>,
    /// How careful to be.
    pub settings: Settings,
}

impl World {
    /// The machine of this name, if it is still that one.
    #[must_use]
    pub fn machine(&self, named: &NamedObject) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.object == *named)
    }

    /// The machines of an owner, by name.
    pub(super) fn machines_of<'a>(&'a self, owner: &'a Owner) -> impl Iterator<Item = &'a Machine> {
        self.machines.iter().filter(move |machine| machine.owner.as_ref() == Some(&owner.object.name))
    }

    /// The machines of the control plane.
    pub(super) fn control_plane(&self) -> impl Iterator<Item = &Machine> {
        self.machines.iter().filter(|machine| machine.control_plane)
    }
}

/// Who has what one of a control plane has alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Holder {
    /// Nobody: there is no such thing, or it makes no difference.
    #[default]
    Nobody,
    /// This one.
    Known(String),
    /// Nobody could be asked; why.
    Unknown(String),
}

impl Holder {
    /// Whether it is this one, as far as is known.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        matches!(self, Self::Known(known) if known == name)
    }
}

impl From<Option<String>> for Holder {
    fn from(name: Option<String>) -> Self {
        name.map_or(Self::Nobody, Self::Known)
    }
}

/// How careful to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long a node has to be healthy without a break before it counts as proven.
    pub soak: SignedDuration,
    /// How long a node may take to become so.
    pub proof: SignedDuration,
    /// How long one step may take; the program on the node has limits of its own, which are shorter.
    pub step: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            soak: SignedDuration::from_secs(60),
            proof: SignedDuration::from_mins(20),
            step: SignedDuration::from_mins(45),
        }
    }
}

/// Which kind an owner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKind {
    /// A KubeadmControlPlane.
    ControlPlane,
    /// A MachineDeployment.
    Workers,
}

impl OwnerKind {
    /// The kind of the object.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "KubeadmControlPlane",
            Self::Workers => "MachineDeployment",
        }
    }
}

/// Who has machines upgraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Driver {
    /// Cluster API, as its owner's strategy says; it may ask us by its hooks.
    ClusterApi,
    /// Our controller, while the owner is paused.
    Controller,
}

/// Who has paused an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pause {
    /// Nobody.
    None,
    /// We, under this lease.
    Ours(Lease),
    /// Somebody else.
    Others,
}

/// Whose an annotation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is not there.
    None,
    /// Ours.
    Ours,
    /// Somebody else's.
    Others,
}

/// A KubeadmControlPlane or a MachineDeployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Which one.
    pub object: NamedObject,
    /// Which kind.
    pub kind: OwnerKind,
    /// Who has its machines upgraded.
    pub driver: Driver,
    /// The version that it says.
    pub version: Option<KubernetesVersion>,
    /// A control plane's `clusterConfiguration`; none where it says nothing of it.
    pub cluster_configuration: Option<Value>,
    /// How many machines it wants.
    pub replicas: Option<u32>,
    /// Who has paused it.
    pub pause: Pause,
    /// Whether it says of itself, for its newest generation, that all its machines are as it wants them.
    pub up_to_date: bool,
    /// Whether its newest `MachineSet` says what it says itself.
    pub template_matches: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Differences of its machines that the upgrader does not bring about.
    pub declined: Vec<String>,
}

/// A Machine, with its Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Which one.
    pub object: NamedObject,
    /// The name of its owner.
    pub owner: Option<String>,
    /// Whether it is one of the control plane.
    pub control_plane: bool,
    /// `spec.version`.
    pub version: Option<KubernetesVersion>,
    /// Whether its KubeadmConfig and infrastructure machine are as its owner wants them.
    pub configuration_matches: bool,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether Cluster API waits for our hook to say that it is updated.
    pub updated_by_hook: bool,
    /// Whether it is kept from remediation.
    pub skips_remediation: Mark,
    /// Files that its node has to have at the version that is wanted; nothing where it is at that version.
    pub files: Vec<NodeFile>,
    /// Its Node; none where it has none, or that was not read.
    pub node: Option<Node>,
}

/// A Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Whether it says that it is ready.
    pub ready: bool,
    /// Whether kubelet runs out of disk.
    pub disk_pressure: bool,
    /// What kubelet says of its version.
    pub kubelet_version: String,
    /// `nodeInfo.operatingSystem`.
    pub operating_system: String,
    /// `nodeInfo.osImage`.
    pub os_image: String,
    /// `nodeInfo.architecture`.
    pub architecture: String,
    /// Whose cordon it has.
    pub cordon: Cordon,
    /// Static Pods of the control plane here.
    pub components: Vec<Component>,
}

/// A static Pod of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// `etcd`, `kube-apiserver`, `kube-controller-manager` or `kube-scheduler`.
    pub name: String,
    /// Whether it is ready.
    pub ready: bool,
}

/// Whose cordon a node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cordon {
    /// Pods may come.
    None,
    /// That of an upgrade, to this version.
    Ours(String),
    /// That of somebody else.
    Others,
}

/// A `MachineHealthCheck`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// Name.
    pub name: String,
    /// Who has paused it.
    pub pause: Pause,
    /// The machines that it looks at.
    pub machines: Vec<String>,
}

/// Processors that a release is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

impl Architecture {
    /// As Kubernetes names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// The upgrader of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Its image.
    pub image: String,
    /// What it is built for; empty where that is not said.
    pub architectures: Vec<Architecture>,
}

/// The Pod of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// What it is for.
    pub purpose: super::PodPurpose,
    /// The upgrade that it was made for: one of the same name that was made anew has another.
    pub upgrade_uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether all its containers have succeeded.
    pub succeeded: bool,
    /// Whether it has ended without.
    pub failed: bool,
    /// Its containers, in the order in which they run.
    pub containers: Vec<Container>,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its name: that of the step.
    pub name: String,
    /// What it does now.
    pub state: ContainerState,
    /// How often it has failed.
    pub failures: u32,
    /// How it failed last.
    pub last_failure: Option<Failure>,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// It waits; for what, in one word.
    Waiting(String),
    /// It runs.
    Running {
        /// Since then.
        started: Option<Timestamp>,
    },
    /// It has succeeded.
    Succeeded {
        /// It began then.
        started: Option<Timestamp>,
        /// It ended then.
        finished: Option<Timestamp>,
        /// The last that it said.
        message: String,
    },
    /// It has failed, and is not run again yet.
    Failed,
}

/// How a container failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What it exited with.
    pub exit_code: i32,
    /// When.
    pub finished: Option<Timestamp>,
    /// The last that it said.
    pub message: String,
}
