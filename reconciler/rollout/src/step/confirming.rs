//! What the reading looks at that confirms a first one: what the running gate expects, where the rest was read a short while before.

use jiff::Timestamp;

use crate::effect::Effect;
use crate::expectation::Expectation;
use crate::verdict::{GateVerdict, Reason};
use crate::world::World;

use super::gates::OwnedGate;
use super::glance::{earlier, taking_first_reads};

/// What the reading after a [`first_read`](super::first_read), or after a whole one in which the running gate holds, looks at: what that gate expects.
/// None where it has to be everything.
///
/// The stages before it, which hold in what was read before, are judged by that ([`World::rest`]) then. Only while the plan that runs goes on, and has stages
/// left: what comes before a plan's first commit and after its last one looks at the whole cluster.
#[must_use]
pub fn confirming(world: &World, now: Timestamp) -> Option<Vec<Expectation>> {
    let gate = taking_first_reads(world).filter(|_| world.plan.running)?;
    world.history.streak(&gate.as_gate().key())?;
    let before = world.rest.as_ref().or(world.observation.as_ref())?;
    let holds = |gate: &OwnedGate| matches!(gate.as_gate().evaluate_once(before, now), GateVerdict::Pass { .. });
    earlier(world).iter().all(holds).then_some(gate.expectations)
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
    use crate::observation::Observation;

    /// The second of three stages is committed, Flux has applied it, and a first read was made of a whole one.
    fn first() -> (Laboratory, World) {
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
        (laboratory, world)
    }

    /// What the running gate expects, read anew.
    fn read(laboratory: &Laboratory) -> Observation {
        let mut observation = laboratory.read();
        observation.flux.kustomizations.retain(|known| known.name == "capi");
        observation.deployments.retain(|deployment| deployment.name == "capi");
        observation
    }

    /// What is decided on this reading, over what was read before.
    fn decide(laboratory: &Laboratory, world: &World, read: Observation) -> Vec<Effect> {
        let rest = world.observation.clone();
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
            world.observation.iter_mut().for_each(change);
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
    fn without_a_first_read_everything_is_read() {
        let (laboratory, world) = first();
        let world = World { history: crate::history::GateHistory::default(), ..world };
        assert_eq!(confirming(&world, laboratory.now), None);
        assert_everything_is_read(&laboratory, &decide(&laboratory, &world, read(&laboratory)));
    }
}
