//! A second writer, on an object or on the deploy branch: Stepgate names it and stops, and it does not fight.

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::kind_in;
use tests::servers::settled::CLUSTER;
use tests::servers::{DEPLOY, FLUX_NAMESPACE};

use super::scene::Scene;

/// Who Stepgate is to the API server, so that its requests can be told from those of others.
pub const USER: &str = "stepgate";

const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
const APPLIED: &str = "mgmt-cert-manager";

/// Namespace and name of the Deployment that somebody else writes.
const WRITTEN: (&str, &str) = ("cert-manager", "cert-manager");

/// A field that the deploy branch sets. With another value the Pods run as well as before: nothing but its owner is in the way.
const FIELD: &str = "spec.template.spec.containers[name=cert-manager-controller].imagePullPolicy";

/// How often Stepgate looks again in vain before it counts as standing still.
const PASSES: u64 = 3;

/// Somebody else takes over a field of an object that an earlier stage has brought about, and then commits to the deploy branch. `recover` ends
/// what the running stage waits for otherwise, so that from then on nothing but the second writer is in the way, until both are taken back.
pub async fn assert_stops_and_goes_on(
    scene: &Scene,
    recover: impl AsyncFnOnce() -> Result<(), kube::Error>,
) -> anyhow::Result<()> {
    let revision = json!(format!("{DEPLOY}@sha1:{}", scene.repository.head()?));
    let kustomizations = kind_in(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
    let is_done = async || {
        let object = kustomizations.get(APPLIED).await?;
        Ok((object.data.pointer("/status/lastAppliedRevision") == Some(&revision)).then_some(()))
    };
    // Flux would take back the field if it had still to apply this commit.
    scene.until("Flux has applied the last commit", is_done).await?;

    let (namespace, name) = WRITTEN;
    let deployments = kind_in(&scene.client, ("apps/v1", "Deployment"), namespace).await?;
    let policy = async || {
        let object = deployments.get(name).await?;
        let value = object.data.pointer("/spec/template/spec/containers/0/imagePullPolicy");
        anyhow::Ok(value.and_then(Value::as_str).map(str::to_owned))
    };
    assert_eq!(policy().await?.as_deref(), Some("IfNotPresent"));
    let container = json!({"name": "cert-manager-controller", "imagePullPolicy": "Always"});
    let theirs = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": [container]}}}});
    deployments.patch(name, &PatchParams::apply("somebody").force(), &Patch::Apply(theirs)).await?;
    let words = ["Deployment cert-manager/cert-manager", FIELD, "taken over by `somebody`"];
    scene.why_says(CLUSTER, &words).await?;
    recover().await?;
    stands_still(scene, |reasons| words.iter().all(|word| reasons.contains(word))).await?;

    let note = "clusters/mgmt/bundle/note.txt";
    scene.repository.tamper("Leave a note", note, Some("I was here.\n"))?;
    // Flux takes back what is its own, when it applies again.
    let now = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": Timestamp::now().to_string()}}});
    kustomizations.patch(APPLIED, &PatchParams::default(), &Patch::Merge(now)).await?;
    let is_back = async || Ok((policy().await?.as_deref() == Some("IfNotPresent")).then_some(()));
    scene.until("Flux has taken the field back", is_back).await?;
    let commit = scene.repository.head()?;
    let words = [commit.as_str(), "Stepgate did not make that commit", "Person <person@example.com>", note];
    stands_still(scene, |reasons| words.iter().all(|word| reasons.contains(word))).await?;
    ensure!(scene.repository.head()? == commit, "somebody's commit is not the last one any more");
    let written = written(scene)?;
    ensure!(written.iter().any(|resource| resource == "gitrepositories"), "Flux was told by nobody: {written:?}");
    ensure!(!written.iter().any(|resource| resource == "deployments"), "Stepgate fights: {written:?}");

    scene.repository.tamper("Take the note away", note, None)?;
    scene.stage_is(CLUSTER, "eks-a").await
}

/// Stepgate gives one reason and no other, and looks again and again without committing anything.
async fn stands_still(scene: &Scene, is_said: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    // Several reasons are one text, with semicolons between them.
    let alone = |reasons: &str| is_said(reasons) && !reasons.contains("; ") && !reasons.contains("\",\"");
    scene.reasons_are(CLUSTER, alone).await?;
    let head = scene.repository.head()?;
    for number in 0..PASSES {
        let before = passes().await?;
        // Whatever is pushed makes it look again.
        let note = format!("{number} for {head}\n");
        scene.repository.push("Note something of no consequence", &[("notes.txt", &note)])?;
        let again = async || Ok((passes().await? > before).then_some(()));
        scene.until("another pass", again).await?;
    }
    let reasons = scene.why(CLUSTER).await?["reasons"].to_string();
    ensure!(alone(&reasons), "it gave a reason, and now says {reasons}");
    ensure!(scene.repository.head()? == head, "committed all the same: {:?}", scene.repository.history()?);
    Ok(())
}

/// How many passes the running controller has made.
async fn passes() -> anyhow::Result<u64> {
    // The usual address: in the namespace of a test nobody else has it.
    let text = reqwest::get("http://127.0.0.1:8080/metrics").await?.text().await?;
    let line = text.lines().find_map(|line| line.strip_prefix("stepgate_passes_total{result=\"success\"} "));
    line.map_or(Ok(0), |number| number.parse().context("stepgate_passes_total"))
}

/// The resources that Stepgate has written, one entry for each request. What a dry run asks for is not written.
fn written(scene: &Scene) -> anyhow::Result<Vec<String>> {
    let is_write = |line: &&Value| {
        let reads = ["get", "list", "watch"].iter().any(|verb| line["verb"] == **verb);
        let is_dry = line["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun=All"));
        line["user"]["username"] == USER && line["stage"] == "RequestReceived" && !reads && !is_dry
    };
    let resource = |line: &Value| line["objectRef"]["resource"].as_str().unwrap_or_default().to_owned();
    Ok(scene.server.audit()?.iter().filter(is_write).map(resource).collect())
}
