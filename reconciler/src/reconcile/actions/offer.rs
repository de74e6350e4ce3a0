//! What can be done to a cluster now, as a dry run says it.

use domain::PlanDigest;
use jiff::Timestamp;
use rollout::{StageState, risk_groups};
use serde::Serialize;

use super::Verb;
use super::error::ActionError;
use super::way_back::{WayBack, held_back, way_back};
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use crate::reconcile::proposal::{Consent, answer, reject, retry};

/// What would be done.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// The plan that it is about.
    pub plan: String,
    /// What would be done, a line each.
    pub told: Vec<String>,
    /// Whether a rollback stands, which the same verb ends.
    pub ends: bool,
}

/// Whether something can be done.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Offered {
    /// It can.
    Possible(Offer),
    /// It cannot.
    #[serde(rename_all = "camelCase")]
    Impossible {
        /// Why.
        why: String,
        /// What helps.
        help: Option<String>,
    },
    /// People answer on the forge.
    OnForge,
}

/// What each verb would do to a cluster now.
pub fn offers(planner: &Planner, reading: &FleetReading, view: &ClusterView, now: Timestamp) -> Vec<(Verb, Offered)> {
    let offered = |verb: Verb| {
        if verb.answers() && view.has_forge(reading) {
            return Offered::OnForge;
        }
        match offer(planner, reading, view, verb, now) {
            Ok((plan, told)) => {
                let ends = verb == Verb::Rollback && held_back(view).is_some();
                Offered::Possible(Offer { plan: plan.to_string(), told, ends })
            }
            Err(error) => Offered::Impossible { why: error.to_string(), help: error.hint() },
        }
    };
    Verb::ALL.into_iter().map(|verb| (verb, offered(verb))).collect()
}

fn offer(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    verb: Verb,
    now: Timestamp,
) -> Result<(PlanDigest, Vec<String>), ActionError> {
    Ok(match verb {
        Verb::Approve => {
            let approval = answer(planner, reading, view, None, &Consent::Word, now)?;
            let mut told = vec![format!("stage {} is merged, as {} proposes it", approval.stage, approval.branch)];
            told.extend(approval.missing.iter().map(|line| format!("missing besides your word: {line}")));
            told.extend(approval.not_yet.iter().map(|line| format!("it is merged in its time: {line}")));
            (approval.plan, told)
        }
        Verb::Reject => {
            let approval = reject(planner, reading, view, None, "", now)?;
            let told = format!("stage {} is not committed until the plan is another one", approval.stage);
            (approval.plan, vec![told])
        }
        Verb::Retry => {
            let retried = retry(planner, reading, view, (None, None), None, now)?;
            (retried.plan, vec![format!("attempt {} at stage {}", retried.attempt, retried.stage)])
        }
        Verb::Hold => {
            let names: Vec<String> = view.flux_references().into_iter().map(|reference| reference.name).collect();
            let told = if names.is_empty() { "nothing that Flux applies".to_owned() } else { names.join(", ") };
            (view.plan.digest.clone(), vec![format!("Flux applies nothing more of: {told}")])
        }
        Verb::Resume => (view.plan.digest.clone(), vec!["what was held is applied again".to_owned()]),
        Verb::Rollback => match held_back(view) {
            Some(back) => {
                let told = format!("the source branch counts again, which {} keeps at {back}", back.by);
                (view.plan.digest.clone(), vec![told])
            }
            None => {
                let WayBack { rollback, plan } = way_back(planner, reading, view, None, ("", now, None))?;
                if !plan.blocked.is_empty() {
                    return Err(ActionError::Barred(plan.blocked.clone()));
                }
                let estimate = &plan.estimate;
                let first = format!("back to {rollback}: {} stages, {} machines", estimate.commits, estimate.machines);
                let goes = plan.stages.iter();
                let goes = goes.filter(|stage| stage.state == StageState::Pending && !stage.stage.is_without_commit());
                let stages: Vec<String> = goes.map(|stage| stage.stage.to_string()).collect();
                let mut told = vec![first, format!("in this order: {}", stages.join(", "))];
                told.extend(risk_groups(&plan.stages).iter().map(|group| format!("risk: {}", group.line())));
                (plan.digest.clone(), told)
            }
        },
    })
}
