use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::{Judged, SavedState, judge};
use super::object::{key, owners, text};
use super::order::ordered;
use super::selection::{Scope, select};

const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const EKSA: &str = "anywhere.eks.amazonaws.com/v1alpha1";

/// An object of this type and name, `namespace/name`, with more fields.
fn object(api_version: &str, kind: &str, name: &str, more: &Value) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let mut object = json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{kind}-{namespace}-{name}")}});
    for (field, value) in more.as_object().unwrap() {
        match field.as_str() {
            "cluster" => object["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": value}),
            "owner" => {
                let (kind, name) = value.as_str().unwrap().split_once(' ').unwrap();
                object["metadata"]["ownerReferences"] = json!([{"apiVersion": CAPI, "kind": kind, "name": name,
                    "uid": format!("{kind}-{namespace}-{name}")}]);
            }
            _ => object[field] = value.clone(),
        }
    }
    object
}

/// What a management cluster of two workload clusters holds.
fn saved() -> Vec<Value> {
    let template =
        |name: &str| json!({"ref": {"apiVersion": INFRASTRUCTURE, "kind": "VSphereMachineTemplate", "name": name}});
    vec![
        object(CAPI, "Cluster", "eksa-system/prod", &json!({"spec": {"topology": {"classRef": {"name": "shared"}}}})),
        object(CAPI, "Cluster", "eksa-system/test", &json!({"spec": {"topology": {"classRef": {"name": "shared"}}}})),
        object(CAPI, "ClusterClass", "eksa-system/shared", &json!({"spec": template("of-class")})),
        object(
            INFRASTRUCTURE,
            "VSphereMachineTemplate",
            "eksa-system/of-class",
            &json!({"owner": "ClusterClass shared"}),
        ),
        object(INFRASTRUCTURE, "VSphereMachineTemplate", "eksa-system/of-nobody", &json!({"spec": {}})),
        object(CAPI, "MachineDeployment", "eksa-system/prod-md", &json!({"cluster": "prod", "owner": "Cluster prod"})),
        object(
            CAPI,
            "Machine",
            "eksa-system/prod-1",
            &json!({"owner": "MachineDeployment prod-md", "spec": {"clusterName": "prod"}}),
        ),
        object(INFRASTRUCTURE, "VSphereMachine", "eksa-system/prod-1", &json!({"owner": "Machine prod-1"})),
        object(CAPI, "Machine", "eksa-system/test-1", &json!({"cluster": "test", "owner": "Cluster test"})),
        object(CAPI, "Machine", "other/prod-1", &json!({"cluster": "prod"})),
        object(INFRASTRUCTURE, "VSphereClusterIdentity", "vcenter", &json!({"spec": {}})),
        object(
            INFRASTRUCTURE,
            "VSphereCluster",
            "eksa-system/prod",
            &json!({"owner": "Cluster prod",
            "spec": {"identityRef": {"kind": "VSphereClusterIdentity", "name": "vcenter"}}}),
        ),
        object(
            EKSA,
            "Cluster",
            "default/prod",
            &json!({"spec": {"datacenterRef": {"kind": "VSphereDatacenterConfig", "name": "prod-dc"},
            "managementCluster": {"name": "test"}}}),
        ),
        object(EKSA, "VSphereDatacenterConfig", "default/prod-dc", &json!({"spec": {}})),
        object(EKSA, "VSphereDatacenterConfig", "default/test-dc", &json!({"spec": {}})),
        object("clusterctl.cluster.x-k8s.io/v1alpha3", "Provider", "capi-system/cluster-api", &json!({})),
        object("v1", "Secret", "eksa-system/prod-ca", &json!({"data": {}})),
        object("v1", "Secret", "eksa-system/test-ca", &json!({"data": {}})),
        object("v1", "Secret", "eksa-system/prod-1-bootstrap", &json!({"cluster": "prod", "data": {}})),
    ]
}

