//! `TanzuKubernetesCluster`s, as far as gates read them, in every version of their interface.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Condition;

/// The kind.
pub const TANZU_CLUSTER: &str = "TanzuKubernetesCluster";

/// A `TanzuKubernetesCluster`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TanzuCluster {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The version that it was read in: `v1alpha1`, `v1alpha2` or `v1alpha3`.
    pub version: String,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(default)]
    pub deleting: bool,
    /// The release that its specification names for the control plane.
    #[serde(default)]
    pub release: Option<String>,
    /// `status.phase`; none where it is empty.
    #[serde(default)]
    pub phase: Option<String>,
    /// `status.addons`: a map in v1alpha1, a list later.
    #[serde(default)]
    pub addons: Vec<TanzuAddon>,
    /// Conditions by type; v1alpha1 has none.
    #[serde(default)]
    pub conditions: BTreeMap<String, Condition>,
    /// What condition `Ready` says with severity `Error`: anything less is on its way.
    #[serde(default)]
    pub failure: Option<String>,
    /// What the image of its release brings, where it was found.
    #[serde(default)]
    pub image: Option<TanzuImage>,
}

/// An add-on, as its cluster's status has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TanzuAddon {
    /// Its name, such as `antrea`.
    pub name: String,
    /// What it is: the key of the map (`cni`), or the type in the list (`CNI`).
    pub role: String,
    /// How far it is.
    pub state: TanzuAddonState,
    /// Its version.
    #[serde(default)]
    pub version: Option<String>,
    /// What went wrong last.
    #[serde(default)]
    pub message: Option<String>,
}

/// How far an add-on is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TanzuAddonState {
    /// It is not applied yet, or its status is not understood.
    Pending,
    /// It is applied.
    Applied,
    /// It could not be applied; its controller tries again.
    Error,
    /// Nobody updates it.
    Unmanaged,
}

/// What an image of nodes says of the add-ons that it brings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TanzuImage {
    /// The release that it is made for.
    pub release: String,
    /// Add-ons by name; without a version of its own one is of the release's.
    #[serde(default)]
    pub addons: BTreeMap<String, Option<String>>,
    /// The version of `CoreDNS`.
    #[serde(default)]
    pub coredns: Option<String>,
    /// The version of Kubernetes, which kube-proxy has too.
    #[serde(default)]
    pub kubernetes: Option<String>,
}

/// Of what a machine of a `TanzuKubernetesCluster` is made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineHardware {
    /// The node pool that a label names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Whether its infrastructure object was found.
    #[serde(default)]
    pub found: bool,
    /// `spec.className`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// `spec.storageClass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// Name and size of its own volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<(String, String)>,
}
