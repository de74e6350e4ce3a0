//! The control plane of the cluster in the middle of its rollout, as its own controllers tell of it.

use anyhow::{Context as _, ensure};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tests::servers::manifests::list;

use super::{NEW, OLD, merge};
use crate::machines::{self, MACHINE, NAMESPACE};
use crate::scene::Scene;

const KIND: (&str, &str) = ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane");

/// The annotation by which people pause one object of Cluster API.
const PAUSED: &str = "cluster.x-k8s.io/paused";

async fn read(scene: &Scene) -> anyhow::Result<DynamicObject> {
    list(&scene.client, KIND, NAMESPACE).await?.pop().context("there is no control plane")
}

/// A person pauses it, or lets it go on.
pub async fn pause(scene: &Scene, paused: bool) -> anyhow::Result<()> {
    let value = if paused { json!("true") } else { Value::Null };
    let name = read(scene).await?.name_any();
    merge(scene, KIND, (NAMESPACE, &name), &json!({"metadata": {"annotations": {PAUSED: value}}})).await
}

/// Waits until it is asked for the new version, and says that all is well with what it has seen before.
pub async fn is_stale(scene: &Scene) -> anyhow::Result<()> {
    let found = async || Ok(is_stale_now(scene).await?.then_some(()));
    scene.until("a stale status", found).await
}

/// Whether it has not seen yet what it is asked for, and looks as finished as it was before.
pub async fn is_stale_now(scene: &Scene) -> anyhow::Result<bool> {
    let object = read(scene).await?;
    let at = |path: &str| object.data.pointer(path);
    let observed = at("/status/observedGeneration").and_then(Value::as_i64);
    let all = ["replicas", "upToDateReplicas", "readyReplicas", "availableReplicas"];
    Ok(at("/spec/version") == Some(&json!(NEW))
        && observed < object.metadata.generation
        && all.iter().all(|count| at(&format!("/status/{count}")) == Some(&json!(3)))
        && !machines::is_true(&object, "RollingOut"))
}

/// The name of a machine of the new version, once there is one.
pub async fn new_machine(scene: &Scene) -> anyhow::Result<String> {
    let is_new = |machine: &DynamicObject| {
        is_at(machine, NEW) && machine.metadata.deletion_timestamp.is_none() && machines::is_true(machine, "Ready")
    };
    let found =
        async || Ok(own_machines(scene).await?.iter().find(|machine| is_new(machine)).map(DynamicObject::name_any));
    scene.until("a new control-plane machine", found).await
}

/// It is in the middle of its rollout, and says so: old machines are left.
pub async fn assert_rolls(scene: &Scene) -> anyhow::Result<()> {
    ensure!(machines::is_true(&read(scene).await?, "RollingOut"), "the control plane does not roll out");
    let machines = own_machines(scene).await?;
    ensure!(machines.iter().any(|machine| is_at(machine, OLD)), "no old machine is left");
    Ok(())
}

async fn own_machines(scene: &Scene) -> anyhow::Result<Vec<DynamicObject>> {
    let mut machines = list(&scene.client, MACHINE, NAMESPACE).await?;
    machines.retain(|machine| machine.labels().contains_key("cluster.x-k8s.io/control-plane"));
    Ok(machines)
}

fn is_at(machine: &DynamicObject, version: &str) -> bool {
    machine.data.pointer("/spec/version") == Some(&json!(version))
}
