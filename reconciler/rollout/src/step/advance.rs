//! Moves one plan on by one stage, if everything before it holds.

use jiff::{SignedDuration, Timestamp};

use crate::effect::Effect;
use crate::gate::no_way_back;
use crate::ledger::{Ledger, LedgerState, StageRecord, StageRecordKind};
use crate::observation::{Observation, Reachability};
use crate::plan::{Plan, StagePlan};
use crate::stage::{StageId, StageName};
use crate::verdict::{Evidence, GateVerdict, Reason};
use crate::wave::{Binds, WaveHold};
use crate::world::World;
use policy::{OnFailure, StagePolicy};

use super::approval;
use super::commit;
use super::etcd;
use super::gates::{self, OwnedGate};
use super::opening::{Key, Opening, Stop, closed_windows, hold, wait};

pub(super) fn advance(world: &World, plan: &Plan, opening: &Opening, now: Timestamp) -> Vec<Effect> {
    advance_or_stop(world, plan, opening, now).unwrap_or_else(|stop| stop)
}

fn advance_or_stop(world: &World, plan: &Plan, opening: &Opening, now: Timestamp) -> Result<Vec<Effect>, Stop> {
    let next = plan.next_stage();
    if !plan.blocked.is_empty() && next.is_some() {
        return Err(vec![Effect::Blocked { reasons: plan.blocked.clone() }]);
    }
    let key = open(world, plan, opening, next, now)?;
    let Some(next) = next else { return Ok(end(world, plan, key, now)) };
    behind(world, plan, next, opening, key, now)
}

/// What stands behind an open gate: other clusters, people, windows; then the commit.
pub(super) fn behind(
    world: &World,
    plan: &Plan,
    next: &StagePlan,
    opening: &Opening,
    key: Key,
    now: Timestamp,
) -> Result<Vec<Effect>, Stop> {
    may_be_committed(world, plan, next, opening)?;
    let mut commit = commit::stage(world, plan, next, opening, key, now)?;
    approval::ask(world, plan, next, &commit, now)?;
    commit::identify_first(&mut commit, world);
    if next.carried_by.is_none()
        && let Some((reason, opens)) = closed_windows(plan, next, world.ledger.as_deref(), now)
    {
        return Err(vec![wait(next.stage.clone(), reason, opens)]);
    }
    Ok(vec![Effect::Commit(commit)])
}

/// Asks the gates. A stop says what is waited for.
fn open(world: &World, plan: &Plan, opening: &Opening, next: Option<&StagePlan>, now: Timestamp) -> Result<Key, Stop> {
    let ledger = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running);
    let (key, watched) = match opening {
        Opening::Continue => {
            let Some(ledger) = ledger else { return Err(vec![wait_for_nothing()]) };
            (Key::Evidence(pass_running(world, plan, ledger, now)?), ledger.stages.last().map(|record| &record.stage))
        }
        Opening::Fresh => (Key::Evidence(pass_before_start(world, plan, true, now)?), None),
        Opening::After(evidence) => {
            pass_before_start(world, plan, true, now)?;
            (Key::Evidence(evidence.clone()), None)
        }
        Opening::Repair(reasons) => {
            pass_before_start(world, plan, false, now).map_err(super::repair::takes_over)?;
            (Key::Repair(reasons.clone()), None)
        }
    };
    let observation = observed(world, next.map(|stage| &stage.stage), now)?;
    // A repair, and a plan without gates before its start, rest on a reading as well.
    let recorded = world.ledger.as_deref().and_then(|ledger| ledger.identity.as_ref());
    let unreachable = match &observation.reachable {
        Reachability::Unreachable { reason } => Some(Reason::new(format!("the cluster cannot be reached: {reason}"))),
        Reachability::Reachable => None,
    };
    if let Some(reason) = unreachable.or_else(|| observation.identity.of(plan.cluster.as_str(), recorded).err()) {
        let stage = next.map_or_else(|| StageName::Verify.into(), |stage| stage.stage.clone());
        let age = next.map_or_else(|| StagePolicy::default().maximum_age, |stage| stage.policy.maximum_age);
        let at = super::next_reading(world, age, None, now);
        return Err(vec![Effect::Observe { confirm: true, at }, wait(stage, reason, None)]);
    }
    let observation = world.rest.as_deref().unwrap_or(observation);
    // What a commit has moved already is on its way, and machines are being replaced: its own commit only notes down what was seen.
    let is_carried = next.is_some_and(|next| next.carried_by.is_some());
    let earlier = gates::earlier(world, plan, next.map(|stage| &stage.stage), watched);
    for gate in earlier.into_iter().filter(|_| !is_carried) {
        still_holds(world, &gate, observation, now)?;
    }
    Ok(key)
}

