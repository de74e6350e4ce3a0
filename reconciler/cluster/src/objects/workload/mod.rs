//! Deployments, `DaemonSets` and their pods.

pub(in crate::objects) mod selector;

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use rollout::{ConditionStatus, DaemonSet, Deployment, PlacedPod, Pod, RunningImage, Unfinished};
use serde::Serialize;
use serde_json::Value;

use crate::objects::fields::{
    annotation, condition, conditions, count, deleting, flag, generation, label, list, name, namespace, number, owner,
    text,
};
use crate::objects::workload::selector::selects;
use host::memory::bytes_of;

/// What gates read of a pod that may belong to a workload.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OwnedPod {
    namespace: String,
    labels: Option<BTreeMap<String, String>>,
    replica_set: Option<String>,
    daemon_set: Option<String>,
    containers: Vec<RunningImage>,
    /// Where it is, if a `DaemonSet` owns it.
    placed: Option<PlacedPod>,
}

impl OwnedPod {
    pub(crate) fn of(object: &DynamicObject) -> Self {
        Self {
            namespace: namespace(object),
            labels: object.metadata.labels.clone(),
            replica_set: owner(object, "ReplicaSet"),
            daemon_set: owner(object, "DaemonSet"),
            placed: owner(object, "DaemonSet").and_then(|_| placed(object)),
            // Evicted and completed pods stay in the list and run nothing.
            containers: if is_finished(object) { Vec::new() } else { containers(object) },
        }
    }
}

/// Which pods are a workload's own.
#[derive(Debug, Clone)]
pub(crate) struct PodSelector {
    namespace: String,
    name: String,
    selector: Option<Value>,
    owns: fn(&str, &OwnedPod) -> bool,
}

impl PodSelector {
    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + bytes_of(&self.namespace) + bytes_of(&self.name) + bytes_of(&self.selector)
    }

    /// Those of a Deployment.
    pub(crate) fn of_deployment(object: &DynamicObject) -> Self {
        // A ReplicaSet is named after its Deployment and the hash of its template, which holds no dash.
        Self::of(object, |name, pod| {
            let is_own = |set: &str| {
                set.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')).is_some_and(|hash| !hash.contains('-'))
            };
            pod.replica_set.as_deref().is_none_or(is_own)
        })
    }

    /// Those of a `DaemonSet`.
    pub(crate) fn of_daemon_set(object: &DynamicObject) -> Self {
        Self::of(object, |name, pod| pod.daemon_set.as_deref().is_none_or(|owner| owner == name))
    }

    fn of(object: &DynamicObject, owns: fn(&str, &OwnedPod) -> bool) -> Self {
        let selector = object.data.get("spec").and_then(|spec| spec.get("selector")).cloned();
        Self { namespace: namespace(object), name: name(object), selector, owns }
    }

    /// The containers of those of `pods` that it selects.
    pub(crate) fn running<'a>(&self, pods: impl IntoIterator<Item = &'a OwnedPod>) -> Vec<RunningImage> {
        self.own(pods).flat_map(|pod| pod.containers.iter().cloned()).collect()
    }

    /// Where those of `pods` are that it selects.
    pub(crate) fn placed<'a>(&self, pods: impl IntoIterator<Item = &'a OwnedPod>) -> Vec<PlacedPod> {
        self.own(pods).filter_map(|pod| pod.placed.clone()).collect()
    }

    fn own<'a>(&self, pods: impl IntoIterator<Item = &'a OwnedPod>) -> impl Iterator<Item = &'a OwnedPod> {
        pods.into_iter().filter(|pod| {
            // Two workloads may select each other's pods by mistake; the owner tells them apart where there is one.
            pod.namespace == self.namespace
                && self.selector.as_ref().is_some_and(|selector| selects(selector, pod.labels.as_ref()))
                && (self.owns)(&self.name, pod)
        })
    }
}

/// A Deployment with the containers of those of `pods` that its selector selects.
pub(crate) fn deployment(object: &DynamicObject, pods: &[OwnedPod]) -> Deployment {
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
        running: PodSelector::of_deployment(object).running(pods),
    }
}

