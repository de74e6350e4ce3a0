//! Stopping a cluster for a while: pauses of what Flux applies of it, as leases.

use cluster::kubernetes::{PauseLease, Paused};
use cluster::{Cluster, ClusterError};
use git::Identity;
use jiff::Timestamp;
use rollout::FluxReference;

use crate::reconcile::planner::ClusterView;

/// Pauses all that Flux applies of a cluster, until then.
///
/// # Errors
/// When the cluster cannot be proven to be the one that is meant, or refuses.
pub async fn hold(
    cluster: &dyn Cluster,
    view: &ClusterView,
    by: &Identity,
    reason: &str,
    until: Timestamp,
) -> Result<Vec<(FluxReference, Paused)>, ClusterError> {
    let lease = PauseLease { owner: by.name().to_owned(), reason: reason.to_owned(), until, before: None };
    cluster.pause(&view.flux_references(), &lease).await
}

/// Ends the pauses that [`hold`] made. Answers with those that there were.
///
/// # Errors
/// As [`hold`].
pub async fn resume(cluster: &dyn Cluster, view: &ClusterView) -> Result<Vec<FluxReference>, ClusterError> {
    cluster.resume(&view.flux_references()).await
}
