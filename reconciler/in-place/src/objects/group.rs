//! `ControlPlaneKubeadmUpgrade` and `WorkersKubeadmUpgrade`: the machines of one owner, to one version.

use bundles::KubernetesVersion;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Condition, NamedObject, name_for};

/// Whose machines a group consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// Those of a KubeadmControlPlane.
    ControlPlane,
    /// Those of a MachineDeployment.
    Workers,
}

impl GroupKind {
    /// The kind of the object.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "ControlPlaneKubeadmUpgrade",
            Self::Workers => "WorkersKubeadmUpgrade",
        }
    }
}

/// The machines of one owner, on their way to one version. The target of an object never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupUpgrade {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Whose machines they are.
    pub kind: GroupKind,
    /// What is wanted.
    pub spec: GroupUpgradeSpec,
    /// Where it stands.
    pub status: GroupUpgradeStatus,
}

/// What is wanted of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupUpgradeSpec {
    /// The Cluster.
    pub cluster_name: String,
    /// The KubeadmControlPlane, where it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<NamedObject>,
    /// The MachineDeployment, where it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_deployment: Option<NamedObject>,
    /// The machines that were not at the version when this was made.
    pub machines_require_upgrade: Vec<NamedObject>,
    /// The version that they go to.
    pub kubernetes_version: KubernetesVersion,
    /// The version of their kubelets then: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_version: Option<KubernetesVersion>,
    /// The tag of etcd's image, where the control plane names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,
    /// The tag of CoreDNS' image, where the control plane names one.
    #[serde(default, rename = "coreDNSVersion", skip_serializing_if = "Option::is_none")]
    pub core_dns_version: Option<String>,
    /// The control plane's `clusterConfiguration`, of which kubeadm reads images and feature gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeadm_cluster_config: Option<Value>,
}

impl GroupUpgradeSpec {
    /// The owner of the machines.
    #[must_use]
    pub fn owner(&self) -> Option<&NamedObject> {
        self.control_plane.as_ref().or(self.machine_deployment.as_ref())
    }

    /// The name of the object: an owner has one for each version.
    #[must_use]
    pub fn object_name(&self) -> String {
        name_for(self.owner().map_or("", |owner| &owner.name), self.kubernetes_version.as_str())
    }
}

/// Where a group stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupUpgradeStatus {
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many machines are not at the version yet.
    #[serde(default)]
    pub require_upgrade: u32,
    /// How many are.
    #[serde(default)]
    pub upgraded: u32,
    /// Whether all are, and their owner finds them so.
    #[serde(default)]
    pub ready: bool,
    /// The machine that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The step that it is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// One line.
    #[serde(default)]
    pub message: String,
    /// `Ready`, `Reconciling` and `Stalled`, as kstatus reads them.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