fn wait_for_nothing() -> Effect {
    wait(StageName::Preflight.into(), Reason::new("the ledger records no running rollout"), None)
}

/// The gate of the running stage, with its soak; a failure is held or reverted.
fn pass_running(world: &World, plan: &Plan, ledger: &Ledger, now: Timestamp) -> Result<Evidence, Stop> {
    let gate = match gates::running(world, ledger, plan) {
        Some(Ok(gate)) => gate,
        Some(Err((stage, reason))) => return Err(vec![wait(stage, reason, None)]),
        None => return pass_before_start(world, plan, true, now),
    };
    match gate.as_gate().evaluate(world.observation.as_deref(), &world.history, now) {
        GateVerdict::Pass { evidence } => Ok(evidence),
        GateVerdict::Wait { reason, until } => {
            let mut effects: Vec<Effect> = goes_on(world, ledger, &gate, now).into_iter().collect();
            effects.extend(observe_and_wait(world, &gate, reason, until, now));
            Err(effects)
        }
        GateVerdict::Fail { reasons } => Err(fail(world, plan, ledger, &gate, reasons, now)),
    }
}

/// Whatever Stepgate has left standing still and may go on now, where nothing is about to be reverted.
pub(super) fn goes_on(world: &World, ledger: &Ledger, gate: &OwnedGate, now: Timestamp) -> Option<Effect> {
    etcd::goes_on(world, &world.plan.cluster, ledger.stages.last()?, gate, now)
}

fn fail(
    world: &World,
    plan: &Plan,
    ledger: &Ledger,
    gate: &OwnedGate,
    reasons: Vec<Reason>,
    now: Timestamp,
) -> Vec<Effect> {
    let stage = plan.stage(&gate.stage);
    let last = ledger.stages.last();
    let closed = closed(world, last, gate);
    let revertible = stage.filter(|stage| {
        gate.policy.on_failure == OnFailure::Revert
            && stage.one_way.is_empty()
            && closed.is_none()
            && crate::plan::has_flux(&stage.deployed_expectations)
            && last.is_some_and(|record| record.kind == StageRecordKind::Commit)
    });
    let first = revertible.zip(last).zip(world.observation.as_deref());
    if let Some((effect, reason)) =
        first.and_then(|((_, record), read)| etcd::taken_back_first(plan, record, gate, read))
    {
        let mut effects: Vec<Effect> = effect.into_iter().collect();
        effects.extend(observe(world, gate, None, now));
        effects.push(hold(gate.stage.clone(), [vec![reason], reasons].concat()));
        return effects;
    }
    match (revertible, last, &gate.binding) {
        (Some(stage), Some(record), Some(binding)) => {
            vec![commit::revert(world, plan, ledger, stage, record, &binding.commit, reasons, now)]
        }
        // A failure may pass by itself: the gate goes on being watched.
        _ => {
            let reasons = reasons.into_iter().chain(closed).collect();
            let mut effects = Vec::from_iter(goes_on(world, ledger, gate, now));
            effects.push(hold(gate.stage.clone(), reasons));
            effects.extend(observe(world, gate, None, now));
            effects
        }
    }
}

/// Why external etcd cannot go back any more, where it is what the gate is about.
fn closed(world: &World, record: Option<&StageRecord>, gate: &OwnedGate) -> Option<Reason> {
    let observation = world.observation.as_deref().filter(|_| gate.stage.name == StageName::Etcd)?;
    no_way_back(&gate.expectations, record.and_then(|record| record.etcd.as_ref()), observation)
}

