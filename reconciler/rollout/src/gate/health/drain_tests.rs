//! Tables of what is said of pods that keep their nodes, and of what fails beside them.

use super::*;
use crate::eviction::drained_nodes;
use crate::observation::{ConditionStatus, EvictedPod, Machine, Marked, Node, Resources, conditions};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn node() -> DrainingNode {
    DrainingNode { name: "worker-1".to_owned(), since: Some(at(100)), is_reachable: true, group: None }
}

fn pod(budgets: &[&str]) -> DrainedPod {
    DrainedPod {
        pod: EvictedPod {
            namespace: "shop".to_owned(),
            name: "web-1".to_owned(),
            node: "worker-1".to_owned(),
            has_controller: true,
            ready: true,
            local_data: false,
            drain_ends: false,
            grace: 30,
            requests: Resources::default(),
            budgets: budgets.iter().map(|name| (*name).to_owned()).collect(),
        },
        owner: "Deployment shop/web".to_owned(),
        phase: "Running".to_owned(),
        termination: None,
        finalizers: Vec::new(),
        serving: None,
    }
}

fn budget(healthy: u32, expected: u32, desired: u32) -> DisruptionBudget {
    DisruptionBudget {
        namespace: "shop".to_owned(),
        name: "keep".to_owned(),
        expected,
        healthy,
        desired,
        allowed: 0,
        always_allows_unhealthy: false,
        is_stale: false,
        refuses_since: Some(at(50)),
    }
}

/// What is said of this pod, and what helps.
fn said(pod: &DrainedPod, node: &DrainingNode, budget: DisruptionBudget) -> Option<(String, String)> {
    let drains = DrainReading { budgets: vec![budget], ..DrainReading::default() };
    kept(pod, node, &drains, at(1000)).map(|reason| (reason.to_string(), reason.help.unwrap_or_default()))
}

#[test]
fn a_pod_that_keeps_its_node_is_named_with_why_since_when_and_what_helps() {
    let terminating = |due: i64| Some(Termination { since: at(due - 30), due: at(due) });
    let unreachable = DrainingNode { is_reachable: false, ..node() };
    let cases = [
        (
            pod(&["keep"]),
            node(),
            budget(2, 2, 2),
            "its eviction from Node worker-1 is refused since 1970-01-01T00:01:40Z by PodDisruptionBudget shop/keep: \
             2 of 2 pods are healthy and 2 are asked for",
            "kubectl scale deployment web -n shop --replicas=3, or let the budget shop/keep allow one",
        ),
        (
            DrainedPod { serving: Some(Serving::Knative("hello".to_owned())), ..pod(&["keep"]) },
            node(),
            budget(1, 1, 1),
            "is refused since",
            "kubectl annotate services.serving.knative.dev hello -n shop autoscaling.knative.dev/min-scale=2",
        ),
        (
            DrainedPod { serving: Some(Serving::Kserve("model".to_owned())), ..pod(&["keep"]) },
            node(),
            budget(1, 1, 1),
            "is refused since",
            "kubectl patch inferenceservices model -n shop",
        ),
        (pod(&["keep"]), node(), budget(1, 3, 2), "1 of 3 pods are healthy", "mend the pods that are not ready"),
        (
            pod(&["keep", "other"]),
            node(),
            budget(3, 3, 1),
            "(500), and is as long as several PodDisruptionBudgets select it: keep, other",
            "let one budget select it",
        ),
        (
            pod(&["keep"]),
            node(),
            DisruptionBudget { is_stale: true, ..budget(3, 3, 1) },
            "is put off by PodDisruptionBudget shop/keep: its status is stale",
            "see that kube-controller-manager runs",
        ),
        (
            DrainedPod { termination: terminating(900), ..pod(&["keep"]) },
            node(),
            budget(1, 1, 1),
            "keeps Node worker-1: terminating since 1970-01-01T00:14:30Z, 100 s longer than its grace",
            "kubectl describe pod web-1 -n shop",
        ),
        (
            DrainedPod { termination: terminating(900), finalizers: vec!["a/b".to_owned()], ..pod(&[]) },
            node(),
            budget(1, 1, 1),
            "by its finalizers a/b",
            "see why whoever set them does not take them away",
        ),
        (
            DrainedPod { termination: terminating(900), ..pod(&[]) },
            unreachable,
            budget(1, 1, 1),
            "its kubelet cannot be heard",
            "bring the node back; if the machine is off for certain: kubectl taint node worker-1",
        ),
    ];
    for (pod, node, budget, message, help) in cases {
        let (said, helps) = said(&pod, &node, budget).unwrap();
        assert!(said.starts_with("Pod shop/web-1 of Deployment shop/web: ") && said.contains(message), "{said}");
        assert!(helps.contains(help), "{helps}");
    }
    let within = DrainedPod { termination: terminating(1010), ..pod(&["keep"]) };
    let ended = DrainedPod { phase: "Succeeded".to_owned(), ..pod(&["keep", "other"]) };
    for goes in [within, ended, pod(&[])] {
        assert_eq!(said(&goes, &node(), budget(1, 1, 1)), None);
    }
}

