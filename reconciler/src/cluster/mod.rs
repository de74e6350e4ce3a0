//! The cluster side: what is read from clusters and what is done to them.
//!
//! Architecture Invariant: whatever goes wrong while reading becomes an observation that says so. It is never an error that a caller could
//! drop, and never a missing object that a gate could take for a deleted one.
//!
//! Architecture Invariant: types of the Kubernetes client stay in this folder.

pub mod kubernetes;
mod objects;
pub mod recording;
pub mod simulated;

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use rollout::{BackupReport, CommitId, Expectation, Observation, RolloutId};

/// What a reading is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserveRequest {
    /// What gates will ask: everything that these look at is read.
    pub expectations: Vec<Expectation>,
    /// Flux Kustomizations to read besides those that the expectations name.
    pub kustomizations: Vec<FluxReference>,
    /// Whether a watch's cache is not good enough.
    pub confirm: bool,
    /// The time by the caller's clock, which becomes the time of the reading: nothing in it is older.
    pub at: Timestamp,
}

/// Namespace and name of a Flux object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FluxReference {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Manifests to apply without Flux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyRequest {
    /// The Kustomization that this stands for: the next observations report it as applied.
    pub kustomization: FluxReference,
    /// The commit that the manifests are from.
    pub commit: CommitId,
    /// Path and content of each file.
    pub files: Vec<(String, Arc<[u8]>)>,
    /// Whether nothing is to be kept.
    pub dry_run: bool,
}

/// What was applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyReport {
    /// The objects in the order in which they were applied, in the words of `kubectl`.
    pub objects: Vec<String>,
}

/// An act on a cluster that did not succeed: what was attempted, on which object, and what helps.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The cluster cannot be connected to.
    #[error(transparent)]
    Connection(#[from] kubernetes::ConnectionError),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] kubernetes::RequestError),
    /// A backup could not be made.
    #[error(transparent)]
    Backup(#[from] kubernetes::BackupError),
    /// Manifests could not be applied.
    #[error(transparent)]
    Apply(#[from] kubernetes::ApplyError),
    /// The cluster does not do this.
    #[error("could not {0}: this cluster is simulated")]
    Simulated(&'static str),
}

/// One cluster, together with the cluster that manages it.
pub trait Cluster: Send + Sync {
    /// Reads everything that the request's expectations look at. What cannot be read is unreachable or unread, with the reason.
    fn observe<'a>(&'a self, request: &'a ObserveRequest) -> BoxFuture<'a, Observation>;

    /// Saves the Cluster API objects of the cluster and reads them back. Later observations report it.
    fn back_up<'a>(
        &'a self,
        rollout: &'a RolloutId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<BackupReport, ClusterError>>;

    /// Tells Flux to fetch the source of these Kustomizations now instead of at its next interval.
    fn nudge<'a>(
        &'a self,
        kustomizations: &'a [FluxReference],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>>;

    /// Applies manifests on the server's side, without Flux (`apply: direct`).
    fn apply<'a>(
        &'a self,
        request: &'a ApplyRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<ApplyReport, ClusterError>>;
}