/// A DaemonSet with the containers of those of `pods` that its selector selects.
pub(crate) fn daemon_set(object: &DynamicObject, pods: &[OwnedPod]) -> DaemonSet {
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
        running: PodSelector::of_daemon_set(object).running(pods),
        template: annotation(object, TEMPLATE_OF_DAEMON_SET).map(str::to_owned),
        pods: PodSelector::of_daemon_set(object).placed(pods),
    }
}

/// Which template a DaemonSet has, by their count.
const TEMPLATE_OF_DAEMON_SET: &str = "deprecated.daemonset.template.generation";

/// A pod that runs, or is to run, on a node.
fn placed(pod: &DynamicObject) -> Option<PlacedPod> {
    let conditions = conditions(&pod.data, &["status", "conditions"]);
    (!is_finished(pod)).then(|| text(&pod.data, &["spec", "nodeName"])).flatten().map(|node| PlacedPod {
        pod: name(pod),
        node,
        template: label(pod, "pod-template-generation").map(str::to_owned),
        ready: conditions.get("Ready").is_some_and(|ready| ready.status == ConditionStatus::True),
    })
}

/// How many pods a Deployment or `DaemonSet` has by its own count, those that are being deleted left out.
pub(crate) fn pods_of_status(object: &DynamicObject) -> u32 {
    let counted = |name: &str| count(&object.data, &["status", name]);
    counted("currentNumberScheduled").or_else(|| counted("replicas")).unwrap_or_default()
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

/// What a `StatefulSet` or a Job has not brought about yet; none of other kinds, and where nothing is left to do.
pub(crate) fn unfinished(kind: &str, object: &DynamicObject) -> Option<Unfinished> {
    match kind {
        "StatefulSet" => unfinished_set(object),
        "Job" => unfinished_job(object),
        _ => None,
    }
}

fn unfinished_set(object: &DynamicObject) -> Option<Unfinished> {
    let data = &object.data;
    let waits = |field: String, message: String| Some(Unfinished { field, message, failed: false });
    if number(data, &["status", "observedGeneration"]) != object.metadata.generation {
        return waits("status.observedGeneration".to_owned(), "the newest generation was not observed yet".to_owned());
    }
    let wanted = count(data, &["spec", "replicas"]).unwrap_or(1);
    // Pods below the partition, and those that somebody has to delete, stay as they are.
    let partition = count(data, &["spec", "updateStrategy", "rollingUpdate", "partition"]).unwrap_or(0);
    let is_manual = text(data, &["spec", "updateStrategy", "type"]).as_deref() == Some("OnDelete");
    let revision = |name: &str| text(data, &["status", name]);
    let is_one = revision("currentRevision") == revision("updateRevision");
    let updated = if is_manual || is_one { 0 } else { wanted.saturating_sub(partition) };
    for (name, wanted) in [("updatedReplicas", updated), ("readyReplicas", wanted)] {
        let seen = count(data, &["status", name]).unwrap_or_default();
        if seen < wanted {
            return waits(format!("status.{name}"), format!("{seen}, {wanted} expected"));
        }
    }
    None
}

fn unfinished_job(object: &DynamicObject) -> Option<Unfinished> {
    let known = conditions(&object.data, &["status", "conditions"]);
    let holds = |name: &str| known.get(name).filter(|known| known.status == ConditionStatus::True);
    if let Some(failed) = holds("Failed") {
        let message = format!("{}: {}", failed.reason, failed.message);
        return Some(Unfinished { field: "status.conditions[Failed]".to_owned(), message, failed: true });
    }
    // Whoever suspends a Job does not want it to end.
    let is_suspended = flag(&object.data, &["spec", "suspend"]).unwrap_or_default();
    let (field, message) = ("status.conditions[Complete]".to_owned(), "not complete yet".to_owned());
    (holds("Complete").is_none() && !is_suspended).then_some(Unfinished { field, message, failed: false })
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
        .any(|ready| ready.status == ConditionStatus::True)
}

fn template_images(data: &Value) -> Vec<String> {
    let template = ["spec", "template", "spec"];
    ["initContainers", "containers"]
        .into_iter()
        .flat_map(|kind| list(data, &[template[0], template[1], template[2], kind]))
        .filter_map(|container| text(container, &["image"]))
        .collect()
}

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
mod tests;
