//! What is read, and what becomes of reads that fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rollout::{
    CommitId, EksaClusterExpectation, EtcdExpectation, GateHistory, KubeVipExpectation, ObjectReference, StagePolicy,
    control_plane_gate, workers_gate,
};

use super::super::server::Answer;
use super::super::{Connection, ConnectionSource};
use super::*;
use crate::cluster::{DeployedObjects, FluxReference};

#[tokio::test]
async fn a_cluster_at_rest_passes_its_gates_as_read_from_the_api_server() {
    let expectations = vec![Expectation::ControlPlane(control_plane()), Expectation::Workers(workers())];
    let (observation, server) = observe(settled(), expectations).await;
    assert_eq!(observation.unread, BTreeMap::new());
    let mut history = [GateHistory::default(), GateHistory::default()];
    let mut passed = [false, false];
    for second in 0..2 {
        let mut observation = observation.clone();
        observation.read_at += jiff::SignedDuration::from_secs(second);
        let policy = StagePolicy { soak: Duration::ZERO, ..StagePolicy::default() };
        let (verdict, next) = control_plane_gate(&control_plane(), &observation, &policy, &history[0]);
        (passed[0], history[0]) = (verdict.is_pass(), next);
        let (verdict, next) = workers_gate(&workers(), &observation, &policy, &history[1]);
        (passed[1], history[1]) = (verdict.is_pass(), next);
    }
    assert_eq!(passed, [true, true]);
    // Read of the cluster in question only, and never from a server's cache.
    for asked in
        server.asked().iter().filter(|asked| asked.path.contains("x-k8s.io") && !asked.path.ends_with("/clusters"))
    {
        assert!(asked.query.contains("labelSelector=cluster.x-k8s.io%2Fcluster-name%3Dprod"), "{asked:?}");
        assert!(!asked.query.contains("resourceVersion"), "{asked:?}");
    }
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    let page = |name: &str, token: &str| {
        Answer::Json(
            json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"continue": token}, "items": [node(name)]}),
        )
    };
    let script = Script::default()
        .on("GET /api/v1/nodes", page("a", "next"))
        .on("GET /api/v1/nodes?continue=next", page("b", "last"))
        .on("GET /api/v1/nodes?continue=last", page("c", ""));
    let (observation, _server) = observe(script, vec![Expectation::ClusterHealthy { cluster: None }]).await;
    assert_eq!(observation.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_server_that_has_only_v1beta1_is_read_in_it() {
    let machine = json!({"metadata": {"name": "m", "namespace": "n", "labels": {"cluster.x-k8s.io/control-plane": ""}}, "spec": {"version": "v1.30.0"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "v1beta2": {"conditions": [{"type": "UpToDate", "status": "True"}]}}});
    let script = Script::default()
        .serves(&[("cluster.x-k8s.io/v1beta1", &[]), ("controlplane.cluster.x-k8s.io/v1beta1", &[])])
        .list("/apis/cluster.x-k8s.io/v1beta1/machines", &[machine])
        .list("/api/v1/nodes", &[]);
    let (observation, server) = observe(script, vec![Expectation::ControlPlane(control_plane())]).await;
    assert_eq!(observation.machines.len(), 1);
    assert!(observation.machines[0].conditions.contains_key("UpToDate"));
    assert!(server.lines().iter().all(|line| !line.contains("v1beta2")), "{:?}", server.lines());
    assert!(server.lines().iter().all(|line| !line.contains("etcdadm")), "{:?}", server.lines());
}

#[tokio::test]
async fn versions_of_the_future_are_unknown_and_not_absent() {
    let script = Script::default().serves(&[("cluster.x-k8s.io/v1beta3", &[])]).list("/api/v1/nodes", &[]);
    let (observation, _server) = observe(script, vec![Expectation::Workers(workers())]).await;
    assert!(observation.unread["Machine"].contains("served in v1beta3"), "{observation:?}");
    assert_eq!(observation.unread.get("KubeadmControlPlane"), None);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_not_asked_for_everything_else() {
    let deployments = (0..50).map(|index| Expectation::Deployment {
        namespace: String::from("a"),
        name: format!("d{index}"),
        images: Vec::new(),
    });
    let silent = Script::default().on("GET /apis/apps/v1/namespaces/a/deployments/d0", Answer::Silence);
    let (observation, server) = observe(silent, deployments.collect()).await;
    assert!(unreachable(&observation).contains("get Deployment a/d0"), "{observation:?}");
    // Those that were under way together with it.
    assert!(server.lines().len() <= 8, "{:?}", server.lines());
    let pods = "GET /api/v1/namespaces/a/pods";
    let deployments = vec![Expectation::Deployment { namespace: "a".into(), name: "d0".into(), images: Vec::new() }];
    let survey = deployments.into_iter().chain([Expectation::Surveyed]).collect();
    let (observation, server) = observe(Script::default().on(pods, Answer::Silence), survey).await;
    assert!(unreachable(&observation).contains("list pods in namespace a"), "{observation:?}");
    assert_eq!(server.lines().last().map(String::as_str), Some(pods));
}

#[tokio::test]
async fn what_cannot_be_read_is_unknown_and_not_absent() {
    let path = "/apis/apps/v1/namespaces/capi-system/deployments/capi-controller-manager";
    for (answer, expected) in [
        (
            Answer::Error(403, "deployments.apps is forbidden: User \"x\" cannot get"),
            "grant that verb to stepgate's ClusterRole",
        ),
        (Answer::Error(500, "etcdserver: leader changed"), "the server answered 500 (etcdserver: leader changed)"),
        (Answer::Text(503, "upstream connect error"), "the server answered 503 (upstream connect error)"),
        (Answer::CutOff, "the answer is no Kubernetes object (cut off"),
    ] {
        let text = format!("{answer:?}");
        let script =
            Script::default().on(&format!("GET {path}"), answer).list("/api/v1/namespaces/capi-system/pods", &[]);
        let (observation, _server) = observe(script, vec![deployment()]).await;
        assert_eq!(observation.reachable, Reachability::Reachable, "{text}");
        let reason = &observation.unread["Deployment"];
        assert!(reason.contains(expected), "{text}: {reason}");
        assert!(
            reason.starts_with("could not get Deployment capi-system/capi-controller-manager on http://127.0.0.1:"),
            "{reason}"
        );
        assert!(observation.deployments.is_empty());
    }
}

#[tokio::test]
async fn an_object_that_is_not_there_is_absent_and_not_unknown() {
    let script = Script::default().list("/api/v1/namespaces/capi-system/pods", &[]);
    let (observation, _server) = observe(script, vec![deployment()]).await;
    assert_eq!((observation.unread.len(), observation.deployments.len()), (0, 0));
    assert_eq!(observation.reachable, Reachability::Reachable);
}

#[tokio::test]
async fn a_server_that_does_not_answer_makes_the_cluster_unreachable() {
    let (observation, _server) =
        observe(settled().on(&format!("GET {CAPI}/machines"), Answer::Silence), vec![Expectation::Workers(workers())])
            .await;
    assert!(unreachable(&observation).contains("could not list machines"), "{observation:?}");
    assert!(unreachable(&observation).contains("no answer within 0.4 s"), "{observation:?}");

    let (observation, _server) = observe(
        Script::default().on("GET /apis", Answer::Error(401, "Unauthorized")),
        vec![Expectation::Workers(workers())],
    )
    .await;
    assert!(unreachable(&observation).contains("credentials refused"), "{observation:?}");

    let server = ApiServer::start(Script::default()).await;
    let connection = server.connection();
    drop(server);
    tokio::task::yield_now().await;
    let cluster = KubernetesCluster::management(connection, PathBuf::new());
    let observation = cluster.observe(&request(vec![Expectation::ClusterHealthy { cluster: None }])).await;
    assert!(unreachable(&observation).contains("could not list nodes"), "{observation:?}");
}

#[tokio::test]
async fn objects_of_kinds_that_are_not_served_are_not_there() {
    let reference = |api_version: &str, kind: &str, namespace: Option<&str>, name: &str| ObjectReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    let objects = [
        reference("v1", "ConfigMap", Some("a"), "there"),
        reference("v1", "ConfigMap", Some("a"), "going"),
        reference("v1", "ConfigMap", Some("a"), "gone"),
        reference("anywhere.eks.amazonaws.com/v1alpha1", "Bundles", Some("eksa-system"), "bundles-1"),
    ];
    let script =
        served().object("/api/v1/namespaces/a/configmaps/there", json!({"metadata": {"name": "there"}})).object(
            "/api/v1/namespaces/a/configmaps/going",
            json!({"metadata": {"name": "going", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        );
    let (observation, server) =
        observe(script, objects.iter().map(|object| Expectation::Object { object: object.clone() }).collect()).await;
    let seen: Vec<_> = observation
        .objects
        .iter()
        .map(|presence| (presence.reference.name.as_str(), presence.present, presence.deleting))
        .collect();
    assert_eq!(
        seen,
        [("bundles-1", false, false), ("going", true, true), ("gone", false, false), ("there", true, false)]
    );
    // The kinds of a version are looked up once.
    assert_eq!(server.lines().iter().filter(|line| *line == "GET /api/v1").count(), 1, "{:?}", server.lines());
}

#[tokio::test]
async fn several_objects_of_a_kind_are_one_list_as_far_as_lists_are_allowed_and_whole() {
    let expectations = || {
        let object = |name: &str| ObjectReference {
            api_version: String::from("v1"),
            kind: String::from("ConfigMap"),
            namespace: Some(String::from("a")),
            name: name.to_owned(),
        };
        ["one", "two", "gone"].map(|name| Expectation::Object { object: object(name) }).to_vec()
    };
    let named = |name: &str| json!({"metadata": {"name": name}});
    let path = "/api/v1/namespaces/a/configmaps";
    let script = served().object(&format!("{path}/one"), named("one")).object(&format!("{path}/two"), named("two"));
    let page = |token: &str, items: &[Value]| {
        let metadata = json!({"continue": token});
        Answer::Json(json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}))
    };
    let lists = format!("GET {path}");
    for (answer, expected) in [
        (page("", &[named("one"), named("other"), named("two")]), 0),
        (page("more", &[named("one")]), 2),
        (Answer::Error(403, "forbidden"), 3),
        (Answer::Error(404, "not found"), 3),
    ] {
        let (observation, server) = observe(script.clone().on(&lists, answer.clone()), expectations()).await;
        let seen: Vec<_> =
            observation.objects.iter().map(|seen| (seen.reference.name.as_str(), seen.present)).collect();
        assert_eq!(seen, [("gone", false), ("one", true), ("two", true)], "{answer:?}");
        let single = server.lines().iter().filter(|line| line.starts_with(&format!("{lists}/"))).count();
        assert_eq!((single, observation.unread.len()), (expected, 0), "{answer:?} {:?}", server.lines());
    }
}

#[tokio::test]
async fn objects_in_many_namespaces_are_one_list_unless_there_are_too_many_of_them() {
    let namespaces = ["a", "b", "c", "d"];
    let objects = namespaces.map(|namespace| ObjectReference {
        api_version: String::from("v1"),
        kind: String::from("ConfigMap"),
        namespace: Some(namespace.to_owned()),
        name: String::from("one"),
    });
    let named = |namespace: &str| json!({"metadata": {"name": "one", "namespace": namespace}});
    let page = |token: &str, items: &[Value]| {
        Answer::Json(json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": token}, "items": items}))
    };
    // What is called the same elsewhere is another object.
    let items = [named("a"), named("elsewhere"), named("c")];
    for (token, listed, single) in [("", 2, 0), ("more", 1, 6)] {
        let mut script = served().on("GET /api/v1/configmaps", page(token, &items));
        for namespace in ["a", "c"] {
            script = script.object(&format!("/api/v1/namespaces/{namespace}/configmaps/one"), named(namespace));
        }
        let server = ApiServer::start(script).await;
        let cluster = KubernetesCluster::management(server.connection(), PathBuf::from("/nonexistent"));
        let expectations = objects.clone().map(|object| Expectation::Object { object }).to_vec();
        for _ in 0..2 {
            let observation = cluster.observe(&request(expectations.clone())).await;
            let seen: Vec<_> = observation.objects.iter().map(|seen| seen.present).collect();
            assert_eq!((seen, observation.unread.len()), (vec![true, false, true, false], 0), "{token:?}");
        }
        let asked = |path: &str| server.lines().iter().filter(|line| line.starts_with(path)).count();
        assert_eq!(asked("GET /api/v1/configmaps"), listed, "{:?}", server.lines());
        assert_eq!(asked("GET /api/v1/namespaces/"), single, "{:?}", server.lines());
    }
}

#[tokio::test]
async fn definitions_are_read_whole_when_they_have_changed() {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let metadata =
        |name: &str, version: &str| json!({"metadata": {"name": name, "uid": name, "resourceVersion": version}});
    let whole = |name: &str, version: &str, served: bool| {
        let mut object = metadata(name, version);
        object["spec"] = json!({"versions": [{"name": "v1", "served": served, "storage": true}]});
        object
    };
    let script = |version: &str, served: bool| {
        Script::default()
            .list(path, &[metadata("a", "1"), metadata("b", version)])
            .object(&format!("{path}/a"), whole("a", "1", true))
            .object(&format!("{path}/b"), whole("b", version, served))
    };
    let expectations: Vec<Expectation> = ["a", "b", "gone"]
        .map(|name| Expectation::CustomResourceDefinition {
            name: name.to_owned(),
            served: vec![String::from("v1")],
            storage: String::from("v1"),
        })
        .to_vec();
    let first = ApiServer::start(script("1", true)).await;
    let connection = first.connection();
    let reading = |connection: &Connection| {
        let cluster = KubernetesCluster::management(connection.clone(), "unused".into());
        let request = request(expectations.clone());
        async move { cluster.observe(&request).await.custom_resource_definitions }
    };
    let before = reading(&connection).await;
    assert_eq!(before, reading(&connection).await);
    assert_eq!(first.lines().len(), 4, "{:?}", first.lines());
    first.answer(script("2", false));
    let after = reading(&connection).await;
    let served = |seen: &[rollout::CustomResourceDefinition]| -> Vec<(String, usize)> {
        let mut served: Vec<_> = seen.iter().map(|seen| (seen.name.clone(), seen.served_versions.len())).collect();
        served.sort();
        served
    };
    assert_eq!(served(&before), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    assert_eq!(served(&after), [("a".to_owned(), 1), ("b".to_owned(), 0)]);
    assert_eq!(first.lines().len(), 6, "{:?}", first.lines());
}

#[tokio::test]
async fn workloads_of_kinds_that_are_not_served_are_none() {
    let deployment = |ready: u32| {
        json!({"metadata": {"name": format!("ready-{ready}"), "namespace": "a", "generation": 1}, "spec": {"replicas": 1},
            "status": {"observedGeneration": 1, "readyReplicas": ready}})
    };
    let kinds: &[_] = &[("deployments", "Deployment", true), ("daemonsets", "DaemonSet", true)];
    // As Cluster API's in-memory machines answer.
    let script = Script::default()
        .serves(&[("apps/v1", kinds)])
        .list("/api/v1/nodes", &[])
        .list("/apis/apps/v1/deployments", &[deployment(0), deployment(1)])
        .list("/apis/apps/v1/daemonsets", &[])
        .on("GET /apis/apps/v1/statefulsets", Answer::Error(500, "no kind is registered for the type v1.StatefulSet"));
    let (observation, _server) = observe(script, vec![Expectation::Surveyed]).await;
    assert_eq!(observation.unread, BTreeMap::new());
    let survey = observation.survey.unwrap();
    assert_eq!((survey.workloads, survey.broken), (2, vec![String::from("Deployment a/ready-0")]));
}

#[tokio::test]
async fn workloads_are_unknown_where_none_of_their_kinds_is_served() {
    for answer in [Answer::Text(404, "404 page not found"), Answer::Error(503, "not ready")] {
        let script = Script::default().list("/api/v1/nodes", &[]).on("GET /apis/apps/v1", answer);
        let (observation, _server) = observe(script, vec![Expectation::Surveyed]).await;
        let unread: Vec<_> = observation.unread.keys().map(String::as_str).collect();
        assert_eq!(unread, ["DaemonSet", "Deployment", "StatefulSet"]);
    }
}

#[tokio::test]
async fn flux_objects_are_read_with_their_source() {
    let kustomization = json!({"metadata": {"name": "capi", "namespace": "flux-system", "generation": 1},
        "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"}},
        "status": {"observedGeneration": 1, "lastAppliedRevision": format!("deploy@sha1:{COMMIT}")}});
    let base = "/namespaces/flux-system";
    let script = served()
        .object(&format!("/apis/kustomize.toolkit.fluxcd.io/v1{base}/kustomizations/capi"), kustomization)
        .object(
            &format!("/apis/source.toolkit.fluxcd.io/v1{base}/gitrepositories/fleet"),
            json!({"metadata": {"name": "fleet", "namespace": "flux-system"}}),
        )
        .on(&format!("PATCH /apis/source.toolkit.fluxcd.io/v1{base}/gitrepositories/fleet"), Answer::Echo);
    let server = ApiServer::start(script).await;
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::new());
    let flux = Expectation::Flux {
        namespace: String::from("flux-system"),
        kustomizations: vec![String::from("capi"), String::from("missing")],
    };
    let observation = cluster.observe(&request(vec![flux])).await;
    assert_eq!(observation.flux.kustomizations.len(), 1);
    assert_eq!(observation.flux.kustomizations[0].last_applied_revision.as_ref().map(CommitId::as_str), Some(COMMIT));
    assert_eq!(observation.flux.sources.len(), 1);

    let reference = FluxReference { namespace: String::from("flux-system"), name: String::from("capi") };
    cluster.nudge(&[reference], "2026-03-01T12:00:00Z".parse().unwrap()).await.unwrap();
    let asked = server.asked();
    let patch = asked.last().unwrap();
    assert_eq!(patch.method, "PATCH");
    assert_eq!(
        patch.body,
        json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "2026-03-01T12:00:00Z"}}})
    );
    assert!(patch.query.contains("fieldManager=stepgate"), "{patch:?}");
}

