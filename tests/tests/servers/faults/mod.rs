//! What goes wrong around a rollout: Flux is held or refused, controllers die, servers stand still, people interfere.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, kind_in, list};
use tests::servers::{FLUX_NAMESPACE, isolated};

use super::machines::{self, CLASS_FILE, CLUSTER, CLUSTER_KIND, FILE, MACHINE, NAMESPACE, PARTS};
use super::recording::{Recorder, assert_commits_follow_machines, assert_no_prefix_passes_early, first_pass};
use super::scene::{POLICY, Scene};

const OLD: &str = "v1.34.0";
const NEW: &str = "v1.35.0";
const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");

/// The Kustomization that applies the cluster's specification.
const APPLIED: &str = "machines-cluster";

/// Words that only this test knows.
const REFUSAL: &str = "no upgrades while the auditors are in the house";

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
        let words = ["Kustomization flux-system/machines-cluster", "status.lastAppliedRevision", &head];
        scene
            .reasons_are(CLUSTER, |reasons| {
                words.iter().all(|word| reasons.contains(word)) && !reasons.contains("GitRepository")
            })
            .await?;

        // Refused: the words of the refusal are the person's.
        apply(&scene.client, &refusal()).await?;
        refuses(&scene).await?;
        scene.flux.kustomize.resume()?;
        scene.why_says(CLUSTER, &["Kustomization flux-system/machines-cluster", REFUSAL]).await?;

        // Applied, and not healthy.
        for object in refusal() {
            delete(&scene, &object).await?;
        }
        let now =
            json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": Timestamp::now().to_string()}}});
        merge(&scene, KUSTOMIZATION, (FLUX_NAMESPACE, APPLIED), &now).await?;
        scene.why_says(CLUSTER, &["KubeadmControlPlane"]).await?;

        // The control plane's manager dies and comes back.
        new_machine(&scene).await?;
        cluster_api.control_plane.kill()?;
        scene.why_says(CLUSTER, &["KubeadmControlPlane"]).await?;
        cluster_api.control_plane.restart()?;
        cluster_api.wait_until_ready().await?;

        // The API server stands still.
        scene.server.server.stall()?;
        scene.why_says(CLUSTER, &["no answer within"]).await?;
        scene.server.server.resume()?;
        scene.server.wait_until_ready().await?;

        // Stepgate is killed, and a person deletes a machine that was done.
        controller.kill()?;
        let machine = new_machine(&scene).await?;
        kind_in(&scene.client, MACHINE, NAMESPACE).await?.delete(&machine, &DeleteParams::default()).await?;
        controller.restart()?;

        // A person pauses the cluster in the middle of a worker group.
        scene.stage_is(CLUSTER, "workers/blue").await?;
        merge(&scene, CLUSTER_KIND, (NAMESPACE, CLUSTER), &json!({"spec": {"paused": true}})).await?;
        scene.why_says(CLUSTER, &["Cluster fleet/machines", "paused"]).await?;
        assert_eq!(scene.repository.stages()?.last().map(String::as_str), Some("workers/blue"));
        merge(&scene, CLUSTER_KIND, (NAMESPACE, CLUSTER), &json!({"spec": {"paused": null}})).await?;

        // A machine never comes up: the stage is held when its time is over, with the machine's name.
        scene.stage_is(CLUSTER, "workers/green").await?;
        scene
            .why_says(CLUSTER, &["not finished 20 s after its commit", "Machine fleet/machines-green-", NEVER_UP])
            .await?;
        assert_eq!(scene.why(CLUSTER).await?["state"], "held");
        assert_eq!(scene.repository.stages()?, machines::STAGES[..4]);

        let seen = recorder.finish()?;
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

/// The name of a control-plane machine of the new version, once there is one.
async fn new_machine(scene: &Scene) -> anyhow::Result<String> {
    let is_new = |machine: &kube::api::DynamicObject| {
        machine.data.pointer("/spec/version") == Some(&json!(NEW))
            && machine.labels().contains_key("cluster.x-k8s.io/control-plane")
            && machine.metadata.deletion_timestamp.is_none()
            && machines::is_true(machine, "Ready")
    };
    let found = async || {
        let machines = list(&scene.client, MACHINE, NAMESPACE).await?;
        Ok(machines.iter().find(|machine| is_new(machine)).map(kube::ResourceExt::name_any))
    };
    scene.until("a new control-plane machine", Duration::from_secs(300), found).await
}

/// A rule of the API server's own that refuses every new version of a cluster.
fn refusal() -> Vec<Value> {
    let metadata = json!({"name": "refusal"});
    vec![
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["*"],
                "operations": ["UPDATE"], "resources": ["clusters"]}]},
            "validations": [{"expression": "object.spec.topology.version == oldObject.spec.topology.version", "message": REFUSAL}],
        }}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
            "spec": {"policyName": "refusal", "validationActions": ["Deny"]}}),
    ]
}

/// Waits until the rule is in force: it takes effect some time after its creation.
async fn refuses(scene: &Scene) -> anyhow::Result<()> {
    let api = kind_in(&scene.client, CLUSTER_KIND, NAMESPACE).await?;
    let patch = json!({"spec": {"topology": {"version": NEW}}});
    let refused = async || {
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        let result = api.patch(CLUSTER, &parameters, &Patch::Merge(&patch)).await;
        Ok(result.is_err_and(|error| error.to_string().contains(REFUSAL)).then_some(()))
    };
    scene.until("the rule is in force", Duration::from_secs(30), refused).await
}

async fn delete(scene: &Scene, object: &Value) -> anyhow::Result<()> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let kind = (text("/apiVersion"), text("/kind"));
    tests::servers::manifests::kind_of_cluster(&scene.client, kind)
        .await?
        .delete(text("/metadata/name"), &DeleteParams::default())
        .await?;
    Ok(())
}
