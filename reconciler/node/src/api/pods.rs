//! The Pods of a node, and what of them a drain moves.

use serde_json::Value;

/// What a drain does with a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// It is evicted.
    Evict,
    /// It stays.
    Stays,
    /// It would be lost.
    Lost(&'static str),
}

/// `namespace/name`.
#[must_use]
pub fn name(pod: &Value) -> String {
    let text = |name: &str| pod.pointer(name).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"))
}

/// What tells a Pod from a later one of its name.
#[must_use]
pub fn uid(pod: &Value) -> &str {
    pod.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

/// The object that keeps a Pod: kind and name.
#[must_use]
pub fn controller(pod: &Value) -> Option<(&str, &str)> {
    let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))?;
    Some((owner.get("kind")?.as_str()?, owner.get("name")?.as_str()?))
}

/// What a drain does with `pod`.
#[must_use]
pub fn part(pod: &Value, own_pod: Option<&str>, deletes_empty_dir_data: bool) -> Part {
    let annotations = pod.pointer("/metadata/annotations");
    let is_mirror = annotations.is_some_and(|all| all.get("kubernetes.io/config.mirror").is_some());
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    let controller = controller(pod).map(|(kind, _)| kind);
    if is_mirror || own_pod == Some(name(pod).as_str()) || controller == Some("DaemonSet") {
        return Part::Stays;
    }
    if is_over {
        return Part::Evict;
    }
    if controller.is_none() {
        return Part::Lost("no controller would make it again");
    }
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    let has_data = volumes.is_some_and(|all| all.iter().any(|volume| volume.get("emptyDir").is_some()));
    if has_data && !deletes_empty_dir_data {
        return Part::Lost("data in its emptyDir volumes would be lost (--delete-emptydir-data allows that)");
    }
    Part::Evict
}

/// Whether its containers are ready.
#[must_use]
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let is_leaving = pod.pointer("/metadata/deletionTimestamp").is_some();
    !is_leaving
        && conditions.is_some_and(|all| {
            all.iter().any(|condition| {
                condition.get("type").and_then(Value::as_str) == Some("Ready")
                    && condition.get("status").and_then(Value::as_str) == Some("True")
            })
        })
}

/// The `DaemonSets` that have a ready Pod among `pods`, `namespace/name`.
#[must_use]
pub fn ready_daemon_sets(pods: &[Value]) -> Vec<String> {
    let mut names: Vec<String> = pods
        .iter()
        .filter(|pod| is_ready(pod))
        .filter_map(|pod| match controller(pod) {
            Some(("DaemonSet", name)) => {
                let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
                Some(format!("{namespace}/{name}"))
            }
            _ => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The path of all Pods of a node.
#[must_use]
pub fn path_of_node(node: &str) -> String {
    format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")
}
