use std::collections::BTreeMap;

use jiff::Timestamp;

use super::*;
use crate::gate::leftovers;
use crate::observation::{Condition, MachineHardware, conditions};
use crate::verdict::GateVerdict;

const OLD: &str = "v1.26.5+vmware.2-tkg.1";
const NEW: &str = "v1.27.11+vmware.1-tkg.2";
/// Another release of the build of [`NEW`].
const REBUILT: &str = "v1.27.11+vmware.1-tkg.3";

fn groups(names: &[&str]) -> Vec<GroupName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn addon(role: &str, name: &str, version: &str) -> TanzuAddon {
    TanzuAddon {
        name: name.to_owned(),
        role: role.to_owned(),
        state: TanzuAddonState::Applied,
        version: Some(version.to_owned()),
        message: None,
    }
}

/// A machine with its node, both of `release`.
fn machine(observation: &mut Observation, name: &str, owner: Option<&str>, release: &str) {
    let build = release.split_once("-tkg").unwrap().0;
    observation.machines.push(Machine {
        namespace: "tenants".to_owned(),
        name: name.to_owned(),
        cluster: "t".to_owned(),
        control_plane: owner.is_none(),
        owner: owner.map(str::to_owned),
        spec_version: Some(build.to_owned()),
        node: Some(format!("node-{name}")),
        hardware: Some(MachineHardware { found: true, class: Some("small".to_owned()), ..MachineHardware::default() }),
        ..Machine::default()
    });
    observation.nodes.push(Node {
        name: format!("node-{name}"),
        ready: ConditionStatus::True,
        unschedulable: false,
        pressures: Vec::new(),
        control_plane: owner.is_none(),
        kubelet_version: Some(build.to_owned()),
        release: Some(release.replacen('+', "---", 1)),
        origin: None,
        unschedulable_since: None,
    });
}

/// A cluster that is well at a release, with three machines of control plane, pools `a` and `a-b`.
fn settled(release: &str) -> Observation {
    let mut observation = Observation::empty(Timestamp::UNIX_EPOCH);
    for name in ["p1", "p2", "p3"] {
        machine(&mut observation, name, None, release);
    }
    machine(&mut observation, "a1", Some("t-a-x7"), release);
    machine(&mut observation, "ab1", Some("t-a-b"), release);
    observation.tanzu_clusters = vec![TanzuCluster {
        namespace: "tenants".to_owned(),
        name: "t".to_owned(),
        version: "v1alpha3".to_owned(),
        release: Some(release.replacen('+', "---", 1)),
        addons: vec![addon("CNI", "antrea", release), addon("DNS", "CoreDNS", "v1.9.3_vmware.8")],
        conditions: conditions([("Ready", ConditionStatus::True), ("AddonsReady", ConditionStatus::True)]),
        ..TanzuCluster::default()
    }];
    observation
}

fn made_of(release: &str, replicas: u32) -> TanzuMachines {
    TanzuMachines {
        release: release.to_owned(),
        replicas: Some(replicas),
        class: Some("small".to_owned()),
        storage_class: None,
        volumes: Vec::new(),
    }
}

fn pool(name: &str, release: &str) -> TanzuPart {
    let pools = groups(&["a", "a-b"]);
    TanzuPart::Workers { pool: name.parse().unwrap(), pools, machines: made_of(release, 1) }
}

fn verdict(part: &TanzuPart, observation: &Observation) -> Result<(), Box<GateVerdict>> {
    let expectation = TanzuExpectation { namespace: "tenants".to_owned(), name: "t".to_owned(), part: part.clone() };
    let mut findings = Findings::default();
    check(&expectation, observation, &mut findings);
    findings.into_verdict().map(|_| ())
}

#[track_caller]
fn passes(part: &TanzuPart, observation: &Observation) {
    assert_eq!(verdict(part, observation), Ok(()));
}

