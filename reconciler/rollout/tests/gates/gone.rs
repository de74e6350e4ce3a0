//! A worker group that goes.

use rollout::{Expectation, GateVerdict, Observation};

use super::healthy::*;
use super::{reasons, soaked, verdict};

fn said(observation: &Observation) -> (bool, String) {
    let gone = Expectation::WorkersGone {
        namespace: "eksa-system".into(),
        cluster: "prod".into(),
        group: "md-0".parse().unwrap(),
    };
    let verdict = verdict(&soaked(observation), &[flux(), gone], now());
    (matches!(verdict, GateVerdict::Pass { .. }), reasons(&verdict))
}

fn without_group() -> Observation {
    let mut observation = healthy();
    observation.machine_deployments.clear();
    observation.machine_sets.clear();
    observation.machines.retain(|machine| machine.control_plane);
    observation
}

#[test]
fn a_group_that_is_still_there_is_waited_for() {
    let (passes, said) = said(&healthy());
    assert!(!passes && said.contains("still there, though its worker group goes"), "{said}");
}

#[test]
fn a_group_whose_machines_are_left_is_waited_for() {
    let mut observation = healthy();
    observation.machine_deployments.clear();
    let (passes, said) = said(&observation);
    assert!(!passes && said.contains("Machine eksa-system/"), "{said}");
}

#[test]
fn a_group_that_is_gone_passes_beside_other_groups() {
    assert_eq!(said(&without_group()), (true, String::new()));
    let mut other = without_group();
    other.machine_deployments = healthy().machine_deployments;
    for known in &mut other.machine_deployments {
        known.group = Some("md-1".parse().unwrap());
        known.name = "prod-md-1".into();
    }
    assert!(said(&other).0);
}

#[test]
fn a_group_that_could_not_be_looked_for_is_not_gone() {
    let mut observation = without_group();
    observation.unread.insert("MachinePool".into(), "forbidden".into());
    assert!(!said(&observation).0);
}
