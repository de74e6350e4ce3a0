use jiff::SignedDuration;

use super::*;
use crate::expectation::{KubeVipExpectation, KubeletVersions, MachineOrderRules};
use crate::observation::{Pod, RunningImage, VirtualAddress, conditions};

const OLD: &str = "v1.34.0";
const NEW: &str = "v1.35.0";

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn expectation(brakes: bool) -> ControlPlaneExpectation {
    ControlPlaneExpectation {
        namespace: "fleet".to_owned(),
        cluster: "prod".to_owned(),
        version: NEW.to_owned(),
        replicas: Some(3),
        infrastructure_template: None,
        stacked_etcd: true,
        kubelet_versions: KubeletVersions::WhenReported,
        kube_vip: Some(KubeVipExpectation { image: None, lease: None }),
        order: MachineOrderRules { lease: None, brakes },
        gate: policy::ControlPlaneGate::Whole,
    }
}

fn machine(name: &str, version: &str) -> Machine {
    let healthy = ["NodeHealthy", "APIServerPodHealthy", "EtcdMemberHealthy"].map(|name| (name, ConditionStatus::True));
    Machine {
        namespace: "fleet".to_owned(),
        name: name.to_owned(),
        cluster: "prod".to_owned(),
        control_plane: true,
        owner: Some("prod-cp".to_owned()),
        spec_version: Some(version.to_owned()),
        node: Some(format!("node-{name}")),
        conditions: conditions(healthy),
        ..Machine::default()
    }
}

fn kube_vip(node: &str) -> Pod {
    Pod {
        namespace: "kube-system".to_owned(),
        name: format!("kube-vip-{node}"),
        application: "kube-vip".to_owned(),
        node: Some(node.to_owned()),
        ready: true,
        running: vec![RunningImage {
            pod: format!("kube-vip-{node}"),
            container: "kube-vip".to_owned(),
            image: "kube-vip:v1.2.0".to_owned(),
            digest: None,
            ready: true,
            waiting: None,
            deleting: false,
        }],
    }
}

/// A control plane at the new version, with these machines, of which one's node holds the address.
fn reading(machines: Vec<Machine>, holder: Option<&str>) -> Observation {
    let mut observation = Observation::empty(now());
    observation.control_planes.push(ControlPlane {
        namespace: "fleet".to_owned(),
        name: "prod-cp".to_owned(),
        cluster: "prod".to_owned(),
        spec_version: NEW.to_owned(),
        ..ControlPlane::default()
    });
    observation.machines = machines;
    observation.virtual_address =
        holder.map(|holder| VirtualAddress { holder: Some(holder.to_owned()), renewed_at: None, transitions: None });
    observation
}

fn order_until(observation: &Observation, brakes: bool, until: Timestamp) -> MachineOrder {
    let (expectation, rollout) = (expectation(brakes), "0123456789ab".parse().unwrap());
    let running = RunningOrder { expectation: &expectation, rollout: &rollout, until };
    machine_order("prod", Some(running), observation, now())
}

fn order(observation: &Observation, brakes: bool) -> MachineOrder {
    order_until(observation, brakes, now() + SignedDuration::from_hours(2))
}

/// Carries them out.
fn apply(observation: &mut Observation, order: &MachineOrder) {
    for change in &order.changes {
        let machine = observation.machines.iter_mut().find(|machine| machine.name == change.machine).unwrap();
        let marked = change.mark.clone().map(|mark| Marked::Us { mark });
        match change.kind {
            MarkKind::DeleteFirst => machine.delete_first = marked,
            MarkKind::Brake => machine.brake = marked,
        }
    }
}

/// `+` or `-`, kind and machine.
fn told(order: &MachineOrder) -> Vec<String> {
    let told = |change: &MarkChange| {
        let sign = if change.mark.is_some() { '+' } else { '-' };
        format!("{sign}{:?} {}", change.kind, change.machine)
    };
    order.changes.iter().map(told).collect()
}

#[test]
fn every_outdated_machine_is_marked_but_the_one_that_holds_the_address() {
    let machines = vec![machine("a", OLD), machine("b", OLD), machine("c", OLD), machine("d", NEW)];
    let mut seen = reading(machines, Some("node-b.corp.internal"));
    let first = order(&seen, false);
    assert_eq!(told(&first), ["+DeleteFirst a", "+DeleteFirst c"]);
    apply(&mut seen, &first);
    assert_eq!(order(&seen, false), MachineOrder::default());
    // It follows the holder when it moves.
    seen.virtual_address.as_mut().unwrap().holder = Some("node-c".to_owned());
    let moved = order(&seen, false);
    assert_eq!(told(&moved), ["+DeleteFirst a", "+DeleteFirst b", "-DeleteFirst c"]);
    apply(&mut seen, &moved);
    assert!(order(&seen, false).changes.is_empty());
}

