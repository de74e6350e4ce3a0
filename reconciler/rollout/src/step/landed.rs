//! What was merged and should not have been: before its rules were met, or after what it was proposed for had moved on.
//!
//! Architecture Invariant: a merge is never taken for more than people approved. Where it came too early or too late the cluster stands still,
//! until what is missing is there, somebody overrides it, or it is taken off the branch.

use jiff::Timestamp;

use crate::approval::{ApprovalFacts, Approved};
use crate::deploy::{Landed, Landing, StageTrailer};
use crate::effect::Effect;
use crate::ledger::{Ledger, LedgerState, StageRecordKind};
use crate::plan::Plan;
use crate::stage::StageId;
use crate::verdict::Reason;
use crate::world::World;
use policy::{Begin, Closed, OnFailure, Verdict};

use super::{approval, commit, have_moved_machines};

/// Lets nothing follow on a merge that does not count. Going back, and standing still for another reason, stay as they are.
pub(super) fn restrain(world: &World, effects: Vec<Effect>, now: Timestamp) -> Vec<Effect> {
    let Some(Objection { stage, reasons, help, is_stale }) = objection(world) else { return effects };
    let stays = |effect: &Effect| matches!(effect, Effect::Revert(_) | Effect::Blocked { .. } | Effect::Done);
    if effects.iter().any(stays) || world.paused.is_some() {
        return effects;
    }
    if is_stale && let Some(revert) = taken_back(world, &reasons, now) {
        return vec![revert];
    }
    let mut held = false;
    let mut restrained = Vec::new();
    for effect in effects {
        match effect {
            Effect::Hold { stage, reasons: mut known, help } => {
                held = true;
                known.extend(reasons.iter().cloned());
                restrained.push(Effect::Hold { stage, reasons: known, help });
            }
            Effect::Observe { .. } | Effect::Backup { .. } | Effect::Etcd(_) | Effect::Cluster(_) => {
                restrained.push(effect);
            }
            Effect::OrderMachines { .. }
            | Effect::RequestApproval(_)
            | Effect::Commit(_)
            | Effect::Revert(_)
            | Effect::Close(_)
            | Effect::Wait { .. }
            | Effect::Blocked { .. }
            | Effect::Done => {}
        }
    }
    if !held {
        restrained.push(Effect::Hold { stage, reasons, help });
    }
    restrained
}

/// That the stage that landed last was merged by hand while no maintenance window of its was open, as far as git tells. What has landed is Flux' to apply:
/// people are told, it goes on record, and what is next waits for its window.
#[must_use]
pub fn merged_outside_window(world: &World) -> Option<Reason> {
    let ledger = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running)?;
    let record = ledger.stages.last().filter(|record| record.kind == StageRecordKind::Commit)?;
    let landed = world.deploy.newest(is_of(ledger, &record.stage))?;
    let Landing::Merged(who) = landed.landing else { return None };
    let stage = approval::plan_of(world, ledger).unwrap_or(&world.plan).stage(&record.stage)?;
    let (name, at) = (&record.stage, landed.committed_at);
    let reason = Reason::new(format!("stage {name} was merged outside of its maintenance windows by {who} at {at}"));
    let name = stage.stage.to_string();
    let rollback = world.plan.rollback.is_some();
    // Whether it was over in time is the person's affair who merged it.
    let begin = Begin { stage: &name, goes_back: rollback, takes: None };
    let is_outside = matches!(stage.policy.windows.closed(at, begin), Some(Closed::Outside | Closed::Frozen(..)));
    (is_outside && !is_overridden(world, ledger, &record.stage)).then_some(reason)
}

/// Puts that on record.
pub(super) fn note(ledger: &mut Ledger, world: &World) {
    if let (Some(reason), Some(record)) = (merged_outside_window(world), ledger.stages.last_mut())
        && !record.reasons.contains(&reason)
    {
        record.reasons.push(reason);
    }
}

/// Whether somebody has taken a stage that landed as it is.
fn is_overridden(world: &World, ledger: &Ledger, stage: &StageId) -> bool {
    let is_of_it = |approved: &&Approved| ledger.brought(approved) == Some(stage) && approved.plan == ledger.plan;
    let Some(approved) = ledger.approvals.iter().rev().find(is_of_it) else { return false };
    let known = world.people.landed.iter().find(|known| known.scope == approved.scope && known.plan == approved.plan);
    approved.overridden.is_some() || known.is_some_and(|known| known.facts.overridden.is_some())
}

/// What speaks against the stage that landed last.
struct Objection {
    stage: StageId,
    reasons: Vec<Reason>,
    help: String,
    /// Whether it was merged after what it was proposed for had moved on.
    is_stale: bool,
}

