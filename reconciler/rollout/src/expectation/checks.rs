//! What the checks before a rollout are asked.

use domain::GroupName;
use policy::{DriftIgnore, Waiver};
use serde::{Deserialize, Serialize};

use super::ReplacedGroup;
use crate::check::{DefinitionChange, PlannedImage, RemovedApis, ToldNote, UnprovenManifest};
use crate::observation::{EksInstanceType, EksSubnet};

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
