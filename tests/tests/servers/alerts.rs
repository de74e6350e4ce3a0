//! Flux's own alerts about what Stepgate commits: whoever reads one finds the stage by the commit that it names.

use std::sync::{Arc, Mutex};

use anyhow::{Context as _, ensure};
use axum::{Json, Router};
use serde_json::{Value, json};
use tests::servers::manifests::apply;
use tests::servers::{ClusterApi, FLUX_NAMESPACE, Flux, isolated};
use tokio::net::TcpListener;

use super::machines::{self, FILE, NAMESPACE};
use super::scene::{POLICY, Scene};

const NOTIFICATION: &str = "notification.toolkit.fluxcd.io/v1beta3";

/// The Kustomization that applies the cluster's specification.
const APPLIED: &str = "machines-cluster";

/// Where a team has its alerts sent: what arrived there, and its address.
pub async fn listen() -> anyhow::Result<(Arc<Mutex<Vec<Value>>>, String)> {
    let arrived: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = Arc::clone(&arrived);
    let router = Router::new().fallback(async move |Json(event): Json<Value>| {
        kept.lock().unwrap().push(event);
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}/", listener.local_addr()?);
    // It ends with the test.
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((arrived, address))
}

/// Everything that objects of this kind do is told to this address.
pub fn alert(address: &str, kind: &str) -> [Value; 2] {
    let metadata = json!({"name": "team", "namespace": FLUX_NAMESPACE});
    [
        json!({"apiVersion": NOTIFICATION, "kind": "Provider", "metadata": metadata,
            "spec": {"type": "generic", "address": address}}),
        json!({"apiVersion": NOTIFICATION, "kind": "Alert", "metadata": metadata, "spec": {
            "providerRef": {"name": "team"}, "eventSeverity": "info",
            "eventSources": [{"kind": kind, "name": "*"}]}}),
    ]
}

#[test]
fn an_alert_of_flux_names_the_commit_of_the_stage_that_it_is_about() {
    let name = "alerts::an_alert_of_flux_names_the_commit_of_the_stage_that_it_is_about";
    let servers = ["etcd", "kube-apiserver", "kube-controller-manager", Flux::NOTIFICATION];
    let needed: Vec<&str> = servers.into_iter().chain(Flux::NEEDED).collect();
    isolated(name, &needed, async |programs| {
        let mut scene = Scene::start(&programs).await?;
        let _notification = scene.flux.notification(&programs, &scene.server).await?;
        ClusterApi::define(&programs, &scene.server).await?;
        let (arrived, address) = listen().await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let [provider, alert] = alert(&address, "Kustomization");
        apply(&scene.client, &[namespace, provider, alert]).await?;

        let files = [("stepgate.yaml", POLICY), (FILE, &machines::cluster("v1.34.0"))];
        scene.repository.push("Describe the fleet", &files)?;
        scene.adopt()?;
        scene.connect_flux().await?;
        let told = async || {
            let arrived = arrived.lock().unwrap();
            let about = |event: &&Value| event.pointer("/involvedObject/name") == Some(&json!(APPLIED));
            Ok(arrived.iter().find(about).cloned())
        };
        let event = scene.until("an alert of the Kustomization", told).await?;

        assert_eq!(event["severity"], "info", "{event}");
        let revision = event.pointer("/metadata/revision").and_then(Value::as_str).context("no revision")?;
        let (branch, commit) = revision.split_once("@sha1:").context("no commit in the revision")?;
        assert_eq!((branch, commit), ("deploy", scene.repository.head()?.as_str()));
        ensure!(scene.repository.stages()?.last().is_some_and(|stage| stage == "verify"), "the commit has no stage");
        scene.folder.done();
        Ok(())
    });
}
