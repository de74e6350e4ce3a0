//! What is read, and what becomes of reads that fail.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::CommitId;
use fake_api_server::ServedKind;
use policy::StagePolicy;
use rollout::{
    EksaClusterExpectation, EtcdExpectation, EtcdMembership, Extent, GateHistory, KubeVipExpectation, ObjectReference,
    control_plane_gate, workers_gate,
};

use super::*;
use crate::client::kind::NODE;
use crate::client::server::Answer;
use rollout::FluxReference;

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
async fn a_server_that_asks_for_a_moment_is_asked_again() {
    let nodes = |answer: Answer| Script::default().on("GET /api/v1/nodes", answer);
    let server = ApiServer::start(nodes(Answer::Busy(1))).await;
    let read = server.connection();
    let listed = async || read.list(&NODE, Some("v1"), None, None).await;
    let serve_later = async {
        while server.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        server.answer(nodes(Answer::Json(
            json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [node("a")]}),
        )));
    };
    let (nodes_of, ()) = tokio::join!(listed(), serve_later);
    assert_eq!((nodes_of.unwrap().len(), server.asked().len()), (1, 2));

    // Not for ever, not for long, and never for what is written.
    server.answer(nodes(Answer::Busy(1)));
    let before = server.asked().len();
    assert!(listed().await.unwrap_err().to_string().contains("(re)initializing"));
    assert_eq!(server.asked().len() - before, 3);
    server.answer(nodes(Answer::Busy(60)).on("PATCH /api/v1/nodes/a", Answer::Busy(1)));
    let before = server.asked().len();
    listed().await.unwrap_err();
    read.merge(&NODE.resource("v1"), None, "a", &json!({}), false).await.unwrap_err();
    assert_eq!(server.asked().len() - before, 2);
}

#[tokio::test]
async fn what_several_wait_to_ask_is_asked_once_for_all_of_them() {
    let server = ApiServer::start(Script::default().list("/api/v1/nodes", &[node("a")])).await;
    let read = server.connection();
    let listed = futures::future::join_all((0..30).map(|_| read.list(&NODE, Some("v1"), None, None))).await;
    assert!(listed.into_iter().all(|nodes| nodes.unwrap().len() == 1));
    assert_eq!(server.asked().len(), 1);

    // One who goes on with something else before it has its answer holds up nobody.
    let mut first = Box::pin(read.list(&NODE, Some("v1"), None, None));
    assert!(futures::poll!(&mut first).is_pending());
    assert_eq!(read.list(&NODE, Some("v1"), None, None).await.unwrap().len(), 1);
    assert_eq!((first.await.unwrap().len(), server.asked().len()), (1, 2));

    // What is written is written as often as it is asked for.
    let patches = (0..3).map(|_| async { read.merge(&NODE.resource("v1"), None, "a", &json!({}), false).await });
    futures::future::join_all(patches).await;
    assert_eq!(server.asked().len(), 5);
}

#[tokio::test]
async fn a_server_that_has_just_begun_proves_nothing_absent() {
    let object = ObjectReference {
        api_version: String::from("anywhere.eks.amazonaws.com/v1alpha1"),
        kind: String::from("Bundles"),
        namespace: Some(String::from("eksa-system")),
        name: String::from("bundles-1"),
    };
    let absent = || vec![Expectation::Absent { object: object.clone() }];
    let begun = |code: u16| {
        let text = "[+]ping ok\n[-]poststarthook/crd-informer-synced failed: reason withheld\nreadyz check failed";
        served().on("GET /readyz", Answer::Text(code, text))
    };
    for code in [500, 503] {
        let (observation, server) = observe(begun(code), absent()).await;
        let reason = unreachable(&observation);
        let expected =
            format!("answered {code} (not ready: [-]poststarthook/crd-informer-synced failed: reason withheld)");
        assert!(reason.contains(&expected), "{reason}");
        assert_eq!((observation.objects.len(), server.lines()), (0, Vec::new()), "{code}");
    }
    let (observation, _server) = observe(begun(403), absent()).await;
    assert!(unreachable(&observation).contains("grant that verb"), "{observation:?}");

    // What stands in for a server, and knows no such path, is read.
    for ready in [served(), served().on("GET /readyz", Answer::Text(200, "ok"))] {
        let (observation, _server) = observe(ready, absent()).await;
        assert_eq!(observation.reachable, Reachability::Reachable);
        let seen: Vec<_> = observation.objects.iter().map(|presence| presence.present).collect();
        assert_eq!(seen, [false]);
    }
}