#[test]
fn marks_of_others_stay_and_those_of_other_clusters_do_too() {
    let mut theirs = machine("a", OLD);
    theirs.delete_first = Some(Marked::Others);
    let mut elsewhere = machine("z", OLD);
    elsewhere.cluster = "other".to_owned();
    let mut seen = reading(vec![theirs, machine("b", OLD), machine("c", OLD), elsewhere], Some("node-c"));
    let order_of_it = order(&seen, false);
    assert_eq!(told(&order_of_it), ["+DeleteFirst b"]);
    apply(&mut seen, &order_of_it);
    seen.machines.iter_mut().find(|machine| machine.name == "z").unwrap().delete_first =
        seen.machines.iter().find(|machine| machine.name == "b").unwrap().delete_first.clone();
    // The rollout has ended: ours are taken away, wherever they are of this cluster.
    assert_eq!(told(&machine_order("prod", None, &seen, now())), ["-DeleteFirst b"]);
}

#[test]
fn marks_go_when_the_target_is_taken_back_and_when_the_time_is_over() {
    let mut seen = reading(vec![machine("a", OLD), machine("b", OLD), machine("c", OLD)], Some("node-c"));
    let marked = order(&seen, true);
    apply(&mut seen, &marked);
    assert_eq!(told(&order_until(&seen, true, now())).len(), 5);
    seen.control_planes[0].spec_version = OLD.to_owned();
    assert_eq!(told(&order(&seen, true)).iter().filter(|told| told.starts_with('-')).count(), 5);
}

#[test]
fn a_holder_that_is_not_known_is_said_and_nothing_is_marked() {
    let machines = || vec![machine("a", OLD), machine("b", OLD)];
    for (holder, said) in [(None, "is not there"), (Some("elsewhere"), "is held by elsewhere, which is no node")] {
        let order = order(&reading(machines(), holder), false);
        assert!(order.changes.is_empty() && order.notes.len() == 1, "{order:?}");
        assert!(order.notes[0].to_string().contains(said), "{order:?}");
        assert!(order.notes[0].object == "Lease kube-system/plndr-cp-lock" && order.notes[0].help.is_some());
    }
    // With one machine there is no order.
    assert_eq!(order(&reading(vec![machine("a", OLD)], None), false), MachineOrder::default());
    let mut unread = reading(machines(), Some("node-a"));
    unread.unread.insert("Lease".to_owned(), "forbidden".to_owned());
    assert!(order(&unread, false).notes[0].to_string().contains("could not be read: forbidden"));
    // Nor where nothing says who holds it, as with BGP.
    let mut without = expectation(false);
    without.kube_vip = None;
    let rollout = "0123456789ab".parse().unwrap();
    let running = RunningOrder { expectation: &without, rollout: &rollout, until: Timestamp::MAX };
    let seen = reading(machines(), None);
    assert_eq!(machine_order("prod", Some(running), &seen, now()), MachineOrder::default());
}

#[test]
fn a_deleted_machine_is_kept_until_the_newest_is_proven() {
    let mut seen = reading(vec![machine("a", OLD), machine("b", OLD), machine("d", NEW)], Some("node-b"));
    let first = order(&seen, true);
    assert_eq!(told(&first), ["+DeleteFirst a", "+Brake a", "+Brake b"]);
    apply(&mut seen, &first);
    seen.machines[0].deleting = true;
    let held = order(&seen, true);
    assert!(held.changes.is_empty(), "{held:?}");
    let note = held.notes[0].to_string();
    assert!(
        note.starts_with("Machine fleet/a: is kept by") && note.contains("kube-vip on node node-d: no such pod"),
        "{note}"
    );
    let line = "kubectl annotate machines.cluster.x-k8s.io a -n fleet pre-drain.delete.hook.machine.cluster.x-k8s.io/stepgate-";
    assert_eq!(held.notes[0].help.as_deref(), Some(line));
    // Each proof is asked for.
    seen.pods.push(kube_vip("node-d"));
    for condition in ["NodeHealthy", "APIServerPodHealthy", "EtcdMemberHealthy"] {
        let mut sick = seen.clone();
        sick.machines[2].conditions.remove(condition);
        assert!(order(&sick, true).changes.is_empty(), "{condition}");
    }
    // Then it goes, and the others stay kept.
    assert_eq!(told(&order(&seen, true)), ["-Brake a"]);
}

#[test]
fn nothing_is_kept_before_there_is_a_new_machine_to_prove() {
    let mut seen = reading(vec![machine("a", OLD), machine("b", OLD), machine("c", OLD)], Some("node-b"));
    let first = order(&seen, true);
    apply(&mut seen, &first);
    // Of a control plane that replaces machines without one more.
    seen.machines[0].deleting = true;
    assert_eq!(told(&order(&seen, true)), ["-Brake a"]);
}
