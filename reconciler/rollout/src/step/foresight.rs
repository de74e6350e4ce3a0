//! What comes after the gate that is being judged: for people who ask what is ahead. Nothing is done on it.

use jiff::{SignedDuration, Timestamp};

use crate::effect::Effect;
use crate::history::{GateHistory, Streak};
use crate::ledger::LedgerState;
use crate::plan::Plan;
use crate::world::World;

use super::opening::{Key, Opening};
use super::{advance, control_plane_has_started, gates};

/// What is decided once whatever holds in the last reading has held for its soak.
#[must_use]
pub fn after_soak(world: &World, now: Timestamp) -> Vec<Effect> {
    let Some(observation) = world.observation.as_deref() else { return super::step(world, now) };
    let streaks = gates::soaking(world).into_iter().filter_map(|gate| {
        let gate = gate.as_gate();
        let settled = gate.held(observation, now)?;
        let soak = SignedDuration::try_from(gate.policy.soak).unwrap_or(SignedDuration::MAX);
        // What is asked of the time between two readings is no more than a second.
        let held = soak.saturating_add(SignedDuration::from_secs(1));
        let since = observation.read_at.saturating_sub(held).unwrap_or(Timestamp::MIN);
        let reads = gate.policy.minimum_reads.max(2);
        Some((gate.key(), Streak { since, last: observation.read_at, reads, settled }))
    });
    let history = GateHistory::of(streaks.collect());
    super::step(&World { history, ..world.clone() }, now)
}

/// What stands between an open gate and the next commit, as if the gate were open: people, windows, other clusters. Empty where nothing is to be
/// committed; the commit itself where nothing stands in its way.
#[must_use]
pub fn behind_gate(world: &World, now: Timestamp) -> Vec<Effect> {
    let ledger = world.ledger.as_deref().filter(|ledger| ledger.state == LedgerState::Running);
    let own = |plan: &&Plan| ledger.is_some_and(|ledger| plan.running && plan.digest == ledger.plan);
    let (plan, opening) = match ledger {
        None => (Some(world.plan.as_ref()), Opening::Fresh),
        Some(_) if world.plan.running => (Some(world.plan.as_ref()), Opening::Continue),
        Some(ledger) if control_plane_has_started(ledger) => (world.running.as_deref().filter(own), Opening::Continue),
        Some(_) => (Some(world.plan.as_ref()), Opening::Repair(Vec::new())),
    };
    let Some((plan, next)) = plan.and_then(|plan| Some((plan, plan.next_stage()?))) else { return Vec::new() };
    advance::behind(world, plan, next, &opening, Key::Repair(Vec::new()), now).unwrap_or_else(|stop| stop)
}

#[cfg(test)]
mod tests {
    use super::super::harness::RolloutHarness;
    use super::super::step;
    use super::*;
    use crate::approval::ApprovalState;
    use policy::Approval;

    fn asks(effects: &[Effect]) -> bool {
        effects.iter().any(|effect| matches!(effect, Effect::RequestApproval(_)))
    }

    #[test]
    fn a_soak_that_has_just_begun_hides_nothing_of_what_comes_after_it() {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
        laboratory.until("commit cert-manager 2");
        laboratory.policy.approval = Approval::Stage;
        laboratory.turn();
        let world = laboratory.world();
        assert!(!asks(&step(&world, laboratory.now)) && asks(&after_soak(&world, laboratory.now)));
        laboratory.policy.approval = Approval::None;
        let ahead = after_soak(&laboratory.world(), laboratory.now);
        assert!(
            matches!(ahead.as_slice(), [Effect::Commit(commit)] if commit.stage.to_string() == "capi"),
            "{ahead:?}"
        );
        // What does not hold is not taken to hold.
        laboratory.broken = vec![("cert-manager", 2)];
        laboratory.turn();
        let world = laboratory.world();
        assert_eq!(step(&world, laboratory.now), after_soak(&world, laboratory.now));
    }

    #[test]
    fn people_and_their_answers_are_seen_behind_a_gate_that_is_not_open() {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2)]);
        laboratory.broken = vec![("cert-manager", 2)];
        laboratory.until("commit cert-manager 2");
        laboratory.turns(3);
        assert!(matches!(behind_gate(&laboratory.world(), laboratory.now).as_slice(), [Effect::Commit(_)]));
        laboratory.policy.approval = Approval::Stage;
        let behind = behind_gate(&laboratory.world(), laboratory.now);
        assert!(asks(&behind), "{behind:?}");
        behind.iter().for_each(|effect| laboratory.carry_out(effect));
        laboratory.approvals[0].state = ApprovalState::Rejected;
        let behind = behind_gate(&laboratory.world(), laboratory.now);
        assert!(matches!(behind.as_slice(), [Effect::Hold { .. }]), "{behind:?}");
        assert!(matches!(
            step(&laboratory.world(), laboratory.now).as_slice(),
            [Effect::Observe { .. }, Effect::Wait { .. }]
        ));
    }
}
