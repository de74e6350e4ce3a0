//! Everything but pods, as dumps have it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::DynamicObject;
use rollout::ConditionStatus;
use rollout::dump::{
    DumpedAttachment, DumpedAutoscaler, DumpedClaim, DumpedEvent, DumpedNode, DumpedWebhook, DumpedWorkload, PodOwner,
};
use serde_json::Value;

use crate::objects;

/// Labels that name the group of a node, the surer ones first.
const GROUPS: [&str; 5] = [
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "node.cluster.x-k8s.io/deployment-name",
    "cluster.x-k8s.io/deployment-name",
    "run.tanzu.vmware.com/node-pool",
];

/// So many events are kept, the last ones.
const EVENTS: usize = 1000;

fn text(object: &DynamicObject, path: &str) -> Option<String> {
    object.data.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn count(object: &DynamicObject, path: &str) -> Option<u32> {
    object.data.pointer(path).and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok())
}

fn place(object: &DynamicObject) -> (String, String) {
    (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default())
}

fn time(object: &DynamicObject, path: &str) -> Option<Timestamp> {
    text(object, path)?.parse().ok()
}

/// A Node, with how many pods run there, by its name.
pub(super) fn node(object: &DynamicObject, pods: &BTreeMap<String, u32>) -> DumpedNode {
    let label = |key: &str| object.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let info = |key: &str| text(object, &format!("/status/nodeInfo/{key}")).unwrap_or_default();
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let conditions: BTreeMap<String, ConditionStatus> = conditions
        .filter_map(|condition| {
            let field = |key: &str| condition.get(key).and_then(Value::as_str);
            Some((field("type")?.to_owned(), objects::status(field("status")?)?))
        })
        .collect();
    let allocatable = object.data.pointer("/status/allocatable").and_then(Value::as_object).into_iter().flatten();
    let name = object.metadata.name.clone().unwrap_or_default();
    let is_control_plane =
        object.metadata.labels.as_ref().is_some_and(|it| it.contains_key("node-role.kubernetes.io/control-plane"));
    let group = GROUPS.iter().find_map(|key| label(key));
    DumpedNode {
        group: group.or_else(|| is_control_plane.then(|| "control-plane".to_owned())),
        kubelet: info("kubeletVersion"),
        os_image: info("osImage"),
        kernel: info("kernelVersion"),
        runtime: info("containerRuntimeVersion"),
        architecture: info("architecture"),
        zone: label("topology.kubernetes.io/zone"),
        instance_type: label("node.kubernetes.io/instance-type"),
        ready: conditions.get("Ready").copied().unwrap_or(ConditionStatus::Unknown),
        unschedulable: object.data.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false),
        allocatable: allocatable.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        pods: pods.get(&name).copied().unwrap_or(0),
        conditions,
        name,
    }
}

pub(super) fn workload(kind: &str, object: &DynamicObject) -> DumpedWorkload {
    let (namespace, name) = place(object);
    let of_daemon_set = kind == "DaemonSet";
    let path = |own: &'static str, of_nodes: &'static str| if of_daemon_set { of_nodes } else { own };
    let images = ["initContainers", "containers"].into_iter().flat_map(|key| {
        let listed = object.data.pointer(&format!("/spec/template/spec/{key}")).and_then(Value::as_array);
        listed.into_iter().flatten().filter_map(|it| it.get("image").and_then(Value::as_str).map(str::to_owned))
    });
    DumpedWorkload {
        owner: PodOwner { kind: kind.to_owned(), namespace, name },
        desired: count(object, path("/spec/replicas", "/status/desiredNumberScheduled"))
            .unwrap_or(u32::from(!of_daemon_set)),
        ready: count(object, path("/status/readyReplicas", "/status/numberReady")).unwrap_or(0),
        updated: count(object, path("/status/updatedReplicas", "/status/updatedNumberScheduled")).unwrap_or(0),
        images: images.collect(),
    }
}

pub(super) fn claim(object: &DynamicObject) -> DumpedClaim {
    let (namespace, name) = place(object);
    DumpedClaim { namespace, name, phase: text(object, "/status/phase").unwrap_or_default() }
}

/// An attachment that is not done.
pub(crate) fn attachment(object: &DynamicObject) -> Option<DumpedAttachment> {
    let is_attached = object.data.pointer("/status/attached").and_then(Value::as_bool).unwrap_or(false);
    let failed = object.data.pointer("/status/attachError").is_some();
    (!is_attached && object.metadata.deletion_timestamp.is_none()).then(|| DumpedAttachment {
        volume: text(object, "/spec/source/persistentVolumeName").unwrap_or_else(|| "(inline)".to_owned()),
        node: text(object, "/spec/nodeName").unwrap_or_default(),
        since: object.metadata.creation_timestamp.as_ref().and_then(|time| time.0.to_string().parse().ok()),
        failed,
    })
}

pub(super) fn autoscaler(object: &DynamicObject) -> Option<DumpedAutoscaler> {
    let (namespace, _) = place(object);
    let target = |key: &str| text(object, &format!("/spec/scaleTargetRef/{key}"));
    Some(DumpedAutoscaler {
        target: PodOwner { kind: target("kind")?, namespace, name: target("name")? },
        minimum: count(object, "/spec/minReplicas").unwrap_or(1),
        maximum: count(object, "/spec/maxReplicas")?,
    })
}

pub(super) fn webhooks(kind: &str, object: &DynamicObject) -> Vec<DumpedWebhook> {
    let configuration = format!("{kind} {}", place(object).1);
    let listed = object.data.pointer("/webhooks").and_then(Value::as_array).into_iter().flatten();
    let names = listed.filter_map(|webhook| webhook.get("name").and_then(Value::as_str));
    names.map(|name| DumpedWebhook { configuration: configuration.clone(), name: name.to_owned() }).collect()
}

/// The name of an API that nobody serves.
pub(super) fn unavailable(object: &DynamicObject) -> Option<String> {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is = |condition: &Value, key: &str, value: &str| condition.get(key).and_then(Value::as_str) == Some(value);
    let is_out = { conditions }.any(|it| is(it, "type", "Available") && !is(it, "status", "True"));
    is_out.then(|| place(object).1)
}

/// Events, those of one object and reason as one. Their messages are left out: probes quote what containers print.
pub(super) fn events(events: &[DynamicObject]) -> Vec<DumpedEvent> {
    let mut found: BTreeMap<(String, String), DumpedEvent> = BTreeMap::new();
    for event in events {
        let of = |key: &str| text(event, &format!("/involvedObject/{key}"));
        let namespace = of("namespace").map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let object = format!("{} {namespace}{}", of("kind").unwrap_or_default(), of("name").unwrap_or_default());
        let reason = text(event, "/reason").unwrap_or_default();
        let last = time(event, "/series/lastObservedTime")
            .or_else(|| time(event, "/lastTimestamp"))
            .or_else(|| time(event, "/eventTime"));
        let seen = count(event, "/series/count").or_else(|| count(event, "/count")).unwrap_or(1);
        let known = found.entry((object.clone(), reason.clone())).or_insert(DumpedEvent {
            object,
            reason,
            count: 0,
            last: None,
        });
        known.count = known.count.saturating_add(seen);
        known.last = known.last.max(last);
    }
    let mut found: Vec<DumpedEvent> = found.into_values().collect();
    found.sort_by_key(|event| Reverse(event.last));
    found.truncate(EVENTS);
    found
}
