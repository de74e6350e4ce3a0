//! Pauses of real Flux as leases: Stepgate ends them in time, whichever process made them, and a person's own suspend is never undone.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use kube::api::{DynamicObject, Patch, PatchParams};
use rollout::FluxReference;
use serde_json::{Value, json};
use tests::servers::manifests::kind_in;
use tests::servers::{FLUX_NAMESPACE, Flux, isolated};

use super::machines::{self, CLUSTER, FILE};
use super::scene::{POLICY, Scene};

const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");

/// The Kustomization that is paused.
const NAME: &str = "machines-cluster";

/// Longer than the commands take that look at a pause before its end, even on a busy machine.
const SHORT: &str = "30s";

async fn kustomization(scene: &Scene) -> anyhow::Result<DynamicObject> {
    Ok(kind_in(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?.get(NAME).await?)
}

/// `spec.suspend`, and the lease.
async fn state(scene: &Scene) -> anyhow::Result<(bool, Option<Value>)> {
    let object = kustomization(scene).await?;
    let lease = object.metadata.annotations.unwrap_or_default().remove("stepgate.dev/pause");
    let lease = lease.map(|text| serde_json::from_str(&text)).transpose()?;
    Ok((object.data.pointer("/spec/suspend") == Some(&json!(true)), lease))
}

/// A person writes `spec.suspend`.
async fn suspend(scene: &Scene, person: &str, suspended: Option<bool>) -> anyhow::Result<()> {
    let api = kind_in(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
    let parameters = PatchParams { field_manager: Some(person.to_owned()), ..PatchParams::default() };
    api.patch(NAME, &parameters, &Patch::Merge(json!({"spec": {"suspend": suspended}}))).await?;
    Ok(())
}

fn hold(scene: &Scene, duration: &str) -> anyhow::Result<String> {
    let person = ["--as", "Alice <alice@example.com>", "--yes"];
    let arguments = ["hold", CLUSTER, "--reason", "the auditors are in the house", "--for", duration];
    said(scene, &[&arguments[..], &person].concat())
}

fn said(scene: &Scene, arguments: &[&str]) -> anyhow::Result<String> {
    let output = scene.stepgate(arguments).output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Who suspended it, as gates are told.
async fn suspended_by(scene: &Scene) -> anyhow::Result<String> {
    let source = ConnectionSource::Kubeconfig { path: Some(scene.server.kubeconfig()), context: None };
    let cluster = KubernetesCluster::management(Connection::open(&source).await?, scene.file("unused"));
    let kustomizations = vec![FluxReference { namespace: FLUX_NAMESPACE.to_owned(), name: NAME.to_owned() }];
    let (expectations, deployed) = (Vec::new(), Arc::default());
    let request = ObserveRequest {
        expectations,
        kustomizations,
        deployed,
        freshness: Freshness::Fresh,
        at: jiff::Timestamp::now(),
    };
    let seen = cluster.observe(&request).await;
    seen.flux.kustomizations.into_iter().find_map(|known| known.suspended_by).context("nobody suspended it")
}

/// `why` and `status` say the same of a pause, with the command that ends it.
async fn is_told_as_held(scene: &Scene) -> anyhow::Result<()> {
    let (_, lease) = state(scene).await?;
    let until = lease.and_then(|lease| lease["until"].as_str().map(str::to_owned)).context("no pause")?;
    let held = format!("held by Alice until {until}");
    let words = [held.as_str(), "the auditors are in the house"];
    let why = scene.why(CLUSTER).await?;
    let status: Value = serde_json::from_str(&said(scene, &["status", "-o", "json"])?)?;
    for (told, reasons, advice) in [(&why, "reasons", "help"), (&status["clusters"][0], "reasons", "advice")] {
        ensure!(told["state"] == "held", "{told}");
        let (reasons, advice) = (told[reasons].to_string(), told[advice].to_string());
        ensure!(words.iter().all(|word| reasons.contains(word)), "{words:?}: {told}");
        ensure!(advice.contains(&format!("`stepgate resume {CLUSTER} --yes`")), "{told}");
    }
    Ok(())
}

async fn until(scene: &Scene, expected: (bool, bool)) -> anyhow::Result<()> {
    let is_so = async || {
        let (suspended, lease) = state(scene).await?;
        Ok(((suspended, lease.is_some()) == expected).then_some(()))
    };
    scene.until(&format!("suspended, lease: {expected:?}"), is_so).await
}

#[test]
fn a_pause_ends_by_itself_after_a_kill_and_a_persons_suspend_stays() {
    let name = "pausing::a_pause_ends_by_itself_after_a_kill_and_a_persons_suspend_stays";
    let needed: Vec<&str> =
        ["etcd", "kube-apiserver", "kube-controller-manager"].into_iter().chain(Flux::NEEDED).collect();
    isolated(name, &needed, async |programs| {
        let mut scene = Scene::start(&programs).await?;
        let files = [("stepgate.yaml", POLICY), (FILE, &machines::cluster("v1.34.0"))];
        scene.repository.push("Describe the fleet", &files)?;
        scene.adopt()?;
        scene.connect_flux().await?;
        let there = async || Ok(kustomization(&scene).await.is_ok().then_some(()));
        scene.until("Flux has made the Kustomization", there).await?;

        // A dry run changes nothing, and a person's suspend is left alone and named.
        said(&scene, &["hold", CLUSTER, "--reason", "none"])?;
        assert_eq!(state(&scene).await?, (false, None));
        // Nothing proves that this server manages the cluster, until the operator says so.
        let refused = hold(&scene, SHORT).err().context("an unproven cluster was held")?.to_string();
        ensure!(refused.contains("is not proven") && refused.contains("--management-cluster management"), "{refused}");
        assert_eq!(state(&scene).await?, (false, None));
        scene.environment.insert("STEPGATE_MANAGEMENT_CLUSTER", "management".into());
        suspend(&scene, "bob", Some(true)).await?;
        ensure!(hold(&scene, SHORT)?.contains("suspended by bob already"));
        assert_eq!(state(&scene).await?, (true, None));
        suspend(&scene, "bob", None).await?;

        // Ours says who, why and until when; after a kill the next process ends it.
        let mut controller = scene.controller()?;
        hold(&scene, SHORT)?;
        let (suspended, lease) = state(&scene).await?;
        let lease = lease.unwrap_or_default();
        assert_eq!((suspended, &lease["owner"], &lease["before"]), (true, &json!("Alice"), &Value::Null));
        let told = suspended_by(&scene).await?;
        ensure!(told.starts_with("Alice until") && told.contains("the auditors are in the house"), "{told}");
        controller.kill()?;
        let end: jiff::Timestamp = lease["until"].as_str().unwrap_or_default().parse()?;
        let over = async || Ok((jiff::Timestamp::now() > end).then_some(()));
        scene.until("its time is over", over).await?;
        ensure!(state(&scene).await?.0, "it went on by itself, without a process that ends it");
        controller.restart()?;
        until(&scene, (false, false)).await?;

        // The process that runs ends one that another process has made since.
        hold(&scene, SHORT)?;
        let (_, lease) = state(&scene).await?;
        let end: jiff::Timestamp = lease.unwrap_or_default()["until"].as_str().unwrap_or_default().parse()?;
        until(&scene, (false, false)).await?;
        let now = jiff::Timestamp::now();
        ensure!(now >= end, "it ended at {now}, before {end}");

        // One that is wanted by a person as well stays, without our lease.
        hold(&scene, SHORT)?;
        let api = kind_in(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
        let theirs = json!({"apiVersion": KUSTOMIZATION.0, "kind": KUSTOMIZATION.1, "metadata": {"name": NAME}, "spec": {"suspend": true}});
        api.patch(NAME, &PatchParams::apply("bob"), &Patch::Apply(theirs)).await?;
        until(&scene, (true, false)).await?;
        suspend(&scene, "bob", Some(false)).await?;

        // And one that is not needed any more ends before its time: who holds it, until when, why,
        // and what ends it is told to whoever asks, at the end of a rollout and before one.
        hold(&scene, "4h")?;
        is_told_as_held(&scene).await?;
        scene.repository.push("Take another version", &[(FILE, &machines::cluster("v1.34.1"))])?;
        is_told_as_held(&scene).await?;
        ensure!(said(&scene, &["resume", CLUSTER])?.contains("would go on"), "a dry run");
        is_told_as_held(&scene).await?;
        ensure!(said(&scene, &["resume", CLUSTER, "--yes"])?.contains("goes on"));
        assert_eq!(state(&scene).await?, (false, None));
        scene.reasons_are(CLUSTER, |reasons| !reasons.contains("held by")).await?;
        ensure!(said(&scene, &["resume", CLUSTER, "--yes"])?.contains("nothing was held"), "once more");
        scene.folder.done();
        Ok(())
    });
}
