//! EKS Anywhere's own word.

use serde::{Deserialize, Serialize};

use crate::observation::ObjectReference;

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
