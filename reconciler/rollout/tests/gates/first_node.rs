//! A control plane of which the first node is enough for the next stage.

use policy::ControlPlaneGate;
use rollout::{Condition, ConditionStatus, ControlPlaneExpectation, Expectation, Machine, Observation};

use super::healthy::*;
use super::{reasons, soaked, verdict};

const OLD: &str = "v1.34.0-eks-1-34-9";

fn expectation(gate: ControlPlaneGate) -> Expectation {
    let own = expectations().into_iter().find_map(|expectation| match expectation {
        Expectation::ControlPlane(own) => Some(own),
        _ => None,
    });
    Expectation::ControlPlane(ControlPlaneExpectation { gate, ..own.unwrap() })
}

/// The healthy cluster, whose KubeadmControlPlane also says of each machine how its API server is.
fn settled() -> Observation {
    let mut observation = healthy();
    for machine in observation.machines.iter_mut().filter(|machine| machine.control_plane) {
        is(machine, "APIServerPodHealthy", ConditionStatus::True);
    }
    observation
}

fn said(observation: &Observation, gate: ControlPlaneGate) -> String {
    reasons(&verdict(&soaked(observation), &[flux(), expectation(gate)], now()))
}

/// Turns these machines into machines of before.
fn rolling(old: &[&str]) -> Observation {
    let mut observation = settled();
    for name in old {
        let machine = machine_of(&mut observation, name);
        machine.spec_version = Some(OLD.into());
        machine.infrastructure_template = Some("template-1".into());
        is(machine, "UpToDate", ConditionStatus::False);
    }
    let control_plane = &mut observation.control_planes[0];
    control_plane.up_to_date_replicas = Some(3 - u32::try_from(old.len()).unwrap());
    let rolls = Condition { status: ConditionStatus::True, ..control_plane.conditions["RollingOut"].clone() };
    control_plane.conditions.insert("RollingOut".into(), rolls);
    observation
}

fn machine_of<'a>(observation: &'a mut Observation, name: &str) -> &'a mut Machine {
    observation.machines.iter_mut().find(|machine| machine.name == name).unwrap()
}

fn is(machine: &mut Machine, condition: &str, status: ConditionStatus) {
    let known = Condition { status, ..machine.conditions["Ready"].clone() };
    machine.conditions.insert(condition.into(), known);
}

#[test]
fn one_new_machine_and_one_gone_are_enough_for_the_next_stage() {
    let observation = rolling(&["cp-1", "cp-2"]);
    assert_eq!(said(&observation, ControlPlaneGate::FirstNode), "");
    assert_ne!(said(&observation, ControlPlaneGate::Whole), "");
    assert_eq!(said(&settled(), ControlPlaneGate::FirstNode), "", "the rest has rolled too");
}

#[test]
fn all_old_machines_or_none_of_the_new_are_not_enough() {
    let mut surging = rolling(&["cp-1", "cp-2"]);
    let mut third = surging.machines.iter().find(|machine| machine.name == "cp-2").unwrap().clone();
    third.name = "cp-3".into();
    surging.machines.push(third);
    let message = said(&surging, ControlPlaneGate::FirstNode);
    assert!(message.contains("3 old machines, 2 at most"), "{message}");
    let none = said(&rolling(&["cp-0", "cp-1", "cp-2"]), ControlPlaneGate::FirstNode);
    assert!(none.contains("no machine is at v1.35.0"), "{none}");
}

#[test]
fn the_new_machine_has_to_be_proven() {
    type Break = fn(&mut Observation);
    let breaks: [(&str, Break); 6] = [
        ("EtcdMemberHealthy", |it| is(machine_of(it, "cp-0"), "EtcdMemberHealthy", ConditionStatus::False)),
        ("APIServerPodHealthy", |it| is(machine_of(it, "cp-0"), "APIServerPodHealthy", ConditionStatus::Unknown)),
        ("Ready", |it| is(machine_of(it, "cp-0"), "Ready", ConditionStatus::False)),
        ("status.nodeRef", |it| machine_of(it, "cp-0").node = None),
        ("kube-vip on node node-cp-0", |it| it.pods.retain(|pod| pod.name != "kube-vip-cp-0")),
        ("no machine is at", |it| machine_of(it, "cp-0").deleting = true),
    ];
    for (expected, broken) in breaks {
        let mut observation = rolling(&["cp-1", "cp-2"]);
        broken(&mut observation);
        let message = said(&observation, ControlPlaneGate::FirstNode);
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn a_second_new_machine_that_comes_up_holds_nothing_up() {
    let mut observation = rolling(&["cp-2"]);
    is(machine_of(&mut observation, "cp-0"), "Ready", ConditionStatus::False);
    assert_eq!(said(&observation, ControlPlaneGate::FirstNode), "", "cp-1 is proven");
    observation.control_planes[0].paused = true;
    assert!(said(&observation, ControlPlaneGate::FirstNode).contains("paused"));
}
