//! Flux objects, as far as gates read them.
//!
//! What Flux applied from a registry counts by the commit that the artifact names, never by its
//! digest.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Condition;
use domain::CommitId;

/// Namespace and name of a Flux object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FluxReference {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

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

impl FluxObservation {
    /// Whether a Kustomization or its source has failed, or somebody has suspended it: Flux does not get there by itself.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let failed = |ready: &Option<Condition>| ready.as_ref().is_some_and(Condition::has_failed);
        self.kustomizations.iter().any(|known| known.suspended || known.reconcile_disabled || failed(&known.ready))
            || self.sources.iter().any(|known| known.suspended || failed(&known.ready))
    }

    /// Names the commits of artifacts of which a Kustomization says no more than the digest, as far as its source says them.
    pub fn name_commits(&mut self) {
        let Self { sources, kustomizations, .. } = self;
        for kustomization in kustomizations {
            let Some(source) = kustomization.source_of(sources) else { continue };
            let of = |artifact: &Option<String>| {
                let is_it = artifact.is_some() && *artifact == source.artifact;
                is_it.then(|| source.artifact_revision.clone()).flatten()
            };
            let Artifacts { applied, attempted } = &kustomization.artifacts;
            let (applied, attempted) = (of(applied), of(attempted));
            kustomization.last_applied_revision = kustomization.last_applied_revision.take().or(applied);
            kustomization.last_attempted_revision = kustomization.last_attempted_revision.take().or(attempted);
        }
    }
}

/// What a Kustomization has its manifests from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum SourceKind {
    /// A repository: its revisions are commits.
    #[default]
    GitRepository,
    /// A registry: its revisions are digests, and the artifact says which commit it was made of.
    OciRepository,
    /// Something else, which names no commit.
    Other(String),
}

impl From<String> for SourceKind {
    fn from(kind: String) -> Self {
        match kind.as_str() {
            "GitRepository" => Self::GitRepository,
            "OCIRepository" => Self::OciRepository,
            _ => Self::Other(kind),
        }
    }
}

impl From<SourceKind> for String {
    fn from(kind: SourceKind) -> Self {
        kind.to_string()
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::GitRepository => "GitRepository",
            Self::OciRepository => "OCIRepository",
            Self::Other(kind) => kind,
        })
    }
}

/// A `GitRepository` or `OCIRepository`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxSource {
    /// Which of them.
    #[serde(default)]
    pub kind: SourceKind,
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
    /// The commit of its artifact: that in `status.artifact.revision` (`deploy@sha1:…`), for a registry that in the artifact's annotation
    /// `org.opencontainers.image.revision`.
    #[serde(default)]
    pub artifact_revision: Option<CommitId>,
    /// `status.artifact.revision` of a registry (`latest@sha256:…`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
}

/// What a Kustomization says of artifacts from a registry, each as `latest@sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifacts {
    /// `status.lastAppliedRevision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// `status.lastAttemptedRevision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempted: Option<String>,
}

impl Artifacts {
    fn are_none(&self) -> bool {
        self.applied.is_none() && self.attempted.is_none()
    }
}

/// A Kustomization of Flux.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxKustomization {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Kind of its source.
    #[serde(default)]
    pub source_kind: SourceKind,
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
    /// What `stepgate hold` has written on it, where that suspended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Condition `Ready`.
    #[serde(default)]
    pub ready: Option<Condition>,
    /// Commit in `status.lastAppliedRevision`; with a registry that in `status.lastAppliedOriginRevision`.
    #[serde(default)]
    pub last_applied_revision: Option<CommitId>,
    /// Commit in `status.lastAttemptedRevision`; with a registry as far as it is known.
    #[serde(default)]
    pub last_attempted_revision: Option<CommitId>,
    /// With a registry: what was applied and attempted.
    #[serde(default, skip_serializing_if = "Artifacts::are_none")]
    pub artifacts: Artifacts,
    /// When `Ready` last changed.
    #[serde(default)]
    pub ready_since: Option<Timestamp>,
}

impl FluxKustomization {
    /// Its source, where that is one of these.
    pub(crate) fn source_of<'a>(&self, sources: &'a [FluxSource]) -> Option<&'a FluxSource> {
        let namespace = self.source_namespace.as_ref().unwrap_or(&self.namespace);
        let is_it = |source: &&FluxSource| {
            source.kind == self.source_kind
                && source.namespace == *namespace
                && Some(&source.name) == self.source.as_ref()
        };
        sources.iter().find(is_it)
    }
}

/// A pause that `stepgate hold` began: it ends by itself, or by `stepgate resume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Who wants it.
    pub owner: String,
    /// Why.
    pub reason: String,
    /// When it ends, if nobody ends it before.
    pub until: Timestamp,
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
