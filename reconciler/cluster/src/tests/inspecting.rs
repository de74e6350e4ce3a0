//! What is read for checks.

use policy::CheckName;
use rollout::check::{
    DefinitionChange, FieldStep, NAMED_OBJECTS, NarrowedVersion, Narrowing, RemovedApis, Requirement,
};
use rollout::{ChecksExpectation, Inspection, RollingNodes, SystemRequest};

use super::*;
use crate::client::server::Answer;

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

fn rule(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["*"], "resources": [resource]})
}

fn configuration(name: &str, hook: &Value) -> Value {
    let mut whole = json!({"name": format!("{name}.example.com"),
        "clientConfig": {"service": {"namespace": "policy", "name": "hook"}}});
    whole.as_object_mut().unwrap().extend(hook.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "webhooks": [whole]})
}

fn with(configurations: &[Value]) -> Script {
    served().list("/api/v1/nodes", &[node("a")]).list(VALIDATING, configurations).list(MUTATING, &[])
}

async fn inspected(script: Script) -> (Inspection, ApiServer) {
    let cluster = Some(("eksa-system".to_owned(), "prod".to_owned()));
    let expectation = ChecksExpectation { cluster, ..ChecksExpectation::default() };
    let (observation, server) = observe(script, vec![Expectation::Checks(expectation)]).await;
    (observation.inspection.unwrap(), server)
}

#[tokio::test]
async fn webhooks_are_told_that_refuse_nodes_and_system_pods_while_silent() {
    use SystemRequest::{CertificateSigningRequest, Node, NodeLease, SystemLease, SystemPod};
    let not_system = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
        "values": ["kube-system", "kube-node-lease"]}]});
    for (hook, expected) in [
        (json!({"rules": [rule("", "nodes")]}), vec![Node]),
        (json!({"rules": [rule("", "pods")]}), vec![SystemPod]),
        (json!({"rules": [rule("coordination.k8s.io", "leases")]}), vec![NodeLease, SystemLease]),
        (json!({"rules": [rule("*", "*")]}), vec![Node, CertificateSigningRequest, NodeLease, SystemPod, SystemLease]),
        // A selector of namespaces leaves nothing out that has none.
        (json!({"rules": [rule("*", "*")], "namespaceSelector": not_system}), vec![Node, CertificateSigningRequest]),
        (json!({"rules": [rule("", "pods")], "namespaceSelector": not_system}), vec![]),
        (json!({"rules": [rule("", "pods")], "objectSelector": {"matchLabels": {"a": "b"}}}), vec![]),
        (json!({"rules": [rule("", "nodes")], "failurePolicy": "Ignore"}), vec![]),
        (json!({"rules": [rule("apps", "deployments")]}), vec![]),
    ] {
        let (inspection, _server) = inspected(with(&[configuration("policy", &hook)])).await;
        assert_eq!(inspection.unread, std::collections::BTreeMap::new(), "{hook}");
        let called = inspection.webhooks.first().map(|known| known.called_for.clone()).unwrap_or_default();
        assert_eq!(called, expected, "{hook}");
        if let Some(known) = inspection.webhooks.first() {
            assert_eq!(known.unserved.as_deref(), Some("there is no Service policy/hook"), "{hook}");
        }
    }
}

#[tokio::test]
async fn a_webhook_that_is_served_is_told_as_such() {
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    let slice = json!({"metadata": {"name": "hook-1"}, "ports": [{"port": 8443}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}]});
    let hook = json!({"rules": [rule("", "nodes")], "matchConditions": [{"name": "a", "expression": "true"}]});
    let script = with(&[configuration("policy", &hook)])
        .object("/api/v1/namespaces/policy/services/hook", service)
        .list("/apis/discovery.k8s.io/v1/namespaces/policy/endpointslices", &[slice]);
    let (inspection, _server) = inspected(script).await;
    let known = &inspection.webhooks[0];
    assert_eq!((known.unserved.as_deref(), known.conditional), (None, true));
    assert_eq!(known.backend, "Service policy/hook");
}

