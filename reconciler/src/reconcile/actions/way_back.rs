//! Going back to a verified state: what would be put back, and the record that makes it so.

use std::sync::Arc;

use domain::CommitId;
use jiff::Timestamp;
use rollout::{Plan, Rollback};

use super::error::ActionError;
use crate::reconcile::effects::rollback::{end, go_back};
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};

/// The way back to a state.
pub struct WayBack {
    /// The state.
    pub rollback: Rollback,
    /// The plan that leads there. What bars it is in it, by name.
    pub plan: Arc<Plan>,
}

/// The way back to what the last rollout found, or to the rollout or stage that is named.
///
/// # Errors
/// [`ActionError`] when there is none.
pub fn way_back(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    to: Option<&str>,
    wanted: (&str, Timestamp, Option<&str>),
) -> Result<WayBack, ActionError> {
    let rollback = planner.state_before(reading, view, to, wanted)?;
    let plan = planner.going_back(reading, view, &rollback)?;
    Ok(WayBack { rollback, plan })
}

impl WayBack {
    /// Records that the cluster goes there.
    ///
    /// # Errors
    /// [`ActionError::Barred`] where something bars it; else when the record could not be pushed.
    pub fn begin(self, planner: &Planner, reading: &FleetReading, view: &ClusterView) -> Result<CommitId, ActionError> {
        if !self.plan.blocked.is_empty() {
            return Err(ActionError::Barred(self.plan.blocked.clone()));
        }
        go_back(planner, reading, view, self.rollback).map_err(ActionError::NotWritten)
    }
}

/// Records that the source branch counts again.
///
/// # Errors
/// [`ActionError`] when nothing is held back, or the record could not be pushed.
pub fn let_count(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    by: &str,
    now: Timestamp,
) -> Result<CommitId, ActionError> {
    if held_back(view).is_none() {
        return Err(ActionError::NothingHeldBack(view.name.clone()));
    }
    end(planner, reading, view, by, now).map_err(ActionError::NotWritten)
}

/// What the cluster was put back to, as long as the source branch does not count.
pub(super) fn held_back(view: &ClusterView) -> Option<&Rollback> {
    view.directory.ledger().and_then(|ledger| ledger.rollback.as_ref())
}
