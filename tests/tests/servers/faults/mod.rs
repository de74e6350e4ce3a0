//! What goes wrong around a rollout: Flux is held or refused, controllers die, servers stand still, people interfere.

mod control_plane;
mod quiet;
mod refused;
mod repaired;

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::kind_in;
use tests::servers::{FLUX_NAMESPACE, isolated};

use self::quiet::Quiet;
use super::machines::{self, CLASS_FILE, CLUSTER, CLUSTER_KIND, FILE, MACHINE, NAMESPACE, PARTS};
use super::recording::{Recorder, assert_commits_follow_machines, assert_no_prefix_passes_early, first_pass};
use super::scene::{POLICY, Scene};

const OLD: &str = "v1.34.0";
const NEW: &str = "v1.35.0";
const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
const SOURCE: (&str, &str) = ("source.toolkit.fluxcd.io/v1", "GitRepository");

/// The Kustomization that applies the cluster's specification.
const APPLIED: &str = "machines-cluster";

/// What Cluster API says of a machine that does not come up.
const NEVER_UP: &str = "Waiting for DevMachine to report spec.providerID";

#[test]
fn faults_are_named_and_do_a_rollout_no_harm() {
    let name = "faults::faults_are_named_and_do_a_rollout_no_harm";
    isolated(name, &machines::needed(), async |programs| {
        let mut scene = Scene::start(&programs).await?;
        let policy = format!("{POLICY}stages: {{workers/green: {{timeout: 20s}}}}\n");
        let mut cluster_api = machines::create(&scene, &programs, OLD, &policy).await?;
        let recorder = Recorder::start(&scene, NEW).await?;
        let mut controller = scene.controller()?;

        // A person's suspend is respected, and named.
        merge(&scene, KUSTOMIZATION, (FLUX_NAMESPACE, APPLIED), &json!({"spec": {"suspend": true}})).await?;
        // Nobody knows yet that the green machines of the next version never come up.
        let files = [(FILE, machines::cluster(NEW)), (CLASS_FILE, machines::class(&programs, "24h")?)];
        scene.repository.push("Kubernetes 1.35", &files.each_ref().map(|(path, text)| (*path, text.as_str())))?;
        scene.why_says(CLUSTER, &["Kustomization flux-system/machines-cluster", "suspended"]).await?;
        assert_eq!(scene.repository.stages()?, ["verify"]);

        // Committed, and not fetched.
        scene.git.hold(true);
        merge(&scene, KUSTOMIZATION, (FLUX_NAMESPACE, APPLIED), &json!({"spec": {"suspend": false}})).await?;
        scene.stage_is(CLUSTER, "control-plane").await?;
        let head = scene.repository.head()?;
        scene.why_says(CLUSTER, &["GitRepository flux-system/flux-system", "status.artifact.revision", &head]).await?;

        // Fetched, and not applied.
        scene.flux.kustomize.stall()?;
        scene.git.hold(false);
        // After failures Flux asks again more and more seldom: it is told to.
        let asked = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "once it answers again"}}});
        merge(&scene, SOURCE, (FLUX_NAMESPACE, "flux-system"), &asked).await?;
        let words = ["Kustomization flux-system/machines-cluster", "status.lastAppliedRevision", &head];
        scene
            .reasons_are(CLUSTER, |reasons| {
                words.iter().all(|word| reasons.contains(word)) && !reasons.contains("GitRepository")
            })
            .await?;

        // Refused, by a webhook and then by a template that cannot be changed: the words of the refusal are told.
        let webhook = refused::webhook(&scene).await?;
        scene.flux.kustomize.resume()?;
        refused::is_told_of_webhook(&scene, webhook).await?;
        control_plane::pause(&scene, true).await?;
        refused::is_told_of_template(&scene, &programs).await?;

        // Applied, and the control plane has not seen it: a person has paused it, and it looks finished.
        refused::reconcile(&scene).await?;
        control_plane::is_stale(&scene).await?;
        let quiet = Quiet::begin(&scene)?;
        scene.why_says(CLUSTER, &["KubeadmControlPlane fleet/machines", "paused, and its status is stale"]).await?;
        quiet.lasts(&scene, Duration::from_secs(5)).await?;
        assert!(control_plane::is_stale_now(&scene).await?);
        control_plane::pause(&scene, false).await?;

        // Applied, and not healthy: in the middle of it the control plane's manager dies, then that of machines and the one that makes them.
        control_plane::new_machine(&scene).await?;
        let quiet = Quiet::begin(&scene)?;
        cluster_api.control_plane.kill()?;
        control_plane::assert_rolls(&scene).await?;
        scene.why_says(CLUSTER, &["KubeadmControlPlane fleet/machines", "status.version: v1.34.0"]).await?;
        quiet.lasts(&scene, Duration::from_secs(10)).await?;
        cluster_api.core.kill()?;
        cluster_api.infrastructure.kill()?;
        quiet.lasts(&scene, Duration::from_secs(15)).await?;
        control_plane::assert_rolls(&scene).await?;
        for manager in [&mut cluster_api.infrastructure, &mut cluster_api.core, &mut cluster_api.control_plane] {
            manager.restart()?;
        }
        cluster_api.wait_until_ready().await?;

        // The API server stands still.
        let quiet = Quiet::begin(&scene)?;
        scene.server.server.stall()?;
        scene.why_says(CLUSTER, &["no answer within"]).await?;
        quiet.lasts(&scene, Duration::from_secs(20)).await?;
        scene.server.server.resume()?;
        scene.server.wait_until_ready().await?;

        // Stepgate is killed, and a person deletes a machine that was done.
        controller.kill()?;
        let machine = control_plane::new_machine(&scene).await?;
        kind_in(&scene.client, MACHINE, NAMESPACE).await?.delete(&machine, &DeleteParams::default()).await?;
        controller.restart()?;

        // A person pauses the cluster in the middle of a worker group.
        scene.stage_is(CLUSTER, "workers/blue").await?;
        merge(&scene, CLUSTER_KIND, (NAMESPACE, CLUSTER), &json!({"spec": {"paused": true}})).await?;
        let quiet = Quiet::begin(&scene)?;
        scene.why_says(CLUSTER, &["Cluster fleet/machines", "paused"]).await?;
        quiet.lasts(&scene, Duration::from_secs(5)).await?;
        assert_eq!(scene.repository.stages()?.last().map(String::as_str), Some("workers/blue"));
        merge(&scene, CLUSTER_KIND, (NAMESPACE, CLUSTER), &json!({"spec": {"paused": null}})).await?;

        // A machine never comes up: the stage is held when its time is over, with the machine's name.
        scene.stage_is(CLUSTER, "workers/green").await?;
        scene
            .why_says(CLUSTER, &["not finished 20 s after its commit", "Machine fleet/machines-green-", NEVER_UP])
            .await?;
        assert_eq!(scene.why(CLUSTER).await?["state"], "held");
        assert_eq!(scene.repository.stages()?, machines::STAGES[..4]);

        let seen = recorder.finish().await?;
        assert_commits_follow_machines(&seen, NEW)?;
        let [done @ .., (stuck, _)] = &PARTS;
        assert_no_prefix_passes_early(&seen, NEW, done)?;
        assert_eq!(first_pass(&seen, stuck, NEW), None);
        scene.folder.done();
        Ok(())
    });
}

async fn merge(
    scene: &Scene,
    kind: (&str, &str),
    (namespace, name): (&str, &str),
    patch: &Value,
) -> anyhow::Result<()> {
    let api = kind_in(&scene.client, kind, namespace).await?;
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
