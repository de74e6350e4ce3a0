//! Watches on a real API server, networks in between that fail, and clusters that come and go.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::kubernetes::{Changes, Connection, ConnectionSource, KubernetesCluster, ManagementWatches};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rollout::{Expectation, GateVerdict, Observation, Reachability};
use serde_json::{Value, json};
use tests::servers::{ApiServer, ApiServerOptions, Folder, Network, TcpProxy, isolated};
use tests::waiting::{PATIENCE, end_of};

use super::verdicts::Judge;

const NEEDED: &[&str] = &["etcd", "kube-apiserver"];

fn request(deployment: &str) -> ObserveRequest {
    let (namespace, name) = (String::from("default"), deployment.to_owned());
    let expectations = vec![Expectation::Deployment { namespace, name, images: Vec::new() }];
    ObserveRequest {
        expectations,
        kustomizations: Vec::new(),
        deployed: Arc::default(),
        freshness: Freshness::Fresh,
        at: Timestamp::now(),
    }
}

async fn connection(kubeconfig: PathBuf) -> anyhow::Result<Connection> {
    let source = ConnectionSource::Kubeconfig { path: Some(kubeconfig), context: None };
    Ok(Connection::open(&source).await?)
}

async fn create(client: &Client, name: &str) -> anyhow::Result<()> {
    let deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "example.org/a"}]}}},
    }))?;
    Api::<Deployment>::namespaced(client.clone(), "default").create(&PostParams::default(), &deployment).await?;
    Ok(())
}

async fn patch(client: &Client, name: &str, change: Value) -> anyhow::Result<()> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
    deployments.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

/// Everything that is told of up to this cluster.
async fn told_until(changes: &Changes, cluster: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut told = BTreeSet::new();
    while !told.contains(cluster) {
        end_of(&format!("something is told of {cluster}, besides {told:?}"), changes.changed()).await?;
        told.extend(changes.take().into_keys());
    }
    Ok(told)
}

#[test]
fn only_what_gates_read_is_told_and_nothing_is_missed_while_the_server_is_away() {
    let name = "watching::only_what_gates_read_is_told_and_nothing_is_missed_while_the_server_is_away";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let mut server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let watches = Arc::new(ManagementWatches::default());
        let changes = watches.changes();
        for name in ["one", "late", "last"] {
            create(&client, name).await?;
        }
        let follow = async |name: &str| {
            let cluster =
                KubernetesCluster::management(connection(server.kubeconfig()).await?, folder.path().join(name));
            let cluster = cluster.watched(name, &watches);
            cluster.follow(&request(name), &[]).await;
            anyhow::Ok(cluster)
        };
        // One watch tells of both, in order: when the last change is told, all before it are.
        let _last = follow("last").await?;
        told_until(changes, "last").await?;
        let one = follow("one").await?;
        patch(&client, "one", json!({"spec": {"replicas": 2}})).await?;
        patch(&client, "last", json!({"spec": {"replicas": 2}})).await?;
        assert_eq!(told_until(changes, "last").await?.len(), 2);

        patch(&client, "one", json!({"metadata": {"labels": {"leader": "me"}}})).await?;
        patch(&client, "last", json!({"spec": {"replicas": 3}})).await?;
        assert_eq!(told_until(changes, "last").await?.len(), 1);

        // Whoever comes late is told as well of what has not changed since it was watched: of no heartbeat, but when it goes.
        let _late = follow("late").await?;
        patch(&client, "late", json!({"metadata": {"labels": {"leader": "me"}}})).await?;
        patch(&client, "last", json!({"spec": {"replicas": 6}})).await?;
        assert_eq!(told_until(changes, "last").await?.len(), 1);
        Api::<Deployment>::namespaced(client.clone(), "default").delete("late", &DeleteParams::default()).await?;
        patch(&client, "last", json!({"spec": {"replicas": 7}})).await?;
        assert_eq!(told_until(changes, "last").await?.len(), 2);

        server.server.kill()?;
        server.server.restart()?;
        server.wait_until_ready().await?;
        patch(&client, "one", json!({"spec": {"replicas": 3}})).await?;
        patch(&client, "last", json!({"spec": {"replicas": 4}})).await?;
        if !told_until(changes, "one").await?.contains("last") {
            told_until(changes, "last").await?;
        }

        // Whoever rests is told of nothing.
        one.unwatched();
        patch(&client, "one", json!({"spec": {"replicas": 4}})).await?;
        patch(&client, "last", json!({"spec": {"replicas": 5}})).await?;
        assert_eq!(told_until(changes, "last").await?.len(), 1);
        folder.done();
        Ok(())
    });
}

fn reason(observation: &Observation) -> &str {
    match &observation.reachable {
        Reachability::Unreachable { reason } => reason,
        Reachability::Reachable => "",
    }
}

/// Whose requests are told apart in the audit log.
const WATCHER: &str = "watcher";

/// The watches of that user so far: those that began with a list of everything, and those that went on where another had ended.
fn watches_begun(server: &ApiServer) -> anyhow::Result<(usize, usize)> {
    let audit = server.audit()?;
    let asked = audit.iter().filter(|line| line["user"]["username"] == WATCHER && line["stage"] == "RequestReceived");
    let asked: Vec<&str> = asked.filter_map(|line| line["requestURI"].as_str()).collect();
    let watches = || asked.iter().filter(|uri| uri.contains("/deployments?") && uri.contains("watch=true"));
    assert!(watches().all(|uri| uri.contains("allowWatchBookmarks=true")), "{asked:?}");
    let begun = watches().filter(|uri| uri.contains("sendInitialEvents=true")).count();
    Ok((begun, watches().count() - begun))
}