#[tokio::test]
async fn what_may_not_be_read_is_unknown_to_its_checks() {
    let forbidden = Answer::Error(403, "webhooks are forbidden");
    let (inspection, _server) = inspected(with(&[]).on(&format!("GET {MUTATING}"), forbidden)).await;
    for check in [CheckName::Webhooks, CheckName::Certificates] {
        let reason = &inspection.unread[&check];
        assert!(reason.contains("list mutatingwebhookconfigurations"), "{reason}");
    }
    let secret = "GET /api/v1/namespaces/eksa-system/secrets/prod-ca";
    let (inspection, server) = inspected(with(&[]).on(secret, Answer::Error(403, "secrets are forbidden"))).await;
    assert!(inspection.unread[&CheckName::Certificates].contains("get Secret eksa-system/prod-ca"));
    assert_eq!(inspection.unread.get(&CheckName::Webhooks), None);
    // Nobody has to be allowed to list Secrets.
    assert!(server.lines().iter().all(|line| !line.ends_with("/secrets")), "{:?}", server.lines());
}

#[tokio::test]
async fn objects_are_held_against_what_the_new_schema_asks() {
    let narrowing = Narrowing {
        path: vec![FieldStep::Field("spec".to_owned())],
        requirement: Requirement::Required("size".to_owned()),
    };
    let change = DefinitionChange {
        name: "things.example.com".to_owned(),
        group: "example.com".to_owned(),
        kind: "Thing".to_owned(),
        plural: "things".to_owned(),
        versions: vec!["v1".to_owned()],
        storage: "v1".to_owned(),
        narrowed: vec![NarrowedVersion { version: "v1".to_owned(), narrowings: vec![narrowing] }],
    };
    let thing = |name: &str, spec: Value| json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec});
    let mut things = vec![thing("fits", json!({"size": 1}))];
    things.extend((0..8).map(|index| thing(&format!("t{index}"), json!({}))));
    let script = with(&[]).list("/apis/example.com/v1/things", &things);
    let expectation = ChecksExpectation { definitions: vec![change], ..ChecksExpectation::default() };
    let (observation, _server) = observe(script, vec![Expectation::Checks(expectation)]).await;
    let unfit = observation.inspection.unwrap().unfit;
    assert_eq!(unfit.len(), NAMED_OBJECTS);
    assert_eq!((unfit[0].object.to_string().as_str(), unfit[0].field.as_str()), ("Thing n/t0", "spec"));
    assert_eq!(unfit.iter().map(|known| known.others).sum::<u32>(), 3);
}

