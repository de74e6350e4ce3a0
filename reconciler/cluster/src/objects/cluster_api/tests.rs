use rollout::ConditionStatus;
use serde_json::json;

use super::*;

fn object(data: Value) -> DynamicObject {
    serde_json::from_value(data).unwrap()
}

fn condition(name: &str, status: &str) -> Value {
    json!({"type": name, "status": status, "reason": "Reason"})
}

fn status_of(conditions: &BTreeMap<String, Condition>, name: &str) -> Option<ConditionStatus> {
    conditions.get(name).map(|condition| condition.status)
}

#[test]
fn versions_tell_how_a_status_is_meant() {
    for (version, expected) in [
        ("cluster.x-k8s.io/v1beta2", Contract::V1Beta2),
        ("v1beta2", Contract::V1Beta2),
        ("cluster.x-k8s.io/v1beta1", Contract::V1Beta1),
        ("v1beta1", Contract::V1Beta1),
        ("cluster.x-k8s.io/v1", Contract::V1Beta2),
    ] {
        assert_eq!(Contract::of(version), expected, "{version}");
    }
}

/// The same control plane, as a server of each era shows it.
#[test]
fn counts_of_v1beta1_are_not_taken_for_those_of_v1beta2() {
    let metadata = json!({"name": "prod", "namespace": "eksa-system", "generation": 2, "labels": {"cluster.x-k8s.io/cluster-name": "prod"}});
    let modern = json!({"metadata": metadata, "spec": {"version": "v1.34.1", "replicas": 3},
        "status": {"observedGeneration": 2, "replicas": 3, "upToDateReplicas": 1, "readyReplicas": 2, "availableReplicas": 2,
            "conditions": [condition("RollingOut", "True")]}});
    let both = json!({"metadata": metadata, "spec": {"version": "v1.34.1", "replicas": 3},
        "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 3, "unavailableReplicas": 0,
            "conditions": [condition("Ready", "True")],
            "v1beta2": {"upToDateReplicas": 1, "readyReplicas": 2, "availableReplicas": 2, "conditions": [condition("RollingOut", "True")]}}});
    let counts =
        |read: &ControlPlane| (read.replicas, read.up_to_date_replicas, read.ready_replicas, read.available_replicas);
    for read in [control_plane(&object(modern), Contract::V1Beta2), control_plane(&object(both), Contract::V1Beta1)] {
        assert_eq!(counts(&read), (Some(3), Some(1), Some(2), Some(2)));
        assert_eq!(status_of(&read.conditions, "RollingOut"), Some(ConditionStatus::True));
        assert_eq!(status_of(&read.conditions, "Ready"), None);
        assert_eq!((read.cluster.as_str(), read.spec_version.as_str()), ("prod", "v1.34.1"));
    }
}

#[test]
fn a_control_plane_of_old_cluster_api_is_translated() {
    let read = |up_to_date: &str, resized: Value, annotations: Value| {
        control_plane(
            &object(json!({
                "metadata": {"name": "a", "namespace": "b", "generation": 5, "annotations": annotations},
                "spec": {"version": "v1.27.3", "replicas": 3},
                "status": {"observedGeneration": 5, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 2, "unavailableReplicas": 1,
                    "conditions": [condition("MachinesSpecUpToDate", up_to_date), resized, condition("MachinesReady", "True"),
                        condition("Available", "True"), condition("EtcdClusterHealthy", "True"), condition("CertificatesAvailable", "True")]}
            })),
            Contract::V1Beta1,
        )
    };
    let settled = read("True", condition("Resized", "True"), json!({}));
    assert_eq!(
        (settled.ready_replicas, settled.available_replicas, settled.up_to_date_replicas),
        (Some(2), Some(2), Some(3))
    );
    for (name, expected) in [
        ("MachinesUpToDate", ConditionStatus::True),
        ("RollingOut", ConditionStatus::False),
        ("ScalingUp", ConditionStatus::False),
        ("ScalingDown", ConditionStatus::False),
        ("Remediating", ConditionStatus::False),
        ("Deleting", ConditionStatus::False),
        ("Available", ConditionStatus::True),
    ] {
        assert_eq!(status_of(&settled.conditions, name), Some(expected), "{name}");
    }
    // What v1beta1 does not say stays absent.
    assert_eq!(status_of(&settled.conditions, "ControlPlaneComponentsHealthy"), None);
    let resized = json!({"type": "Resized", "status": "False", "reason": "ScalingUp"});
    let rolling = read("False", resized, json!({"controlplane.cluster.x-k8s.io/remediation-in-progress": "{}"}));
    for (name, expected) in [
        ("MachinesUpToDate", ConditionStatus::False),
        ("RollingOut", ConditionStatus::True),
        ("ScalingUp", ConditionStatus::True),
        ("ScalingDown", ConditionStatus::False),
        ("Remediating", ConditionStatus::True),
    ] {
        assert_eq!(status_of(&rolling.conditions, name), Some(expected), "{name}");
    }
}

