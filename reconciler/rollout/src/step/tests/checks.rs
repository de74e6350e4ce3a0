//! What checks find before a rollout begins.

use crate::effect::Effect;
use crate::observation::{ConditionStatus, Node};
use crate::step::harness::RolloutHarness;

fn node() -> Node {
    Node {
        name: "worker-1".to_owned(),
        ready: ConditionStatus::True,
        unschedulable: false,
        pressures: vec!["DiskPressure".to_owned()],
        control_plane: false,
        kubelet_version: None,
        release: None,
        origin: None,
        unschedulable_since: None,
    }
}

#[test]
fn a_failed_check_holds_before_anything_is_committed_and_is_watched() {
    let mut laboratory = RolloutHarness::new(&[("capi", 1, 2)]);
    laboratory.nodes = vec![node()];
    let effects = laboratory.turns(10);
    let Some(Effect::Hold { stage, reasons, .. }) = effects.iter().find(|effect| matches!(effect, Effect::Hold { .. }))
    else {
        panic!("{effects:?}")
    };
    assert_eq!(stage.to_string(), "preflight");
    let expected = "Node worker-1: check nodes: DiskPressure is True: its kubelet evicts pods, or none can run there";
    assert_eq!(reasons[0].to_string(), expected);
    assert_eq!(reasons[0].help.as_deref(), Some("kubectl describe node worker-1"));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Observe { confirm: true, .. })), "{effects:?}");
    assert_eq!(laboratory.log(), [""; 0]);
    // It is mended without a push.
    laboratory.nodes[0].pressures.clear();
    laboratory.until("close");
}

#[test]
fn a_node_that_is_not_ready_makes_the_gate_wait_before_it_holds() {
    let mut laboratory = RolloutHarness::new(&[("capi", 1, 2)]);
    laboratory.nodes = vec![Node { ready: ConditionStatus::False, ..node() }];
    let effects = laboratory.turns(10);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Wait { .. })), "{effects:?}");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Hold { .. })), "{effects:?}");
}

#[test]
fn what_checks_say_is_part_of_the_evidence_that_opens_the_first_stage() {
    let mut laboratory = RolloutHarness::new(&[("capi", 1, 2)]);
    laboratory.nodes = vec![Node { pressures: Vec::new(), unschedulable: true, ..node() }];
    laboratory.until("commit capi 2");
    let opened_by = laboratory.ledger.as_ref().unwrap().stages[0].opened_by.as_ref().unwrap();
    let said = |object: &str| opened_by.facts.iter().find(|fact| fact.object == object).map(|fact| fact.seen.as_str());
    let passed = "certificates, webhooks, definitions, removed-apis, drains, etcd, images, virtual-address, \
                  drift, signatures, release-notes, capacity, addresses, eks-insights, runtime-extensions";
    assert_eq!(said("checks passed"), Some(passed));
    let nodes = said("check nodes").unwrap();
    assert!(nodes.starts_with("warn: Node worker-1: is cordoned"), "{nodes}");
}
