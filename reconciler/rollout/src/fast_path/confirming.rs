//! Readings of what the running gate expects, where the rest was read a short while before: one that finds that it holds, and one that confirms it.
//!
//! Architecture Invariant: what confirms a gate confirms nothing else. The second read looks at
//! everything that this gate expects; the stages before it, which have passed their own gates and
//! hold in the reading before, are judged by that one, half a minute old at most and without a
//! change since. The next stage may be committed or proposed on it. Before anything is held,
//! reverted or closed on it, and after half a minute of waiting, everything is read.

use jiff::Timestamp;

use crate::effect::Effect;
use crate::expectation::Expectation;
use crate::observation::{FluxObservation, Observation};
use crate::stage::StageId;
use crate::verdict::{GateVerdict, Reason};
use crate::world::World;

use super::flux_precheck::{earlier, plan, taking_first_reads, with_flux};
use crate::step::gates::OwnedGate;

/// What the running gate looks at, now and where its stage is reverted. Where nothing else has changed, a reading of that alone may be enough
/// ([`running_gate`]); nothing where it never is.
pub(super) fn concerning_running_gate(world: &World) -> Vec<Expectation> {
    let Some((gate, (plan, _))) = taking_first_reads(world).zip(plan(world)) else { return Vec::new() };
    let stage = plan.stages.iter().filter(|stage| stage.stage == gate.stage);
    let before = stage.flat_map(|stage| stage.deployed_expectations.iter().cloned());
    gate.expectations.into_iter().chain(before).collect()
}

/// What the running gate expects, where a reading of that tells what to wait for, and the reading of everything before it, with what Flux says by
/// now, by which the stages before it are judged: none where these do not hold in it, and where everything has to be read.
///
/// Only while the plan that runs goes on, and has stages left: what comes before a plan's first commit and after its last one looks at the whole cluster.
pub(super) fn running_gate(
    world: &World,
    whole: &Observation,
    flux: &FluxObservation,
    now: Timestamp,
) -> Option<(Vec<Expectation>, Observation)> {
    let rest = with_flux(whole, flux);
    let gate = alone(world, &rest, now)?;
    Some((gate.expectations, rest))
}

/// What the running stage waits for, and until when at the latest, as a reading of what its gate expects shows. None where it holds, and where it
/// has failed: both ask for another reading.
pub(super) fn waits_for_gate(
    world: &World,
    read: &Observation,
    now: Timestamp,
) -> Option<(StageId, Reason, Option<Timestamp>)> {
    taking_first_reads(world)?.waits(read, now)
}

/// The running gate, where the stages before it hold in this reading.
fn alone(world: &World, rest: &Observation, now: Timestamp) -> Option<OwnedGate> {
    let gate = taking_first_reads(world).filter(|_| world.plan.running)?;
    let holds = |gate: &OwnedGate| matches!(gate.as_gate().evaluate_once(rest, now), GateVerdict::Pass { .. });
    earlier(world).iter().all(holds).then_some(gate)
}

/// What the reading after a [`first_read`](super::first_read), or after a whole one in which the running gate holds, looks at: what that gate expects.
/// None where it has to be everything.
///
/// The stages before it, which hold in what was read before, are judged by that ([`World::rest`]) then.
pub(super) fn confirming(world: &World, now: Timestamp) -> Option<Vec<Expectation>> {
    let before = world.rest.as_deref().or(world.observation.as_deref())?;
    let gate = alone(world, before, now)?;
    world.history.streak(&gate.as_gate().key())?;
    Some(gate.expectations)
}

/// Whether these effects may rest on what was read: a reading of the running gate alone tells that this may pass, and nothing that could be waited
/// for, held or gone back from but the reading that confirms it.
pub(crate) fn is_enough(world: &World, effects: &[Effect], now: Timestamp) -> bool {
    let goes_on = |effect: &Effect| matches!(effect, Effect::Commit(_) | Effect::RequestApproval(_));
    let Some(rest) = &world.rest else { return true };
    let Some(gate) = alone(world, rest, now) else { return false };
    let Some(streak) = world.history.streak(&gate.as_gate().key()) else { return false };
    let only_reads = |effect: &Effect| matches!(effect, Effect::Observe { .. } | Effect::Wait { .. });
    effects.iter().any(goes_on) || (streak.reads == 1 && effects.iter().all(only_reads))
}