#[tokio::test]
async fn kube_vip_is_read_with_the_holder_of_the_address() {
    let mut expected = control_plane();
    expected.kube_vip = Some(KubeVipExpectation { image: String::from("kube-vip:v1") });
    let script = settled()
        .list("/api/v1/namespaces/kube-system/pods", &[
            json!({"metadata": {"name": "kube-vip-prod-abc12", "namespace": "kube-system"}, "spec": {"nodeName": "prod-abc12"}}),
            json!({"metadata": {"name": "kube-proxy-x", "namespace": "kube-system"}}),
        ])
        .object("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/plndr-cp-lock", json!({"metadata": {"name": "plndr-cp-lock"}, "spec": {"holderIdentity": "prod-abc12"}}));
    let (observation, _server) = observe(script, vec![Expectation::ControlPlane(expected)]).await;
    assert_eq!(observation.pods.iter().map(|pod| pod.node.as_deref()).collect::<Vec<_>>(), [Some("prod-abc12")]);
    assert_eq!(observation.virtual_address.unwrap().holder.as_deref(), Some("prod-abc12"));
}

fn kubeconfig(server: &str, user: &Value) -> Value {
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    json!({"metadata": {"name": "prod-kubeconfig", "resourceVersion": "7"}, "data": {"value": STANDARD.encode(text.to_string())}})
}

