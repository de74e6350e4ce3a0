//! Which cluster is read, and what proves it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rollout::{ClusterIdentity, Identification};

use super::acting::{MANIFESTS, apply_request};
use super::workload::kubeconfig;
use super::*;
use crate::client::server::Answer;
use crate::kubernetes::PauseLease;
use crate::{BackupRequest, ClusterReference, FluxReference, ManagementReference, Manager};

const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system";
const CLUSTER: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/eksa-system/clusters/prod";
const KUSTOMIZATION: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/prod";

/// A server whose `kube-system` has this UID.
fn server(script: Script, uid: &str) -> Script {
    script.object(KUBE_SYSTEM, json!({"metadata": {"name": "kube-system", "uid": uid}}))
}

fn secret(name: &str) -> String {
    format!("/api/v1/namespaces/eksa-system/secrets/{name}-kubeconfig")
}

/// The Cluster `prod`, whose control plane is at this address.
fn cluster_at(url: &str) -> Value {
    let (host, port) = url.trim_start_matches("http://").split_once(':').unwrap();
    json!({"metadata": {"name": "prod", "namespace": "eksa-system"},
        "spec": {"controlPlaneEndpoint": {"host": host, "port": port.parse::<u16>().unwrap()}}})
}

fn recorded(uid: &str) -> Option<ClusterIdentity> {
    let uid = Some(uid.to_owned());
    Some(ClusterIdentity { uid, endpoint: "https://elsewhere:6443".to_owned(), certificate_authority: None })
}

fn manager(name: &str, recorded: Option<ClusterIdentity>) -> ManagementReference {
    let (name, namespace) = (name.to_owned(), "eksa-system".to_owned());
    ManagementReference::By(Manager { name, namespace, recorded, is_known: true, is_presumed: false })
}

fn reference(name: &str, management: ManagementReference, recorded: Option<ClusterIdentity>) -> ClusterReference {
    ClusterReference { name: name.to_owned(), namespace: "eksa-system".to_owned(), management, recorded }
}

const ITSELF: ManagementReference = ManagementReference::Itself { is_presumed: false };

/// What is said of the cluster that is meant, and the UID of the server whose nodes are read.
async fn identified(
    management: &ApiServer,
    reference: ClusterReference,
    named: Option<&str>,
) -> (Result<String, String>, Observation) {
    let cluster = KubernetesCluster::new(management.connection(), reference, named.map(str::to_owned), PathBuf::new());
    let observation = cluster.observe(&request(vec![Expectation::ClusterHealthy { cluster: None }])).await;
    let said = match &observation.identity {
        Identification::Proven { identity } => Ok(identity.uid.clone().unwrap_or_default()),
        Identification::Unproven { reason, help } => Err(format!("{reason}; {help}")),
    };
    (said, observation)
}

