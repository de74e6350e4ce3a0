//! What people have to say yes to before it is committed.
//!
//! Architecture Invariant: an approval holds for the plan that people looked at. Where source, policy or deployed tree move so that the plan
//! is another, nobody has approved it.

use jiff::Timestamp;

use crate::approval::{ApprovalRecord, ApprovalScope, ApprovalState};
use crate::deploy::{DeployHead, Landing, StageTrailer};
use crate::effect::{ApprovalRequest, Effect, StageCommit};
use crate::ledger::{Ledger, LedgerState};
use crate::plan::{Plan, StagePlan};
use crate::policy::Approval;
use crate::verdict::Reason;
use crate::world::World;

use super::next_reading;
use super::opening::{Stop, closed_windows, wait};

/// What the policy wants to be asked before this stage; none where nobody is.
#[must_use]
pub fn scope(next: &StagePlan) -> Option<ApprovalScope> {
    match next.policy.approval {
        Approval::None => None,
        Approval::Rollout => Some(ApprovalScope::Rollout),
        Approval::Stage => Some(ApprovalScope::Stage(next.stage.clone())),
    }
}

/// The answer for a scope; answers to any other plan are void.
pub(super) fn answer<'a>(world: &'a World, plan: &Plan, scope: &ApprovalScope) -> Option<&'a ApprovalRecord> {
    world.approvals.iter().rev().find(|record| record.plan == plan.digest && &record.scope == scope)
}

/// Puts down who merged what was proposed, and when, now that it is on the branch.
pub(super) fn name(ledger: &mut Ledger, deploy: &DeployHead) {
    let (cluster, rollout) = (&ledger.cluster, &ledger.rollout);
    let first = ledger.stages.first().map(|record| &record.stage);
    for approved in ledger.approvals.iter_mut().filter(|approved| approved.by.is_none()) {
        let stage = match &approved.scope {
            ApprovalScope::Stage(stage) => Some(stage),
            ApprovalScope::Rollout => first,
        };
        let is_of = |trailer: &StageTrailer| {
            &trailer.cluster == cluster && &trailer.rollout == rollout && Some(&trailer.stage) == stage
        };
        let landed = deploy.commits.iter().rev().find(|commit| commit.trailer.as_ref().is_some_and(is_of));
        if let Some((Landing::Merged(by), at)) = landed.map(|commit| (&commit.landing, commit.committed_at)) {
            (approved.by, approved.at) = (Some(by.clone()), Some(at));
        }
    }
}

/// Proposes the commit unless people have approved it. The gate before it is open: what they look at could be committed now.
pub(super) fn ask(
    world: &World,
    plan: &Plan,
    next: &StagePlan,
    commit: &StageCommit,
    now: Timestamp,
) -> Result<(), Stop> {
    let Some(scope) = scope(next) else { return Ok(()) };
    let running = world.ledger.as_ref().filter(|ledger| ledger.state == LedgerState::Running);
    if scope == ApprovalScope::Rollout && running.is_some_and(|ledger| ledger.is_approved(&scope, &plan.digest)) {
        return Ok(());
    }
    let what = match &scope {
        ApprovalScope::Rollout => format!("rollout {}", plan.rollout_id),
        ApprovalScope::Stage(stage) => format!("stage {stage} of rollout {}", plan.rollout_id),
    };
    let record = answer(world, plan, &scope);
    let place = record.and_then(|record| record.place.as_ref()).map(|place| format!(": {place}")).unwrap_or_default();
    match record.map(|record| record.state) {
        Some(ApprovalState::Approved) => Ok(()),
        Some(ApprovalState::Rejected) => {
            let by = record.and_then(|record| record.by.as_ref()).map(|by| format!(" by {by}")).unwrap_or_default();
            let reasons = vec![Reason::new(format!("{what} was rejected{by}{place}"))];
            let help = format!("push another target, or `stepgate approve {}` after all", plan.cluster);
            Err(vec![Effect::Hold { stage: next.stage.clone(), reasons, help }])
        }
        // Proposed again each time: what is proposed already stays as it is, unless the commit would be another one now.
        Some(ApprovalState::Pending) | None => {
            // A merge puts the commit on the branch at once, so people should know when that is welcome.
            let not_yet = closed_windows(next, now).map(|opens| match opens {
                Some(opens) => format!("the next maintenance window opens at {opens}"),
                None => "no maintenance window opens any more".to_owned(),
            });
            let window = not_yet.as_ref().map(|window| format!("; {window}")).unwrap_or_default();
            let help = format!("merge what is proposed, or `stepgate approve {}`", plan.cluster);
            let reason = Reason::new(format!("{what} waits for approval{place}{window}")).help(help);
            let request = ApprovalRequest { scope, commit: commit.clone(), not_yet };
            // The gate that let it be proposed goes on being watched: what it no longer allows is not to be merged.
            let at = next_reading(world, next.policy.maximum_age, None, now);
            Err(vec![
                Effect::RequestApproval(Box::new(request)),
                Effect::Observe { confirm: true, at },
                wait(next.stage.clone(), reason, None),
            ])
        }
    }
}