#[tokio::test]
async fn a_workload_cluster_is_reached_through_its_secret() {
    let own = ApiServer::start(Script::default().list("/api/v1/nodes", &[node("worker")])).await;
    let secret = "/api/v1/namespaces/eksa-system/secrets/prod-kubeconfig";
    let management = ApiServer::start(served().object(secret, kubeconfig(&own.url, &json!({"token": "t"})))).await;
    let cluster = KubernetesCluster::workload(management.connection(), "eksa-system", "prod", PathBuf::new());
    for _ in 0..2 {
        let observation = cluster.observe(&request(vec![Expectation::ClusterHealthy { cluster: None }])).await;
        assert_eq!(observation.reachable, Reachability::Reachable);
        assert_eq!(observation.nodes.len(), 1);
    }
    assert!(management.lines().iter().all(|line| line.ends_with("prod-kubeconfig")), "{:?}", management.lines());
}

#[tokio::test]
async fn a_kubeconfig_of_a_secret_runs_no_program_reads_no_file_and_shows_no_credentials() {
    let path = "/api/v1/namespaces/eksa-system/secrets/prod-kubeconfig";
    let secret = |value: &str| json!({"metadata": {"name": "prod-kubeconfig"}, "data": {"value": value}});
    for (answer, expected) in [
        (None, "not found; Cluster API writes it"),
        (Some(json!({"metadata": {"name": "prod-kubeconfig"}, "data": {}})), "key `value` is missing"),
        (Some(secret("???")), "no base64"),
        (Some(secret(&STANDARD.encode("hunter2: ["))), "no kubeconfig"),
        (
            Some(kubeconfig(
                "http://127.0.0.1:1",
                &json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}}),
            )),
            "runs a program",
        ),
        (Some(kubeconfig("http://127.0.0.1:1", &json!({"tokenFile": "/etc/hunter2"}))), "names files"),
    ] {
        let mut script = served();
        if let Some(answer) = answer {
            script = script.object(path, answer);
        }
        let management = ApiServer::start(script).await;
        let cluster = KubernetesCluster::workload(management.connection(), "eksa-system", "prod", PathBuf::new());
        let observation = cluster.observe(&request(vec![Expectation::ClusterHealthy { cluster: None }])).await;
        let reason = unreachable(&observation);
        assert!(reason.contains(expected) && reason.contains("Secret eksa-system/prod-kubeconfig"), "{reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
    }
}

