//! Flux objects, as far as gates read them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Condition;
use crate::identifier::CommitId;

/// The Flux objects that carry a cluster's deploy branch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxObservation {
    /// `GitRepositories`.
    #[serde(default)]
    pub sources: Vec<FluxSource>,
    /// Kustomizations (with `apply: direct`, Stepgate's own applies in the same form).
    #[serde(default)]
    pub kustomizations: Vec<FluxKustomization>,
    /// `HelmReleases` that gates name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<HelmRelease>,
}

/// A `GitRepository`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxSource {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// `spec.suspend`.
    #[serde(default)]
    pub suspended: bool,
    /// Condition `Ready`.
    #[serde(default)]
    pub ready: Option<Condition>,
    /// Commit in `status.artifact.revision` (`deploy@sha1:…`).
    #[serde(default)]
    pub artifact_revision: Option<CommitId>,
}

/// A Kustomization of Flux.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxKustomization {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Name of its source, in the same namespace where `source_namespace` is none.
    #[serde(default)]
    pub source: Option<String>,
    /// Its source\'s namespace (`spec.sourceRef.namespace`); none where it is the Kustomization\'s own.
    #[serde(default)]
    pub source_namespace: Option<String>,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// `spec.suspend`.
    #[serde(default)]
    pub suspended: bool,
    /// Annotation `kustomize.toolkit.fluxcd.io/reconcile: disabled`.
    #[serde(default)]
    pub reconcile_disabled: bool,
    /// Who suspended it (field manager or lease owner), where that is known.
    #[serde(default)]
    pub suspended_by: Option<String>,
    /// Condition `Ready`.
    #[serde(default)]
    pub ready: Option<Condition>,
    /// Commit in `status.lastAppliedRevision`.
    #[serde(default)]
    pub last_applied_revision: Option<CommitId>,
    /// Commit in `status.lastAttemptedRevision`.
    #[serde(default)]
    pub last_attempted_revision: Option<CommitId>,
    /// When `Ready` last changed.
    #[serde(default)]
    pub ready_since: Option<Timestamp>,
}

/// A `HelmRelease` of Flux: a chart that its helm-controller installs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmRelease {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// `spec.suspend`.
    #[serde(default)]
    pub suspended: bool,
    /// Who suspended it, where that is known.
    #[serde(default)]
    pub suspended_by: Option<String>,
    /// Condition `Ready`.
    #[serde(default)]
    pub ready: Option<Condition>,
}
