//! Objects that expectations name, and their definitions: read in lists or by themselves.

use std::collections::BTreeMap;

use rollout::ObjectReference;

use super::*;
use crate::client::server::Answer;

#[tokio::test]
async fn templates_are_orphans_once_nothing_names_them() {
    let infrastructure = "infrastructure.cluster.x-k8s.io/v1beta1";
    let reference = |name: &str| ObjectReference {
        api_version: infrastructure.to_owned(),
        kind: "DevMachineTemplate".to_owned(),
        namespace: Some("n".to_owned()),
        name: name.to_owned(),
    };
    let control_plane = json!({"metadata": {"name": "cp", "namespace": "n"}, "spec": {"machineTemplate": {"spec":
        {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "cp-2"}}}}});
    let place = format!("/apis/{infrastructure}/namespaces/n/devmachinetemplates");
    let there = |script: Script, name: &str, more: Value| {
        let mut object = json!({"metadata": {"name": name, "namespace": "n"}});
        object["metadata"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        script.object(&format!("{place}/{name}"), object)
    };
    let script = Script::default()
        .serves(&[
            ("apps/v1", &[("deployments", "Deployment", true)]),
            ("cluster.x-k8s.io/v1beta2", &[("clusters", "Cluster", true)]),
            ("controlplane.cluster.x-k8s.io/v1beta2", &[("kubeadmcontrolplanes", "KubeadmControlPlane", true)]),
            (infrastructure, &[("devmachinetemplates", "DevMachineTemplate", true)]),
        ])
        .list(KCP, &[control_plane]);
    let script = there(script, "cp-0", json!({}));
    let script = there(script, "cp-1", json!({"deletionTimestamp": "2026-03-01T12:00:00Z"}));
    let script = there(script, "cp-2", json!({}));
    let before = rollout::Before {
        observed_at: "2026-03-01T11:00:00Z".parse().unwrap(),
        ready_nodes: 0,
        kubelets: BTreeMap::new(),
        workloads: 0,
        broken: Vec::new(),
        more_broken: 0,
        missing_sidecars: None,
        more_missing_sidecars: 0,
        api_requests: None,
        dump: None,
        strays: None,
        templates: ["cp-0", "cp-1", "cp-2", "gone"].map(reference).to_vec(),
    };
    let verified = rollout::VerifiedExpectation {
        cluster: Some("prod".to_owned()),
        version: None,
        kubelet_versions: KubeletVersions::WhenReported,
        leftovers: Vec::new(),
        before: Some(before),
    };
    let asked = || vec![Expectation::Verified(verified.clone()), Expectation::Surveyed];
    let (observation, _server) = observe(script.clone(), asked()).await;
    let read = observation.templates.unwrap();
    assert_eq!((read.named, read.orphaned), (vec![reference("cp-2")], vec![reference("cp-0")]));

    // Where one that could name them is not read, nobody knows.
    let unread = script.on(&format!("GET {KCP}"), Answer::Error(403, "forbidden"));
    let (observation, _server) = observe(unread, asked()).await;
    assert_eq!(observation.templates, None);
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
    let served = |seen: &[rollout::CustomResourceDefinition]| -> Vec<(String, usize)> {
        let mut served: Vec<_> = seen.iter().map(|seen| (seen.name.clone(), seen.served_versions.len())).collect();
        served.sort();
        served
    };
    // Many are found by one list, few one by one: requests of both readings together, and of the one after a change.
    for (gone, unchanged, changed) in [(10, 2 + 2, 2), (1, 3 + 3 + 2, 4)] {
        let gone = (0..gone).map(|number| format!("gone-{number}"));
        let expectations: Vec<Expectation> = ["a", "b"]
            .map(str::to_owned)
            .into_iter()
            .chain(gone)
            .map(|name| Expectation::CustomResourceDefinition {
                name,
                served: vec![String::from("v1")],
                storage: String::from("v1"),
            })
            .collect();
        let server = ApiServer::start(script("1", true)).await;
        let connection = server.connection();
        let reading = || {
            let cluster = KubernetesCluster::management(connection.clone(), PathBuf::from("unused"));
            let request = request(expectations.clone());
            async move { cluster.observe(&request).await.custom_resource_definitions }
        };
        let before = reading().await;
        assert_eq!(before, reading().await);
        assert_eq!(server.lines().len(), unchanged, "{:?}", server.lines());
        server.answer(script("2", false));
        let after = reading().await;
        assert_eq!(served(&before), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
        assert_eq!(served(&after), [("a".to_owned(), 1), ("b".to_owned(), 0)]);
        assert_eq!(server.lines().len(), unchanged + changed, "{:?}", server.lines());
    }
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

/// A Cluster that refers to a control plane of another provider.
fn referring(kind: &str) -> Value {
    json!({"metadata": {"name": "prod", "namespace": "eksa-system", "generation": 1},
        "spec": {"controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": kind, "name": "prod-cp"}}})
}

#[tokio::test]
async fn a_control_plane_is_read_in_the_version_that_has_its_kind() {
    let talos = json!({"metadata": {"name": "prod-cp", "namespace": "eksa-system", "generation": 3},
        "spec": {"version": "v1.34.1"}, "status": {"ready": true, "version": "v1.34.1"}});
    let script = Script::default()
        .serves(&[
            ("cluster.x-k8s.io/v1beta2", &[("clusters", "Cluster", true)]),
            ("controlplane.cluster.x-k8s.io/v1beta2", &[("kubeadmcontrolplanes", "KubeadmControlPlane", true)]),
            ("controlplane.cluster.x-k8s.io/v1alpha3", &[("taloscontrolplanes", "TalosControlPlane", true)]),
        ])
        .list(&format!("{CAPI}/clusters"), &[referring("TalosControlPlane")])
        .object("/apis/controlplane.cluster.x-k8s.io/v1alpha3/namespaces/eksa-system/taloscontrolplanes/prod-cp", talos)
        .list("/api/v1/nodes", &[]);
    let (observation, _server) = observe(script, vec![Expectation::ControlPlane(control_plane())]).await;
    let read: Vec<_> = observation
        .control_planes
        .iter()
        .map(|known| (known.kind.as_str(), known.cluster.as_str(), known.status_version.as_deref(), known.ready))
        .collect();
    assert_eq!(read, [("TalosControlPlane", "prod", Some("v1.34.1"), Some(true))]);
    assert_eq!(observation.unread.get("TalosControlPlane"), None);
}

#[tokio::test]
async fn a_control_plane_whose_kind_is_not_served_is_unknown() {
    let script =
        served().list(&format!("{CAPI}/clusters"), &[referring("TalosControlPlane")]).list("/api/v1/nodes", &[]);
    let (observation, _server) = observe(script, vec![Expectation::ControlPlane(control_plane())]).await;
    let reason = &observation.unread["TalosControlPlane"];
    assert!(reason.contains("controlplane.cluster.x-k8s.io does not serve the kind"), "{reason}");
}

#[tokio::test]
async fn no_name_of_the_repository_leads_to_another_path_of_the_api() {
    let server = ApiServer::start(Script::default()).await;
    let connection = server.connection();
    let resource = crate::client::kind::DEPLOYMENT.resource("v1");
    let names = ["..", ".", "", "a/b", "../../secrets/x", "a%2fb", "a?watch=true", "a#b", "a b", "a\\b", "a\nb", "ä"];
    for name in names {
        let answers = [
            connection.get(&resource, Some(name), "web").await.map(drop),
            connection.get(&resource, Some("shop"), name).await.map(drop),
            connection.merge(&resource, Some(name), "web", &json!({}), false).await.map(drop),
            connection.apply(&resource, Some("shop"), name, &json!({}), false).await.map(drop),
            connection.create(&resource, Some(name), &json!({})).await.map(drop),
            connection.kinds(&format!("apps/{name}")).await.map(drop),
        ];
        for answer in answers {
            let error = answer.unwrap_err().to_string();
            assert!(error.contains("is no name in the API of Kubernetes"), "{name:?}: {error}");
        }
    }
    assert_eq!(server.lines(), [""; 0]);
}
