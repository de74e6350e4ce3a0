//! Nothing changes, and nothing is written.

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::{kind_in, kind_of_cluster, list};
use tests::servers::{FLUX_NAMESPACE, Folder, isolated};

use super::{Controller, Installation, NEEDED, SYSTEM};

/// So many passes are waited for.
const PASSES: f64 = 4.0;

/// How many requests the API server gets in a second: fewer than a reading has.
const PER_SECOND: u32 = 10;

/// Flux is told of a commit within so many seconds, by the pace of requests.
const TOLD_WITHIN: u32 = 2;

/// A person changes what one component is made of.
const PUSHED: &str = "\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
commonAnnotations: {example.com/changed: \"true\"}
";

#[test]
fn nothing_is_written_while_nothing_changes_and_requests_keep_their_pace() {
    let name = "installation::quiet::nothing_is_written_while_nothing_changes_and_requests_keep_their_pace";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let mut scene = Installation::start(&programs, folder.path(), &[], &[], &[]).await?;
        scene.environment.insert("STEPGATE_INTERVAL", "1".into());
        scene.environment.insert("STEPGATE_REQUESTS_PER_SECOND", PER_SECOND.to_string().into());
        let started = Timestamp::now();
        let controller = scene.controller("stepgate", 8081, &[])?;
        let state = |state: &str| format!("stepgate_clusters{{state=\"{state}\"}}");

        // A cluster in which nothing is left to do, once it has been shown.
        let shown = async || Ok((!scene.written(0)?.is_empty()).then_some(()));
        scene.until("the cluster is shown", &controller, shown).await?;
        let done = async || Ok(controller.metric(&state("done")).await.filter(|count| *count == 1.0));
        scene.until("the cluster is done", &controller, done).await?;
        assert_writes_nothing(&scene, &controller, "done", async |_| Ok(true)).await?;

        // One that waits: Flux has not fetched the stage that was committed.
        scene
            .cluster
            .repository
            .push("Change cert-manager", &[("overlays/cert-manager/kustomization.yaml", PUSHED)])?;
        scene.stage_is("cert-manager", &controller).await?;
        let waits = async || Ok(controller.metric(&state("waiting")).await.filter(|count| *count == 1.0));
        scene.until("the gate waits", &controller, waits).await?;
        let told = async || Ok(scene.written(0)?.iter().any(|line| line.contains("/gitrepositories/")).then_some(()));
        scene.until("Flux is told of the commit", &controller, told).await?;
        assert_told_at_once(&scene)?;
        let is_read = async |since: usize| {
            let is_list = |line: &Value| line["verb"] == "list" && line["objectRef"]["resource"] == "nodes";
            Ok(scene.asked()?.iter().skip(since).any(is_list))
        };
        assert_writes_nothing(&scene, &controller, "waiting", is_read).await?;

        scene.assert_nothing_was_refused()?;
        scene.assert_paced(started, PER_SECOND)?;
        folder.done();
        Ok(())
    });
}

/// Flux is told of the commit by the work that made it: until then the API server gets no more requests than in
/// [`TOLD_WITHIN`] seconds at full pace, however long these take on a busy machine.
fn assert_told_at_once(scene: &Installation) -> anyhow::Result<()> {
    let log = std::fs::read_to_string(scene.cluster.folder.join("stepgate.log"))?;
    let committed = log.lines().find(|line| line.contains("committed stage")).context("no commit in the log")?;
    let committed: Timestamp = committed.split_whitespace().next().unwrap_or_default().parse()?;
    let (mut before, mut told) = (0, None);
    for line in scene.asked()? {
        let at: Timestamp = line["requestReceivedTimestamp"].as_str().unwrap_or_default().parse()?;
        let tells = line["verb"] == "patch" && line["objectRef"]["resource"] == "gitrepositories";
        if tells {
            told = told.or(Some(at));
        }
        before += u32::from(at >= committed && told.is_none());
    }
    let told = told.context("Flux was not told")?.duration_since(committed).as_secs_f64();
    println!("Flux was told {told} s after the commit, by request {before} of the program since then");
    ensure!(
        before <= TOLD_WITHIN * PER_SECOND,
        "{before} requests came before Flux was told, {told} s after the commit"
    );
    Ok(())
}

