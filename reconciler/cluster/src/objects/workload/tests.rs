use serde_json::json;

use super::*;

const DIGEST: &str = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn object(data: Value) -> DynamicObject {
    serde_json::from_value(data).unwrap()
}

fn pod_of(name: &str, owner_kind: &str, owner: &str, phase: &str) -> OwnedPod {
    OwnedPod::of(&object(json!({
        "metadata": {"name": name, "namespace": "capi-system", "labels": {"app": "manager"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner_kind, "name": owner, "uid": "u", "controller": true}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "manager", "ready": phase == "Running", "restartCount": 0,
            "image": "registry/manager:v1", "imageID": format!("registry/manager@{DIGEST}"),
            "state": if phase == "Pending" { json!({"waiting": {"reason": "ImagePullBackOff"}}) } else { json!({}) }}]}
    })))
}

fn workload(data: &Value) -> DynamicObject {
    let mut manager = json!({
        "metadata": {"name": "manager", "namespace": "capi-system", "generation": 3},
        "spec": {"selector": {"matchLabels": {"app": "manager"}}, "template": {"spec": {
            "initContainers": [{"name": "init", "image": "registry/init:v1"}],
            "containers": [{"name": "manager", "image": "registry/manager:v1"}]}}}
    });
    for (key, value) in data.as_object().unwrap() {
        manager[key] = value.clone();
    }
    object(manager)
}

#[test]
fn a_deployment_is_read_with_the_pods_of_its_own_replica_sets() {
    let pods = [
        pod_of("a", "ReplicaSet", "manager-5d6f7", "Running"),
        pod_of("b", "ReplicaSet", "manager-9c8b7", "Pending"),
        pod_of("c", "ReplicaSet", "manager-extra-5d6f7", "Running"),
        pod_of("d", "ReplicaSet", "manager-5d6f7", "Failed"),
        pod_of("e", "DaemonSet", "manager", "Running"),
    ];
    let status = json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}]});
    let read = deployment(&workload(&json!({"status": status})), &pods);
    assert_eq!((read.generation, read.observed_generation, read.spec_replicas), (3, Some(3), 1));
    assert_eq!((read.replicas, read.updated_replicas), (Some(2), Some(1)));
    assert_eq!(read.images, ["registry/init:v1", "registry/manager:v1"]);
    let running: Vec<_> = read.running.iter().map(|image| (image.pod.as_str(), image.waiting.as_deref())).collect();
    // A pod that a DaemonSet owns has no owner of kind ReplicaSet: the selector alone decides.
    assert_eq!(running, [("a", None), ("b", Some("ImagePullBackOff")), ("e", None)]);
    assert_eq!(read.running[0].digest.as_deref(), Some(DIGEST));
}

#[test]
fn a_daemon_set_reads_zeros_that_the_server_leaves_out() {
    let status =
        json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberReady": 0, "numberMisscheduled": 0});
    let pods = [pod_of("a", "DaemonSet", "manager", "Running"), pod_of("b", "DaemonSet", "other", "Running")];
    let read = daemon_set(&workload(&json!({"status": status})), &pods);
    assert_eq!((read.desired_scheduled, read.updated_scheduled, read.available), (Some(3), Some(0), Some(0)));
    assert_eq!(read.observed_generation, None);
    assert_eq!(read.running.iter().map(|image| image.pod.as_str()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn only_a_repository_digest_is_a_digest() {
    for (id, expected) in [
        (format!("registry/manager@{DIGEST}"), Some(DIGEST)),
        (format!("docker-pullable://registry/manager@{DIGEST}"), Some(DIGEST)),
        (format!("registry/manager@{}", DIGEST.to_uppercase().replace("SHA256", "sha256")), Some(DIGEST)),
        (DIGEST.to_owned(), None),
        (String::from("registry/manager@sha256:12"), None),
        (String::from("registry/manager:v1"), None),
        (String::new(), None),
    ] {
        assert_eq!(digest(&id).as_deref(), expected, "{id}");
    }
}

#[test]
fn static_pods_are_found_by_label_or_by_name() {
    for (name, labels, expected) in [
        ("kube-vip-node-1", json!({}), true),
        ("kube-vip", json!({}), true),
        ("kube-vipers", json!({}), false),
        ("vip", json!({"app.kubernetes.io/name": "kube-vip"}), true),
        ("kube-proxy-x", json!({"k8s-app": "kube-proxy"}), false),
    ] {
        let pod = object(json!({"metadata": {"name": name, "labels": labels}}));
        assert_eq!(is_of_application(&pod, "kube-vip"), expected, "{name}");
    }
    let vip = object(json!({"metadata": {"name": "kube-vip-n", "namespace": "kube-system"}, "spec": {"nodeName": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    let read = pod(&vip, "kube-vip");
    assert!(read.ready && read.node.as_deref() == Some("n") && read.running.is_empty());
}

#[test]
fn a_stateful_set_is_finished_once_all_that_shall_be_new_is_new_and_ready() {
    let set = |status: Value, strategy: Value| {
        object(json!({"metadata": {"name": "a", "namespace": "b", "generation": 2},
            "spec": {"replicas": 3, "updateStrategy": strategy}, "status": status}))
    };
    let status = |observed: i64, updated: u32, ready: u32, update: &str| {
        json!({"observedGeneration": observed, "updatedReplicas": updated, "readyReplicas": ready,
            "currentRevision": "1", "updateRevision": update})
    };
    let field = |status: Value, strategy: Value| unfinished("StatefulSet", &set(status, strategy)).map(|it| it.field);
    assert_eq!(field(status(1, 3, 3, "1"), json!({})).as_deref(), Some("status.observedGeneration"));
    assert_eq!(field(status(2, 1, 3, "2"), json!({})).as_deref(), Some("status.updatedReplicas"));
    assert_eq!(field(status(2, 3, 2, "2"), json!({})).as_deref(), Some("status.readyReplicas"));
    assert_eq!(field(status(2, 1, 3, "2"), json!({"rollingUpdate": {"partition": 2}})), None);
    assert_eq!(field(status(2, 0, 3, "2"), json!({"type": "OnDelete"})), None);
    assert_eq!(field(status(2, 0, 3, "1"), json!({})), None);
}

#[test]
fn a_job_is_finished_once_it_is_complete_and_fails_when_it_says_so() {
    let job = |suspend: bool, condition: &str| {
        let conditions =
            json!([{"type": condition, "status": "True", "reason": "BackoffLimitExceeded", "message": "thrice"}]);
        object(json!({"metadata": {"name": "a"}, "spec": {"suspend": suspend}, "status": {"conditions": conditions}}))
    };
    assert_eq!(unfinished("Job", &job(false, "Complete")), None);
    assert_eq!(unfinished("Job", &job(true, "Suspended")), None);
    let failed = unfinished("Job", &job(false, "Failed")).unwrap();
    assert!(failed.failed && failed.message == "BackoffLimitExceeded: thrice", "{failed:?}");
    let runs = unfinished("Job", &job(false, "Other")).unwrap();
    assert!(!runs.failed && runs.field == "status.conditions[Complete]", "{runs:?}");
    assert_eq!(unfinished("ConfigMap", &job(false, "Failed")), None);
}