#[test]
fn only_what_fails_since_the_commit_is_told_and_only_while_the_gate_waits() {
    let failing = |since: i64, waiting: Option<&str>| FailingPod {
        namespace: "kube-system".to_owned(),
        name: "proxy".to_owned(),
        owner: "DaemonSet kube-system/proxy".to_owned(),
        node: Some("worker-2".to_owned()),
        container: "proxy".to_owned(),
        image: "registry/proxy:2".to_owned(),
        waiting: waiting.map(str::to_owned),
        restarts: 3,
        since: Some(at(since)),
    };
    let volume = |since: i64, failed: bool| UnattachedVolume {
        volume: "pv".to_owned(),
        node: "worker-2".to_owned(),
        since: Some(at(since)),
        failed,
    };
    let told = |drains: DrainReading, waits: bool| {
        let observation = Observation { drains: Some(drains), ..Observation::empty(at(1000)) };
        let mut findings = Findings::default();
        if waits {
            findings.wait(Reason::new("a machine is missing"));
        }
        check(&observation, Some(at(500)), &mut findings);
        findings.first_wait().map(|reason| reason.to_string())
    };
    let of = |failing: FailingPod| DrainReading { failing: vec![failing], ..DrainReading::default() };
    let with = |volume: UnattachedVolume| DrainReading { unattached: vec![volume], ..DrainReading::default() };
    let pull = "Pod kube-system/proxy: of DaemonSet kube-system/proxy on Node worker-2: container proxy waits: \
                ImagePullBackOff (registry/proxy:2)";
    let missing = Some("a machine is missing".to_owned());
    assert_eq!(told(of(failing(600, Some("ImagePullBackOff"))), true), Some(pull.to_owned()));
    assert_eq!(told(of(failing(400, Some("ImagePullBackOff"))), true), missing);
    assert!(told(of(failing(600, None)), true).unwrap().ends_with("was started again, 3 times in all"));
    assert_eq!(told(of(failing(600, Some("ImagePullBackOff"))), false), None, "nothing is held by it");
    assert!(told(with(volume(700, false)), true).unwrap().contains("is not attached to Node worker-2"));
    assert!(told(with(volume(990, true)), true).unwrap().contains("cannot be attached"));
    assert_eq!(told(with(volume(950, false)), true), missing);
}

#[test]
fn nodes_are_drained_when_their_machine_goes_or_none_stands_for_them() {
    let machine = |deleting: bool, updating: bool| Machine {
        node: Some("a".to_owned()),
        deleting,
        deleted_at: deleting.then(|| at(7)),
        conditions: conditions([("Updating", if updating { ConditionStatus::True } else { ConditionStatus::False })]),
        ..Machine::default()
    };
    let braked = Machine { brake: Some(Marked::Others), ..machine(true, false) };
    for (machines, cordoned, expected) in [
        (vec![machine(true, false)], false, Some(Some(at(7)))),
        (vec![machine(false, false)], true, None),
        (vec![machine(false, true)], true, Some(None)),
        (vec![machine(false, true)], false, None),
        (vec![braked], true, None),
        (Vec::new(), true, Some(None)),
        (Vec::new(), false, None),
    ] {
        let mut observation = Observation::empty(at(1000));
        observation.nodes = vec![Node {
            name: "a".to_owned(),
            ready: ConditionStatus::True,
            unschedulable: cordoned,
            pressures: Vec::new(),
            control_plane: false,
            kubelet_version: None,
            release: None,
            origin: None,
            unschedulable_since: None,
        }];
        observation.machines = machines;
        let found = drained_nodes(&observation).into_iter().map(|node| node.since).next();
        assert_eq!(found, expected, "{:?}", observation.machines);
    }
}