#[track_caller]
fn waits(part: &TanzuPart, observation: &Observation, expected: &str) {
    let Err(verdict) = verdict(part, observation) else { panic!("it waits for nothing") };
    let GateVerdict::Wait { reason, .. } = *verdict else { panic!("{verdict:?}") };
    let lines: Vec<String> = reason.into_lines().iter().map(ToString::to_string).collect();
    assert!(lines.iter().any(|line| line.contains(expected)), "{expected}: {lines:?}");
}

fn addons(release: &str) -> TanzuPart {
    TanzuPart::Addons { release: release.to_owned() }
}

fn cluster(observation: &mut Observation) -> &mut TanzuCluster {
    &mut observation.tanzu_clusters[0]
}

#[test]
fn a_settled_cluster_passes_every_gate_of_its_release() {
    let observation = settled(OLD);
    for part in [
        TanzuPart::Settled,
        addons(OLD),
        TanzuPart::ControlPlane(made_of(OLD, 3)),
        pool("a", OLD),
        pool("a-b", OLD),
        TanzuPart::WorkersGone { pool: "c".parse().unwrap(), pools: groups(&["a", "a-b", "c"]) },
    ] {
        passes(&part, &observation);
    }
}

/// The specification names the new release, and everything else is as it was: `Ready` is true.
#[test]
fn no_gate_takes_the_truth_of_before_for_its_own() {
    let mut observation = settled(OLD);
    waits(&addons(NEW), &observation, "names v1.26.5---vmware.2-tkg.1, v1.27.11+vmware.1-tkg.2 expected");
    cluster(&mut observation).release = Some(NEW.to_owned());
    waits(&addons(NEW), &observation, "add-on antrea is at v1.26.5+vmware.2-tkg.1, which does not tell");
    waits(&TanzuPart::ControlPlane(made_of(NEW, 3)), &observation, "v1.26.5+vmware.2, v1.27.11+vmware.1 expected");
    waits(&pool("a", NEW), &observation, "Machine tenants/a1: spec.version: v1.26.5+vmware.2, v1.27.11");
    waits(&TanzuPart::Settled, &observation, "spec.version: v1.26.5+vmware.2");
    // Another release of the build that runs: what machines and kubelets say is true already.
    let mut observation = settled(NEW);
    cluster(&mut observation).release = Some(REBUILT.to_owned());
    waits(
        &TanzuPart::ControlPlane(made_of(REBUILT, 3)),
        &observation,
        "kubernetesDistributionVersion]: v1.27.11---vmware.1-tkg.2",
    );
    waits(&addons(REBUILT), &observation, "add-on antrea is at");
    let mut unnamed = settled(REBUILT);
    unnamed.nodes[0].release = None;
    waits(&TanzuPart::ControlPlane(made_of(REBUILT, 3)), &unnamed, "not set, v1.27.11+vmware.1-tkg.3 expected");
}

#[test]
fn add_ons_are_held_against_the_image_of_the_release() {
    let mut observation = settled(OLD);
    let known = cluster(&mut observation);
    known.release = Some(NEW.to_owned());
    known.image = Some(TanzuImage {
        release: NEW.to_owned(),
        addons: BTreeMap::from([("antrea".to_owned(), Some("v1.13.3+vmware.4".to_owned()))]),
        coredns: Some("v1.10.1+vmware.18".to_owned()),
        kubernetes: None,
    });
    waits(&addons(NEW), &observation, "add-on antrea is at v1.26.5+vmware.2-tkg.1, v1.13.3+vmware.4 expected");
    cluster(&mut observation).addons =
        vec![addon("CNI", "antrea", "v1.13.3+vmware.4"), addon("DNS", "CoreDNS", "v1.9.3_vmware.8")];
    waits(&addons(NEW), &observation, "add-on CoreDNS is at v1.9.3_vmware.8, v1.10.1+vmware.18 expected");
    cluster(&mut observation).addons[1].version = Some("v1.10.1_vmware.18".to_owned());
    passes(&addons(NEW), &observation);
    // An image without a version of the add-on means that of the release.
    cluster(&mut observation).image.as_mut().unwrap().addons.insert("antrea".to_owned(), None);
    waits(&addons(NEW), &observation, "add-on antrea is at v1.13.3+vmware.4, v1.27.11+vmware.1-tkg.2 expected");
    cluster(&mut observation).addons[0].state = TanzuAddonState::Unmanaged;
    passes(&addons(NEW), &observation);
    let failed = &mut cluster(&mut observation).addons[1];
    (failed.state, failed.message) = (TanzuAddonState::Error, Some("connection refused".to_owned()));
    waits(&addons(NEW), &observation, "add-on CoreDNS is in error: connection refused");
}