#[tokio::test]
async fn a_list_of_which_a_part_is_missing_is_unknown_and_never_short() {
    let page = |token: &str| {
        Answer::Json(
            json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"continue": token}, "items": [node("a")]}),
        )
    };
    let healthy = || vec![Expectation::ClusterHealthy { cluster: None }];
    for (next, expected) in [
        // One that never ends, one that is gone between two pages, one whose beginning is not kept any more.
        (page("next"), "there is more of it than 200 pages"),
        (Answer::Text(404, "404 page not found"), "refused with 404"),
        (Answer::Error(410, "the provided continue parameter is too old"), "refused with 410"),
        (Answer::CutOff, "cut off"),
    ] {
        let text = format!("{next:?}");
        let script =
            Script::default().on("GET /api/v1/nodes", page("next")).on("GET /api/v1/nodes?continue=next", next);
        let server = ApiServer::start(script).await;
        let connection = server.connection().with_requests_per_second(100_000);
        let cluster = KubernetesCluster::management(connection, PathBuf::new());
        let observation = cluster.observe(&request(healthy())).await;
        let reason = observation.unread.get("Node").map_or("nothing", String::as_str);
        assert!(reason.contains(expected) && reason.contains("list nodes"), "{text}: {reason}");
        assert_eq!(observation.nodes, []);
    }
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
    assert!(unreachable(&observation).contains("no answer within 3 s"), "{observation:?}");

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
    assert!(unreachable(&observation).contains("could not get /readyz"), "{observation:?}");
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
        .keeps(ServedKind::custom("source.toolkit.fluxcd.io/v1", "GitRepository", "gitrepositories"))
        .holds(&format!("/apis/source.toolkit.fluxcd.io/v1{base}/gitrepositories/fleet"), json!({}));
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
async fn what_flux_tries_from_a_registry_is_known_by_the_artifact_of_its_source() {
    let digest = |byte: &str| format!("latest@sha256:{}", byte.repeat(32));
    let read = async |applied: &str, attempted: &str, fetched: &str, origin: Value| {
        let status = json!({"lastAppliedRevision": digest(applied), "lastAttemptedRevision": digest(attempted), "lastAppliedOriginRevision": origin});
        let kustomization = json!({"metadata": {"name": "capi", "namespace": "flux-system", "generation": 1},
            "spec": {"sourceRef": {"kind": "OCIRepository", "name": "fleet"}}, "status": status});
        let metadata = json!({"org.opencontainers.image.revision": format!("deploy@sha1:{COMMIT}")});
        let source = json!({"metadata": {"name": "fleet", "namespace": "flux-system"},
            "status": {"artifact": {"revision": digest(fetched), "metadata": metadata}}});
        let base = "/namespaces/flux-system";
        let script = served()
            .serves(&[
                ("kustomize.toolkit.fluxcd.io/v1", &[("kustomizations", "Kustomization", true)]),
                ("source.toolkit.fluxcd.io/v1", &[("ocirepositories", "OCIRepository", true)]),
            ])
            .object(&format!("/apis/kustomize.toolkit.fluxcd.io/v1{base}/kustomizations/capi"), kustomization)
            .object(&format!("/apis/source.toolkit.fluxcd.io/v1{base}/ocirepositories/fleet"), source);
        let flux =
            Expectation::Flux { namespace: String::from("flux-system"), kustomizations: vec![String::from("capi")] };
        let (observation, _server) = observe(script, vec![flux]).await;
        let known = &observation.flux.kustomizations[0];
        [&known.last_applied_revision, &known.last_attempted_revision]
            .map(|commit| commit.as_ref().map(ToString::to_string))
    };
    let (ours, before) = (Some(COMMIT.to_owned()), "b".repeat(40));
    let origin = json!(format!("deploy@sha1:{before}"));
    // Applied before, and the one that was fetched since is tried: its source says which commit that is.
    assert_eq!(read("aa", "cc", "cc", origin.clone()).await, [Some(before.clone()), ours.clone()]);
    // Fetched, and not tried yet.
    assert_eq!(read("aa", "aa", "cc", origin.clone()).await, [Some(before.clone()), Some(before.clone())]);
    // Tried, and something else was fetched since: nobody knows what was tried.
    assert_eq!(read("aa", "bb", "cc", origin).await, [Some(before), None]);
    // A kustomize-controller that does not say what it has applied was made of: the artifact is the one that was fetched.
    assert_eq!(read("cc", "cc", "cc", Value::Null).await, [ours.clone(), ours]);
    assert_eq!(read("aa", "aa", "cc", Value::Null).await, [None, None]);
}

