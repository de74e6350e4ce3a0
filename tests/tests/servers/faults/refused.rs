//! Flux is refused, by a webhook and by what cannot be changed, and `stepgate why` tells so in the same words.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tests::servers::manifests::{apply, kind_in, kind_of_cluster};
use tests::servers::{Admission, FLUX_NAMESPACE, Programs, Webhook};
use tests::waiting::end_of;

use super::{APPLIED, KUSTOMIZATION, NEW, merge};
use crate::machines::{self, CLUSTER, CLUSTER_KIND, NAMESPACE};
use crate::scene::Scene;

/// A name that only this test knows.
const NAME: &str = "auditors.example.com";

const CONFIGURATION: (&str, &str) = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");

/// A webhook that refuses every new version of a cluster.
pub async fn webhook(scene: &Scene) -> anyhow::Result<Webhook> {
    let webhook = Webhook::start(scene.server.authority()).await?;
    webhook.say(Admission::Deny);
    let bundle = STANDARD.encode(scene.server.authority().certificate());
    let configuration = json!({"apiVersion": CONFIGURATION.0, "kind": CONFIGURATION.1, "metadata": {"name": NAME}, "webhooks": [{
        "name": NAME, "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
        "clientConfig": {"url": webhook.url(), "caBundle": bundle},
        "rules": [{"apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["*"], "resources": ["clusters"], "operations": ["UPDATE"]}],
        "matchConditions": [{"name": "version", "expression": "object.spec.topology.version != oldObject.spec.topology.version"}],
    }]});
    apply(&scene.client, &[configuration]).await?;
    scene.until("the webhook is called", async || Ok(is_refused(scene).await?.then_some(()))).await?;
    Ok(webhook)
}

/// The webhook has refused the cluster, and goes.
pub async fn is_told_of_webhook(scene: &Scene, webhook: Webhook) -> anyhow::Result<()> {
    is_told(scene, &[NAME, Webhook::DENIAL]).await?;
    kind_of_cluster(&scene.client, CONFIGURATION).await?.delete(NAME, &DeleteParams::default()).await?;
    let is_gone = async || Ok((!is_refused(scene).await?).then_some(()));
    scene.until("the webhook is called no more", is_gone).await?;
    drop(webhook);
    Ok(())
}

/// Whether the webhook is in force, which it is some time after its configuration was written.
async fn is_refused(scene: &Scene) -> anyhow::Result<bool> {
    let api = kind_in(&scene.client, CLUSTER_KIND, NAMESPACE).await?;
    let patch = json!({"spec": {"topology": {"version": NEW}}});
    let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
    let result = api.patch(CLUSTER, &parameters, &Patch::Merge(&patch)).await;
    Ok(result.is_err_and(|error| error.to_string().contains(NAME)))
}

/// A template that nothing is made from any more is another one than git says, and templates cannot be changed.
pub async fn is_told_of_template(scene: &Scene, programs: &Programs) -> anyhow::Result<()> {
    let mut template = machines::green_template(programs, "1s")?;
    let name = template.pointer("/metadata/name").and_then(Value::as_str).context("no name")?.to_owned();
    let kind = template.get("apiVersion").and_then(Value::as_str).context("no version")?.to_owned();
    let templates = kind_in(&scene.client, (&kind, "DevMachineTemplate"), NAMESPACE).await?;
    delete(scene, &templates, &name).await?;
    machines::starts_after(&mut template, "2s")?;
    apply(&scene.client, &[template]).await?;
    reconcile(scene).await?;
    is_told(scene, &[&name, "dry-run failed", "immutable"]).await?;
    delete(scene, &templates, &name).await
}

/// Flux is told to apply what is there.
pub async fn reconcile(scene: &Scene) -> anyhow::Result<()> {
    let now = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": Timestamp::now().to_string()}}});
    merge(scene, KUSTOMIZATION, (FLUX_NAMESPACE, APPLIED), &now).await
}

/// Flux says these words of its work, and `stepgate why` says all that it says.
async fn is_told(scene: &Scene, words: &[&str]) -> anyhow::Result<()> {
    let says = |object: Option<&DynamicObject>| {
        object.and_then(ready).is_some_and(|message| words.iter().all(|word| message.contains(word)))
    };
    let api = kind_in(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
    let said = end_of(&format!("Flux says {words:?}"), await_condition(api, APPLIED, says)).await??;
    // A reason is one line.
    let message = said.as_ref().and_then(ready).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    scene.why_says(CLUSTER, &[serde_json::to_string(&message)?.trim_matches('"')]).await
}

/// What Flux says of its work.
fn ready(object: &DynamicObject) -> Option<&str> {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array)?;
    let ready = conditions.iter().find(|condition| condition.get("type") == Some(&json!("Ready")))?;
    ready.get("message").and_then(Value::as_str)
}

async fn delete(scene: &Scene, api: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    api.delete(name, &DeleteParams::default()).await?;
    let gone = async || Ok(api.get_opt(name).await?.is_none().then_some(()));
    scene.until("the template is gone", gone).await
}
