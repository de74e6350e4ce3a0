//! What runs on nodes of Fargate, read by node: each has one pod.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use rollout::dump::PodOwner;
use rollout::{FargatePod, FargateReading, FargateWorkload, Node, NodeOrigin};
use serde_json::Value;

use super::dump::owner;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{DEPLOYMENT, Kind, POD, STATEFUL_SET};
use crate::client::request::Selection;
use crate::write::restart;

/// So many nodes are looked at.
const NODES: usize = 200;

/// Under which label it stands for which rollout a workload was restarted: what was is found by it where none of its pods has a node.
pub(crate) const RESTARTED_FOR: &str = "stepgate.dev/restarted-for";

/// What the next restart waits for, of which a change is worth a reading at once: by kind, namespace and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Awaited(BTreeSet<(AwaitedKind, String, String)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AwaitedKind {
    /// One on an old node, which goes.
    Pod,
    Deployment,
    StatefulSet,
}

impl Awaited {
    /// Whether the other has all of this.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Namespaces and names by kind, of those kinds of which there are any.
    pub(crate) fn by_kind(&self) -> impl Iterator<Item = (&'static Kind, Vec<(&str, &str)>)> {
        let kinds = [
            (AwaitedKind::Pod, &POD),
            (AwaitedKind::Deployment, &DEPLOYMENT),
            (AwaitedKind::StatefulSet, &STATEFUL_SET),
        ];
        let of = |(wanted, kind)| {
            let named = self.0.iter().filter(move |(known, ..)| *known == wanted);
            (kind, named.map(|(_, namespace, name)| (namespace.as_str(), name.as_str())).collect::<Vec<_>>())
        };
        kinds.into_iter().map(of).filter(|(_, names)| !names.is_empty())
    }

    fn add(&mut self, kind: AwaitedKind, namespace: &str, name: &str) {
        self.0.insert((kind, namespace.to_owned(), name.to_owned()));
    }

    /// A workload that is to be restarted, or was and is not done.
    fn add_workload(&mut self, workload: &FargateWorkload) {
        let FargateWorkload { kind, namespace, name, old_pods, is_settled, restarted_for, .. } = workload;
        let kind = if kind == "Deployment" { AwaitedKind::Deployment } else { AwaitedKind::StatefulSet };
        if *old_pods > 0 || (restarted_for.is_some() && !is_settled) {
            self.add(kind, namespace, name);
        }
    }
}

/// Kind, namespace and name of a workload.
type Key = (String, String, String);

/// The kind of a workload that a restart makes anew.
pub(crate) fn kind_of(kind: &str) -> Option<&'static Kind> {
    match kind {
        "Deployment" => Some(&DEPLOYMENT),
        "StatefulSet" => Some(&STATEFUL_SET),
        _ => None,
    }
}