#[test]
fn add_ons_that_tell_nothing_are_proven_by_the_first_machine() {
    let mut observation = settled(OLD);
    let known = cluster(&mut observation);
    known.release = Some(NEW.to_owned());
    known.addons = vec![addon("CNI", "antrea", "1.13")];
    waits(&addons(NEW), &observation, "no machine of the control plane is yet");
    machine(&mut observation, "p4", None, NEW);
    passes(&addons(NEW), &observation);
    cluster(&mut observation).addons.clear();
    passes(&addons(NEW), &observation);
    cluster(&mut observation).conditions.clear();
    waits(&addons(NEW), &observation, "status.addons: not reported yet");
}

#[test]
fn the_first_interface_has_seven_add_ons_and_a_phase() {
    let mut observation = settled(NEW);
    let known = cluster(&mut observation);
    known.version = "v1alpha1".to_owned();
    known.conditions.clear();
    waits(&TanzuPart::Settled, &observation, "status.phase: nothing is reported yet");
    cluster(&mut observation).phase = Some("updating".to_owned());
    waits(&TanzuPart::Settled, &observation, "another update is in progress");
    cluster(&mut observation).phase = Some("running".to_owned());
    passes(&TanzuPart::Settled, &observation);
    waits(&addons(NEW), &observation, "status.addons.authsvc: not reported yet");
    cluster(&mut observation).addons = ADDONS.map(|role| addon(role, role, NEW)).into();
    passes(&addons(NEW), &observation);
    cluster(&mut observation).phase = Some("updateFailed".to_owned());
    waits(&TanzuPart::Settled, &observation, "updateFailed: repair it before anything else");
    let failed = verdict(&addons(NEW), &observation).unwrap_err();
    assert!(matches!(*failed, GateVerdict::Fail { .. }), "{failed:?}");
}

#[test]
fn ready_with_severity_error_is_a_failure_and_told_first() {
    let mut observation = settled(NEW);
    let known = cluster(&mut observation);
    known.failure = Some("NodePoolsFailed: no host has room".to_owned());
    let not = Condition {
        status: ConditionStatus::False,
        reason: "NodePoolsFailed".to_owned(),
        message: String::new(),
        observed_generation: None,
    };
    known.conditions.insert("Ready".to_owned(), not);
    waits(&TanzuPart::Settled, &observation, "status.conditions[Ready]: NodePoolsFailed: no host has room");
    waits(&pool("a", NEW), &observation, "NodePoolsFailed: no host has room");
}

