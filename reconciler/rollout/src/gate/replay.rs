//! Gates on recordings: the same checks as in a rollout, without a commit to be bound to.

use std::collections::BTreeMap;

use crate::expectation::{ControlPlaneExpectation, Expectation, WorkersExpectation};
use crate::history::GateHistory;
use crate::observation::Observation;
use crate::stage::{StageId, StageName};
use crate::verdict::GateVerdict;
use domain::PlanDigest;
use policy::StagePolicy;

use super::Gate;

/// The verdict of the `control-plane` gate on one sample of a recording, and the history to hand to the next sample.
///
/// Samples are judged at the time they were read; each gate has its own history. There is no commit, so the applied revision is not looked at and no timeout runs.
#[must_use]
pub fn control_plane_gate(
    expectation: &ControlPlaneExpectation,
    observation: &Observation,
    policy: &StagePolicy,
    history: &GateHistory,
) -> (GateVerdict, GateHistory) {
    let stage = StageName::ControlPlane.into();
    replay(&stage, &[Expectation::ControlPlane(expectation.clone())], observation, policy, history)
}

/// The verdict of a `workers/<group>` gate on one sample of a recording, and the history to hand to the next sample.
#[must_use]
pub fn workers_gate(
    expectation: &WorkersExpectation,
    observation: &Observation,
    policy: &StagePolicy,
    history: &GateHistory,
) -> (GateVerdict, GateHistory) {
    let stage = StageName::Workers(expectation.group.clone()).into();
    replay(&stage, &[Expectation::Workers(expectation.clone())], observation, policy, history)
}

fn replay(
    stage: &StageId,
    expectations: &[Expectation],
    observation: &Observation,
    policy: &StagePolicy,
    history: &GateHistory,
) -> (GateVerdict, GateHistory) {
    let rollout = PlanDigest::of([b"recording".as_slice()]).rollout_id();
    let gate =
        Gate { cluster: "recording", identity: None, stage, rollout: &rollout, expectations, binding: None, policy };
    let now = observation.read_at;
    let held: BTreeMap<_, _> = gate.held(observation, now).map(|settled| (gate.key(), settled)).into_iter().collect();
    let history = history.record(observation.read_at, held, policy.maximum_age, observation.read_at);
    (gate.evaluate(Some(observation), &history, now), history)
}
