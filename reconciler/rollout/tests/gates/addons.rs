//! Add-ons of a rendered `TanzuKubernetesCluster`: each stands for itself.

use std::collections::BTreeMap;

use rollout::{
    AddonsExpectation, ConditionStatus, Expectation, ExpectedAddon, ExpectedAddonState, GateVerdict, ObjectPresence,
    ObjectReference, Observation, PlacedPod, SecretsExpectation,
};

use super::healthy::{commit, flux, healthy, now};
use super::{reasons, soaked, verdict};

const RELEASE: &str = "v1.27.11_vmware.1-tkg.2";

fn addon(name: &str, state: ExpectedAddonState) -> ExpectedAddon {
    ExpectedAddon { name: name.to_owned(), version: "v1.13.3".to_owned(), state }
}

fn applied(name: &str) -> ExpectedAddon {
    let kustomization = Some(("tenants".to_owned(), format!("depot-addons-{name}")));
    addon(name, ExpectedAddonState::Applied { kustomization })
}

/// Flux has applied the commit of `antrea`.
fn observation() -> Observation {
    let mut observation = healthy();
    let mut known = observation.flux.kustomizations[0].clone();
    known.namespace = "tenants".to_owned();
    known.name = "depot-addons-antrea".to_owned();
    known.last_applied_revision = Some(commit('b'));
    known.last_attempted_revision = Some(commit('b'));
    observation.flux.kustomizations.push(known);
    observation
}

/// What a gate says, of Flux and of this.
fn said(observation: &Observation, expectation: Expectation) -> String {
    let verdict = verdict(&soaked(observation), &[flux(), expectation], now());
    match &verdict {
        GateVerdict::Pass { evidence } => {
            let facts = evidence.facts.iter().filter(|fact| !fact.object.starts_with("Kustomization"));
            facts.map(|fact| format!("{}: {}; ", fact.object, fact.seen)).collect()
        }
        GateVerdict::Wait { .. } | GateVerdict::Fail { .. } => format!("waits for {}", reasons(&verdict)),
    }
}

#[test]
fn an_add_on_in_error_says_why_beside_those_that_are_applied() {
    let expected = |addons: Vec<ExpectedAddon>| Expectation::AddonsApplied(AddonsExpectation { addons });
    let well = observation();
    let unmanaged = addon("authsvc", ExpectedAddonState::Unmanaged);
    let passed = said(&well, expected(vec![applied("antrea"), unmanaged.clone()]));
    assert!(passed.ends_with("add-on antrea: applied at v1.13.3; add-on authsvc: unmanaged; "), "{passed}");

    let unreadable = ExpectedAddonState::Unreadable { message: "its manifests are not valid YAML".to_owned() };
    let waits = said(&well, expected(vec![applied("antrea"), addon("pvcsi", unreadable), unmanaged]));
    assert!(waits.starts_with("waits for add-on pvcsi") && waits.contains("error: its manifests are not"), "{waits}");
    assert!(!waits.contains("antrea"), "{waits}");

    let pending = said(&well, expected(vec![applied("metrics-server")]));
    assert!(pending.contains("add-on metrics-server") && pending.contains("pending"), "{pending}");

    let mut failing = well;
    let known = failing.flux.kustomizations.last_mut().unwrap();
    let ready = known.ready.as_mut().unwrap();
    ready.status = ConditionStatus::False;
    ready.message = "ConfigMap/kube-system/antrea is invalid".to_owned();
    let waits = said(&failing, expected(vec![applied("antrea")]));
    assert!(waits.contains("add-on antrea") && waits.contains("error: ") && waits.contains("is invalid"), "{waits}");
}

#[test]
fn an_add_on_of_a_commit_before_is_pending() {
    let mut before = observation();
    let known = before.flux.kustomizations.last_mut().unwrap();
    known.last_applied_revision = Some(commit('a'));
    known.last_attempted_revision = Some(commit('a'));
    let expected = Expectation::AddonsApplied(AddonsExpectation { addons: vec![applied("antrea")] });
    let waits = said(&before, expected);
    assert!(waits.contains("add-on antrea") && waits.contains("pending"), "{waits}");
}

#[test]
fn pods_on_nodes_of_before_hold_nothing_back_and_new_ones_have_to_be_ready() {
    let mut observation = observation();
    let names: Vec<String> = observation.nodes.iter().map(|node| node.name.clone()).collect();
    observation.nodes[1].release = Some(RELEASE.to_owned());
    let daemon_set = &mut observation.daemon_sets[0];
    let (namespace, name) = (daemon_set.namespace.clone(), daemon_set.name.clone());
    daemon_set.template = Some("2".to_owned());
    daemon_set.updated_scheduled = Some(1);
    let pod = |name: &str, node: &str, template: &str, ready| PlacedPod {
        pod: name.to_owned(),
        node: node.to_owned(),
        template: Some(template.to_owned()),
        ready,
    };
    daemon_set.pods = vec![pod("old", &names[0], "1", false), pod("new", &names[1], "2", true)];
    let expected = Expectation::PodsOnNewNodes { namespace, name, release: RELEASE.to_owned() };
    let passed = said(&observation, expected.clone());
    assert!(passed.contains("1 pods of its template, 1 of earlier ones"), "{passed}");
    observation.daemon_sets[0].pods[1].ready = false;
    let waits = said(&observation, expected.clone());
    assert!(waits.starts_with("waits for ") && waits.contains("pod new on node"), "{waits}");
    observation.daemon_sets[0].pods[1].ready = true;
    observation.daemon_sets[0].current_scheduled = Some(1);
    let waits = said(&observation, expected);
    assert!(waits.contains("currentNumberScheduled"), "{waits}");
}

#[test]
fn a_secret_that_is_lost_while_machines_roll_holds_them() {
    let secret = |purpose: &str| ObjectReference {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some("tenants".to_owned()),
        name: format!("depot-{purpose}"),
    };
    let secrets = ["ca", "etcd", "kubeconfig"].map(secret).to_vec();
    let expected = Expectation::Secrets(SecretsExpectation {
        namespace: "n".to_owned(),
        cluster: "t".to_owned(),
        secrets: secrets.clone(),
        before: BTreeMap::new(),
    });
    let mut observation = observation();
    let unknown = said(&observation, expected.clone());
    assert!(unknown.starts_with("waits for "), "{unknown}");
    observation.objects.extend(secrets.into_iter().map(|reference| ObjectPresence {
        reference,
        present: true,
        generation: None,
        deleting: false,
        unfinished: None,
        origin: None,
    }));
    let passed = said(&observation, expected.clone());
    assert!(passed.contains("Secret tenants/depot-etcd: present"), "{passed}");
    observation.objects.last_mut().unwrap().deleting = true;
    assert!(said(&observation, expected.clone()).contains("Secret tenants/depot-kubeconfig: is being deleted"));
    observation.objects.last_mut().unwrap().present = false;
    observation.objects.last_mut().unwrap().deleting = false;
    let lost = said(&observation, expected);
    assert!(lost.starts_with("waits for Secret tenants/depot-kubeconfig: is gone"), "{lost}");
}