/// Preflight with its soak, and the backup: before the first commit.
fn pass_before_start(world: &World, plan: &Plan, preflight: bool, now: Timestamp) -> Result<Evidence, Stop> {
    let mut evidence = None;
    if preflight && let Some(gate) = gates::before_start(world, plan, &StageName::Preflight) {
        match gate.as_gate().evaluate(world.observation.as_deref(), &world.history, now) {
            GateVerdict::Pass { evidence: passed } => evidence = Some(passed),
            GateVerdict::Wait { reason, until } => return Err(observe_and_wait(world, &gate, reason, until, now)),
            // What a check has found may be mended without a push: the gate goes on being watched.
            GateVerdict::Fail { reasons } => {
                let mut effects = vec![hold(gate.stage.clone(), reasons)];
                effects.extend(observe(world, &gate, None, now));
                return Err(effects);
            }
        }
    }
    let observation = observed(world, None, now)?;
    if let Some(gate) =
        gates::before_start(world, plan, &StageName::Backup).filter(|gate| !gate.expectations.is_empty())
    {
        match gate.as_gate().evaluate_once(observation, now) {
            GateVerdict::Pass { evidence: backup } => {
                let preflight = evidence.take();
                evidence = Some(merge(preflight, backup));
            }
            GateVerdict::Wait { reason, until } => {
                let mut effects = Vec::new();
                let mut until = until;
                if gate.as_gate().wants_backup(observation) && gate.as_gate().is_trustworthy(observation, now) {
                    match backup_due(plan, observation).filter(|due| *due > now) {
                        Some(due) => until = Some(until.map_or(due, |until| until.min(due))),
                        None => effects
                            .push(Effect::Backup { cluster: plan.cluster.clone(), rollout: plan.rollout_id.clone() }),
                    }
                }
                effects.extend(observe_and_wait(world, &gate, reason, until, now));
                return Err(effects);
            }
            GateVerdict::Fail { reasons } => return Err(vec![hold(gate.stage, reasons)]),
        }
    }
    // A plan without preflight and backup has nothing to rest on but the reading itself.
    Ok(evidence.unwrap_or_else(|| Evidence {
        commit: None,
        applied_revision: None,
        identity: observation.identity.proven().cloned().map(Box::new),
        observed_at: observation.read_at,
        held_since: observation.read_at,
        reads: 1,
        facts: Vec::new(),
    }))
}

/// How long after a backup that failed another is tried.
const BACKUP_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// When a backup is due after one that failed; none where the last one did not.
fn backup_due(plan: &Plan, observation: &Observation) -> Option<Timestamp> {
    let failure = observation.backup_failure.as_ref().filter(|failure| failure.rollout == plan.rollout_id)?;
    failure.at.checked_add(BACKUP_AGAIN).ok()
}

fn merge(preflight: Option<Evidence>, backup: Evidence) -> Evidence {
    match preflight {
        None => backup,
        Some(mut preflight) => {
            preflight.facts.extend(backup.facts);
            preflight
        }
    }
}

fn observed<'a>(world: &'a World, stage: Option<&StageId>, now: Timestamp) -> Result<&'a Observation, Stop> {
    world.observation.as_deref().ok_or_else(|| {
        let reason = Reason::new("the cluster was not read yet");
        vec![Effect::Observe { confirm: true, at: now }, Effect::Wait { stage: stage.cloned(), reason, until: None }]
    })
}

/// A stage that passed before, or has no difference, has to hold now.
fn still_holds(world: &World, gate: &OwnedGate, observation: &Observation, now: Timestamp) -> Result<(), Stop> {
    match gate.as_gate().evaluate_once(observation, now) {
        GateVerdict::Pass { .. } => Ok(()),
        GateVerdict::Wait { reason, until } => Err(observe_and_wait(world, gate, gate.still(reason), until, now)),
        GateVerdict::Fail { reasons } => Err(vec![hold(gate.stage.clone(), reasons)]),
    }
}

