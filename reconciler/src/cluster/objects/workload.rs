//! Deployments, `DaemonSets` and their pods.

use kube::core::DynamicObject;
use rollout::{DaemonSet, Deployment, Pod, RunningImage};
use serde_json::Value;

use super::fields::{
    condition, conditions, count, deleting, flag, generation, label, list, name, namespace, number, owner, text,
};
use super::selector::selects;

/// A Deployment with the containers of those of `pods` that its selector selects.
pub(crate) fn deployment(object: &DynamicObject, pods: &[DynamicObject]) -> Deployment {
    let data = &object.data;
    Deployment {
        namespace: namespace(object),
        name: name(object),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        deleting: deleting(object),
        paused: flag(data, &["spec", "paused"]).unwrap_or_default(),
        spec_replicas: count(data, &["spec", "replicas"]).unwrap_or(1),
        replicas: count(data, &["status", "replicas"]),
        updated_replicas: count(data, &["status", "updatedReplicas"]),
        ready_replicas: count(data, &["status", "readyReplicas"]),
        available_replicas: count(data, &["status", "availableReplicas"]),
        conditions: conditions(data, &["status", "conditions"]),
        images: template_images(data),
        running: running(object, pods, "ReplicaSet"),
    }
}

/// A DaemonSet with the containers of those of `pods` that its selector selects.
pub(crate) fn daemon_set(object: &DynamicObject, pods: &[DynamicObject]) -> DaemonSet {
    let data = &object.data;
    DaemonSet {
        namespace: namespace(object),
        name: name(object),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        deleting: deleting(object),
        desired_scheduled: count(data, &["status", "desiredNumberScheduled"]),
        current_scheduled: count(data, &["status", "currentNumberScheduled"]),
        // The API server leaves zeros out of these three.
        updated_scheduled: Some(count(data, &["status", "updatedNumberScheduled"]).unwrap_or_default()),
        ready: count(data, &["status", "numberReady"]),
        available: Some(count(data, &["status", "numberAvailable"]).unwrap_or_default()),
        misscheduled: count(data, &["status", "numberMisscheduled"]),
        images: template_images(data),
        running: running(object, pods, "DaemonSet"),
    }
}

/// Whether a Deployment, `DaemonSet` or `StatefulSet` has as many ready pods as it wants, by a status of its current generation. Zeros are left
/// out of a status.
pub(crate) fn is_complete(object: &DynamicObject) -> bool {
    let data = &object.data;
    let seen = |name: &str| count(data, &["status", name]).unwrap_or_default();
    let observed = number(data, &["status", "observedGeneration"]);
    let (wanted, ready) = if count(data, &["status", "desiredNumberScheduled"]).is_some() {
        (seen("desiredNumberScheduled"), seen("numberReady"))
    } else {
        (count(data, &["spec", "replicas"]).unwrap_or(1), seen("readyReplicas"))
    };
    let paused = flag(data, &["spec", "paused"]).unwrap_or_default();
    (paused || observed == object.metadata.generation) && ready >= wanted
}

/// A single pod of `application`.
pub(crate) fn pod(object: &DynamicObject, application: &str) -> Pod {
    Pod {
        namespace: namespace(object),
        name: name(object),
        application: application.to_owned(),
        node: text(&object.data, &["spec", "nodeName"]),
        ready: !deleting(object) && is_ready(&object.data),
        running: containers(object),
    }
}

/// The application that a static pod carries, kube-vip being the one that gates read: its label, else the name it was given
/// before the node's name was appended.
pub(crate) fn is_of_application(object: &DynamicObject, application: &str) -> bool {
    ["app.kubernetes.io/name", "component", "k8s-app", "app"].iter().any(|key| label(object, key) == Some(application))
        || name(object).strip_prefix(application).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn is_ready(pod: &Value) -> bool {
    list(pod, &["status", "conditions"])
        .iter()
        .filter(|entry| text(entry, &["type"]).as_deref() == Some("Ready"))
        .filter_map(condition)
        .any(|ready| ready.status == rollout::ConditionStatus::True)
}

fn template_images(data: &Value) -> Vec<String> {
    let template = ["spec", "template", "spec"];
    ["initContainers", "containers"]
        .into_iter()
        .flat_map(|kind| list(data, &[template[0], template[1], template[2], kind]))
        .filter_map(|container| text(container, &["image"]))
        .collect()
}

fn running(object: &DynamicObject, pods: &[DynamicObject], owner_kind: &str) -> Vec<RunningImage> {
    let Some(selector) = object.data.get("spec").and_then(|spec| spec.get("selector")) else { return Vec::new() };
    pods.iter()
        .filter(|pod| {
            pod.metadata.namespace == object.metadata.namespace && selects(selector, pod.metadata.labels.as_ref())
        })
        // Two workloads may select each other's pods by mistake; the owner tells them apart where there is one.
        .filter(|pod| owner(pod, owner_kind).is_none_or(|owner| owner_matches(&owner, object, owner_kind)))
        .filter(|pod| !is_finished(pod))
        .flat_map(containers)
        .collect()
}

fn owner_matches(owner: &str, object: &DynamicObject, owner_kind: &str) -> bool {
    let name = name(object);
    match owner_kind {
        // A ReplicaSet is named after its Deployment and the hash of its template, which holds no dash.
        "ReplicaSet" => {
            owner.strip_prefix(&name).and_then(|rest| rest.strip_prefix('-')).is_some_and(|hash| !hash.contains('-'))
        }
        _ => owner == name,
    }
}

/// Evicted and completed pods stay in the list and run nothing.
fn is_finished(pod: &DynamicObject) -> bool {
    matches!(text(&pod.data, &["status", "phase"]).as_deref(), Some("Failed" | "Succeeded"))
}

fn containers(pod: &DynamicObject) -> Vec<RunningImage> {
    list(&pod.data, &["status", "containerStatuses"])
        .iter()
        .map(|status| RunningImage {
            pod: name(pod),
            container: text(status, &["name"]).unwrap_or_default(),
            image: text(status, &["image"]).unwrap_or_default(),
            digest: text(status, &["imageID"]).and_then(|id| digest(&id)),
            ready: flag(status, &["ready"]).unwrap_or_default(),
            waiting: text(status, &["state", "waiting", "reason"]),
            deleting: deleting(pod),
        })
        .collect()
}

/// The digest in an `imageID` such as `registry/repository@sha256:…` or `docker-pullable://registry/repository@sha256:…`.
///
/// A bare `sha256:…` is the id of the image's configuration, which is no digest that a manifest can name: it counts as unknown.
fn digest(image_id: &str) -> Option<String> {
    let (_, digest) = image_id.rsplit_once('@')?;
    let digits = digest.strip_prefix("sha256:")?;
    (digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| digest.to_ascii_lowercase())
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