#[tokio::test]
async fn credentials_that_cannot_be_read_are_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let open = |path: PathBuf, context: Option<String>| async move {
        Connection::open(&ConnectionSource::Kubeconfig { path: Some(path), context }).await
    };
    let error = open(path.clone(), None).await.unwrap_err().to_string();
    assert!(error.contains("could not use kubeconfig") && error.contains("config"), "{error}");
    std::fs::write(&path, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n").unwrap();
    assert!(open(path.clone(), None).await.is_err());
    assert!(open(path.clone(), Some(String::from("other"))).await.is_err());
    let connection = open(path, Some(String::from("c"))).await.unwrap();
    assert_eq!(connection.server(), "http://127.0.0.1:1");
}

/// Whoever says "done" is read first, so that what was done is never older than that word.
#[tokio::test]
async fn causes_are_read_before_what_they_cause() {
    const EKSA: &str = "/apis/anywhere.eks.amazonaws.com/v1alpha1";
    const ETCD: &str = "/apis/etcdcluster.cluster.x-k8s.io/v1beta1";
    const INFRASTRUCTURE: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta1";
    let member = json!({"metadata": {"name": "m", "namespace": "eksa-system", "labels": {"cluster.x-k8s.io/cluster-name": "prod"},
        "ownerReferences": [{"apiVersion": "x", "kind": "EtcdadmCluster", "name": "prod-etcd", "uid": "u", "controller": true}]},
        "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VSphereMachine", "name": "m"}}});
    let machine = json!({"metadata": {"name": "m", "namespace": "eksa-system",
        "annotations": {"cluster.x-k8s.io/cloned-from-name": "etcd-2"}}});
    let cluster = json!({"metadata": {"name": "prod", "namespace": "default", "generation": 4},
        "status": {"observedGeneration": 4, "reconciledGeneration": 3, "childrenReconciledGeneration": 9}});
    let script = Script::default()
        .serves(&[
            ("anywhere.eks.amazonaws.com/v1alpha1", &[("vspheremachineconfigs", "VSphereMachineConfig", true)]),
            ("cluster.x-k8s.io/v1beta2", &[]),
            ("etcdcluster.cluster.x-k8s.io/v1beta1", &[]),
            ("infrastructure.cluster.x-k8s.io/v1beta1", &[("vspheremachines", "VSphereMachine", true)]),
            ("kustomize.toolkit.fluxcd.io/v1", &[]),
        ])
        .object(&format!("{EKSA}/namespaces/default/clusters/prod"), cluster)
        .object(
            &format!("{EKSA}/namespaces/default/vspheremachineconfigs/etcd"),
            json!({"metadata": {"name": "etcd", "namespace": "default", "generation": 6}}),
        )
        .list(&format!("{ETCD}/etcdadmclusters"), &[])
        .list(&format!("{INFRASTRUCTURE}/vspheremachines"), &[machine])
        .list(&format!("{CAPI}/machines"), &[member]);
    let child = ObjectReference {
        api_version: String::from("anywhere.eks.amazonaws.com/v1alpha1"),
        kind: String::from("VSphereMachineConfig"),
        namespace: Some(String::from("default")),
        name: String::from("etcd"),
    };
    let expectations = vec![
        Expectation::Flux {
            namespace: String::from("flux-system"),
            kustomizations: vec![String::from("prod-cluster")],
        },
        Expectation::EksaCluster(EksaClusterExpectation {
            namespace: String::from("default"),
            name: String::from("prod"),
            children: vec![child],
        }),
        Expectation::Etcd(EtcdExpectation {
            namespace: String::from("eksa-system"),
            name: String::from("prod-etcd"),
            replicas: 3,
            infrastructure_template: None,
        }),
    ];
    let (observation, server) = observe(script, expectations).await;
    assert_eq!(observation.unread, BTreeMap::new());
    let [cluster] = observation.eksa_clusters.as_slice() else { panic!("{observation:?}") };
    assert_eq!((cluster.generation, cluster.reconciled_generation), (4, Some(3)));
    assert_eq!(observation.objects[0].generation, Some(6));
    assert_eq!(observation.machines[0].infrastructure_template.as_deref(), Some("etcd-2"));
    assert_eq!(observation.machines[0].owner.as_deref(), Some("prod-etcd"));
    let place =
        |part: &str| server.lines().iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}"));
    let order = ["kustomizations/prod-cluster", "clusters/prod", "/clusters", "/etcdadmclusters", "/vspheremachines"];
    let places = order.map(place);
    assert!(places.is_sorted(), "{order:?} {places:?} {:?}", server.lines());
}