#[test]
fn a_machine_deployment_of_old_cluster_api_is_judged_by_its_counts() {
    let read = |status: Value| {
        machine_deployment(
            &object(
                json!({"metadata": {"name": "a", "namespace": "b", "generation": 1}, "spec": {"replicas": 2}, "status": status}),
            ),
            Contract::V1Beta1,
        )
    };
    let new = read(json!({}));
    assert_eq!((new.replicas, status_of(&new.conditions, "RollingOut")), (None, None));
    let rolling = read(json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 3}));
    assert_eq!(status_of(&rolling.conditions, "RollingOut"), Some(ConditionStatus::True));
    assert_eq!(status_of(&rolling.conditions, "MachinesUpToDate"), Some(ConditionStatus::False));
    assert_eq!(status_of(&rolling.conditions, "ScalingDown"), Some(ConditionStatus::True));
    assert_eq!(rolling.available_replicas, Some(0));
}

#[test]
fn an_owner_speaks_for_machines_that_do_not_know_whether_they_are_up_to_date() {
    let machine = |name: &str, contract, conditions: Value| {
        let data = json!({"metadata": {"name": name, "namespace": "b", "ownerReferences": [
            {"apiVersion": "x", "kind": "KubeadmControlPlane", "name": "cp", "uid": "u", "controller": true}]}, "status": {"conditions": conditions}});
        machine(&object(data), contract, &[], &[])
    };
    let mut machines = [
        machine("old", Contract::V1Beta1, json!([condition("Ready", "True")])),
        machine("new", Contract::V1Beta2, json!([condition("Ready", "True")])),
    ];
    let owner = |status| ControlPlane {
        namespace: String::from("b"),
        name: String::from("cp"),
        conditions: rollout::conditions([("MachinesUpToDate", status)]),
        ..ControlPlane::default()
    };
    fill_in_legacy_machines(&mut machines, &[owner(ConditionStatus::False)], &[]);
    assert_eq!(status_of(&machines[0].conditions, "UpToDate"), None);
    fill_in_legacy_machines(&mut machines, &[owner(ConditionStatus::True)], &[]);
    assert_eq!(status_of(&machines[0].conditions, "UpToDate"), Some(ConditionStatus::True));
    assert_eq!(status_of(&machines[1].conditions, "UpToDate"), None);
    assert_eq!(status_of(&machines[0].conditions, "Available"), Some(ConditionStatus::True));
}

#[test]
fn a_worker_group_has_the_name_that_people_gave_it() {
    for (metadata, expected) in [
        (json!({"name": "md-0", "namespace": "default"}), "md-0"),
        (
            json!({"name": "c1-md-0-l6kf6", "namespace": "default", "labels": {"topology.cluster.x-k8s.io/deployment-name": "md-0"}}),
            "md-0",
        ),
        (
            json!({"name": "prod-md-0", "namespace": "eksa-system", "labels": {"cluster.x-k8s.io/cluster-name": "prod"}}),
            "md-0",
        ),
        (
            json!({"name": "prod-md-0", "namespace": "default", "labels": {"cluster.x-k8s.io/cluster-name": "prod"}}),
            "prod-md-0",
        ),
        (
            json!({"name": "other", "namespace": "eksa-system", "labels": {"cluster.x-k8s.io/cluster-name": "prod"}}),
            "other",
        ),
    ] {
        let read = machine_deployment(&object(json!({"metadata": metadata})), Contract::V1Beta2);
        assert_eq!(read.group.unwrap().as_str(), expected, "{metadata}");
    }
}