/// Reads what runs on the nodes of Fargate among these, for a cluster of this version. Where Stepgate restarts it, what it has restarted
/// is read wherever its pods are, a dry run tells whether the next restart would be refused, and what that waits for is told besides.
pub(crate) async fn read(own: &Connection, nodes: &[Node], version: &str, restarts: bool) -> (FargateReading, Awaited) {
    let (mut reading, mut awaited) = (FargateReading::default(), Awaited::default());
    let on_fargate = nodes.iter().filter(|node| node.origin == Some(NodeOrigin::Fargate));
    let is_old = |node: &Node| {
        let kubelet = node.kubelet_version.as_deref().unwrap_or_default().trim_start_matches('v');
        !kubelet.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '+']))
    };
    let mut owners: BTreeMap<Key, u32> = BTreeMap::new();
    for (looked, node) in on_fargate.enumerate() {
        if looked == NODES {
            reading.unread.push(format!("more than {NODES} nodes"));
            break;
        }
        let fields = format!("spec.nodeName={}", node.name);
        let selection = Selection { fields: Some(&fields), ..Selection::default() };
        let pods = match own.list_selected(&POD, Some("v1"), selection).await {
            Ok(pods) => pods,
            Err(error) => {
                reading.unread.push(error.to_string());
                continue;
            }
        };
        for pod in &pods {
            let PodOwner { kind, namespace, name } = owner(pod);
            if restarts && is_old(node) && kind_of(&kind).is_some() {
                awaited.add(AwaitedKind::Pod, &namespace, pod.metadata.name.as_deref().unwrap_or_default());
            }
            let phase = pod.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
            if kind_of(&kind).is_some() {
                *owners.entry((kind, namespace, name)).or_default() += u32::from(is_old(node));
            } else if is_old(node) && !matches!(phase, "Succeeded" | "Failed") {
                reading.others.push(FargatePod {
                    namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                    name: pod.metadata.name.clone().unwrap_or_default(),
                    owner: format!("{kind} {namespace}/{name}"),
                });
            }
        }
    }
    // Only after the pods: a restart whose pods have gone since, and whose new ones have no node yet, is under way as well.
    let mut restarted = BTreeMap::new();
    if restarts {
        for kind in [&DEPLOYMENT, &STATEFUL_SET] {
            let selection = Selection { labels: Some(RESTARTED_FOR), ..Selection::default() };
            match own.list_selected(kind, Some("v1"), selection).await {
                Ok(objects) => restarted.extend(objects.into_iter().map(|object| (key_of(kind, &object), object))),
                Err(error) => reading.unread.push(error.to_string()),
            }
        }
    }
    restarted.keys().for_each(|key| _ = owners.entry(key.clone()).or_default());
    for (key, old_pods) in owners {
        let object = match restarted.remove(&key) {
            Some(object) => Ok(Some(object)),
            None => get(own, &key).await,
        };
        match object {
            Ok(Some(object)) => reading.workloads.push(workload(&object, key, old_pods)),
            // It went, and its pods go.
            Ok(None) => {}
            Err(error) => reading.unread.push(error.to_string()),
        }
    }
    let is_next = |workload: &&mut FargateWorkload| {
        workload.old_pods > 0 && workload.is_settled && workload.cannot_roll.is_none()
    };
    if let Some(next) = reading.workloads.iter_mut().find(is_next).filter(|_| restarts) {
        next.refused = restart::refused(own, next).await.map(|error| error.to_string());
    }
    if restarts {
        reading.workloads.iter().for_each(|workload| awaited.add_workload(workload));
    }
    reading.unread.sort();
    reading.unread.dedup();
    (reading, awaited)
}

fn key_of(kind: &Kind, object: &DynamicObject) -> Key {
    let metadata = object.metadata.clone();
    (kind.kind.to_owned(), metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default())
}

async fn get(own: &Connection, (kind, namespace, name): &Key) -> Result<Option<DynamicObject>, RequestError> {
    let Some(kind) = kind_of(kind) else { return Ok(None) };
    own.get(&kind.resource("v1"), Some(namespace), name).await
}

fn workload(object: &DynamicObject, (kind, namespace, name): Key, old_pods: u32) -> FargateWorkload {
    let number = |path: &str| object.data.pointer(path).and_then(Value::as_i64);
    let wanted = number("/spec/replicas").unwrap_or(1);
    let count = |path: &str| number(path).unwrap_or(0);
    let is_observed = number("/status/observedGeneration") >= object.metadata.generation;
    let is_whole = count("/status/replicas") == wanted
        && count("/status/updatedReplicas") == wanted
        && count("/status/readyReplicas") == wanted;
    let is = |path: &str, value: &Value| object.data.pointer(path) == Some(value);
    let cannot_roll = if is("/spec/paused", &Value::Bool(true)) {
        Some("it is paused (spec.paused)".to_owned())
    } else if is("/spec/updateStrategy/type", &Value::String("OnDelete".to_owned())) {
        Some("its pods are replaced when they are deleted alone (OnDelete)".to_owned())
    } else {
        None
    };
    let labels = object.metadata.labels.as_ref();
    let restarted_for = labels.and_then(|known| known.get(RESTARTED_FOR)).cloned();
    let is_settled = is_observed && is_whole;
    FargateWorkload { kind, namespace, name, old_pods, is_settled, cannot_roll, refused: None, restarted_for }
}
