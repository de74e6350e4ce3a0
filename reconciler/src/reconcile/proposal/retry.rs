//! Another attempt: at a stage that was reverted as often as its policy lets it be committed, or at machines that did not come up.

use std::sync::Arc;

use domain::{CommitId, PlanDigest};
use jiff::Timestamp;
use rollout::{
    ApprovalScope, Expectation, Ledger, LedgerState, Plan, Reachability, Retry, StageId, StageRecordKind,
    approval_scope, exhausted, used_up,
};

use super::AnswerError;
use super::answer::confirmed;
use super::merge::write;
use super::mergers::branch_of;
use super::proposal_cache::{Landed, ProposalCache};
use super::reply::host;
use crate::reconcile::Controller;
use crate::reconcile::effects::commit::Signature;
use crate::reconcile::people::words::words;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use approvals::words::{Subject, Word, retry_paragraph};
use cluster::{Cluster, Freshness, ObserveRequest};
use git::{CommitDraft, GitError, Identity};

/// What wanting another attempt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retried {
    /// The stage.
    pub stage: StageId,
    /// The plan that has it.
    pub plan: PlanDigest,
    /// Which attempt it is.
    pub attempt: u32,
    /// The commit that says so; none for a dry run.
    pub commit: Option<CommitId>,
}

/// A stage that waits for another attempt.
struct Waiting<'a> {
    ledger: &'a Ledger,
    /// The plan that has it.
    plan: &'a Plan,
    stage: StageId,
    /// Which attempt it waits for.
    attempt: u32,
}

/// The stage that was reverted and waits for another attempt.
fn waiting(view: &ClusterView) -> Option<Waiting<'_>> {
    let (ledger, plan) = running(view)?;
    let next = plan.next_stage()?;
    let (_, attempt) = exhausted(next, ledger)?;
    Some(Waiting { ledger, plan, stage: next.stage.clone(), attempt })
}

/// The stage whose machines are made, and may come to wait for another attempt.
fn making_machines(view: &ClusterView) -> Option<(&Plan, &StageId)> {
    let (ledger, plan) = running(view)?;
    let record = ledger.stages.last().filter(|record| record.kind == StageRecordKind::Commit)?;
    let mut expectations = plan.stage(&record.stage)?.expectations.iter();
    let tries = expectations.any(|expectation| matches!(expectation, Expectation::Attempts(_)));
    tries.then_some((plan, &record.stage))
}

/// The ledger of the rollout that runs, and its plan.
fn running(view: &ClusterView) -> Option<(&Ledger, &Plan)> {
    let ledger = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running)?;
    Some((ledger, view.plans().find(|plan| plan.digest == ledger.plan)?))
}

/// Whether only the cluster tells if it waits for another attempt.
pub fn asks_the_cluster(view: &ClusterView) -> bool {
    waiting(view).is_none() && making_machines(view).is_some()
}

/// How many attempts at machines have failed, where none is left.
///
/// # Errors
/// [`AnswerError::Unread`] where the cluster does not tell.
pub async fn failed_attempts(
    cluster: &dyn Cluster,
    view: &ClusterView,
    now: Timestamp,
) -> Result<Option<u32>, AnswerError> {
    let Some((plan, stage)) = making_machines(view) else { return Ok(None) };
    let expectations = plan.stage(stage).map(|stage| stage.expectations.clone()).unwrap_or_default();
    let request = ObserveRequest {
        expectations: expectations.into_iter().filter(|known| matches!(known, Expectation::Attempts(_))).collect(),
        kustomizations: Vec::new(),
        deployed: Arc::clone(&view.deployed),
        freshness: Freshness::Fresh,
        at: now,
    };
    let read = cluster.observe(&request).await;
    let unread = |reason: String| AnswerError::Unread { cluster: view.name.clone(), reason };
    if let Reachability::Unreachable { reason } = read.reachable {
        return Err(unread(reason));
    }
    if let Some(reason) = ["Machine", "Cluster"].iter().find_map(|kind| read.unread.get(*kind)) {
        return Err(unread(reason.clone()));
    }
    Ok(used_up(plan, stage, &read))
}

/// Whether a stage was taken back and waits for somebody to want it once more.
pub fn may_be_retried(view: &ClusterView) -> bool {
    waiting(view).is_some()
}

fn subject(view: &ClusterView, plan: &Plan, stage: &StageId) -> Subject {
    Subject { cluster: view.name.clone(), scope: ApprovalScope::Stage(stage.clone()), plan: plan.digest.clone() }
}

