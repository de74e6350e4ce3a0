//! EKS Anywhere's own `Cluster`, as far as gates read it (`aws/eks-anywhere`, `controllers/cluster_controller.go`).

use serde::{Deserialize, Serialize};

/// What reading EKS Anywhere's clusters goes by in `Observation::unread`: their kind has its name in common with Cluster API's.
pub const EKSA_CLUSTERS: &str = "clusters.anywhere.eks.amazonaws.com";

/// A `Cluster` of `anywhere.eks.amazonaws.com`: what Flux applies, and what Cluster API's objects follow from once EKS Anywhere's
/// controller has written them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksaCluster {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`: the newest generation that a turn without error has begun with. It says nothing about the end.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// `status.reconciledGeneration`: the newest generation that was carried out to the end, worker groups written.
    #[serde(default)]
    pub reconciled_generation: Option<i64>,
    /// `status.childrenReconciledGeneration`: the generations of everything that the Cluster refers to, added up, when it was carried
    /// out last.
    #[serde(default)]
    pub children_reconciled_generation: Option<i64>,
    /// Annotation `anywhere.eks.amazonaws.com/paused`.
    #[serde(default)]
    pub paused: bool,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(default)]
    pub deleting: bool,
    /// `status.failureMessage`: why the controller does not go on.
    #[serde(default)]
    pub failure: Option<String>,
}
