//! What to do next: a pure, total, deterministic function of the world and the time.
//!
//! Architecture Invariant: a stage is committed only together with the evidence that every stage before it holds, the last one with its soak,
//! bound to that stage's own commit.

mod advance;
mod approval;
mod care;
mod commit;
mod etcd;
mod foresight;
pub(crate) mod gates;
mod landed;
mod opening;
mod order;
pub(crate) mod repair;

#[cfg(test)]
pub(crate) mod harness;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::effect::{Effect, LedgerCommit};
use crate::fast_path;
use crate::history::GateHistory;
use crate::ledger::{Ledger, LedgerState, StageRecord, StageRecordKind};
use crate::observation::Reachability;
use crate::plan::Plan;
use crate::stage::{StageId, StageName};
use crate::verdict::{Evidence, GateVerdict, Reason};
use crate::world::World;

pub use advance::exhausted;
pub use approval::{rules as approval_rules, scope as approval_scope, verdict as approval_verdict};
pub use foresight::{after_soak, behind_gate};
pub use landed::merged_outside_window;
pub(crate) use opening::closed_windows;
pub use opening::{fitting_nowhere, outside_windows};

use opening::Opening;

/// What to do next. The effects are carried out in order; whatever becomes of them, the next call decides anew from what is there then.
///
/// The list is never empty, and holds at most one commit. Where nothing can be done it holds a [`Effect::Wait`], [`Effect::Hold`] or
/// [`Effect::Blocked`] with the reason, or [`Effect::Done`].
#[must_use]
pub fn step(world: &World, now: Timestamp) -> Vec<Effect> {
    let effects = landed::restrain(world, decide(world, now), now);
    let effects =
        if fast_path::is_enough(world, &effects, now) { effects } else { fast_path::read_everything(world, now) };
    let effects = order::with_order(world, effects, now);
    care::with_care(world, effects, now)
}

fn decide(world: &World, now: Timestamp) -> Vec<Effect> {
    let next = world.plan.next_stage().map(|stage| stage.stage.clone());
    if let Some(pause) = &world.paused {
        let because = pause.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let help = pause.help.clone().unwrap_or_else(|| format!("take `paused` out of {}", pause.place));
        let reason = Reason::new(format!("paused in {}{because}", pause.place)).help(help);
        return vec![Effect::Wait { stage: next, reason, until: pause.until }];
    }
    if let Some(hold) = foreign_change(world) {
        return vec![hold];
    }
    let is_running = world.ledger.as_deref().is_some_and(|ledger| ledger.state == LedgerState::Running);
    if !world.unconfirmed.is_empty() && (is_running || next.is_some()) {
        return vec![Effect::Blocked { reasons: world.unconfirmed.clone() }];
    }
    if let Some(held) = opening::held_by_people(world, next.as_ref(), now) {
        return held;
    }
    let Some(ledger) = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running) else {
        return match next {
            // A state that nobody can vouch for is not one that is kept.
            None if !world.plan.blocked.is_empty() => {
                vec![Effect::Blocked { reasons: world.plan.blocked.clone() }]
            }
            None => vec![Effect::Done],
            Some(_) => {
                let refused = repair::of_what_was_refused(world, now);
                let opening = refused.map_or(Opening::Fresh, |reason| Opening::Repair(reason.into_lines()));
                advance::advance(world, &world.plan, &opening, now)
            }
        };
    };
    if world.plan.running {
        return advance::advance(world, &world.plan, &Opening::Continue, now);
    }
    let own_plan = world.running.as_deref().filter(|plan| plan.running && plan.digest == ledger.plan);
    // Whoever goes back does not go on first.
    if control_plane_has_started(ledger) && world.plan.rollback.is_none() {
        finish_first(world, ledger, own_plan, now)
    } else {
        replan(world, ledger, own_plan, now)
    }
}

/// The history after a reading: to be called once for each new observation, before [`step`].
#[must_use]
pub fn record(world: &World, now: Timestamp) -> GateHistory {
    let Some(observation) = &world.observation else { return world.history.clone() };
    let mut held = BTreeMap::new();
    let mut maximum_gap = std::time::Duration::ZERO;
    for gate in gates::soaking(world) {
        let gate = gate.as_gate();
        maximum_gap = maximum_gap.max(gate.policy.maximum_age);
        if let Some(settled) = gate.held(observation, now) {
            held.insert(gate.key(), settled);
        }
    }
    order::with_machines(world, observation, world.history.record(observation.read_at, held, maximum_gap, now))
}

