//! What people say of what they have merged already.

use rollout::{Landing, People};

use super::branch;
use super::given::given;
use super::pull_request::listen;
use super::retry::retries;
use crate::controller::people::facts::Landed;
use crate::controller::people::roster;
use crate::controller::planner::{ClusterView, FleetReading, PlanError, Planner};
use crate::forge::{Forge, ForgeError};

/// What is known of people: who is who, who approved what landed last, and whether that came too late.
///
/// # Errors
/// [`PlanError`] when commits cannot be read. What goes wrong with the forge is part of the answer.
pub async fn people(planner: &Planner, reading: &FleetReading, view: &ClusterView) -> Result<People, PlanError> {
    let mut people = People { roster: roster(&reading.fleet.policy), ..People::default() };
    people.retries = retries(planner, view)?;
    let Some(landed) = Landed::of(view).filter(Landed::matters) else { return Ok(people) };
    if landed.is_old && matches!(landed.commit.landing, Landing::Merged(_)) {
        people.source_moved_at = planner.moved_before(reading, view, landed.commit.committed_at)?;
    }
    let mut record = landed.record(planner, reading, view)?;
    if !landed.rules.take_anybody() {
        let known = match planner.forge(reading) {
            Ok(Some(forge)) => on_forge(&forge, reading, view, &landed).await,
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match known {
            Ok(Some(given)) => record.facts.given = given,
            Ok(None) => {}
            Err(error) => record.place = Some(format!("{error}; {}", error.hint())),
        }
    }
    people.landed = vec![record];
    Ok(people)
}

async fn on_forge(
    forge: &Forge,
    reading: &FleetReading,
    view: &ClusterView,
    landed: &Landed<'_>,
) -> Result<Option<Vec<rollout::GivenApproval>>, ForgeError> {
    let Some(ledger) = view.directory.ledger() else { return Ok(None) };
    let Ok(branch) = branch(&ledger.rollout, &landed.approved.scope) else { return Ok(None) };
    let found = forge.find(reading.layout.branch.as_str(), branch.as_str()).await?;
    let Some(pull) = found else { return Ok(Some(Vec::new())) };
    let conversation = listen(forge, &pull, &landed.approved.plan).await?;
    given(forge, reading, &pull, &conversation, &landed.approved.plan).await.map(Some)
}