/// Once the cluster is shown in this state: over several passes, and until `is_enough` of what was asked for since, nothing is written to the API
/// server or to the deploy branch, whatever happens to fields that gates do not read.
async fn assert_writes_nothing(
    scene: &Installation,
    controller: &Controller,
    state: &str,
    is_enough: impl AsyncFn(usize) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let passes = async || controller.metric("stepgate_passes_total{result=\"success\"}").await.unwrap_or_default();
    // What was decided a moment ago may still be shown.
    let (mut seen, mut before) = (passes().await, scene.written(0)?.len());
    let is_calm = async || {
        let (is_shown, now, written) = (is_shown(scene, state).await?, passes().await, scene.written(0)?.len());
        if !is_shown || written != before {
            (seen, before) = (now, written);
        }
        anyhow::Ok((now >= seen + 2.0).then_some(()))
    };
    scene.until("two passes that write nothing", controller, is_calm).await?;

    let (asked, head, start) = (scene.asked()?.len(), scene.cluster.repository.head()?, passes().await);
    let is_over = async || {
        touch(scene).await?;
        Ok((passes().await >= start + PASSES && is_enough(asked).await?).then_some(()))
    };
    scene.until("passes over the fleet", controller, is_over).await?;
    assert_eq!(scene.written(asked)?, Vec::<String>::new());
    assert_eq!(scene.cluster.repository.head()?, head);
    Ok(())
}

/// The `Rollout` says this state, and its event is there. Both are written beside the passes at the pace of requests, so that several passes may come
/// between the two.
async fn is_shown(scene: &Installation, state: &str) -> anyhow::Result<bool> {
    let client = &scene.cluster.client;
    let rollouts = list(client, ("stepgate.dev/v1alpha1", "Rollout"), SYSTEM).await?;
    let events = list(client, ("v1", "Event"), SYSTEM).await?;
    let is_told = |rollout: &DynamicObject| {
        let since = &rollout.data["status"]["since"];
        events.iter().any(|event| {
            event.data["involvedObject"]["uid"].as_str() == rollout.metadata.uid.as_deref()
                && event.data["firstTimestamp"] == *since
        })
    };
    Ok(rollouts.iter().any(|rollout| rollout.data["status"]["state"] == state && is_told(rollout)))
}

/// A heartbeat of a Node, and notes of others on what the gates look at.
async fn touch(scene: &Installation) -> anyhow::Result<()> {
    let client = &scene.cluster.client;
    let now = Timestamp::now();
    let beat = json!({"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": format!("{now:.0}")}]}});
    let nodes = kind_of_cluster(client, ("v1", "Node")).await?;
    nodes.patch_status("mgmt-md-1", &PatchParams::default(), &Patch::<Value>::Strategic(beat)).await?;
    // Annotations of a Deployment make it another generation, and labels do not.
    let note = json!({"metadata": {"labels": {"example.com/looked-at": now.as_millisecond().to_string()}}});
    for (kind, namespace, name) in [
        (("apps/v1", "Deployment"), "cert-manager", "cert-manager"),
        (("cluster.x-k8s.io/v1beta2", "Machine"), "eksa-system", "mgmt-md-1"),
        (("kustomize.toolkit.fluxcd.io/v1", "Kustomization"), FLUX_NAMESPACE, "mgmt-cert-manager"),
    ] {
        let api = kind_in(client, kind, namespace).await?;
        api.patch(name, &PatchParams::default(), &Patch::Merge(&note)).await?;
    }
    Ok(())
}
