//! Workload clusters, by the kubeconfig in their Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::kubernetes::{Connection, ConnectionSource};

pub(super) const SECRET: &str = "/api/v1/namespaces/eksa-system/secrets/prod-kubeconfig";

pub(super) fn kubeconfig(server: &str, user: &Value) -> Value {
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    json!({"metadata": {"name": "prod-kubeconfig", "resourceVersion": "7"}, "data": {"value": STANDARD.encode(text.to_string())}})
}

/// A kubeconfig whose cluster says this besides.
fn saying(key: &str, value: Value) -> Value {
    let mut cluster = json!({"server": "https://127.0.0.1:1"});
    cluster[key] = value;
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "hunter2"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    json!({"metadata": {"name": "prod-kubeconfig"}, "data": {"value": STANDARD.encode(text.to_string())}})
}

#[tokio::test]
async fn a_workload_cluster_is_reached_through_its_secret() {
    let own = ApiServer::start(Script::default().list("/api/v1/nodes", &[node("worker")])).await;
    let management = ApiServer::start(served().object(SECRET, kubeconfig(&own.url, &json!({"token": "t"})))).await;
    let cluster = KubernetesCluster::workload(management.connection(), "eksa-system", "prod", PathBuf::new());
    for _ in 0..2 {
        let observation = cluster.observe(&request(vec![Expectation::ClusterHealthy { cluster: None }])).await;
        assert_eq!(observation.reachable, Reachability::Reachable);
        assert_eq!(observation.nodes.len(), 1);
    }
    assert!(management.lines().iter().all(|line| !line.contains("nodes")), "{:?}", management.lines());
}

#[tokio::test]
async fn a_workload_cluster_whose_server_has_just_begun_is_not_read() {
    let begun = Script::default().on("GET /readyz", crate::client::server::Answer::Text(500, "[-]etcd failed"));
    let own = ApiServer::start(begun).await;
    let management = ApiServer::start(served().object(SECRET, kubeconfig(&own.url, &json!({"token": "t"})))).await;
    let cluster = KubernetesCluster::workload(management.connection(), "eksa-system", "prod", PathBuf::new());
    let observation = cluster.observe(&request(vec![Expectation::ClusterHealthy { cluster: None }])).await;
    let reason = unreachable(&observation);
    assert!(reason.contains("[-]etcd failed") && reason.contains(&own.url), "{reason}");
    assert_eq!(own.lines(), [""; 0]);
}

#[tokio::test]
async fn a_kubeconfig_of_a_secret_runs_no_program_reads_no_file_and_leads_nowhere_else() {
    let secret = |value: &str| json!({"metadata": {"name": "prod-kubeconfig"}, "data": {"value": value}});
    for (answer, expected) in [
        (None, "not found; Cluster API writes it"),
        (Some(json!({"metadata": {"name": "prod-kubeconfig"}, "data": {}})), "key `value` is missing"),
        (Some(secret("???")), "not valid base64"),
        (Some(secret(&STANDARD.encode("hunter2: ["))), "not a valid kubeconfig"),
        (
            Some(kubeconfig(
                "http://127.0.0.1:1",
                &json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}}),
            )),
            "runs a program",
        ),
        (Some(kubeconfig("http://127.0.0.1:1", &json!({"tokenFile": "/etc/hunter2"}))), "names files"),
        (Some(kubeconfig("http://api.example.com:6443", &json!({"token": "hunter2"}))), "asked in the clear"),
        (Some(saying("insecure-skip-tls-verify", json!(true))), "trusts whoever answers"),
        (Some(saying("certificate-authority", json!("/etc/hunter2"))), "a file for its certificate authority"),
        (Some(saying("proxy-url", json!("http://hunter2.example:3128"))), "through a proxy"),
    ] {
        let mut script = served();
        if let Some(answer) = answer {
            script = script.object(SECRET, answer);
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