#[test]
fn machines_of_a_pool_are_all_there_new_and_of_its_class() {
    let mut observation = settled(NEW);
    let large = |class: &str| TanzuPart::Workers {
        pool: "a".parse().unwrap(),
        pools: groups(&["a", "a-b"]),
        machines: TanzuMachines { class: Some(class.to_owned()), ..made_of(NEW, 1) },
    };
    waits(
        &large("large"),
        &observation,
        "Machine tenants/a1: spec.infrastructureRef: spec.className: small, large expected",
    );
    machine(&mut observation, "a2", Some("t-a-y8"), NEW);
    observation.machines[5].hardware.as_mut().unwrap().class = Some("large".to_owned());
    observation.machines[3].deleting = true;
    waits(&large("large"), &observation, "Machine tenants/a1: is being deleted");
    observation.machines.remove(3);
    passes(&large("large"), &observation);
    // The pool whose name begins alike has its own machine all the while.
    passes(&pool("a-b", NEW), &observation);
    machine(&mut observation, "a3", Some("t-a-y8"), NEW);
    waits(&pool("a", NEW), &observation, "node pool a: 2 machines, 1 expected");
    observation.machines[5].owner = Some("elsewhere".to_owned());
    waits(&pool("a", NEW), &observation, "belongs to elsewhere, and to no node pool that is known");
    observation.machines[5].hardware =
        Some(MachineHardware { pool: Some("a".to_owned()), ..MachineHardware::default() });
    waits(&pool("a", NEW), &observation, "what it is made of could not be read");
    let volumes = vec![("etcd".to_owned(), "8Gi".to_owned())];
    let machines = TanzuMachines { volumes, ..made_of(NEW, 3) };
    waits(&TanzuPart::ControlPlane(machines), &observation, "volume etcd: not there, 8Gi expected");
    let gone = TanzuPart::WorkersGone { pool: "a".parse().unwrap(), pools: groups(&["a", "a-b"]) };
    waits(&gone, &observation, "of node pool a is still there");
}

#[test]
fn what_was_not_read_proves_nothing() {
    for kind in [TANZU_CLUSTER, "Machine", "Node"] {
        let mut observation = settled(NEW);
        observation.unread.insert(kind.to_owned(), "forbidden".to_owned());
        waits(&TanzuPart::ControlPlane(made_of(NEW, 3)), &observation, "could not be read: forbidden");
    }
    let mut observation = settled(NEW);
    observation.tanzu_clusters.clear();
    waits(&TanzuPart::Settled, &observation, "not found");
    let mut observation = settled(NEW);
    observation.nodes.remove(0);
    waits(&TanzuPart::ControlPlane(made_of(NEW, 3)), &observation, "Node node-p1: is not there");
    observation.machines[0].node = None;
    waits(&TanzuPart::ControlPlane(made_of(NEW, 3)), &observation, "has no node yet");
}

#[test]
fn machines_of_a_supervisor_are_no_leftovers_whose_owners_nobody_reads() {
    let mut observation = settled(NEW);
    assert_eq!(leftovers::names(&observation), Some(Vec::new()));
    cluster(&mut observation).name = "another".to_owned();
    assert_eq!(leftovers::names(&observation).map(|names| names.len()), Some(observation.machines.len()));
}

#[test]
fn a_rollout_that_nobody_asked_for_is_told_until_it_is_over() {
    assert_eq!(unasked_rollout(&Observation::empty(Timestamp::UNIX_EPOCH)), None);
    let well = settled(NEW);
    assert_eq!(unasked_rollout(&well), None);
    let mut updated = well.clone();
    updated.tanzu_clusters[0].phase = Some("updating".to_owned());
    let told = unasked_rollout(&updated).unwrap();
    assert!(!told.has_failed && told.reason.to_string().contains("a rollout that nobody asked for"), "{told:?}");
    assert!(told.reason.to_string().contains("updating: another update is in progress"), "{told:?}");
    updated.tanzu_clusters[0].phase = Some("updateFailed".to_owned());
    assert!(unasked_rollout(&updated).unwrap().has_failed);
    // An image of the same version was replaced: its machines go one by one.
    let mut replaced = well.clone();
    replaced.machines[0].deleting = true;
    let told = unasked_rollout(&replaced).unwrap();
    assert!(told.reason.to_string().contains("p1: is being deleted"), "{told:?}");
    let mut addon = well;
    addon.tanzu_clusters[0].conditions = conditions([("AddonsReady", ConditionStatus::False)]);
    assert!(unasked_rollout(&addon).is_some());
}