/// Retries, clusters that come first, and waves.
fn may_be_committed(world: &World, plan: &Plan, next: &StagePlan, opening: &Opening) -> Result<(), Stop> {
    let ledger = world.ledger.as_deref().filter(|_| matches!(opening, Opening::Continue));
    if let Some(ledger) = ledger
        && let Some((record, attempt)) = exhausted(next, ledger)
        && !world.people.retries.iter().any(|retry| commit::is_for(retry, plan, next, attempt))
    {
        return Err(vec![reverted_too_often(plan, next, ledger, record, attempt.saturating_sub(1))]);
    }
    let control_plane_started = ledger.is_some_and(super::control_plane_has_started);
    if !control_plane_started
        && let Some(prerequisite) = world.prerequisites.iter().find(|prerequisite| !prerequisite.met)
    {
        let message = format!("cluster {} comes first: {}", prerequisite.cluster, prerequisite.state);
        let reason = Reason::new(message).help(format!("stepgate why {}", prerequisite.cluster));
        return Err(vec![wait(next.stage.clone(), reason, None)]);
    }
    let has_begun = world.ledger.as_deref().is_some_and(|ledger| ledger.state == LedgerState::Running);
    let binds = |hold: &&WaveHold| match hold.binds {
        Binds::Start => !has_begun,
        Binds::BeforeMachines => !control_plane_started,
        // What a commit has moved already is on its way.
        Binds::EveryStage => next.carried_by.is_none(),
    };
    // Whoever goes back does not wait for those that go forward.
    if let Some(hold) = world.wave.as_ref().filter(binds).filter(|_| plan.rollback.is_none()) {
        return Err(vec![wait(next.stage.clone(), hold.reason.clone(), hold.until)]);
    }
    Ok(())
}

/// The last record of a stage that was reverted as often as its policy lets it be committed, and which attempt would be the next.
pub fn exhausted<'a>(next: &StagePlan, ledger: &'a Ledger) -> Option<(&'a StageRecord, u32)> {
    let record = ledger.last_record(&next.stage).filter(|record| record.kind == StageRecordKind::Revert)?;
    let attempts = ledger.attempts(&next.stage);
    (attempts > next.policy.retries).then(|| (record, attempts.saturating_add(1)))
}

fn reverted_too_often(plan: &Plan, next: &StagePlan, ledger: &Ledger, record: &StageRecord, attempts: u32) -> Effect {
    let times = if attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
    let mut reasons = vec![Reason::new(format!("{} was committed {times} and reverted", next.stage))];
    reasons.extend(record.reasons.iter().cloned());
    let help = if super::control_plane_has_started(ledger) {
        let version = plan.kubernetes.as_ref().map_or("its version", |step| &step.target);
        format!(
            "raise retries, or push a target that repairs it and leaves Kubernetes at {version}: some machines are there already, so a \
             target of another version waits until this rollout has ended"
        )
    } else {
        "push a target that repairs it, or raise retries".to_owned()
    };
    let help = format!("{help}; after a repair, `stepgate retry {} --yes` commits it once more", plan.cluster);
    Effect::Hold { stage: next.stage.clone(), reasons, help }
}

/// Nothing is left to be committed: the end state is verified and the ledger closed.
fn end(world: &World, plan: &Plan, key: Key, now: Timestamp) -> Vec<Effect> {
    let Some(ledger) = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running) else {
        return vec![Effect::Done];
    };
    if let Some(observation) = world.observation.as_deref() {
        for gate in gates::ending(world, ledger, plan) {
            match gate.as_gate().evaluate_once(observation, now) {
                GateVerdict::Pass { .. } => {}
                GateVerdict::Wait { reason, until } => return observe_and_wait(world, &gate, reason, until, now),
                GateVerdict::Fail { reasons } => return vec![hold(gate.stage, reasons)],
            }
        }
    }
    let evidence = match gates::verify(world, ledger, plan) {
        None => match key {
            Key::Evidence(evidence) => evidence,
            Key::Repair(reasons) => return vec![hold(StageName::Verify.into(), reasons)],
        },
        Some(gate) => match gate.as_gate().evaluate(world.observation.as_deref(), &world.history, now) {
            GateVerdict::Pass { evidence } => evidence,
            GateVerdict::Wait { reason, until } => return observe_and_wait(world, &gate, reason, until, now),
            GateVerdict::Fail { reasons } => return vec![hold(gate.stage, reasons)],
        },
    };
    vec![super::close(world, ledger, LedgerState::Done, evidence, now)]
}

fn observe(world: &World, gate: &OwnedGate, until: Option<Timestamp>, now: Timestamp) -> Option<Effect> {
    let at = super::next_reading(world, gate.policy.maximum_age, until, now);
    Some(Effect::Observe { confirm: true, at })
}

pub(super) fn observe_and_wait(
    world: &World,
    gate: &OwnedGate,
    reason: Reason,
    until: Option<Timestamp>,
    now: Timestamp,
) -> Vec<Effect> {
    let mut effects: Vec<Effect> = observe(world, gate, until, now).into_iter().collect();
    effects.push(wait(gate.stage.clone(), reason, until));
    effects
}