#[tokio::test]
async fn uses_of_versions_that_go_are_found_where_they_show() {
    let asked = RemovedApis { deployed: Some(33), target: 34, rendered: Vec::new() };
    let expectation = ChecksExpectation { removed_apis: Some(asked), ..ChecksExpectation::default() };
    let scaler = json!({"metadata": {"name": "h", "namespace": "n"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1beta2", "kind": "Deployment", "name": "d"}}});
    let policy = json!({"metadata": {"name": "p", "managedFields": [
        {"manager": "old-tool", "apiVersion": "admissionregistration.k8s.io/v1beta1", "operation": "Update"}]}});
    let applied = json!({"apiVersion": "admissionregistration.k8s.io/v1beta1"}).to_string();
    let applied = json!({"metadata": {"name": "q", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}}});
    let metrics = "apiserver_requested_deprecated_apis{group=\"resource.k8s.io\",removed_release=\"1.34\",resource=\"x\",\
                   subresource=\"\",version=\"v1alpha3\"} 1\napiserver_requested_deprecated_apis{group=\"\",version=\"v1\"} 1\n";
    let hook = json!({"rules": [{"apiGroups": ["policy"], "apiVersions": ["v1beta1"], "operations": ["*"],
        "resources": ["poddisruptionbudgets"]}]});
    let script = with(&[configuration("old", &hook)])
        .serves(&[(
            "admissionregistration.k8s.io/v1",
            &[("validatingadmissionpolicies", "ValidatingAdmissionPolicy", false)],
        )])
        .list("/apis/autoscaling/v2/horizontalpodautoscalers", &[scaler])
        .list("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", &[policy, applied])
        .on("GET /metrics", Answer::Text(200, metrics));
    let (observation, _server) = observe(script, vec![Expectation::Checks(expectation)]).await;
    let inspection = observation.inspection.unwrap();
    assert_eq!(inspection.unread, std::collections::BTreeMap::new());
    let told = inspection.api_uses.iter().map(|known| {
        let object = known.object.as_ref().map(|object| format!("{object} ")).unwrap_or_default();
        format!("{object}{} {:?}", known.api_version, known.kind)
    });
    let expected = [
        "HorizontalPodAutoscaler n/h apps/v1beta2 ScaleTarget",
        "ValidatingWebhookConfiguration old policy/v1beta1 WebhookRule",
        "ValidatingAdmissionPolicy p admissionregistration.k8s.io/v1beta1 LastWritten { by: \"old-tool\" }",
        "ValidatingAdmissionPolicy q admissionregistration.k8s.io/v1beta1 LastWritten { by: \"kubectl apply\" }",
        "resource.k8s.io/v1alpha3 Requested",
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn the_size_of_a_stacked_etcd_is_told_by_the_server_that_it_serves() {
    let pod = |name: &str, container: Value| {
        json!({"metadata": {"name": name, "namespace": "kube-system", "labels": {"component": "etcd"}},
            "spec": {"containers": [container]}})
    };
    let flag = json!({"name": "etcd", "command": ["etcd", "--quota-backend-bytes=4194304"]});
    let variable = json!({"name": "etcd", "env": [{"name": "ETCD_QUOTA_BACKEND_BYTES", "value": "8388608"}]});
    let now = "apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"} 3.145728e+06\n";
    let before = "etcd_db_total_size_in_bytes{endpoint=\"https://127.0.0.1:2379\"} 3.145728e+06\n";
    for (pods, metrics, expected) in [
        (vec![pod("etcd-a", variable.clone()), pod("etcd-b", flag)], now, (Some("etcd-b"), Some(4 << 20))),
        (vec![pod("etcd-a", variable)], before, (Some("etcd-a"), Some(8 << 20))),
        (
            vec![pod("etcd-a", json!({"name": "etcd", "args": ["--quota-backend-bytes=0"]}))],
            now,
            (Some("etcd-a"), Some(2 << 30)),
        ),
        (vec![], now, (None, None)),
    ] {
        let script = with(&[]).list("/api/v1/namespaces/kube-system/pods", &pods);
        let (inspection, _server) = inspected(script.on("GET /metrics", Answer::Text(200, metrics))).await;
        let [database] = inspection.etcd.databases.as_slice() else { panic!("{inspection:?}") };
        let object = database.object.as_ref().map(|object| object.name.as_str());
        assert_eq!((object, database.quota, database.size), (expected.0, expected.1, 3 << 20));
        assert_eq!(inspection.etcd.unread, [""; 0]);
    }
    let (inspection, _server) =
        inspected(with(&[]).on("GET /metrics", Answer::Error(403, "metrics are forbidden"))).await;
    assert!(inspection.etcd.unread[0].contains("the size of etcd's database could not be read"), "{inspection:?}");
    assert_eq!(inspection.unread.get(&CheckName::Etcd), None);
}

#[tokio::test]
async fn images_that_no_node_could_pull_are_told_as_the_manifest_has_them() {
    let waiting = |container: &str, reason: &str| json!({"name": container, "image": "docker.io/library/x:1", "state": {"waiting": {"reason": reason}}});
    let pod = |name: &str, status: Value| {
        json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"nodeName": "a",
            "initContainers": [{"name": "first", "image": "y:1"}], "containers": [{"name": "a", "image": "x:1"}]},
            "status": status})
    };
    let pods = [
        pod("one", json!({"containerStatuses": [waiting("a", "ImagePullBackOff")]})),
        pod("two", json!({"initContainerStatuses": [waiting("first", "ErrImagePull")]})),
        pod("three", json!({"containerStatuses": [waiting("a", "CrashLoopBackOff")]})),
    ];
    let kind = |architecture: &str, system: &str| {
        json!({"metadata": {"name": architecture}, "status": {"nodeInfo":
            {"architecture": architecture, "operatingSystem": system}}})
    };
    let nodes = [kind("amd64", "linux"), kind("arm64", "linux"), kind("s390x", "windows")];
    let (inspection, _server) = inspected(with(&[]).list("/api/v1/pods", &pods).list("/api/v1/nodes", &nodes)).await;
    let told = inspection.unpulled.iter().map(|known| format!("{} {} {}", known.object, known.image, known.reason));
    assert_eq!(told.collect::<Vec<_>>(), ["Pod n/one x:1 ImagePullBackOff", "Pod n/two y:1 ErrImagePull"]);
    assert_eq!(inspection.architectures.iter().map(String::as_str).collect::<Vec<_>>(), ["amd64", "arm64"]);
    let forbidden = with(&[]).on("GET /api/v1/pods", Answer::Error(403, "pods are forbidden"));
    let (inspection, _server) = inspected(forbidden).await;
    assert!(inspection.unread[&CheckName::Images].contains("list pods"), "{inspection:?}");
}