fn foreign_change(world: &World) -> Option<Effect> {
    let expected = world.ledger.as_deref().map(|ledger| &ledger.tree);
    let differs = expected.is_some_and(|tree| tree != &world.plan.deployed);
    if !differs && world.foreign_change.is_none() {
        return None;
    }
    let change = world.foreign_change.as_ref();
    let commit = change.and_then(|change| change.commit.as_ref());
    let mut message = match commit {
        Some(commit) => format!("commit {commit} changed it, and Stepgate did not make that commit"),
        None => "somebody else changed it".to_owned(),
    };
    if let Some(author) = change.and_then(|change| change.author.as_ref()) {
        message.push_str(&format!(" (author {author})"));
    }
    if let Some(paths) = change.map(|change| &change.paths).filter(|paths| !paths.is_empty()) {
        message.push_str(&format!(": {}", paths.join(", ")));
    }
    let object = format!("clusters/{} on the deploy branch", world.plan.cluster);
    let help = match commit {
        Some(commit) => {
            format!("put what is wanted into the source branch, then `git revert {commit}` on the deploy branch")
        }
        None => "put what is wanted into the source branch, and the deploy branch back to what Stepgate committed"
            .to_owned(),
    };
    let stage =
        last_stage(world.ledger.as_deref()).or_else(|| world.plan.next_stage().map(|stage| stage.stage.clone()));
    Some(Effect::Hold {
        stage: stage.unwrap_or_else(|| StageName::Preflight.into()),
        reasons: vec![Reason::on(object, message)],
        help,
    })
}

fn last_stage(ledger: Option<&Ledger>) -> Option<StageId> {
    ledger.and_then(|ledger| ledger.stages.last()).map(|record| record.stage.clone())
}

/// Whether machines may be at different Kubernetes versions because of this rollout: from then on it ends at its own target first.
fn control_plane_has_started(ledger: &Ledger) -> bool {
    have_moved_machines(ledger, &ledger.stages)
}

/// The same because of these of its records alone.
fn have_moved_machines(ledger: &Ledger, records: &[StageRecord]) -> bool {
    let concerns_machines = |name: &StageName| matches!(name, StageName::ControlPlane | StageName::Workers(_));
    records
        .iter()
        .filter(|record| {
            concerns_machines(&record.stage.name) || record.carries.iter().any(|stage| concerns_machines(&stage.name))
        })
        .any(|record| ledger.last_record(&record.stage).is_some_and(|last| last.kind == StageRecordKind::Commit))
}

/// A new target after the control plane has started: the rollout ends at its own target, unless it fails and the new target repairs it without
/// moving Kubernetes any further.
fn finish_first(world: &World, ledger: &Ledger, own_plan: Option<&Plan>, now: Timestamp) -> Vec<Effect> {
    let effects = match own_plan {
        Some(plan) => advance::advance(world, plan, &Opening::Continue, now),
        None => {
            let stage = last_stage(Some(ledger)).unwrap_or_else(|| StageName::ControlPlane.into());
            let reason = Reason::new(format!(
                "rollout {} has to end at its own target first, and its source {} does not render to its plan any more",
                ledger.rollout, ledger.source
            ));
            let help = "render with the Stepgate version and the mirror that began the rollout".to_owned();
            vec![Effect::Hold { stage, reasons: vec![reason], help }]
        }
    };
    let failed = effects.iter().find_map(|effect| match effect {
        Effect::Hold { stage, reasons, .. } => Some((stage.clone(), reasons.clone())),
        _ => None,
    });
    let failed = failed.or_else(|| own_plan.and_then(|plan| repair::refused(world, ledger, plan, now)));
    let Some((stage, reasons)) = failed else {
        return repair::announced(world, ledger, own_plan, effects, now);
    };
    if !repair::repairs(&world.plan, &stage) {
        return effects;
    }
    match world.plan.kubernetes.as_ref().filter(|step| step.deployed.as_ref() != Some(&step.target)) {
        None => advance::advance(world, &world.plan, &Opening::Repair(reasons), now),
        Some(step) => {
            let deployed = step.deployed.as_deref().unwrap_or("none");
            let reason = Reason::new(format!(
                "the newer target moves Kubernetes from {deployed} to {} and so is not a repair: this rollout has to end first",
                step.target
            ));
            with_reason(effects, &reason)
        }
    }
}

