//! Workloads that are made anew, as `kubectl rollout restart` does it.

use domain::RolloutId;
use jiff::Timestamp;
use rollout::FargateWorkload;
use serde_json::{Value, json};

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::read::fargate::{RESTARTED_FOR, kind_of};

/// Restarts a workload for a rollout.
///
/// # Errors
/// When the API server refuses or does not answer.
pub(crate) async fn restart(
    own: &Connection,
    workload: &FargateWorkload,
    rollout: &RolloutId,
    at: Timestamp,
) -> Result<(), RequestError> {
    patch(own, workload, rollout.as_str(), &at.to_string(), false).await
}

/// Why the API server would refuse to restart a workload; none where it would not.
pub(crate) async fn refused(own: &Connection, workload: &FargateWorkload) -> Option<RequestError> {
    patch(own, workload, "dry-run", "dry-run", true).await.err()
}

async fn patch(
    own: &Connection,
    workload: &FargateWorkload,
    rollout: &str,
    at: &str,
    dry_run: bool,
) -> Result<(), RequestError> {
    let Some(kind) = kind_of(&workload.kind) else { return Ok(()) };
    let patch: Value = json!({
        "metadata": {"labels": {RESTARTED_FOR: rollout}},
        "spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}}},
    });
    own.merge(&kind.resource("v1"), Some(&workload.namespace), &workload.name, &patch, dry_run).await.map(drop)
}