#[tokio::test]
async fn free_disk_of_etcd_is_asked_where_kubelets_may_be_asked() {
    let pod = json!({"metadata": {"name": "etcd-a", "namespace": "kube-system", "labels": {"component": "etcd"}},
        "spec": {"nodeName": "a", "containers": []}});
    let script = with(&[]).list("/api/v1/namespaces/kube-system/pods", &[pod]);
    let may = |script: Script, allowed: bool| {
        let answer = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "metadata": {}, "status": {"allowed": allowed}});
        script.on("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Answer::Json(answer))
    };
    let place = "GET /api/v1/nodes/a/proxy/stats/summary";
    let told = json!({"node": {"nodeName": "a", "fs": {"availableBytes": 10, "capacityBytes": 100}}, "pods": []});
    let (inspection, _server) = inspected(may(script.clone(), true).on(place, Answer::Json(told))).await;
    let [disk] = inspection.etcd.disks.as_slice() else { panic!("{inspection:?}") };
    assert_eq!((disk.node.as_str(), disk.available, disk.capacity), ("a", 10, 100));

    let is_unread = |inspection: &Inspection, expected: &str| {
        inspection.etcd.unread.iter().any(|line| line.contains("how much disk is free") && line.contains(expected))
    };
    let (inspection, server) = inspected(may(script.clone(), false)).await;
    assert!(is_unread(&inspection, "it takes `get` of nodes/proxy"), "{inspection:?}");
    assert!(server.lines().iter().all(|line| line != place), "{:?}", server.lines());
    let broken = may(script, true).on(place, Answer::Json(json!({"node": {}})));
    let (inspection, _server) = inspected(broken).await;
    assert!(is_unread(&inspection, "is no Kubernetes object"), "{inspection:?}");
}