/// The same effects, with one more reason wherever something is held.
fn with_reason(mut effects: Vec<Effect>, reason: &Reason) -> Vec<Effect> {
    for effect in &mut effects {
        if let Effect::Hold { reasons, .. } = effect {
            reasons.push(reason.clone());
        }
    }
    effects
}

/// A new target before the control plane has started: the running stage finishes, then the new plan takes over. Where the running stage has
/// failed, a plan that changes it (or something before it) takes over at once, as its repair.
fn replan(world: &World, ledger: &Ledger, own_plan: Option<&Plan>, now: Timestamp) -> Vec<Effect> {
    let Some(gate) = gates::running(world, ledger, own_plan.unwrap_or(&world.plan)) else {
        return advance::advance(world, &world.plan, &Opening::Fresh, now);
    };
    let gate = match gate {
        Ok(gate) => gate,
        Err(unknown) => return vec![opening::wait(unknown.0, unknown.1, None)],
    };
    match gate.as_gate().evaluate(world.observation.as_deref(), &world.history, now) {
        GateVerdict::Pass { evidence } if world.plan.has_differences() => {
            advance::advance(world, &world.plan, &Opening::After(evidence), now)
        }
        GateVerdict::Pass { evidence } => vec![close(world, ledger, LedgerState::Superseded, evidence, now)],
        GateVerdict::Wait { reason, until } => match repair::of_refused(world, &gate, now) {
            Some(refused) => advance::advance(world, &world.plan, &Opening::Repair(refused.into_lines()), now),
            None => {
                let reason = repair::announce(world, &gate, reason, until, now);
                let mut effects = Vec::from_iter(advance::goes_on(world, ledger, &gate, now));
                effects.extend(advance::observe_and_wait(world, &gate, reason, until, now));
                effects
            }
        },
        GateVerdict::Fail { reasons } if repair::repairs(&world.plan, &gate.stage) => {
            advance::advance(world, &world.plan, &Opening::Repair(reasons), now)
        }
        GateVerdict::Fail { reasons } => {
            // Nothing is reverted on this way, so whatever was stopped for that goes on as well.
            let mut effects = Vec::from_iter(advance::goes_on(world, ledger, &gate, now));
            effects.push(opening::hold(gate.stage.clone(), reasons));
            effects
        }
    }
}

fn close(world: &World, ledger: &Ledger, state: LedgerState, mut evidence: Evidence, now: Timestamp) -> Effect {
    let mut ledger = Ledger { state, finished_at: Some(now), ..ledger.clone() };
    landed::note(&mut ledger, world);
    commit::identify(&mut ledger, Some(&mut evidence), world);
    ledger.verified = Some(evidence);
    approval::name(&mut ledger, world);
    let parent = world.deploy.commit().cloned();
    Effect::Close(LedgerCommit { cluster: world.plan.cluster.clone(), parent, ledger })
}

/// How soon a cluster is asked again that did not answer, so that a rollout goes on soon after it does.
const UNANSWERED: SignedDuration = SignedDuration::from_secs(5);

/// The time between two readings while nodes are drained.
const WHILE_DRAINING: SignedDuration = SignedDuration::from_secs(3);

/// When to read again: four times within the age that an observation may have, and not later than the wait ends.
fn next_reading(
    world: &World,
    maximum_age: std::time::Duration,
    until: Option<Timestamp>,
    now: Timestamp,
) -> Timestamp {
    let Some(observation) = &world.observation else { return now };
    let quarter = SignedDuration::try_from(maximum_age / 4).unwrap_or(SignedDuration::from_secs(30));
    // What keeps a node is to be named within seconds, and nothing tells of an eviction that is refused.
    let drains = observation.drains.as_ref().is_some_and(|drains| !drains.nodes.is_empty());
    let distance = match observation.reachable {
        Reachability::Reachable if drains => quarter.min(WHILE_DRAINING),
        Reachability::Reachable => quarter,
        Reachability::Unreachable { .. } => quarter.min(UNANSWERED),
    };
    // One that is dated after the clock is as old as nobody knows: the clock reaching its date makes it no newer.
    let next = observation.read_at.min(now).checked_add(distance).unwrap_or(now).max(now);
    until.map_or(next, |until| next.min(until.max(now)))
}
