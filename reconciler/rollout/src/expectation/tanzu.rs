//! What gates expect of a `TanzuKubernetesCluster` whose Supervisor does the work.

use serde::{Deserialize, Serialize};

use domain::GroupName;

/// One part of a `TanzuKubernetesCluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TanzuExpectation {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What is expected of it.
    #[serde(flatten)]
    pub part: TanzuPart,
}

/// One part of a `TanzuKubernetesCluster`, as its controllers go through them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "part")]
pub enum TanzuPart {
    /// Nothing of it is on its way, and nothing has failed.
    Settled,
    /// Every add-on that is managed is applied at the version that a release brings.
    Addons {
        /// The release, as `v1.23.8+vmware.3-tkg.1`.
        release: String,
    },
    /// Every machine of the control plane is made of a release.
    ControlPlane(TanzuMachines),
    /// Every machine of a node pool is.
    Workers {
        /// The pool.
        pool: GroupName,
        /// All pools of the cluster: machines may tell theirs by the beginning of a name alone.
        pools: Vec<GroupName>,
        /// What its machines are.
        #[serde(flatten)]
        machines: TanzuMachines,
    },
    /// No machine of a node pool is left.
    WorkersGone {
        /// The pool.
        pool: GroupName,
        /// All pools of the cluster.
        pools: Vec<GroupName>,
    },
}

impl TanzuPart {
    /// Whether nodes of the cluster itself are looked at, and not only what its Supervisor says.
    #[must_use]
    pub fn looks_at_nodes(&self) -> bool {
        match self {
            Self::Settled | Self::WorkersGone { .. } => false,
            Self::Addons { .. } | Self::ControlPlane(_) | Self::Workers { .. } => true,
        }
    }
}

/// What the machines of a control plane or of a node pool are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TanzuMachines {
    /// The release, as `v1.23.8+vmware.3-tkg.1`.
    pub release: String,
    /// How many; none where an autoscaler decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Class of the virtual machines, where it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Storage class of their disks, where it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// Name and size of their own volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<(String, String)>,
}
