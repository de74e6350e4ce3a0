//! Noting that a cluster goes back to a state of before, or that the source branch counts again. The controller does the rest.

use domain::CommitId;
use jiff::Timestamp;
use rollout::{Ledger, Rollback};

use super::adopt::commit;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};

/// Records that a cluster goes back to a state of before and is kept there.
///
/// # Errors
/// When nothing is to be written for the cluster, or the push did not succeed.
pub fn go_back(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    rollback: Rollback,
) -> Result<CommitId, anyhow::Error> {
    let reason = rollback.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let said = (
        format!("{}: go back to {rollback}", view.name),
        format!(
            "Wanted by {}{reason}\n\nThe stages are put back one by one, each with its gate and its approval. What commit {} of the source branch\n\
             asks for is held back from now on.\n",
            rollback.by, rollback.held_back
        ),
    );
    let at = rollback.at;
    note(planner, reading, view, Some(rollback), said, at)
}

/// Records that the source branch counts again.
///
/// # Errors
/// When nothing is held back, or as [`go_back`].
pub fn end(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    by: &str,
    now: Timestamp,
) -> Result<CommitId, anyhow::Error> {
    let said = (
        format!("{}: let the source branch count again", view.name),
        format!("Wanted by {by}. What it asks for is planned and rolled out from now on.\n"),
    );
    note(planner, reading, view, None, said, now)
}

fn note(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    rollback: Option<Rollback>,
    said: (String, String),
    now: Timestamp,
) -> Result<CommitId, anyhow::Error> {
    let Some(ledger) = view.directory.ledger() else {
        anyhow::bail!("cluster {} has no ledger that can be read", view.name)
    };
    if let Some(block) = view.unconfirmed(reading).first() {
        anyhow::bail!("nothing is written for cluster {}: {}; {}", view.name, block.message, block.help);
    }
    if view.foreign.is_some() {
        anyhow::bail!(
            "somebody else changed the directory of cluster {} on the deploy branch: `stepgate why {}` says who",
            view.name,
            view.name
        );
    }
    let ledger = Ledger { rollback, ..ledger.clone() };
    let commit = commit(planner, reading, &ledger, said, now)?;
    commit.ok_or_else(|| anyhow::anyhow!("cluster {}: there is nothing to record", view.name))
}