/// The commit that takes a stale merge back, where the policy says so and there is a way back.
fn taken_back(world: &World, reasons: &[Reason], now: Timestamp) -> Option<Effect> {
    let ledger = world.ledger.as_deref()?;
    let record = ledger.stages.last()?;
    let plan = approval::plan_of(world, ledger)?;
    let stage = plan.stage(&record.stage)?;
    let landed = world.deploy.newest(is_of(ledger, &record.stage))?;
    let is_wanted = stage.policy.on_stale_merge == OnFailure::Revert && stage.one_way.is_empty();
    // What somebody else changed as well is not ours to take back.
    let is_ours = world.foreign_change.is_none() && ledger.tree == world.plan.deployed;
    let revert = || commit::revert(world, plan, ledger, stage, record, landed.id, reasons.to_vec(), now);
    (is_wanted && is_ours).then(revert)
}

/// What speaks against the stage that landed last. Whatever a later commit of ours followed on has been accepted.
fn objection(world: &World) -> Option<Objection> {
    let ledger = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running)?;
    let record = ledger.stages.last().filter(|record| record.kind == StageRecordKind::Commit)?;
    let brought =
        |approved: &&Approved| ledger.brought(approved) == Some(&record.stage) && approved.plan == ledger.plan;
    let approved = ledger.approvals.iter().rev().find(brought)?;
    let landed = world.deploy.newest(is_of(ledger, &record.stage))?;
    if *landed.landing == Landing::Pushed || approved.overridden.is_some() {
        return None;
    }
    let known = world.people.landed.iter().find(|known| known.scope == approved.scope && known.plan == approved.plan);
    let facts = known.map(|known| known.facts.clone()).unwrap_or_default();
    if facts.overridden.is_some() {
        return None;
    }
    let stage = &record.stage;
    let cluster = &ledger.cluster;
    let override_it = format!("`stepgate approve {cluster} --override --reason TEXT --yes` takes it as it is");
    let undo_it = format!("`git revert` of commit {} on the deploy branch takes it back", landed.id);
    let mut reasons = Vec::new();
    let stale = stale(world, ledger, landed).map(|moved_at| {
        let source = &world.plan.source;
        Reason::new(format!(
            "stage {stage} was merged at {} for plan {}, after the source branch had moved on at {moved_at}: {source} asks for plan {}",
            landed.committed_at, ledger.plan, world.plan.digest
        ))
    });
    let is_stale = stale.is_some();
    reasons.extend(stale);
    let missing = missing(world, ledger, approved, &facts);
    if !missing.is_empty() {
        let unknown = known.and_then(|known| known.place.as_ref());
        reasons.extend(unknown.map(|place| Reason::new(format!("who approved it is not known: {place}"))));
    }
    reasons.extend(missing.iter().map(|line| Reason::new(format!("stage {stage} was merged too early: {line}"))));
    if reasons.is_empty() {
        return None;
    }
    let approve_it = format!("`stepgate approve {cluster} --yes`, or a review, adds an approval; ");
    let help = format!("{}{override_it}; {undo_it}", if is_stale { String::new() } else { approve_it });
    Some(Objection { stage: stage.clone(), reasons, help, is_stale })
}

fn is_of<'a>(ledger: &'a Ledger, stage: &'a StageId) -> impl Fn(&StageTrailer) -> bool + 'a {
    move |trailer| trailer.cluster == ledger.cluster && trailer.rollout == ledger.rollout && &trailer.stage == stage
}

/// When the source branch moved on, where that was before the merge. Of a fast-forward git tells no time, so nothing is said of it. A rollout that had
/// to end at its own target first was asked for, wherever the source branch was by then.
fn stale(world: &World, ledger: &Ledger, landed: Landed<'_>) -> Option<Timestamp> {
    let moved_at = world.people.source_moved_at.filter(|_| world.plan.digest != ledger.plan)?;
    let before = ledger.stages.split_last().map_or(&[][..], |(_, before)| before);
    if have_moved_machines(ledger, before) && world.plan.rollback.is_none() {
        return None;
    }
    let merged = matches!(landed.landing, Landing::Merged(_));
    (merged && moved_at <= landed.committed_at).then_some(moved_at)
}

/// What the rules of its own plan miss.
fn missing(world: &World, ledger: &Ledger, approved: &Approved, facts: &ApprovalFacts) -> Vec<String> {
    // Where the plan cannot be made again, the rules of the newest one are the nearest.
    let plan = approval::plan_of(world, ledger).unwrap_or(&world.plan);
    let rules = approval::rules(plan, &approved.scope);
    if rules.take_anybody() || !approved.approvers.is_empty() {
        return Vec::new();
    }
    let facts_of_plan = Plan { digest: ledger.plan.clone(), ..plan.clone() };
    match approval::verdict(&facts_of_plan, &approved.scope, Some(ledger), &world.people.roster, facts) {
        Verdict::Met(_) => Vec::new(),
        unmet @ Verdict::Unmet { .. } => unmet.lines(),
    }
}
