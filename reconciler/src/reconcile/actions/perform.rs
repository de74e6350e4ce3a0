//! Doing what somebody wants, on the fleet as it is at that moment.

use std::sync::Arc;

use cluster::kubernetes::Paused;
use domain::{CommitId, PlanDigest};
use jiff::Timestamp;
use rollout::FluxReference;

use super::error::ActionError;
use super::lease::{hold, resume};
use super::way_back::{let_count, way_back};
use super::{Acting, Action};
use crate::reconcile::clusters::access::Clusters;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use crate::reconcile::proposal::{AnswerError, Approval, Consent, answer, reject_plan, retry};

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The commit that says so; none for a lease.
    pub commit: Option<CommitId>,
    /// What was done, a line each.
    pub told: Vec<String>,
}

/// How often it is tried: the controller writes the same branches, and may be faster.
const ATTEMPTS: u32 = 3;

/// Does it, where the cluster has the plan that somebody has looked at. The fleet is read anew for it.
///
/// # Errors
/// [`ActionError`]; nothing has changed then.
pub async fn perform(
    planner: &Planner,
    clusters: &Arc<dyn Clusters>,
    cluster: &str,
    action: &Action,
    acting: Acting<'_>,
    now: Timestamp,
) -> Result<Done, ActionError> {
    for _ in 1..ATTEMPTS {
        match perform_once(planner, clusters, cluster, action, acting, now).await {
            Err(ActionError::Answer(AnswerError::Lost(_))) => {}
            done => return done,
        }
    }
    perform_once(planner, clusters, cluster, action, acting, now).await
}

async fn perform_once(
    planner: &Planner,
    clusters: &Arc<dyn Clusters>,
    cluster: &str,
    action: &Action,
    acting: Acting<'_>,
    now: Timestamp,
) -> Result<Done, ActionError> {
    let (reading, view) = {
        let (planner, cluster) = (planner.clone(), cluster.to_owned());
        let read = move || {
            let reading = planner.read()?;
            let view = planner.view(&reading, &cluster)?;
            Ok::<_, ActionError>((reading, view))
        };
        beside(read).await?
    };
    if action.verb().answers() && view.has_forge(&reading) {
        return Err(ActionError::OnForge(view.name.clone()));
    }
    match action {
        // Whoever stops a cluster stops it, whatever its plan has become.
        Action::Hold { reason, lasts } => {
            let until = now.checked_add(*lasts).map_err(|_| ActionError::TooLong)?;
            let cluster = clusters.referred(&view.cluster, &planner.reference(&reading, &view.cluster));
            let paused = hold(cluster.as_ref(), &view, acting.by, reason, until).await?;
            Ok(Done { commit: None, told: paused.iter().map(|(object, became)| told(object, became, until)).collect() })
        }
        Action::Resume => {
            is_of(&view, &view.plan.digest, acting.plan)?;
            let cluster = clusters.referred(&view.cluster, &planner.reference(&reading, &view.cluster));
            let ended = resume(cluster.as_ref(), &view).await?;
            let goes_on =
                |object: &FluxReference| format!("Kustomization {}/{}: goes on", object.namespace, object.name);
            let told = if ended.is_empty() {
                vec!["nothing was held".to_owned()]
            } else {
                ended.iter().map(goes_on).collect()
            };
            Ok(Done { commit: None, told })
        }
        Action::Approve | Action::Reject { .. } | Action::Retry | Action::Rollback { .. } | Action::EndRollback => {
            let (planner, action) = (planner.clone(), action.clone());
            let (by, place, plan) = (acting.by.clone(), acting.place.to_owned(), acting.plan.clone());
            beside(move || {
                let acting = Acting { by: &by, place: &place, plan: &plan };
                commit(&planner, &reading, &view, &action, acting, now)
            })
            .await
        }
    }
}

/// Git is read and written where nothing else waits for it.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ActionError> + Send + 'static,
) -> Result<T, ActionError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ActionError::NotWritten(error.into()))?
}

fn commit(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    action: &Action,
    acting: Acting<'_>,
    now: Timestamp,
) -> Result<Done, ActionError> {
    let Acting { by, place, plan } = acting;
    match action {
        Action::Approve => {
            let consent = Consent::Bound { plan, place };
            Ok(approved(answer(planner, reading, view, Some(by), &consent, now)?))
        }
        Action::Reject { reason } => {
            let Approval { stage, commit, .. } =
                reject_plan(planner, reading, view, Some(by), (reason, Some((plan, place))), now)?;
            Ok(Done { commit, told: vec![format!("stage {stage} is rejected")] })
        }
        Action::Retry => {
            let would = retry(planner, reading, view, (None, None), None, now)?;
            is_of(view, &would.plan, plan)?;
            let done = retry(planner, reading, view, (Some(by), Some(place)), None, now)?;
            let told = format!("stage {} is committed once more: attempt {}", done.stage, done.attempt);
            Ok(Done { commit: done.commit, told: vec![told] })
        }
        Action::Rollback { to, reason } => {
            let name = by.to_string();
            let back = way_back(planner, reading, view, to.as_deref(), (&name, now, reason.as_deref()))?;
            is_of(view, &back.plan.digest, plan)?;
            let told = format!("goes back to {}; what the source branch asks for is held back", back.rollback);
            let commit = back.begin(planner, reading, view)?;
            Ok(Done { commit: Some(commit), told: vec![told] })
        }
        Action::EndRollback => {
            is_of(view, &view.plan.digest, plan)?;
            let commit = let_count(planner, reading, view, &by.to_string(), now)?;
            Ok(Done { commit: Some(commit), told: vec!["the source branch counts again".to_owned()] })
        }
        Action::Hold { .. } | Action::Resume => Ok(Done { commit: None, told: Vec::new() }),
    }
}

fn approved(approval: Approval) -> Done {
    let Approval { stage, commit, missing, not_yet, .. } = approval;
    let merged = missing.is_empty() && not_yet.is_none();
    let first =
        if merged { format!("stage {stage} is merged") } else { format!("your word on stage {stage} is noted") };
    let mut told = vec![first];
    told.extend(missing.iter().map(|line| format!("missing: {line}")));
    told.extend(not_yet.iter().map(|line| format!("it is merged in its time: {line}")));
    Done { commit, told }
}

fn is_of(view: &ClusterView, now: &PlanDigest, seen: &PlanDigest) -> Result<(), ActionError> {
    if now == seen { Ok(()) } else { Err(ActionError::OtherPlan { cluster: view.name.clone(), plan: now.clone() }) }
}

fn told(object: &FluxReference, became: &Paused, until: Timestamp) -> String {
    let what = match became {
        Paused::Ours => format!("held until {until}"),
        Paused::Theirs { by: Some(by) } => format!("suspended by {by} already, and left so"),
        Paused::Theirs { by: None } => "suspended already, and left so".to_owned(),
        Paused::Absent => "not there".to_owned(),
    };
    format!("Kustomization {}/{}: {what}", object.namespace, object.name)
}