#[track_caller]
fn unproven(said: Result<String, String>, words: &[&str]) {
    let said = said.unwrap_err();
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[tokio::test]
async fn the_management_cluster_is_named_recorded_or_follows_from_its_own_kubeconfig() {
    let management = ApiServer::start(server(served(), "one")).await;
    let of = |name: &'static str, recorded, named| identified(&management, reference(name, ITSELF, recorded), named);
    assert_eq!(of("a", None, Some("a")).await.0, Ok("one".to_owned()));
    assert_eq!(of("a", recorded("one"), None).await.0, Ok("one".to_owned()));
    // Nothing says so.
    unproven(of("a", None, None).await.0, &["neither named nor recorded", "--management-cluster a"]);
    // A second cluster that says that it manages itself.
    unproven(of("b", None, Some("a")).await.0, &["is named as cluster a, and not as b"]);
    // Whoever asks compares with what is recorded: the gate says that another one answers.
    let (said, observation) = of("a", recorded("another"), Some("a")).await;
    assert_eq!(said, Ok("one".to_owned()));
    assert!(observation.identity.of("a", recorded("another").as_ref()).is_err());

    let own = json!({"token": "t"});
    let secret = secret("a");
    management.answer(server(served(), "one").object(&secret, kubeconfig(&management.url, &own)));
    assert_eq!(of("a", None, None).await.0, Ok("one".to_owned()));
    let other = ApiServer::start(server(served(), "two")).await;
    management.answer(server(served(), "one").object(&secret, kubeconfig(&other.url, &own)));
    unproven(of("a", None, None).await.0, &["leads to another cluster (kube-system two"]);
    management
        .answer(server(served(), "one").on(&format!("GET {secret}"), Answer::Error(403, "forbidden: get secrets")));
    unproven(of("a", None, None).await.0, &["forbidden: get secrets"]);
}

#[tokio::test]
async fn a_cluster_that_says_nothing_of_its_manager_is_read_on_its_own_server() {
    let own = ApiServer::start(server(served().list("/api/v1/nodes", &[node("own")]), "two")).await;
    let script = || server(served().list("/api/v1/nodes", &[node("management")]), "one");
    let with_secret = || script().object(&secret("prod"), kubeconfig(&own.url, &json!({"token": "t"})));
    let management = ApiServer::start(with_secret().object(CLUSTER, cluster_at(&own.url))).await;
    let of = || identified(&management, reference("prod", ManagementReference::Undeclared, None), None);
    let (said, observation) = of().await;
    assert_eq!((said, observation.nodes[0].name.as_str()), (Ok("two".to_owned()), "own"));

    // The Secret leads elsewhere than the Cluster says.
    management.answer(with_secret().object(CLUSTER, cluster_at("http://10.0.0.1:6443")));
    unproven(of().await.0, &["leads to http://127.0.0.1", "Cluster eksa-system/prod says 10.0.0.1:6443"]);
    management.answer(with_secret().object(
        CLUSTER,
        json!({"metadata": {"name": "prod"}, "spec": {"controlPlaneEndpoint": {"host": "", "port": 0}}}),
    ));
    unproven(of().await.0, &["spec.controlPlaneEndpoint is not set"]);
    management.answer(with_secret());
    unproven(of().await.0, &["Cluster eksa-system/prod is not there"]);
    // It trusts whoever answers, and the cluster has an authority of its own.
    let certificate = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";
    let authority = json!({"metadata": {"name": "prod-ca"}, "data": {"tls.crt": STANDARD.encode(certificate)}});
    let path = "/api/v1/namespaces/eksa-system/secrets/prod-ca";
    management.answer(with_secret().object(CLUSTER, cluster_at(&own.url)).object(path, authority));
    unproven(of().await.0, &["trusts anybody", "prod-ca holds sha256:ca978112"]);
    // Without a Secret nothing leads there, and the management cluster's nodes are not taken for its own.
    management.answer(script().object(CLUSTER, cluster_at(&own.url)));
    let (said, observation) = of().await;
    unproven(said, &["prod-kubeconfig", "not found", "--management-cluster prod"]);
    assert!(observation.nodes.is_empty() && matches!(observation.reachable, Reachability::Unreachable { .. }));
    // Named, it is the management cluster itself.
    let (said, observation) =
        identified(&management, reference("prod", ManagementReference::Undeclared, None), Some("prod")).await;
    assert_eq!((said, observation.nodes[0].name.as_str()), (Ok("one".to_owned()), "management"));
}

#[tokio::test]
async fn a_workload_cluster_is_read_through_the_cluster_that_manages_it_alone() {
    let own = ApiServer::start(server(served().list("/api/v1/nodes", &[]), "two")).await;
    let script = server(served(), "one")
        .object(&secret("prod"), kubeconfig(&own.url, &json!({"token": "t"})))
        .object(CLUSTER, cluster_at(&own.url));
    let management = ApiServer::start(script).await;
    let of =
        |management_reference, named| identified(&management, reference("prod", management_reference, None), named);
    assert_eq!(of(manager("a", None), Some("a")).await.0, Ok("two".to_owned()));
    assert_eq!(of(manager("a", recorded("one")), None).await.0, Ok("two".to_owned()));
    unproven(of(manager("b", None), Some("a")).await.0, &["named as cluster a, and not as b"]);
    unproven(of(manager("b", recorded("three")), None).await.0, &["another cluster answers", "kube-system three"]);
    unproven(of(manager("b", None), None).await.0, &["neither named nor recorded", "--management-cluster b"]);
    // Whom the operator names, and whose specification says that another one manages it.
    unproven(of(manager("a", None), Some("prod")).await.0, &["prod is named as the management cluster"]);
}

#[tokio::test]
async fn nothing_is_written_to_a_cluster_that_is_not_proven() {
    let lease = json!({"owner": "Alice", "reason": "audit", "until": "2026-03-01T12:00:00Z"}).to_string();
    let metadata = json!({"name": "prod", "namespace": "flux-system", "annotations": {"stepgate.dev/pause": lease}});
    let held = json!({"metadata": metadata, "spec": {"suspend": true}});
    let script = server(served(), "one").object(KUSTOMIZATION, held.clone());
    let management = ApiServer::start(script.on(&format!("PATCH {KUSTOMIZATION}"), Answer::Json(held))).await;
    let kustomizations = [FluxReference { namespace: "flux-system".to_owned(), name: "prod".to_owned() }];
    let at = "2026-03-01T12:00:00Z".parse().unwrap();
    for (reference, named) in [
        (reference("a", ITSELF, None), None),
        (reference("b", ITSELF, None), Some("a")),
        (reference("a", ITSELF, recorded("another")), Some("a")),
        (reference("prod", manager("b", None), None), Some("a")),
        (reference("prod", ManagementReference::Undeclared, None), None),
    ] {
        let named = named.map(str::to_owned);
        let cluster = KubernetesCluster::new(management.connection(), reference, named, PathBuf::from("/nonexistent"));
        assert!(cluster.apply(&apply_request(MANIFESTS), at).await.is_err());
        let lease = PauseLease { owner: "Alice".to_owned(), reason: "audit".to_owned(), until: at, before: None };
        let error = cluster.pause(&kustomizations, &lease).await.unwrap_err().to_string();
        assert!(error.starts_with("could not pause what Flux applies: which cluster answers"), "{error}");
        let error = cluster.resume(&kustomizations).await.unwrap_err().to_string();
        assert!(error.starts_with("could not resume what Flux applies: which cluster answers"), "{error}");
        let backup = BackupRequest { rollout: "0123456789ab".parse().unwrap(), at, keep: 5, keep_for: None };
        assert!(cluster.back_up(&backup).await.is_err());
    }
    assert!(management.asked().iter().all(|asked| asked.method == "GET"), "{:?}", management.lines());
    // What is proven is held, whether its own server answers or not.
    for reference in [reference("a", ITSELF, None), reference("prod", manager("a", None), None)] {
        let cluster = KubernetesCluster::new(management.connection(), reference, Some("a".to_owned()), PathBuf::new());
        assert_eq!(cluster.resume(&kustomizations).await.unwrap(), kustomizations);
    }
    assert_eq!(management.asked().iter().filter(|asked| asked.method == "PATCH").count(), 2);
}

#[tokio::test]
async fn a_note_that_cannot_be_read_is_not_taken_for_none() {
    const KUSTOMIZATIONS: &str = "GET /apis/kustomize.toolkit.fluxcd.io/v1/kustomizations";
    const ROLLOUTS: &str = "GET /apis/stepgate.dev/v1alpha1/namespaces/stepgate-system/rollouts";
    let refused = || Answer::Error(403, "forbidden: list");
    let empty = || Answer::Json(json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}));
    for (kustomizations, rollouts, expected) in [
        (empty(), None, Ok(0)),
        (empty(), Some(empty()), Ok(0)),
        (refused(), Some(empty()), Err(())),
        (empty(), Some(refused()), Err(())),
        (Answer::Text(502, "bad gateway"), None, Err(())),
        (Answer::CutOff, None, Err(())),
    ] {
        let mut script = server(served(), "one").on(KUSTOMIZATIONS, kustomizations);
        if let Some(rollouts) = rollouts {
            script = script.on(ROLLOUTS, rollouts);
        }
        let management = ApiServer::start(script).await;
        let cluster = KubernetesCluster::management(management.connection(), PathBuf::new());
        let noted = cluster.noted_commits("prod").await.map(|noted| noted.len()).map_err(drop);
        assert_eq!(noted, expected, "{:?}", management.lines());
    }
}
