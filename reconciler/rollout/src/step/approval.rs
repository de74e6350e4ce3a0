//! What people have to say yes to before it is committed.
//!
//! Architecture Invariant: an approval holds for the plan that people looked at. Where source, policy or deployed tree move so that the plan
//! is another, nobody has approved it.

use jiff::Timestamp;

use crate::approval::{ApprovalFacts, ApprovalRecord, ApprovalScope, ApprovalState};
use crate::deploy::{Landing, StageTrailer};
use crate::effect::{ApprovalRequest, Effect, StageCommit};
use crate::ledger::{Ledger, LedgerState};
use crate::plan::{Plan, StagePlan, StageState};
use crate::verdict::Reason;
use crate::world::World;
use policy::{Approval, ApprovalRules, Person, Question, Roster, Verdict};

use super::next_reading;
use super::opening::{Stop, outside_windows, wait};

/// What the policy wants to be asked before this stage; none where nobody is.
#[must_use]
pub fn scope(next: &StagePlan) -> Option<ApprovalScope> {
    // What a commit before it has moved already, nobody can hold back any more.
    if next.carried_by.is_some() {
        return None;
    }
    match next.policy.approval {
        Approval::None => None,
        Approval::Rollout if is_apart(next) => Some(ApprovalScope::Stage(next.stage.clone())),
        Approval::Rollout => Some(ApprovalScope::Rollout),
        Approval::Stage => Some(ApprovalScope::Stage(next.stage.clone())),
    }
}

/// Whether a stage is approved apart from its rollout, since there is no way back from it.
fn is_apart(stage: &StagePlan) -> bool {
    stage.policy.approvers.separate && has_no_way_back(stage)
}

/// Whether there is no way back from a stage, or from one that its commit moves too.
fn has_no_way_back(stage: &StagePlan) -> bool {
    !stage.one_way.is_empty() || !stage.carries.is_empty()
}

/// Whose approval is enough for a scope: of a whole plan, what is enough for each of the stages that it lets through.
#[must_use]
pub fn rules(plan: &Plan, scope: &ApprovalScope) -> ApprovalRules {
    let of_scope = |stage: &&StagePlan| {
        let concerned = match scope {
            ApprovalScope::Stage(wanted) => &stage.stage == wanted,
            ApprovalScope::Rollout => stage.state != StageState::Skipped && !stage.stage.is_without_commit(),
        };
        concerned && self::scope(stage).as_ref() == Some(scope)
    };
    let stages = plan.stages.iter().filter(of_scope).map(|stage| &stage.policy.approvers);
    stages.fold(ApprovalRules::default(), |both, rules| both.and(rules))
}

/// Whether that is there; `ledger` says who approved the other stages.
#[must_use]
pub fn verdict(
    plan: &Plan,
    scope: &ApprovalScope,
    ledger: Option<&Ledger>,
    roster: &Roster,
    facts: &ApprovalFacts,
) -> Verdict {
    let others = ledger.into_iter().filter(|ledger| ledger.plan == plan.digest).flat_map(|ledger| &ledger.approvals);
    let others = others.filter(|approved| &approved.scope != scope).flat_map(|approved| &approved.approvers);
    let earlier: Vec<Person> = others.map(|approval| approval.who.clone()).collect();
    let one_way = match scope {
        ApprovalScope::Stage(stage) => plan.stage(stage).is_some_and(has_no_way_back),
        ApprovalScope::Rollout => false,
    };
    let question = Question {
        rules: &rules(plan, scope),
        roster,
        plan: &plan.digest,
        given: &facts.given,
        ticks: &facts.ticks,
        authors: &facts.authors,
        owners: facts.owners.as_deref().map_err(String::as_str),
        earlier: &earlier,
        one_way,
    };
    question.judge()
}

/// The answer for a scope; answers to any other plan are void.
pub(super) fn answer<'a>(world: &'a World, plan: &Plan, scope: &ApprovalScope) -> Option<&'a ApprovalRecord> {
    world.approvals.iter().rev().find(|record| record.plan == plan.digest && &record.scope == scope)
}