#[tokio::test]
async fn kube_vip_is_read_with_the_holder_of_the_address() {
    let mut expected = control_plane();
    expected.kube_vip = Some(KubeVipExpectation { image: Some(String::from("kube-vip:v1")), lease: None });
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
    let etcd = json!({"metadata": {"name": "prod-etcd", "namespace": "eksa-system", "generation": 2,
        "labels": {"cluster.x-k8s.io/cluster-name": "prod"}},
        "spec": {"etcdadmConfigSpec": {"bottlerocketConfig": {"etcdImage": "registry.example/etcd:v3.5.21-eks-1-34-7"}}}});
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
        .list(&format!("{ETCD}/etcdadmclusters"), &[etcd])
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
            extent: Extent::Whole,
        }),
        Expectation::Etcd(EtcdExpectation {
            namespace: String::from("eksa-system"),
            name: String::from("prod-etcd"),
            replicas: 3,
            ..EtcdExpectation::default()
        }),
    ];
    let (observation, server) = observe(script, expectations).await;
    assert_eq!(observation.unread, BTreeMap::new());
    let [cluster] = observation.eksa_clusters.as_slice() else { panic!("{observation:?}") };
    assert_eq!((cluster.generation, cluster.reconciled_generation), (4, Some(3)));
    assert_eq!(observation.objects[0].generation, Some(6));
    assert_eq!(observation.machines[0].infrastructure_template.as_deref(), Some("etcd-2"));
    assert_eq!(observation.machines[0].owner.as_deref(), Some("prod-etcd"));
    let Some(EtcdMembership::Unknown { reason }) = &observation.etcd_clusters[0].membership else {
        panic!("{:?}", observation.etcd_clusters)
    };
    assert!(reason.contains("Secret eksa-system/prod-apiserver-etcd-client is not there"), "{reason}");
    assert_eq!(observation.etcd_clusters[0].version.as_deref(), Some("v3.5.21-eks-1-34-7"));
    let place =
        |part: &str| server.lines().iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}"));
    let order = ["kustomizations/prod-cluster", "clusters/prod", "/clusters", "/etcdadmclusters", "/vspheremachines"];
    let places = order.map(place);
    assert!(places.is_sorted(), "{order:?} {places:?} {:?}", server.lines());
}

/// Who said "done" did so in the reading before: nothing waits for saying it once more.
#[tokio::test]
async fn what_is_asked_for_again_is_asked_for_at_once() {
    let kustomization = "GET /apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/capi";
    let flux = Expectation::Flux { namespace: "flux-system".into(), kustomizations: vec!["capi".into()] };
    for (freshness, expected) in [(Freshness::Fresh, false), (Freshness::Again, true)] {
        let script = Script::default().serves(&[("kustomize.toolkit.fluxcd.io/v1", &[])]);
        let server = ApiServer::start(script.on(kustomization, Answer::Silence)).await;
        let cluster = KubernetesCluster::management(server.connection(), PathBuf::from("/nonexistent"));
        let request = ObserveRequest { freshness, ..request(vec![flux.clone(), deployment()]) };
        let observation = cluster.observe(&request).await;
        assert!(unreachable(&observation).contains("get Kustomization flux-system/capi"), "{observation:?}");
        let lines = server.lines();
        assert_eq!(lines.iter().any(|line| line.contains("/deployments/")), expected, "{lines:?}");
    }
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
