//! Another attempt at a stage that was reverted as often as its policy lets it be committed.

use domain::CommitId;
use rollout::{ApprovalScope, Ledger, LedgerState, Plan, Retry, StageId, approval_scope, exhausted};

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
use git::{CommitDraft, GitError, Identity};

/// What wanting another attempt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retried {
    /// The stage.
    pub stage: StageId,
    /// Which attempt it is.
    pub attempt: u32,
    /// The commit that says so; none for a dry run.
    pub commit: Option<CommitId>,
}

/// The stage that waits for another attempt, of which plan, and which one.
fn waiting(view: &ClusterView) -> Option<(&Ledger, &Plan, ApprovalScope, StageId, u32)> {
    let ledger = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running)?;
    let plan = view.plans().find(|plan| plan.digest == ledger.plan)?;
    let next = plan.next_stage()?;
    let (_, attempt) = exhausted(next, ledger)?;
    let stage = next.stage.clone();
    let scope = approval_scope(next).unwrap_or_else(|| ApprovalScope::Stage(stage.clone()));
    Some((ledger, plan, scope, stage, attempt))
}

/// Whether a stage was taken back and waits for somebody to want it once more.
pub fn may_be_retried(view: &ClusterView) -> bool {
    waiting(view).is_some()
}

fn subject(view: &ClusterView, plan: &Plan, stage: &StageId) -> Subject {
    Subject { cluster: view.name.clone(), scope: ApprovalScope::Stage(stage.clone()), plan: plan.digest.clone() }
}

/// Lets a reverted stage be committed once more; without `by` only says which.
///
/// # Errors
/// [`AnswerError`]; nothing has changed then.
pub fn retry(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    by: Option<&Identity>,
    place: Option<&str>,
    now: jiff::Timestamp,
) -> Result<Retried, AnswerError> {
    confirmed(reading, view)?;
    let (_, plan, _, stage, attempt) = waiting(view).ok_or_else(|| AnswerError::NothingReverted(view.name.clone()))?;
    let done = |commit| Retried { stage: stage.clone(), attempt, commit };
    let Some(by) = by else { return Ok(done(None)) };
    let signature = Signature::of(&reading.fleet.policy, planner.signing())?;
    let paragraph = retry_paragraph(&subject(view, plan, &stage), attempt, &by.to_string(), place);
    let title = format!("{}: retry {stage}", view.name);
    let body = format!("Attempt {attempt}.\n\n{paragraph}");
    let draft = CommitDraft::of_words(reading.deploy_head().cloned(), title, body, by.clone(), now);
    Ok(done(Some(write(planner, &reading.layout.branch, &draft, &signature)?)))
}

/// Who wants the attempt that is waited for: commits on the deploy branch since the stage was reverted.
pub(super) fn retries(planner: &Planner, view: &ClusterView) -> Result<Vec<Retry>, GitError> {
    let Some((_, plan, _, stage, attempt)) = waiting(view) else { return Ok(Vec::new()) };
    let subject = subject(view, plan, &stage);
    let mut retries = Vec::new();
    let stage = view.head.newest(|_| true).map_or(0, |stage| stage.place + 1);
    let since = view.head.lineage().since(stage);
    for commit in Vec::from(since).iter().rev() {
        for word in words(planner, commit, &subject)? {
            if let Word::Retried(retry) = word
                && retry.attempt == attempt
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
        let Some((ledger, plan, scope, _, _)) = waiting(view) else { return false };
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
            .and_then(|by| retry(&self.planner, reading, view, Some(&by), Some(&place), self.clock.now()));
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