#[tokio::test]
async fn machines_whose_infrastructure_cannot_be_read_are_not_read() {
    let member = json!({"metadata": {"name": "m", "namespace": "n", "ownerReferences": [
        {"apiVersion": "x", "kind": "KubeadmControlPlane", "name": "cp", "uid": "u", "controller": true}]},
        "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": "m"}}});
    let script = Script::default()
        .serves(&[
            ("cluster.x-k8s.io/v1beta2", &[]),
            ("infrastructure.cluster.x-k8s.io/v1beta2", &[("devmachines", "DevMachine", true)]),
        ])
        .list(&format!("{CAPI}/machines"), &[member])
        .on("GET /apis/infrastructure.cluster.x-k8s.io/v1beta2/devmachines", Answer::Error(403, "forbidden"))
        .list("/api/v1/nodes", &[]);
    let (observation, _server) = observe(script, vec![Expectation::ControlPlane(control_plane())]).await;
    assert!(observation.unread["Machine"].contains("could not list devmachines"), "{:?}", observation.unread);
}

#[tokio::test]
async fn a_second_writer_is_seen_on_whatever_the_deploy_branch_holds() {
    let owned = |fields: &Value| {
        let entry =
            |manager: &str, fields: &Value| json!({"manager": manager, "operation": "Apply", "fieldsV1": fields});
        let ours = entry("kustomize-controller", &json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
        json!({"metadata": {"name": "capi-controller-manager", "namespace": "capi-system", "generation": 1,
            "managedFields": [ours, entry("kubectl", fields)]}})
    };
    let path = "/apis/apps/v1/namespaces/capi-system/deployments/capi-controller-manager";
    let read = async |fields: Value| {
        let script = served().list("/api/v1/namespaces/capi-system/pods", &[]).object(path, owned(&fields));
        let server = ApiServer::start(script).await;
        let cluster = KubernetesCluster::management(server.connection(), PathBuf::from("/nonexistent"));
        let manifest = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: capi-controller-manager, namespace: capi-system}, spec: {replicas: 1}}";
        let deployed = Arc::new(DeployedObjects::new([Arc::from(manifest.as_bytes())]));
        cluster.observe(&ObserveRequest { deployed, ..request(vec![deployment()]) }).await.taken
    };
    let taken = read(json!({"f:spec": {"f:replicas": {}}})).await;
    let [taken] = taken.as_slice() else { panic!("{taken:?}") };
    assert_eq!(taken.object.to_string(), "Deployment capi-system/capi-controller-manager");
    assert_eq!((taken.field.as_str(), taken.manager.as_str()), ("spec.replicas", "kubectl"));
    assert_eq!(read(json!({"f:spec": {"f:paused": {}}})).await, []);
}

