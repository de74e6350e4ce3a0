//! What Flux alone tells of the running gate: whether there is any point in reading the rest of the cluster.

use jiff::Timestamp;

use crate::expectation::Expectation;
use crate::identity::Identification;
use crate::ledger::{Ledger, LedgerState};
use crate::observation::{FluxKustomization, FluxObservation, Observation};
use crate::plan::Plan;
use crate::stage::StageId;
use crate::verdict::{GateVerdict, Reason};
use crate::world::World;

use crate::step::gates::{self, OwnedGate};
use crate::step::repair;

/// What the gates of the running stage and of those before it expect of Flux; nothing where no stage runs.
pub(super) fn expected_of_flux(world: &World) -> Vec<Expectation> {
    let gates = gate(world).into_iter().chain(earlier_of_flux(world));
    gates.flat_map(|gate| gate.expectations).collect()
}

/// What watches tell of Flux, as a reading of it: none where it is not known which cluster they are of. Nothing passes on it, so that it may be taken
/// to be of the cluster that was read or recorded last.
pub(super) fn told_of_flux(world: &World, flux: FluxObservation, at: Timestamp) -> Option<Observation> {
    let read = world.observation.as_deref().and_then(|read| read.identity.proven());
    let recorded = world.ledger.as_deref().and_then(|ledger| ledger.identity.as_ref());
    let identity = recorded.or(read)?.clone();
    Some(Observation { flux, identity: Identification::Proven { identity }, ..Observation::empty(at) })
}

/// What the running stage waits for, and until when at the latest, if this reading of Flux alone shows that its gate, or one before it, cannot pass. None
/// where they might, and where one has failed: the whole cluster decides that.
pub(super) fn waits_for_flux(
    world: &World,
    flux: &Observation,
    now: Timestamp,
) -> Option<(StageId, Reason, Option<Timestamp>)> {
    let gate = gate(world)?;
    // Who holds it, and what a newer plan repairs, is told of the whole cluster.
    if flux.hold().is_some() || repair::may_take_over(world, &gate, flux, now) {
        return None;
    }
    if gate.as_gate().held(flux, now).is_none() {
        return gate.waits(flux, now);
    }
    earlier_of_flux(world).find_map(|gate| match gate.as_gate().evaluate_once(flux, now) {
        GateVerdict::Wait { reason, until } => Some((gate.stage.clone(), gate.still(reason), until)),
        GateVerdict::Pass { .. } | GateVerdict::Fail { .. } => None,
    })
}

/// A whole reading from while Flux was at work, with what Flux says by now: the first of the reads in which the running gate holds, so that the
/// next reading is the one that confirms it. None where the gate does not hold in it.
///
/// Its time is that of the older part. So nothing of it is taken where it matters since when something holds: where there is a soak, and for
/// machines, which are to be seen settled twice with some time between. Whatever it says, a gate passes on a later reading alone.
pub(super) fn first_read(
    world: &World,
    whole: &Observation,
    flux: &FluxObservation,
    now: Timestamp,
) -> Option<Observation> {
    let gate = taking_first_reads(world)?;
    let read = with_flux(whole, flux);
    gate.as_gate().held(&read, now).map(|_| read)
}

/// A reading of everything, with what Flux says by now.
pub(super) fn with_flux(whole: &Observation, flux: &FluxObservation) -> Observation {
    let mut read = whole.clone();
    for source in &flux.sources {
        read.flux.sources.retain(|known| (&known.namespace, &known.name) != (&source.namespace, &source.name));
    }
    for applied in &flux.kustomizations {
        let is_other =
            |known: &FluxKustomization| (&known.namespace, &known.name) != (&applied.namespace, &applied.name);
        read.flux.kustomizations.retain(is_other);
    }
    read.flux.sources.extend(flux.sources.iter().cloned());
    read.flux.kustomizations.extend(flux.kustomizations.iter().cloned());
    read
}

/// Whether a reading from while Flux is at work may become the first read of the running gate.
pub(super) fn may_read_first(world: &World) -> bool {
    taking_first_reads(world).is_some()
}

/// The running gate, where neither a soak nor machines are concerned: not its own, and not those that the end of a plan is verified by.
pub(super) fn taking_first_reads(world: &World) -> Option<OwnedGate> {
    let (plan, _) = plan(world)?;
    plan.next_stage()?;
    let concerns_time =
        |gate: &OwnedGate| !gate.policy.soak.is_zero() || gate.expectations.iter().any(Expectation::is_of_machines);
    running(world).filter(|gate| !concerns_time(gate))
}

fn gate(world: &World) -> Option<OwnedGate> {
    running(world).map(of_flux)
}

/// The gate without what it expects of anything but Flux.
fn of_flux(mut gate: OwnedGate) -> OwnedGate {
    gate.expectations.retain(|expectation| matches!(expectation, Expectation::Flux { .. }));
    gate
}

/// The gates of the stages before the running one.
pub(super) fn earlier(world: &World) -> Vec<OwnedGate> {
    let Some((plan, ledger)) = plan(world) else { return Vec::new() };
    let next = plan.next_stage().map(|stage| &stage.stage);
    gates::earlier(world, plan, next, ledger.stages.last().map(|record| &record.stage))
}

/// What they expect of Flux.
fn earlier_of_flux(world: &World) -> impl Iterator<Item = OwnedGate> {
    earlier(world).into_iter().map(of_flux).filter(|gate| !gate.expectations.is_empty())
}

fn running(world: &World) -> Option<OwnedGate> {
    let (plan, ledger) = plan(world)?;
    gates::running(world, ledger, plan)?.ok()
}

