//! What a rollback would leave, from each point of a rollout: by the plan that `stepgate rollback` would make there.

use jiff::Timestamp;
use rollout::{Plan, StagePlan, StageState};
use serde::Serialize;

use super::error::RehearsalError;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner, RollbackError};

/// Whose rollback it would be.
const NOBODY: &str = "rehearsal";

/// A point of the rollout, and what going back from there would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WayBackReport {
    /// The stage that was just committed, or is held.
    pub stage: String,
    /// Whether everything can be put back to where the rollout began.
    pub possible: bool,
    /// The stages that would be put back, in the order in which they would.
    pub stages: Vec<String>,
    /// Machines that would be replaced once more.
    pub machines: u32,
    /// What bars the way, by name.
    pub barred: Vec<String>,
    /// The last stage that could stay while those after it are put back; null where everything can be put back, or nothing.
    pub down_to: Option<String>,
}

/// What going back would be now, just after `stage`.
///
/// # Errors
/// [`RehearsalError`] when a plan cannot be made.
pub(super) fn from(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    stage: String,
    now: Timestamp,
) -> Result<WayBackReport, RehearsalError> {
    let nowhere =
        WayBackReport { stage, possible: false, stages: Vec::new(), machines: 0, barred: Vec::new(), down_to: None };
    let Some(whole) = plan_to(planner, reading, view, None, now)? else {
        let nothing = "the cluster was never at anything else that was verified".to_owned();
        return Ok(WayBackReport { barred: vec![nothing], ..nowhere });
    };
    if whole.blocked.is_empty() {
        return Ok(WayBackReport { possible: true, ..put_back(&whole, nowhere) });
    }
    let mut barred: Vec<String> = Vec::new();
    for block in &whole.blocked {
        let stage = block.stage.as_ref().map(|stage| format!("{stage}: ")).unwrap_or_default();
        let told = format!("{stage}{}", block.message);
        if !barred.contains(&told) {
            barred.push(told);
        }
    }
    let committed = view.directory.ledger().map(|ledger| ledger.stages.clone()).unwrap_or_default();
    for record in &committed {
        let to = record.stage.to_string();
        if let Some(part) = plan_to(planner, reading, view, Some(&to), now)?
            && part.blocked.is_empty()
        {
            return Ok(WayBackReport { barred, down_to: Some(to), ..put_back(&part, nowhere) });
        }
    }
    Ok(WayBackReport { barred, ..nowhere })
}

/// The plan that goes back to where the rollout began, or to where a stage was the last; none where there is no such state.
fn plan_to(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    to: Option<&str>,
    now: Timestamp,
) -> Result<Option<std::sync::Arc<Plan>>, RehearsalError> {
    match planner.state_before(reading, view, to, (NOBODY, now, None)) {
        Ok(state) => Ok(Some(planner.going_back(reading, view, &state)?)),
        Err(RollbackError::Git(error)) => Err(error.into()),
        Err(RollbackError::Plan(error)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

fn put_back(plan: &Plan, nowhere: WayBackReport) -> WayBackReport {
    let goes = |stage: &&StagePlan| stage.state == StageState::Pending && !stage.stage.is_without_commit();
    let stages = plan.stages.iter().filter(goes).map(|stage| stage.stage.to_string()).collect();
    WayBackReport { stages, machines: plan.estimate.machines, ..nowhere }
}