#[test]
fn a_worker_is_led_to_its_deployment_through_its_machine_set() {
    let set = machine_set(&object(json!({"metadata": {"name": "md-x", "namespace": "b", "ownerReferences": [
        {"apiVersion": "x", "kind": "MachineDeployment", "name": "md", "uid": "u"}]},
        "spec": {"template": {"spec": {"version": "v1.34.1", "infrastructureRef": {"name": "template-2"}}}}})));
    assert_eq!(set.machine_deployment.as_deref(), Some("md"));
    let data = json!({"metadata": {"name": "md-x-1", "namespace": "b", "generation": 7, "deletionTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "x", "kind": "MachineSet", "name": "md-x", "uid": "u", "controller": true}]},
        "spec": {"clusterName": "c", "version": "v1.34.1"},
        "status": {"phase": "Deleting", "nodeRef": {"name": "n"}, "nodeInfo": {"kubeletVersion": ""}}});
    let read = machine(&object(data), Contract::V1Beta2, &[set], &[]);
    assert_eq!((read.owner.as_deref(), read.infrastructure_template.as_deref()), (Some("md"), Some("template-2")));
    assert_eq!((read.cluster.as_str(), read.node.as_deref(), read.kubelet_version), ("c", Some("n"), None));
    assert!(read.deleting && !read.control_plane && read.generation == Some(7));
}

#[test]
fn external_etcd_counts_ready_members_and_a_zero_left_out() {
    let read = |status: Option<Value>| {
        etcdadm_cluster(&object(json!({"metadata": {"name": "e", "namespace": "b", "generation": 1,
            "annotations": {"cluster.x-k8s.io/paused": "true"}}, "spec": {"replicas": 3}, "status": status})))
    };
    let silent = read(None);
    assert_eq!((silent.ready_replicas, silent.ready, silent.paused), (None, None, true));
    let starting = read(Some(json!({"observedGeneration": 1})));
    assert_eq!((starting.ready_replicas, starting.ready), (Some(0), Some(false)));
    let ready = read(Some(json!({"replicas": 3, "ready": true, "creationComplete": true})));
    assert_eq!((ready.ready_replicas, ready.ready, ready.creation_complete), (Some(3), Some(true), Some(true)));
}

#[test]
fn a_cluster_is_paused_by_field_or_annotation() {
    for (metadata, spec, paused) in [
        (json!({"name": "a"}), json!({}), false),
        (json!({"name": "a"}), json!({"paused": true}), true),
        (json!({"name": "a", "annotations": {"cluster.x-k8s.io/paused": ""}}), json!({}), true),
    ] {
        let read = cluster(&object(json!({"metadata": metadata, "spec": spec})), Contract::V1Beta2);
        assert_eq!(read.paused, paused, "{metadata} {spec}");
    }
}

#[test]
fn a_machine_without_a_set_is_led_to_its_template_by_its_infrastructure() {
    let infrastructure = |kind: &str, name: &str, template: &str| {
        object(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": name, "namespace": "b", "annotations": {"cluster.x-k8s.io/cloned-from-name": template}}}))
    };
    let known = [infrastructure("DevMachine", "m", "old"), infrastructure("VSphereMachine", "m", "new")];
    for (reference, expected) in [
        (json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VSphereMachine", "name": "m"}), Some("new")),
        (
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DevMachine", "name": "m"}),
            Some("old"),
        ),
        (json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": "n"}), None),
        (json!({"apiGroup": "example.com", "kind": "DevMachine", "name": "m"}), None),
        (Value::Null, None),
    ] {
        let data = json!({"metadata": {"name": "m", "namespace": "b"}, "spec": {"infrastructureRef": reference}});
        let read = machine(&object(data), Contract::V1Beta2, &[], &known);
        assert_eq!(read.infrastructure_template.as_deref(), expected, "{reference}");
    }
}

#[test]
fn owners_name_the_templates_that_their_machines_are_made_from() {
    for (spec, contract) in [
        (json!({"machineTemplate": {"spec": {"infrastructureRef": {"name": "t"}}}}), Contract::V1Beta2),
        (json!({"machineTemplate": {"infrastructureRef": {"name": "t"}}}), Contract::V1Beta1),
    ] {
        let read = control_plane(&object(json!({"metadata": {"name": "a"}, "spec": spec})), contract);
        assert_eq!(read.infrastructure_template.as_deref(), Some("t"));
    }
    let etcd =
        etcdadm_cluster(&object(json!({"metadata": {"name": "a"}, "spec": {"infrastructureTemplate": {"name": "t"}}})));
    assert_eq!(etcd.infrastructure_template.as_deref(), Some("t"));
    let template =
        json!({"template": {"spec": {"infrastructureRef": {"name": "t"}, "bootstrap": {"configRef": {"name": "b"}}}}});
    let workers = machine_deployment(&object(json!({"metadata": {"name": "a"}, "spec": template})), Contract::V1Beta2);
    assert_eq!(
        (workers.infrastructure_template.as_deref(), workers.bootstrap_template.as_deref()),
        (Some("t"), Some("b"))
    );
}
