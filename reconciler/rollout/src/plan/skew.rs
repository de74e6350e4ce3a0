//! Which versions may stand side by side.

use serde::{Deserialize, Serialize};

use crate::identifier::{ClusterName, GroupName};

/// From one version to another; the same where nothing changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionStep {
    /// What is deployed; none where nothing is.
    pub deployed: Option<String>,
    /// What is wanted.
    pub target: String,
}

/// The Kubernetes versions of one worker group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersions {
    /// The group.
    pub group: GroupName,
    /// Its step.
    pub version: VersionStep,
}

/// The contracts of one Cluster API provider at the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderContracts {
    /// The provider, such as `vSphere`.
    pub name: String,
    /// Contracts in its CRDs' labels (`cluster.x-k8s.io/<contract>`): Cluster API resolves by these.
    pub labels: Vec<String>,
    /// Contract in its `metadata.yaml` for this release.
    pub metadata: Option<String>,
}

/// What the skew rules look at. Everything that is not known is absent and its rules do not apply.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SkewFacts {
    /// Kubernetes of the control plane, such as `1.30` or `v1.30.2`.
    pub control_plane: Option<VersionStep>,
    /// Kubernetes of each worker group.
    pub workers: Vec<GroupVersions>,
    /// EKS Anywhere (`spec.eksaVersion`).
    pub eksa: Option<VersionStep>,
    /// EKS Anywhere of the managing cluster, as deployed; for workload clusters.
    pub management_eksa: Option<String>,
    /// EKS Anywhere of the workload clusters, as deployed; for management clusters.
    pub workload_eksa: Vec<(ClusterName, String)>,
    /// EKS Anywhere of the management components (annotation `management-components-version`).
    pub management_components: Option<VersionStep>,
    /// Cluster API core.
    pub cluster_api: Option<VersionStep>,
    /// Contracts that Cluster API core accepts at the target.
    pub core_contracts: Vec<String>,
    /// The other providers at the target.
    pub providers: Vec<ProviderContracts>,
}