#[tokio::test]
async fn a_second_writer_is_seen_on_cluster_api_s_objects_where_the_deploy_branch_holds_them() {
    let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": fields}});
    let managers =
        [entry("kustomize-controller", json!({"f:version": {}})), entry("autoscaler", json!({"f:replicas": {}}))];
    let object = json!({"metadata": {"name": "prod-md-0", "namespace": "eksa-system", "generation": 1, "managedFields": managers}});
    let manifest = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: prod-md-0, namespace: eksa-system}, spec: {replicas: 1}}";
    for (held, expected) in [(manifest, 1), ("{}", 0)] {
        let script = settled().list(&format!("{CAPI}/machinedeployments"), std::slice::from_ref(&object));
        let server = ApiServer::start(script).await;
        let cluster = KubernetesCluster::management(server.connection(), PathBuf::from("/nonexistent"));
        let deployed = Arc::new(DeployedObjects::new([Arc::from(held.as_bytes())]));
        let request = ObserveRequest { deployed, ..request(vec![Expectation::Workers(workers())]) };
        let taken = cluster.observe(&request).await.taken;
        assert_eq!(taken.len(), expected, "{taken:?}");
        for taken in taken {
            assert_eq!(taken.object.to_string(), "MachineDeployment eksa-system/prod-md-0");
            assert_eq!((taken.field.as_str(), taken.manager.as_str()), ("spec.replicas", "autoscaler"));
        }
    }
}