/// The plan that is carried out, with its ledger.
pub(super) fn plan(world: &World) -> Option<(&Plan, &Ledger)> {
    let ledger = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running)?;
    let own = world.running.as_deref().filter(|plan| plan.running && plan.digest == ledger.plan);
    Some((if world.plan.running { &world.plan } else { own.unwrap_or(&world.plan) }, ledger))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::*;
    use crate::effect::Effect;
    use crate::step::harness::{RolloutHarness, expectations};
    use crate::step::{record, step};

    #[test]
    fn flux_alone_shows_what_a_gate_waits_for_and_never_that_it_passes_or_has_failed() {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("eks-a", 1, 2)]);
        assert_eq!(expected_of_flux(&laboratory.world()), []);
        laboratory.until("commit cert-manager 2");
        laboratory.now += SignedDuration::from_secs(6);
        let world = laboratory.world();
        assert_eq!(expected_of_flux(&world), expectations("cert-manager", 2)[..1]);

        let flux = |now| told_of_flux(&world, laboratory.read().flux, now).unwrap();
        let now = laboratory.now;
        // The rest of the cluster decides, although none of it was read here.
        assert_eq!(waits_for_flux(&world, &flux(now), now), None);

        let behind = |now| {
            let mut observation = flux(now);
            let before = RolloutHarness::source_commit(7);
            for known in &mut observation.flux.kustomizations {
                (known.last_applied_revision, known.last_attempted_revision) =
                    (Some(before.clone()), Some(before.clone()));
            }
            observation
        };
        let (stage, reason, until) = waits_for_flux(&world, &behind(now), now).unwrap();
        assert_eq!(stage.to_string(), "cert-manager");
        assert!(reason.to_string().contains("does not contain the stage's commit"), "{reason}");
        let deadline = laboratory.deploy.commits()[0].committed_at + SignedDuration::from_secs(600);
        assert_eq!(until, Some(deadline));
        assert_eq!(waits_for_flux(&world, &behind(deadline), deadline), None);
    }

    #[test]
    fn flux_is_waited_for_where_it_has_not_applied_a_stage_before() {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2), ("eks-a", 1, 2)]);
        laboratory.until("commit capi 2");
        laboratory.now += SignedDuration::from_secs(6);
        let (world, now) = (laboratory.world(), laboratory.now);
        let expected = [&expectations("capi", 2)[..1], &expectations("cert-manager", 2)[..1]].concat();
        assert_eq!(expected_of_flux(&world), expected);

        let mut observation = told_of_flux(&world, laboratory.read().flux, now).unwrap();
        assert_eq!(waits_for_flux(&world, &observation, now), None);
        observation.flux.kustomizations[0].last_applied_revision = Some(RolloutHarness::source_commit(7));
        let (stage, reason, until) = waits_for_flux(&world, &observation, now).unwrap();
        assert_eq!((stage.to_string().as_str(), until), ("cert-manager", None));
        assert!(reason.to_string().contains("(cert-manager has to hold still)"), "{reason}");
    }

    #[test]
    fn what_was_read_before_flux_was_done_is_a_first_read_and_the_next_one_decides() {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("eks-a", 1, 2)]);
        laboratory.policy.soak = Duration::ZERO;
        laboratory.until("commit cert-manager 2");
        laboratory.now += SignedDuration::from_secs(6);
        let mut whole = laboratory.read();
        for known in &mut whole.flux.kustomizations {
            known.last_applied_revision = Some(RolloutHarness::source_commit(7));
        }
        laboratory.now += SignedDuration::from_secs(6);
        let (now, flux) = (laboratory.now, laboratory.read().flux);
        let mut world = laboratory.world();
        assert!(may_read_first(&world));
        let first = first_read(&world, &whole, &flux, now).unwrap();
        assert_eq!((first.read_at, &first.flux, &first.deployments), (whole.read_at, &flux, &whole.deployments));
        let mut read = |observation: Observation, now| {
            world.observation = Some(Arc::new(observation));
            world.history = record(&world, now);
            let commits = step(&world, now).iter().any(|effect| matches!(effect, Effect::Commit(_)));
            let mut streaks = world.history.streaks().filter(|(key, _)| key.stage.to_string() == "cert-manager");
            (commits, streaks.next().map(|(_, streak)| streak.since))
        };
        assert_eq!(read(first.clone(), now), (false, Some(now)), "it holds from when Flux was done, not from before");
        assert!(!read(first.clone(), now).0, "it is one read, however often it is looked at");
        let mut broken = laboratory.read();
        broken.deployments.clear();
        assert_eq!(read(broken, now), (false, None));
        assert!(!read(laboratory.read(), now).0, "what is not healthy in the next one begins anew");
        assert!(!read(first, now).0);
        laboratory.now += SignedDuration::from_millis(1);
        assert_eq!(read(laboratory.read(), laboratory.now), (true, Some(now)));

        // What the gate waits for besides Flux, and what is from before the commit, makes no first read.
        let broken = Observation { deployments: Vec::new(), ..whole.clone() };
        let early = Observation { read_at: laboratory.deploy.commits()[0].committed_at, ..whole.clone() };
        let world = laboratory.world();
        assert_eq!([broken, early].map(|whole| first_read(&world, &whole, &flux, now)), [None, None]);
        // Where there is a soak, it would begin too early.
        laboratory.policy.soak = Duration::from_secs(10);
        let world = laboratory.world();
        assert!(!may_read_first(&world) && first_read(&world, &whole, &flux, now).is_none());
    }
}
