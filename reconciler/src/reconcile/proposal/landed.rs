//! What people say of what they have merged already.

use std::sync::Arc;

use policy::{GivenApproval, GivenTick};
use rollout::{Landing, People};

use super::mergers::branch_of;
use super::proposal_cache::{self, ProposalCache};
use super::retry::retries;
use super::thread::Thread;
use crate::reconcile::people::facts::Landed;
use crate::reconcile::planner::{ClusterView, FleetReading, PlanError, Planner};
use forge::ForgeError;

/// What is known of people: who is who, who approved what landed last, and whether that came too late.
///
/// # Errors
/// [`PlanError`] when commits cannot be read. What goes wrong with the forge is part of the answer.
pub async fn people(
    planner: &Planner,
    board: &ProposalCache,
    reading: &FleetReading,
    view: &ClusterView,
) -> Result<People, PlanError> {
    let mut people = People { roster: view.roster.as_ref().clone(), ..People::default() };
    people.retries = retries(planner, view)?;
    let Some(landed) = Landed::of(view).filter(Landed::matters) else { return Ok(people) };
    if landed.is_old && matches!(landed.commit.landing, Landing::Merged(_)) {
        people.source_moved_at = planner.moved_before(reading, view, landed.commit.committed_at)?;
    }
    let mut record = landed.record(planner, reading, view)?;
    if !landed.rules.take_anybody() {
        let known = match planner.forge(reading) {
            Ok(Some(_)) => on_forge(planner, board, reading, view, &landed).await,
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match known {
            Ok(Some((given, ticks))) => (record.facts.given, record.facts.ticks) = (given, ticks),
            Ok(None) => {}
            Err(error) => record.place = Some(format!("{error}; {}", error.hint())),
        }
    }
    people.landed = vec![record];
    Ok(people)
}

async fn on_forge(
    planner: &Planner,
    board: &ProposalCache,
    reading: &FleetReading,
    view: &ClusterView,
    landed: &Landed<'_>,
) -> Result<Option<(Vec<GivenApproval>, Vec<GivenTick>)>, ForgeError> {
    let (plan, scope) = (&landed.approved.plan, &landed.approved.scope);
    let about = proposal_cache::Landed { cluster: &view.name, plan, scope };
    let Ok(branch) = branch_of(reading, view, &about) else { return Ok(None) };
    let found = board.merged(planner, reading, &branch, &about).await?;
    let told = |thread: Arc<Thread>| (thread.given(&view.roster, &view.name, plan), thread.ticks(&view.name, plan));
    Ok(Some(found.map(told).unwrap_or_default()))
}
