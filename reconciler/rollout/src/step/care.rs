//! What is done to a cluster while its machines are made, beside whatever else is to be done.
//!
//! It lets no gate pass: where it fails, the gate goes on waiting, and the next reading decides it anew.

use jiff::Timestamp;

use crate::effect::{ClusterAct, Effect, EtcdAct};
use crate::expectation::Expectation;
use crate::gate::{attempts, secrets};
use crate::world::World;

use super::etcd;
use super::gates::{self, OwnedGate};
use super::order::relied_on;

/// These effects, and before them what is to be done to the cluster.
pub(super) fn with_care(world: &World, mut effects: Vec<Effect>, now: Timestamp) -> Vec<Effect> {
    if let Some(act) = act(world, now) {
        effects.insert(0, Effect::Cluster(act));
    }
    if let Some(act) = etcd_left_standing(world, &effects, now) {
        effects.insert(0, Effect::Etcd(act));
    }
    effects
}

fn etcd_left_standing(world: &World, effects: &[Effect], now: Timestamp) -> Option<EtcdAct> {
    let observation = relied_on(world).filter(|read| world.paused.is_none() && read.hold().is_none())?;
    etcd::left_standing(world, observation, effects, now)
}

fn act(world: &World, now: Timestamp) -> Option<ClusterAct> {
    let observation = relied_on(world)?;
    let gate = gates::last(world)?;
    // What a rollout cannot go on without counts before all, whoever has paused it.
    let lost = gate.expectations.iter().find_map(|expectation| match expectation {
        Expectation::Secrets(expectation) => secrets::act(expectation, observation, now),
        _ => None,
    });
    if lost.is_some() || world.paused.is_some() || observation.hold().is_some() {
        return lost;
    }
    given_up(&gate, observation, now)
}

fn given_up(gate: &OwnedGate, observation: &crate::observation::Observation, now: Timestamp) -> Option<ClusterAct> {
    let expectation = gate.expectations.iter().find_map(|expectation| match expectation {
        Expectation::Attempts(expectation) => Some(expectation),
        _ => None,
    })?;
    if !gate.as_gate().is_applied(observation, now) {
        return None;
    }
    let since = gate.binding.as_ref().map(|binding| binding.committed_at);
    let (cluster, rollout, stage) = (gate.cluster.as_str(), &gate.rollout, &gate.stage);
    let trying = attempts::Trying { cluster, expectation, rollout, stage, since };
    attempts::act(trying, observation).or_else(|| attempts::unsigned(trying, observation))
}
