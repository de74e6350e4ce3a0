//! What a simulated cluster is made of.

use domain::{ClusterName, GroupName};
use in_place::{hooks::OnDecline, order::Driver};

/// The parts of a simulated cluster before anything is rolled out on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterShape {
    /// Its name; machines and nodes are named after it.
    pub name: ClusterName,
    /// Namespace of its Cluster API objects (`eksa-system`).
    pub namespace: String,
    /// `spec.version` of its machines, as Cluster API has it (`v1.30.14-eks-1-30-58`).
    pub kubernetes_version: String,
    /// Machines of the control plane.
    pub control_plane_replicas: u32,
    /// Worker groups.
    pub worker_groups: Vec<WorkerGroup>,
    /// Where etcd runs.
    pub etcd: Etcd,
    /// How its machines come to another version.
    pub strategy: MachineStrategy,
}

/// How machines come to another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineStrategy {
    /// Others take their place.
    Rolling,
    /// They stay, and their nodes are upgraded.
    InPlace {
        /// Who has them upgraded.
        driver: Driver,
        /// What happens to a machine that cannot be.
        on_decline: OnDecline,
    },
}

/// One worker group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerGroup {
    /// Its name.
    pub name: GroupName,
    /// Its machines.
    pub replicas: u32,
}

/// Where etcd runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Etcd {
    /// On the machines of the control plane.
    Stacked,
    /// On machines of its own (`EtcdadmCluster`).
    External {
        /// Its members.
        replicas: u32,
    },
}