/// Asks for a reading of everything.
pub(crate) fn read_everything(world: &World, now: Timestamp) -> Vec<Effect> {
    let stage = world.plan.next_stage().map(|stage| stage.stage.clone());
    let reason = Reason::new("only the running stage was read anew, and that is not enough to go on");
    vec![Effect::Observe { confirm: true, at: now }, Effect::Wait { stage, reason, until: None }]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::super::flux_precheck::first_read;
    use super::*;
    use crate::observation::Observation;
    use crate::step::harness::{RolloutHarness, expectations};
    use crate::step::{record, step};

    /// The second of three stages is committed, Flux has applied it, and a first read was made of a whole one.
    fn first() -> (RolloutHarness, World) {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2), ("eks-a", 1, 2)]);
        laboratory.policy.soak = Duration::ZERO;
        laboratory.until("commit capi 2");
        laboratory.now += SignedDuration::from_secs(6);
        let whole = laboratory.read();
        laboratory.now += SignedDuration::from_secs(1);
        let mut world = laboratory.world();
        world.observation = first_read(&world, &whole, &laboratory.read().flux, laboratory.now).map(Arc::new);
        world.history = record(&world, laboratory.now);
        laboratory.now += SignedDuration::from_millis(2);
        (laboratory, world)
    }

    /// What the running gate expects, read anew.
    fn read(laboratory: &RolloutHarness) -> Observation {
        let mut observation = laboratory.read();
        observation.flux.kustomizations.retain(|known| known.name == "capi");
        observation.deployments.retain(|deployment| deployment.name == "capi");
        observation
    }

    /// What is decided on this reading, over what was read before.
    fn decide(laboratory: &RolloutHarness, world: &World, read: Observation) -> Vec<Effect> {
        let rest = world.observation.clone();
        let mut world = World { observation: Some(Arc::new(read)), rest, ..world.clone() };
        world.history = record(&world, laboratory.now);
        step(&world, laboratory.now)
    }

    #[track_caller]
    fn assert_everything_is_read(laboratory: &RolloutHarness, effects: &[Effect]) {
        let now = laboratory.now;
        assert!(
            matches!(effects, [Effect::Observe { confirm: true, at }, Effect::Wait { .. }] if *at == now),
            "{effects:?}"
        );
    }

    #[test]
    fn a_gate_passes_on_its_own_objects_where_the_rest_was_read_before() {
        let (laboratory, world) = first();
        assert_eq!(confirming(&world, laboratory.now), Some(expectations("capi", 2)));
        let effects = decide(&laboratory, &world, read(&laboratory));
        assert!(matches!(effects.as_slice(), [Effect::Commit(commit)] if commit.stage.to_string() == "eks-a"));
    }

    #[test]
    fn whatever_else_the_gate_says_everything_is_read_before_anything_follows() {
        let (laboratory, world) = first();
        let mut gone = read(&laboratory);
        gone.deployments.clear();
        let mut broken = read(&laboratory);
        broken.deployments[0].running[0].digest = Some(format!("sha256:{}", "f".repeat(64)));
        let mut suspended = read(&laboratory);
        suspended.flux.kustomizations[0].suspended = true;
        let mut unread = read(&laboratory);
        unread.unread.insert("Kustomization".to_owned(), "forbidden".to_owned());
        for read in [gone, broken, suspended, unread] {
            assert_everything_is_read(&laboratory, &decide(&laboratory, &world, read));
        }
    }

    #[test]
    fn where_a_stage_before_it_did_not_hold_everything_is_read() {
        let (laboratory, world) = first();
        let changes: [fn(&mut Observation); 3] = [
            |rest| rest.deployments[0].available_replicas = Some(0),
            |rest| rest.flux.kustomizations.retain(|known| known.name != "cert-manager"),
            |rest| drop(rest.unread.insert("Deployment".to_owned(), "forbidden".to_owned())),
        ];
        for change in changes {
            let mut world = world.clone();
            world.observation.iter_mut().for_each(|read| change(Arc::make_mut(read)));
            assert_eq!(confirming(&world, laboratory.now), None);
            assert_everything_is_read(&laboratory, &decide(&laboratory, &world, read(&laboratory)));
        }
    }

    #[test]
    fn another_plan_and_the_end_of_a_plan_look_at_everything() {
        let (mut laboratory, world) = first();
        laboratory.push(&[("eks-a", 3)]);
        let other = World { history: world.history, observation: world.observation, ..laboratory.world() };
        assert_eq!(confirming(&other, laboratory.now), None);
        assert_everything_is_read(&laboratory, &decide(&laboratory, &other, read(&laboratory)));

        let (mut laboratory, _) = first();
        laboratory.until("commit eks-a 2");
        let mut world = laboratory.world();
        world.history = record(&world, laboratory.now);
        assert_eq!(confirming(&world, laboratory.now), None);
    }

    #[test]
    fn without_a_first_read_a_reading_is_the_first_itself() {
        let (laboratory, world) = first();
        let world = World { history: crate::history::GateHistory::default(), ..world };
        assert_eq!(confirming(&world, laboratory.now), None);
        let effects = decide(&laboratory, &world, read(&laboratory));
        assert!(matches!(effects.as_slice(), [Effect::Observe { .. }, Effect::Wait { .. }]), "{effects:?}");
        assert!(format!("{effects:?}").contains("healthy in 1 of 2 consecutive reads"), "{effects:?}");
    }

    /// The second of three stages is committed; a whole reading is from before Flux has done anything.
    fn rolling_out() -> (RolloutHarness, World, Observation) {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2), ("eks-a", 1, 2)]);
        laboratory.policy.soak = Duration::ZERO;
        laboratory.until("commit capi 2");
        laboratory.now += SignedDuration::from_secs(6);
        let mut whole = laboratory.read();
        whole.deployments[1].updated_replicas = Some(0);
        for known in &mut whole.flux.kustomizations {
            known.last_applied_revision = Some(RolloutHarness::source_commit(7));
        }
        laboratory.now += SignedDuration::from_secs(1);
        let world = laboratory.world();
        (laboratory, world, whole)
    }

    #[test]
    fn a_gate_is_waited_for_by_its_own_objects_and_two_readings_of_them_let_it_pass() {
        let (mut laboratory, world, whole) = rolling_out();
        let flux = laboratory.read().flux;
        let (expected, rest) = running_gate(&world, &whole, &flux, laboratory.now).unwrap();
        assert_eq!(expected, expectations("capi", 2));
        let mut rolling = read(&laboratory);
        rolling.deployments[0].updated_replicas = Some(0);
        let (stage, reason, _) = waits_for_gate(&world, &rolling, laboratory.now).unwrap();
        assert_eq!(stage.to_string(), "capi");
        assert!(reason.to_string().contains("capi"), "{reason}");

        assert_eq!(waits_for_gate(&world, &read(&laboratory), laboratory.now), None);
        let mut world = World { observation: Some(Arc::new(read(&laboratory))), rest: Some(Arc::new(rest)), ..world };
        world.history = record(&world, laboratory.now);
        let effects = step(&world, laboratory.now);
        let next = laboratory.now + SignedDuration::from_millis(1);
        assert!(matches!(effects.as_slice(), [Effect::Observe { at, .. }, Effect::Wait { .. }] if *at == next));
        assert!(!effects.iter().any(|effect| format!("{effect:?}").contains("not enough")), "{effects:?}");

        laboratory.now = next;
        assert_eq!(confirming(&world, next), Some(expected));
        world.observation = Some(Arc::new(read(&laboratory)));
        world.history = record(&world, next);
        let effects = step(&world, next);
        assert!(matches!(effects.as_slice(), [Effect::Commit(commit)] if commit.stage.to_string() == "eks-a"));
    }

    #[test]
    fn a_gate_is_not_looked_at_alone_where_a_stage_before_it_does_not_hold_or_flux_is_behind_with_it() {
        let (laboratory, world, whole) = rolling_out();
        let flux = laboratory.read().flux;
        let mut broken = whole.clone();
        broken.deployments[0].available_replicas = Some(0);
        assert!(running_gate(&world, &broken, &flux, laboratory.now).is_none());
        assert!(running_gate(&world, &whole, &whole.flux, laboratory.now).is_none());
    }

    #[test]
    fn what_a_gate_looks_at_is_told_apart_where_nothing_soaks() {
        let (mut laboratory, world, _) = rolling_out();
        assert_eq!(concerning_running_gate(&world), [expectations("capi", 2), expectations("capi", 2)].concat());
        laboratory.policy.soak = Duration::from_secs(10);
        assert_eq!(concerning_running_gate(&laboratory.world()), []);
    }
}
