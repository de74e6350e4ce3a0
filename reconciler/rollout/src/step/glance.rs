//! What Flux alone tells of the running gate: whether there is any point in reading the rest of the cluster.

use jiff::Timestamp;

use crate::expectation::Expectation;
use crate::history::GateHistory;
use crate::ledger::LedgerState;
use crate::observation::Observation;
use crate::stage::StageId;
use crate::verdict::{GateVerdict, Reason};
use crate::world::World;

use super::gates::{self, OwnedGate};

/// What the gate of the running stage expects of Flux; nothing where no stage runs.
#[must_use]
pub fn expected_of_flux(world: &World) -> Vec<Expectation> {
    gate(world).map(|gate| gate.expectations).unwrap_or_default()
}

/// What the running stage waits for, and until when at the latest, if this reading of Flux alone shows that its gate cannot pass. None where it might,
/// and where it has failed: the whole cluster decides that.
#[must_use]
pub fn waits_for_flux(
    world: &World,
    flux: &Observation,
    now: Timestamp,
) -> Option<(StageId, Reason, Option<Timestamp>)> {
    let owned = gate(world)?;
    let gate = owned.as_gate();
    if gate.held(flux, now).is_some() {
        return None;
    }
    match gate.evaluate(Some(flux), &GateHistory::default(), now) {
        GateVerdict::Wait { reason, until } => Some((owned.stage, reason, until)),
        GateVerdict::Pass { .. } | GateVerdict::Fail { .. } => None,
    }
}

fn gate(world: &World) -> Option<OwnedGate> {
    let ledger = world.ledger.as_ref().filter(|ledger| ledger.state == LedgerState::Running)?;
    let own = world.running.as_ref().filter(|plan| plan.running && plan.digest == ledger.plan);
    let plan = if world.plan.running { &world.plan } else { own.unwrap_or(&world.plan) };
    let mut gate = gates::running(world, ledger, plan)?.ok()?;
    gate.expectations.retain(|expectation| matches!(expectation, Expectation::Flux { .. }));
    Some(gate)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::laboratory::{Laboratory, expectations};
    use super::*;

    #[test]
    fn flux_alone_shows_what_a_gate_waits_for_and_never_that_it_passes_or_has_failed() {
        let mut laboratory = Laboratory::new(&[("cert-manager", 1, 2), ("eks-a", 1, 2)]);
        assert_eq!(expected_of_flux(&laboratory.world()), []);
        laboratory.until("commit cert-manager 2");
        laboratory.now += SignedDuration::from_secs(6);
        let world = laboratory.world();
        assert_eq!(expected_of_flux(&world), expectations("cert-manager", 2)[..1]);

        let flux = |now| Observation { flux: laboratory.read().flux, ..Observation::empty(now) };
        let now = laboratory.now;
        // The rest of the cluster decides, although none of it was read here.
        assert_eq!(waits_for_flux(&world, &flux(now), now), None);

        let behind = |now| {
            let mut observation = flux(now);
            let before = Laboratory::source_commit(7);
            for known in &mut observation.flux.kustomizations {
                (known.last_applied_revision, known.last_attempted_revision) =
                    (Some(before.clone()), Some(before.clone()));
            }
            observation
        };
        let (stage, reason, until) = waits_for_flux(&world, &behind(now), now).unwrap();
        assert_eq!(stage.to_string(), "cert-manager");
        assert!(reason.to_string().contains("does not contain the stage's commit"), "{reason}");
        let deadline = laboratory.deploy.commits[0].committed_at + SignedDuration::from_secs(600);
        assert_eq!(until, Some(deadline));
        assert_eq!(waits_for_flux(&world, &behind(deadline), deadline), None);
    }
}
