//! The order in which machines of a control plane go, beside whatever else is to be done.
//!
//! It lets no gate pass and holds none up: where it cannot be told to Cluster API, the rollout goes on without it.

use jiff::Timestamp;

use crate::effect::Effect;
use crate::expectation::{ControlPlaneExpectation, Expectation};
use crate::gate::{MachineOrder, RunningOrder, machine_order};
use crate::history::GateHistory;
use crate::observation::{Machine, Observation, Reachability};
use crate::verdict::Reason;
use crate::world::World;

use super::gates::{self, OwnedGate};

/// These effects, and before them what is to be told to Cluster API.
pub(super) fn with_order(world: &World, mut effects: Vec<Effect>, now: Timestamp) -> Vec<Effect> {
    let MachineOrder { changes, notes } = order(world, now);
    for effect in &mut effects {
        noted(effect, &notes);
    }
    if !changes.is_empty() {
        effects.insert(0, Effect::OrderMachines { changes });
    }
    effects
}

fn order(world: &World, now: Timestamp) -> MachineOrder {
    let Some(observation) = relied_on(world) else { return MachineOrder::default() };
    let cluster = world.plan.cluster.as_str();
    let gate = gates::of_control_plane(world);
    machine_order(cluster, gate.as_ref().and_then(running), observation, now)
}

/// A reading of the cluster that is meant, by which something may be done to it.
pub(super) fn relied_on(world: &World) -> Option<&Observation> {
    let observation = world.observation.as_deref().filter(|read| read.confirmed)?;
    let recorded = world.ledger.as_deref().and_then(|ledger| ledger.identity.as_ref());
    let is_it = observation.identity.of(world.plan.cluster.as_str(), recorded).is_ok();
    (observation.reachable == Reachability::Reachable && is_it).then_some(observation)
}

/// The history with what this reading shows of the machines whose order that is.
pub(super) fn with_machines(world: &World, observation: &Observation, history: GateHistory) -> GateHistory {
    let Some(gate) =
        gates::of_control_plane(world).filter(|gate| gate.as_gate().is_trustworthy(observation, observation.read_at))
    else {
        return history;
    };
    let Some(running) = running(&gate).filter(|_| !observation.unread.contains_key("Machine")) else { return history };
    let ControlPlaneExpectation { namespace, cluster, .. } = running.expectation;
    let is_own =
        |machine: &&Machine| machine.control_plane && &machine.namespace == namespace && &machine.cluster == cluster;
    let present: Vec<String> = observation.machines.iter().filter(is_own).map(|machine| machine.name.clone()).collect();
    if present.is_empty() {
        // They were not asked for.
        return history;
    }
    let holder = observation.virtual_address.as_ref().and_then(|address| address.holder.as_deref());
    history.with_machines(&gate.as_gate().key(), present, holder, observation.read_at)
}

/// What the gate of a control plane says of its machines' order, until its time is over.
fn running(gate: &OwnedGate) -> Option<RunningOrder<'_>> {
    let expectation = gate.expectations.iter().find_map(|expectation| match expectation {
        Expectation::ControlPlane(expectation) => Some(expectation),
        _ => None,
    })?;
    let until = gate.as_gate().deadline()?;
    Some(RunningOrder { expectation, rollout: &gate.rollout, until })
}

/// Tells people wherever they are told of a wait.
fn noted(effect: &mut Effect, notes: &[Reason]) {
    match effect {
        Effect::Wait { reason, .. } => {
            reason.others.extend(notes.iter().cloned().flat_map(Reason::into_lines));
        }
        Effect::Hold { reasons, .. } => reasons.extend(notes.iter().cloned()),
        _ => {}
    }
}
