//! What belongs to nothing at the end of a rollout, and what did so before it.

use rollout::{
    BRAKE, Before, DELETE_FIRST, Expectation, GateVerdict, KubeletVersions, MachineMark, Marked, Node, ObjectReference,
    Observation, Templates, VerifiedExpectation,
};

use super::healthy::*;
use super::{reasons, soaked, verdict};

/// What verify says where these were strays before the rollout.
fn verified(observation: &Observation, strays: Option<&[&str]>) -> String {
    reasons(&verify(observation, strays))
}

fn verify(observation: &Observation, strays: Option<&[&str]>) -> GateVerdict {
    let strays = strays.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    let expectation = Expectation::Verified(VerifiedExpectation {
        cluster: Some("prod".into()),
        version: None,
        kubelet_versions: KubeletVersions::WhenReported,
        leftovers: Vec::new(),
        before: Some(Before { strays, ..before() }),
    });
    verdict(&soaked(observation), &[flux(), expectation], now())
}

#[test]
fn templates_that_nothing_names_any_more_are_told_and_hold_nothing() {
    let template = |name: &str| ObjectReference {
        api_version: "infrastructure.cluster.x-k8s.io/v1beta1".into(),
        kind: "VSphereMachineTemplate".into(),
        namespace: Some("eksa-system".into()),
        name: name.into(),
    };
    let seen = Observation {
        templates: Some(Templates { named: vec![template("prod-cp-2")], orphaned: vec![template("prod-cp-1")] }),
        ..healthy()
    };
    let GateVerdict::Pass { evidence } = verify(&seen, Some(&[])) else { panic!("{:?}", verify(&seen, Some(&[]))) };
    let told: Vec<_> = evidence.facts.iter().filter(|fact| fact.object.contains("MachineTemplate")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].object, "VSphereMachineTemplate eksa-system/prod-cp-1");
    assert!(told[0].seen.contains("nothing of the cluster names it any more"), "{told:?}");
}

fn with_node(kubelet: Option<&str>) -> Observation {
    let mut observation = healthy();
    let node =
        Node { name: "by-hand".into(), kubelet_version: kubelet.map(str::to_owned), ..observation.nodes[0].clone() };
    observation.nodes.push(node);
    observation
}

#[test]
fn a_node_of_another_version_that_no_machine_refers_to_is_left_over() {
    let old = with_node(Some("v1.30.1"));
    let said = verified(&old, Some(&[]));
    assert!(said.contains("Node by-hand: no machine refers to it"), "{said}");
    assert_eq!(verified(&old, Some(&["Node by-hand"])), "", "it was so before the rollout");
    assert_eq!(verified(&old, None), "", "nobody knows what was before");
}

#[test]
fn nodes_of_other_programs_are_nobodys_leftover() {
    let version = healthy().nodes[0].kubelet_version.clone();
    assert_eq!(verified(&with_node(version.as_deref()), Some(&[])), "", "it has the version of the machines");
    let mut alone = with_node(Some("v1.30.1"));
    alone.unread.insert("MachinePool".into(), "forbidden".into());
    assert!(!verified(&alone, Some(&[])).contains("by-hand"), "too little was read to tell");
}

#[test]
fn a_mark_of_ours_is_left_over_and_those_of_others_are_not() {
    let mark = MachineMark {
        owner: MachineMark::OWNER.to_owned(),
        rollout: "0123456789ab".parse().unwrap(),
        reason: "goes first".to_owned(),
        since: now(),
        until: now(),
    };
    let mut seen = healthy();
    let machine = seen.machines.iter_mut().find(|machine| machine.control_plane).unwrap();
    let name = machine.name.clone();
    (machine.brake, machine.delete_first) = (Some(Marked::Us { mark: mark.clone() }), Some(Marked::Others));
    let said = verified(&seen, Some(&[]));
    assert!(said.contains(&format!("/{name}: still carries {BRAKE}")) && !said.contains(DELETE_FIRST), "{said}");
    // Another cluster's rollout may be under way.
    let mut other = healthy();
    let mut machine = other.machines[0].clone();
    (machine.cluster, machine.brake) = ("staging".to_owned(), Some(Marked::Us { mark }));
    other.machines.push(machine);
    assert!(!verified(&other, None).contains(BRAKE));
}