/// The plan that the ledger is carrying out, where it is known.
pub(super) fn plan_of<'a>(world: &'a World, ledger: &Ledger) -> Option<&'a Plan> {
    let own = |plan: &&Plan| plan.digest == ledger.plan;
    Some(world.plan.as_ref()).filter(own).or(world.running.as_deref().filter(own))
}

/// Puts down who merged what was proposed, when, and who else approved it, now that it is on the branch.
pub(super) fn name(ledger: &mut Ledger, world: &World) {
    let (before, own) = (ledger.clone(), plan_of(world, ledger));
    let counted = |known: &ApprovalRecord| match own
        .map(|plan| verdict(plan, &known.scope, Some(&before), &world.people.roster, &known.facts))
    {
        Some(Verdict::Met(approvers)) => approvers,
        Some(Verdict::Unmet { .. }) | None => Vec::new(),
    };
    let (cluster, rollout) = (&ledger.cluster, &ledger.rollout);
    let brought: Vec<_> = ledger.approvals.iter().map(|approved| ledger.brought(approved).cloned()).collect();
    for (approved, stage) in ledger.approvals.iter_mut().zip(brought) {
        let is_of = |trailer: &StageTrailer| {
            &trailer.cluster == cluster && &trailer.rollout == rollout && Some(&trailer.stage) == stage.as_ref()
        };
        let landed = world.deploy.newest(is_of);
        if let Some((Landing::Merged(by), at)) = landed.map(|landed| (landed.landing, landed.committed_at))
            && approved.by.is_none()
        {
            (approved.by, approved.at) = (Some(by.clone()), Some(at));
        }
        let known =
            world.people.landed.iter().find(|known| known.scope == approved.scope && known.plan == approved.plan);
        if let Some(known) = known.filter(|_| approved.approvers.is_empty()) {
            approved.approvers = counted(known);
            if let Some(plan) = own.filter(|_| !approved.approvers.is_empty()) {
                let boxes = rules(plan, &known.scope).check_list;
                let ticked = policy::ticked(&boxes, &known.facts.ticks, &known.plan, &world.people.roster);
                approved.ticks = ticked.iter().filter_map(|it| it.by.cloned()).collect();
            }
        }
        if let Some(known) = known.filter(|_| approved.overridden.is_none()) {
            approved.overridden.clone_from(&known.facts.overridden);
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
    let running = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running);
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
            let help = format!("push another target, or `stepgate approve {} --yes` after all", plan.cluster);
            Err(vec![Effect::Hold { stage: next.stage.clone(), reasons, help }])
        }
        // Proposed again each time: what is proposed already stays as it is, unless the commit would be another one now.
        Some(ApprovalState::Pending) | None => {
            // A merge puts the commit on the branch at once, so people should know when that is welcome.
            let not_yet = outside_windows(plan, next, world.ledger.as_deref(), now);
            let window = not_yet.as_ref().map(|window| format!("; {window}")).unwrap_or_default();
            let facts = record.map(|record| record.facts.clone()).unwrap_or_default();
            let (mut missing, approvers) = if rules(plan, &scope).take_anybody() {
                (Vec::new(), Vec::new())
            } else {
                match verdict(plan, &scope, running, &world.people.roster, &facts) {
                    Verdict::Met(approvers) => (Vec::new(), approvers),
                    unmet @ Verdict::Unmet { .. } => (unmet.lines(), Vec::new()),
                }
            };
            missing.extend(facts.edited.clone());
            let lacks: String = missing.iter().map(|line| format!("; {line}")).collect();
            let reject = format!("`stepgate reject {} --reason TEXT --yes` says no", plan.cluster);
            let help = if facts.edited.is_some() {
                "take the change back on the branch (`git revert`), or delete the branch: it is proposed anew; put what is wanted into the source \
                 branch"
                    .to_owned()
            } else if missing.is_empty() {
                format!(
                    "merge what is proposed, or `stepgate approve {cluster} --yes`; {reject}",
                    cluster = plan.cluster
                )
            } else {
                format!(
                    "approve it: `stepgate approve {cluster} --yes`, or on the forge; {reject}",
                    cluster = plan.cluster
                )
            };
            let reason = Reason::new(format!("{what} waits for approval{place}{lacks}{window}")).help(help);
            let request = ApprovalRequest { scope, commit: commit.clone(), not_yet, missing, approvers };
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
