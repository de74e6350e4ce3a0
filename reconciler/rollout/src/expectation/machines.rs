//! Machines of Cluster API.

use domain::GroupName;
use policy::ControlPlaneGate;
use serde::{Deserialize, Serialize};

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