/// Lets a reverted stage be committed once more, or machines be tried again of which so many attempts have `failed`; without `by` only
/// says which.
///
/// # Errors
/// [`AnswerError`]; nothing has changed then.
pub fn retry(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    (by, place): (Option<&Identity>, Option<&str>),
    failed: Option<u32>,
    now: Timestamp,
) -> Result<Retried, AnswerError> {
    confirmed(reading, view)?;
    let of_machines = || {
        let (plan, stage) = making_machines(view)?;
        Some((plan, stage.clone(), failed?.saturating_add(1)))
    };
    let of_a_revert = waiting(view).map(|waiting| (waiting.plan, waiting.stage, waiting.attempt));
    let (plan, stage, attempt) =
        of_a_revert.or_else(of_machines).ok_or_else(|| AnswerError::NothingReverted(view.name.clone()))?;
    let done = |commit| Retried { stage: stage.clone(), plan: plan.digest.clone(), attempt, commit };
    let Some(by) = by else { return Ok(done(None)) };
    let signature = Signature::of(&reading.fleet.policy, planner.signing())?;
    let paragraph = retry_paragraph(&subject(view, plan, &stage), attempt, &by.to_string(), place);
    let title = format!("{}: retry {stage}", view.name);
    let body = format!("Attempt {attempt}.\n\n{paragraph}");
    let draft = CommitDraft::of_words(reading.deploy_head().cloned(), title, body, by.clone(), now);
    Ok(done(Some(write(planner, &reading.layout.branch, &draft, &signature)?)))
}

/// Who wants the attempt that is waited for, or has wanted machines to be tried again: commits on the deploy branch since the stage was
/// reverted or committed.
pub(super) fn retries(planner: &Planner, view: &ClusterView) -> Result<Vec<Retry>, GitError> {
    let (subject, wanted) = match (waiting(view), making_machines(view)) {
        (Some(waiting), _) => (subject(view, waiting.plan, &waiting.stage), Some(waiting.attempt)),
        (None, Some((plan, stage))) => (subject(view, plan, stage), None),
        (None, None) => return Ok(Vec::new()),
    };
    let mut retries = Vec::new();
    let stage = view.head.newest(|_| true).map_or(0, |stage| stage.place + 1);
    let since = view.head.lineage().since(stage);
    for commit in Vec::from(since).iter().rev() {
        for word in words(planner, commit, &subject)? {
            if let Word::Retried(retry) = word
                && wanted.is_none_or(|attempt| retry.attempt == attempt)
            {
                retries.push(retry);
            }
        }
    }
    Ok(retries)
}

impl Controller {
    /// Does what a comment below the pull request of a reverted stage wants. Whether it was done.
    pub(in crate::reconcile) async fn retry_by_comment(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        view: &ClusterView,
    ) -> bool {
        let Ok(Some(_)) = self.planner.forge(reading) else { return false };
        let Some(Waiting { ledger, plan, stage, .. }) = waiting(view) else { return false };
        let scope = plan.stage(&stage).and_then(approval_scope).unwrap_or(ApprovalScope::Stage(stage));
        let landed = Landed { cluster: &view.name, plan: &plan.digest, scope: &scope };
        let Ok(branch) = branch_of(reading, view, &landed) else { return false };
        let wanted = match board.merged(&self.planner, reading, &branch, &landed).await {
            Ok(thread) => thread.and_then(|thread| {
                let (by, comment) = thread.said(&view.name, &plan.digest).retried?;
                Some((by, format!("{}, comment {comment}", thread.pull.url)))
            }),
            Err(error) => {
                tracing::warn!(cluster.name = %view.name, %error, hint = error.hint(), "could not read whether a reverted stage is to be tried again");
                return false;
            }
        };
        let Some((by, place)) = wanted else { return false };
        // Each comment is good for one attempt.
        if ledger.retries.iter().any(|known| known.place.as_ref() == Some(&place)) {
            return false;
        }
        let host = reading.fleet.policy.forge.as_ref().map(|forge| host(&forge.url));
        let by = format!("{by} <{by}@{}>", host.unwrap_or_default()).parse::<Identity>();
        let done = by
            .map_err(AnswerError::from)
            .and_then(|by| retry(&self.planner, reading, view, (Some(&by), Some(&place)), None, self.clock.now()));
        match done {
            Ok(retried) => {
                tracing::info!(cluster.name = %view.name, stage.name = %retried.stage, attempt = retried.attempt, "a comment wants stage `{}` committed once more", retried.stage);
                true
            }
            Err(error) => {
                tracing::warn!(cluster.name = %view.name, %error, hint = error.hint(), "could not note that a stage is to be tried again");
                false
            }
        }
    }
}