#[test]
fn a_network_that_is_slow_or_fails_is_said_and_hides_no_change() {
    isolated("watching::a_network_that_is_slow_or_fails_is_said_and_hides_no_change", NEEDED, async |programs| {
        let folder = Folder::new()?;
        let mut server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let proxy = TcpProxy::start(server.port()).await?;
        let connection = connection(server.user_through(WATCHER, "system:masters", &proxy.url())?).await?;
        let watches = Arc::new(ManagementWatches::default());
        let changes = watches.changes();
        for name in ["one", "gone"] {
            create(&client, name).await?;
        }
        let cluster = |name: &str| {
            KubernetesCluster::management(connection.clone(), folder.path().join(name)).watched(name, &watches)
        };
        let (one, gone) = (cluster("one"), cluster("gone"));
        one.follow(&request("one"), &[]).await;
        told_until(changes, "one").await?;
        gone.follow(&request("gone"), &[]).await;
        // What is there comes through the watch itself, from a server that can do that.
        assert_eq!(watches_begun(&server)?, (1, 0));

        // A watch that is cut goes on from where it was.
        proxy.cut();
        patch(&client, "one", json!({"spec": {"replicas": 2}})).await?;
        assert_eq!(told_until(changes, "one").await?.len(), 1);
        let (begun, resumed) = watches_begun(&server)?;
        assert!(begun == 1 && resumed > 0, "{begun}, {resumed}");

        // A server that has started anew does not know any more what happened since then. Everything is listed, and what went is found.
        proxy.is(Network::Refusing);
        Api::<Deployment>::namespaced(client.clone(), "default").delete("gone", &DeleteParams::default()).await?;
        server.server.kill()?;
        server.server.restart()?;
        server.wait_until_ready().await?;
        proxy.is(Network::Sound);
        told_until(changes, "gone").await?;
        let (anew, asked_for_the_rest) = watches_begun(&server)?;
        assert!(anew > begun && asked_for_the_rest > resumed, "{anew}, {asked_for_the_rest}");
        drop(changes.take());

        let mut judge = Judge::new("0".repeat(40).parse()?, request("one").expectations, Timestamp::now());
        let delay = Duration::from_millis(300);
        proxy.is(Network::Slow(delay));
        let start = Instant::now();
        let seen = one.observe(&request("one")).await;
        assert_eq!((seen.deployments.len(), reason(&seen)), (1, ""));
        assert!(start.elapsed() > 2 * delay);
        patch(&client, "one", json!({"spec": {"replicas": 3}})).await?;
        told_until(changes, "one").await?;

        // Where nothing arrives any more, a gate waits and says so in time; what changed meanwhile is told once something does.
        proxy.is(Network::Silent);
        let patience = Duration::from_secs(2);
        let impatient = KubernetesCluster::management(connection.clone().with_timeout(patience), PathBuf::new());
        let asked = request("one");
        let seen = end_of("the reading is given up", impatient.observe(&asked)).await?;
        let verdict = judge.evaluate(&seen, Timestamp::now());
        let GateVerdict::Wait { reason, .. } = verdict else { panic!("{verdict:?}") };
        assert!(reason.to_string().contains("no answer within 2 s"), "{reason}");
        patch(&client, "one", json!({"spec": {"replicas": 4}})).await?;
        proxy.is(Network::Sound);
        told_until(changes, "one").await?;
        let seen = one.observe(&request("one")).await;
        assert_eq!(seen.deployments[0].spec_replicas, 4);
        folder.done();
        Ok(())
    });
}

#[test]
fn a_workload_cluster_is_reached_through_its_secret_and_its_outage_is_its_own() {
    let name = "watching::a_workload_cluster_is_reached_through_its_secret_and_its_outage_is_its_own";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let options = ApiServerOptions::default();
        let management = ApiServer::start(&programs, &folder.path().join("management"), options).await?;
        let mut workload = ApiServer::start(&programs, &folder.path().join("workload"), options).await?;
        create(&workload.client().await?, "inside").await?;
        create(&management.client().await?, "outside").await?;
        // As Cluster API writes it: with the credentials in it.
        let kubeconfig = workload.portable_kubeconfig()?;
        let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "prod-kubeconfig"},
            "data": {"value": STANDARD.encode(&kubeconfig)}}))?;
        Api::namespaced(management.client().await?, "default").create(&PostParams::default(), &secret).await?;

        // Only for an answer that never comes there is an end to wait for: on a busy machine others take their time.
        let connection = connection(management.kubeconfig()).await?;
        let (patient, impatient) = (PATIENCE, Duration::from_secs(2));
        let of = |patience| {
            let connection = connection.clone().with_timeout(patience);
            KubernetesCluster::workload(connection, "default", "prod", folder.path().join("backups"))
        };
        let cluster = of(patient);
        let other = connection.clone().with_timeout(patient);
        let other = KubernetesCluster::management(other, folder.path().join("backups"));
        let seen = cluster.observe(&request("inside")).await;
        assert_eq!((seen.deployments.len(), reason(&seen)), (1, ""));

        // One that stands still and one that is gone: both are said, in time, and the other cluster is read as ever.
        workload.server.stall()?;
        let silent = of(impatient);
        let asked = request("inside");
        let seen = end_of("the reading is given up", silent.observe(&asked)).await?;
        assert!(reason(&seen).contains("no answer within 2 s"), "{seen:?}");
        assert_eq!(other.observe(&request("outside")).await.deployments.len(), 1);
        workload.server.resume()?;
        workload.server.kill()?;
        let seen = cluster.observe(&request("inside")).await;
        assert!(reason(&seen).contains(&workload.url()), "{seen:?}");
        workload.server.restart()?;
        workload.wait_until_ready().await?;
        assert_eq!(cluster.observe(&request("inside")).await.deployments.len(), 1);
        folder.done();
        Ok(())
    });
}
