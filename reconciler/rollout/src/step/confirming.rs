//! What the reading looks at that confirms a first one: what the running gate expects, where the rest was read a short while before.

use jiff::Timestamp;

use crate::effect::Effect;
use crate::expectation::Expectation;
use crate::observation::Observation;
use crate::verdict::{GateVerdict, Reason};
use crate::world::World;

use super::gates::OwnedGate;
use super::glance::{earlier, taking_first_reads};

/// What the reading after a [`first_read`](super::first_read), or after a whole one in which the running gate holds, looks at: what that gate expects.
/// None where it has to be everything.
///
/// The stages before it, which hold in what was read before, are judged by [`World::rest`] then. Only while the plan that runs goes on, and has stages
/// left: what comes before a plan's first commit and after its last one looks at the whole cluster.
#[must_use]
pub fn confirming(world: &World, now: Timestamp) -> Option<Vec<Expectation>> {
    let gate = taking_first_reads(world).filter(|_| world.plan.running)?;
    world.history.streak(&gate.as_gate().key())?;
    let before = world.rest.as_ref().or(world.observation.as_ref())?;
    let holds = |gate: &OwnedGate| matches!(gate.as_gate().evaluate_once(before, now), GateVerdict::Pass { .. });
    earlier(world).iter().all(holds).then_some(gate.expectations)
}

/// A whole reading, with all that a later one tells of Flux: what [`World::rest`] is, where that one has read every Kustomization.
#[must_use]
pub fn with_flux_of(whole: &Observation, later: &Observation) -> Observation {
    let mut rest = whole.clone();
    rest.unread.extend(later.unread.iter().map(|(kind, reason)| (kind.clone(), reason.clone())));
    rest.flux.sources.clone_from(&later.flux.sources);
    rest.flux.kustomizations.clone_from(&later.flux.kustomizations);
    rest
}

/// Whether these effects may rest on what was read: a reading of the running gate alone tells that this may pass, and nothing that could be waited
/// for, held or gone back from.
pub(super) fn is_enough(world: &World, effects: &[Effect], now: Timestamp) -> bool {
    let goes_on = |effect: &Effect| matches!(effect, Effect::Commit(_) | Effect::RequestApproval(_));
    world.rest.is_none() || (confirming(world, now).is_some() && effects.iter().any(goes_on))
}

/// Asks for a reading of everything.
pub(super) fn read_everything(world: &World, now: Timestamp) -> Vec<Effect> {
    let stage = world.plan.next_stage().map(|stage| stage.stage.clone());
    let reason = Reason::new("only the running stage was read anew, and that is not enough to go on");
    vec![Effect::Observe { confirm: true, at: now }, Effect::Wait { stage, reason, until: None }]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::super::laboratory::{Laboratory, expectations};
    use super::super::{first_read, record, step};
    use super::*;

    /// The second of three stages is committed, Flux has applied it, and a first read was made of a whole one.
    fn first() -> (Laboratory, World, Observation) {
        let mut laboratory = Laboratory::new(&[("cert-manager", 1, 2), ("capi", 1, 2), ("eks-a", 1, 2)]);
        laboratory.policy.soak = Duration::ZERO;
        laboratory.until("commit capi 2");
        laboratory.now += SignedDuration::from_secs(6);
        let whole = laboratory.read();
        laboratory.now += SignedDuration::from_secs(1);
        let mut world = laboratory.world();
        world.observation = first_read(&world, &whole, &laboratory.read().flux, laboratory.now);
        world.history = record(&world, laboratory.now);
        laboratory.now += SignedDuration::from_millis(2);
        (laboratory, world, whole)
    }

    /// What the running gate expects, and all that Flux says.
    fn read(laboratory: &Laboratory) -> Observation {
        let mut observation = laboratory.read();
        observation.deployments.retain(|deployment| deployment.name == "capi");
        observation
    }

    /// What is decided on this reading, with what was read before of everything else.
    fn decide(laboratory: &Laboratory, world: &World, read: Observation, whole: &Observation) -> Vec<Effect> {
        let rest = Some(with_flux_of(whole, &read));
        let mut world = World { observation: Some(read), rest, ..world.clone() };
        world.history = record(&world, laboratory.now);
        step(&world, laboratory.now)
    }

    #[track_caller]
    fn assert_everything_is_read(laboratory: &Laboratory, effects: &[Effect]) {
        let now = laboratory.now;
        assert!(
            matches!(effects, [Effect::Observe { confirm: true, at }, Effect::Wait { .. }] if *at == now),
            "{effects:?}"
        );
    }

    #[test]
    fn a_gate_passes_on_its_own_objects_and_flux_where_the_rest_was_read_before() {
        let (laboratory, world, whole) = first();
        assert_eq!(confirming(&world, laboratory.now), Some(expectations("capi", 2)));
        let effects = decide(&laboratory, &world, read(&laboratory), &whole);
        assert!(matches!(effects.as_slice(), [Effect::Commit(commit)] if commit.stage.to_string() == "eks-a"));
    }

    #[test]
    fn whatever_else_it_shows_everything_is_read_before_anything_follows() {
        let (laboratory, world, whole) = first();
        let again = |read: Observation, whole: &Observation| {
            let effects = decide(&laboratory, &world, read, whole);
            assert_everything_is_read(&laboratory, &effects);
        };
        // The gate itself: it waits, or has failed.
        let mut gone = read(&laboratory);
        gone.deployments.clear();
        again(gone, &whole);
        let mut broken = read(&laboratory);
        broken.deployments[0].running[0].digest = Some(format!("sha256:{}", "f".repeat(64)));
        again(broken, &whole);
        // A stage before it, as it was read before.
        let mut sick = whole.clone();
        sick.deployments[0].available_replicas = Some(0);
        again(read(&laboratory), &sick);
        // A stage before it, as Flux says by now.
        let mut refused = read(&laboratory);
        refused.flux.kustomizations[0].suspended = true;
        again(refused.clone(), &whole);
        refused.flux.kustomizations.remove(0);
        again(refused, &whole);
        let mut unread = read(&laboratory);
        unread.unread.insert("Kustomization".to_owned(), "forbidden".to_owned());
        again(unread, &whole);
    }

    #[test]
    fn another_plan_and_the_end_of_a_plan_look_at_everything() {
        let (mut laboratory, world, whole) = first();
        laboratory.push(&[("eks-a", 3)]);
        let other = World { history: world.history, observation: world.observation, ..laboratory.world() };
        assert_eq!(confirming(&other, laboratory.now), None);
        assert_everything_is_read(&laboratory, &decide(&laboratory, &other, read(&laboratory), &whole));

        let (mut laboratory, _, _) = first();
        laboratory.until("commit eks-a 2");
        let mut world = laboratory.world();
        world.history = record(&world, laboratory.now);
        assert_eq!(confirming(&world, laboratory.now), None);
    }

    #[test]
    fn without_a_first_read_everything_is_read() {
        let (laboratory, world, whole) = first();
        let world = World { history: crate::history::GateHistory::default(), ..world };
        assert_eq!(confirming(&world, laboratory.now), None);
        let effects = decide(&laboratory, &world, read(&laboratory), &whole);
        assert_everything_is_read(&laboratory, &effects);
    }
}