#[tokio::test]
async fn nodes_of_machine_pools_roll_with_their_group() {
    let rolling =
        RollingNodes { cluster: "prod".to_owned(), control_plane: false, groups: vec!["pool".parse().unwrap()] };
    let expectation = ChecksExpectation { rolling: Some(rolling), ..ChecksExpectation::default() };
    let nodes = json!([{"kind": "Node", "name": "one"}, {"kind": "Node", "name": "two"}]);
    let pool = |name: &str, nodes: Value| {
        json!({"metadata": {"name": name, "namespace": "eksa-system", "generation": 1}, "spec": {"clusterName": "prod"},
            "status": {"nodeRefs": nodes}})
    };
    let pools = [pool("pool", nodes), pool("other", json!([{"kind": "Node", "name": "three"}]))];
    // One of the instances has a Machine, which drains its node.
    let machine = json!({"metadata": {"name": "m", "namespace": "eksa-system", "labels": {
        "cluster.x-k8s.io/cluster-name": "prod", "cluster.x-k8s.io/pool-name": "pool"}}, "spec": {"clusterName": "prod"},
        "status": {"nodeRef": {"name": "one"}}});
    let pod = |name: &str, node: &str| {
        json!({"metadata": {"name": name, "namespace": "shop", "labels": {}}, "spec": {"nodeName": node},
            "status": {"phase": "Running"}})
    };
    let pods = [pod("a", "one"), pod("b", "two"), pod("c", "three")];
    let script = served()
        .list(VALIDATING, &[])
        .list(MUTATING, &[])
        .list(&format!("{CAPI}/machinepools"), &pools)
        .list(&format!("{CAPI}/machines"), &[machine])
        .list("/api/v1/pods", &pods);
    let (observation, _server) = observe(script, vec![Expectation::Checks(expectation)]).await;
    let inspection = observation.inspection.unwrap();
    let told = inspection.evicted.iter().map(|pod| (pod.name.as_str(), pod.drain_ends));
    assert_eq!(told.collect::<Vec<_>>(), [("a", false), ("b", true)]);
}

#[tokio::test]
async fn pods_leave_with_the_nodes_that_roll_and_budgets_decide_when() {
    let rolling =
        RollingNodes { cluster: "prod".to_owned(), control_plane: false, groups: vec!["md-0".parse().unwrap()] };
    let expectation = ChecksExpectation { rolling: Some(rolling), ..ChecksExpectation::default() };
    let pod = |name: &str, node: &str, more: Value| {
        let mut pod = json!({"metadata": {"name": name, "namespace": "shop", "labels": {"app": "a"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]},
            "spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        for (key, value) in more.as_object().unwrap() {
            pod[key.as_str()].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        }
        pod
    };
    let owned =
        |kind: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "r", "uid": "u", "controller": true}]);
    let claim = json!({"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]});
    let pods = [
        pod("rolls", "prod-md-0-new-x1", json!({})),
        pod("stays", "prod-abc12", json!({})),
        pod("daemon", "prod-md-0-new-x1", json!({"metadata": {"ownerReferences": owned("DaemonSet")}})),
        pod("mirror", "prod-md-0-new-x1", json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})),
        pod("ended", "prod-md-0-new-x1", json!({"status": {"phase": "Succeeded"}})),
        pod(
            "bare",
            "prod-md-0-new-x1",
            json!({"metadata": {"ownerReferences": [], "labels": {"app": "b"}}, "spec": claim}),
        ),
    ];
    let budget = json!({"metadata": {"name": "budget", "namespace": "shop", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"observedGeneration": 2, "expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0}});
    let volume = json!({"metadata": {"name": "v"}, "spec": {"local": {"path": "/d"}, "claimRef": {"namespace": "shop", "name": "data"}}});
    let script = settled()
        .list(VALIDATING, &[])
        .list(MUTATING, &[])
        .list("/api/v1/pods", &pods)
        .list("/api/v1/persistentvolumes", &[volume])
        .list("/apis/policy/v1/poddisruptionbudgets", &[budget]);
    let (observation, _server) = observe(script, vec![Expectation::Checks(expectation)]).await;
    let inspection = observation.inspection.unwrap();
    assert_eq!(inspection.unread, std::collections::BTreeMap::new());
    let told =
        inspection.evicted.iter().map(|pod| (pod.name.as_str(), pod.budgets.len(), pod.has_controller, pod.local_data));
    assert_eq!(told.collect::<Vec<_>>(), [("rolls", 1, true, false), ("bare", 0, false, true)]);
    assert_eq!(inspection.budgets.len(), 1);
    assert_eq!((inspection.budgets[0].desired, inspection.budgets[0].is_stale), (1, false));
}