#[test]
fn of_a_workload_cluster_its_own_objects_and_what_they_need_are_restored() {
    let saved = saved();
    let mut found: Vec<String> =
        select(&saved, Scope::Of("eksa-system", "prod")).iter().map(|object| key(object).to_string()).collect();
    found.sort();
    let expected = [
        "Cluster default/prod",
        "Cluster eksa-system/prod",
        "ClusterClass eksa-system/shared",
        "Machine eksa-system/prod-1",
        "MachineDeployment eksa-system/prod-md",
        "Secret eksa-system/prod-1-bootstrap",
        "Secret eksa-system/prod-ca",
        "VSphereCluster eksa-system/prod",
        "VSphereClusterIdentity vcenter",
        "VSphereDatacenterConfig default/prod-dc",
        "VSphereMachine eksa-system/prod-1",
        "VSphereMachineTemplate eksa-system/of-class",
    ];
    assert_eq!(found, expected);
    // What manages itself is restored with everything but the inventory of providers.
    let everything = select(&saved, Scope::Everything);
    assert_eq!(everything.len(), saved.len() - 1);
    assert!(everything.iter().all(|object| object["kind"] != "Provider"));
}

#[test]
fn owners_are_made_before_what_they_own_and_clusters_first() {
    let mut saved = saved();
    saved.reverse();
    let all: Vec<&Value> = saved.iter().collect();
    let order = ordered(&all);
    assert_eq!(order.len(), saved.len());
    let place: BTreeMap<&str, usize> =
        order.iter().enumerate().map(|(at, object)| (text(object, "/metadata/uid"), at)).collect();
    for (at, object) in order.iter().enumerate() {
        assert!(owners(object).iter().all(|owner| place[text(owner, "/uid")] < at), "{object}");
    }
    assert!(order[..3].iter().all(|object| object["kind"] == "Cluster"), "{:?}", &order[..3]);
    // Those that own each other are not lost.
    let circle = [
        object(CAPI, "Machine", "n/a", &json!({"owner": "Machine b"})),
        object(CAPI, "Machine", "n/b", &json!({"owner": "Machine a"})),
    ];
    assert_eq!(ordered(&circle.iter().collect::<Vec<_>>()).len(), 2);
}

#[test]
fn what_differs_is_told_by_its_path_and_never_by_its_value() {
    let at = "2026-03-01T12:00:00Z".parse().unwrap();
    let of = |uid: &str, generation: i64, data: &Value| {
        json!({"apiVersion": CAPI, "kind": "Machine", "spec": data,
            "metadata": {"name": "m", "namespace": "n", "uid": uid, "generation": generation}})
    };
    let (one, other) = (json!({"version": "hunter2"}), json!({"version": "v1.35.0"}));
    let cases = [
        (of("a", 1, &one), of("a", 1, &one), Some((SavedState::Same, ""))),
        (
            of("a", 1, &one),
            of("a", 3, &other),
            Some((SavedState::Newer, "generation 3, 1 in the backup: spec.version")),
        ),
        // Put back by hand, it says the same.
        (of("a", 1, &one), of("a", 3, &one), Some((SavedState::Same, ""))),
        (of("a", 1, &one), of("b", 1, &one), Some((SavedState::Same, ""))),
        (of("a", 1, &one), of("b", 1, &other), None),
    ];
    for (saved, live, expected) in cases {
        let judged = judge(&saved, &live, at, &[]);
        assert!(!format!("{judged:?}").contains("hunter2"), "{judged:?}");
        match expected {
            Some((state, detail)) => assert_eq!(judged, Judged::So(state, detail.to_owned())),
            None => assert!(matches!(judged, Judged::Unclear(_)), "{judged:?}"),
        }
    }
    let mut leaving = of("a", 1, &one);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-03-01T13:00:00Z");
    assert!(matches!(judge(&of("a", 1, &one), &leaving, at, &[]), Judged::So(SavedState::Leaving, _)));
    // A Cluster that is paused meanwhile is no other one.
    let cluster = |spec: &Value| object(CAPI, "Cluster", "n/c", &json!({"spec": spec}));
    let judged = judge(&cluster(&json!({"a": 1})), &cluster(&json!({"a": 1, "paused": true})), at, &[]);
    assert_eq!(judged, Judged::So(SavedState::Same, String::new()));
}
