//! Pods, as dumps have them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::DynamicObject;
use policy::InjectionRule;
use rollout::dump::{DumpedContainer, DumpedPod, InjectedPod, PodOwner, owner_of_pod, wanted_injections};
use serde_json::Value;

/// What pods belong to, for whoever names them.
pub(crate) fn owner(pod: &DynamicObject) -> PodOwner {
    let metadata = &pod.metadata;
    let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let none = BTreeMap::new();
    owner_of_pod(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
        controller.map(|owner| (owner.kind.as_str(), owner.name.as_str())),
        metadata.labels.as_ref().unwrap_or(&none),
        pod.data.pointer("/spec/nodeName").and_then(Value::as_str),
    )
}

/// All pods, with what their namespaces ask to be put into them.
pub(crate) fn dumped_pods(
    pods: &[DynamicObject],
    namespaces: &[DynamicObject],
    rules: &[InjectionRule],
) -> Vec<DumpedPod> {
    let namespaces: BTreeMap<&str, &DynamicObject> =
        namespaces.iter().filter_map(|object| Some((object.metadata.name.as_deref()?, object))).collect();
    let of = |pod: &DynamicObject| namespaces.get(pod.metadata.namespace.as_deref().unwrap_or_default()).copied();
    pods.iter().map(|pod| dumped_pod(pod, of(pod), rules)).collect()
}

fn dumped_pod(pod: &DynamicObject, namespace: Option<&DynamicObject>, rules: &[InjectionRule]) -> DumpedPod {
    let metadata = &pod.metadata;
    let text = |path: &str| pod.data.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let time = |time: &Option<Time>| time.as_ref().and_then(|time| time.0.to_string().parse().ok());
    let containers = containers(pod);
    let expected = containers.iter().filter(|(_, counts)| *counts).count();
    let ready = containers.iter().filter(|(container, counts)| *counts && container.ready).count();
    let (name, own_namespace) =
        (metadata.name.clone().unwrap_or_default(), metadata.namespace.clone().unwrap_or_default());
    let containers: Vec<DumpedContainer> = containers.into_iter().map(|(container, _)| container).collect();
    let names: BTreeSet<String> = containers.iter().map(|container| container.name.clone()).collect();
    let none = BTreeMap::new();
    let of_namespace = namespace.map(|namespace| &namespace.metadata);
    let injected = InjectedPod {
        namespace: &own_namespace,
        namespace_labels: of_namespace.and_then(|it| it.labels.as_ref()).unwrap_or(&none),
        namespace_annotations: of_namespace.and_then(|it| it.annotations.as_ref()).unwrap_or(&none),
        labels: metadata.labels.as_ref().unwrap_or(&none),
        annotations: metadata.annotations.as_ref().unwrap_or(&none),
        containers: &names,
        host_network: pod.data.pointer("/spec/hostNetwork").and_then(Value::as_bool).unwrap_or(false),
    };
    let injections = wanted_injections(&injected, rules);
    DumpedPod {
        owner: owner(pod),
        node: text("/spec/nodeName"),
        phase: text("/status/phase").unwrap_or_default(),
        ready: u32::try_from(ready).unwrap_or(u32::MAX),
        expected: u32::try_from(expected).unwrap_or(u32::MAX),
        restarts: containers.iter().map(|container| container.restarts).sum(),
        quality: text("/status/qosClass"),
        created_at: time(&metadata.creation_timestamp),
        deleted_at: time(&metadata.deletion_timestamp),
        namespace: own_namespace,
        name,
        containers,
        injections,
    }
}

/// Its containers in the order of its specification, and of each whether it counts for what is ready of the pod: those that go on running.
fn containers(pod: &DynamicObject) -> Vec<(DumpedContainer, bool)> {
    let list = |path: &str| pod.data.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let mut found = Vec::new();
    for (specified, told, init) in [
        ("/spec/initContainers", "/status/initContainerStatuses", true),
        ("/spec/containers", "/status/containerStatuses", false),
    ] {
        let statuses: BTreeMap<String, &Value> =
            list(told).filter_map(|status| Some((text(status, "/name")?, status))).collect();
        for container in list(specified) {
            let name = text(container, "/name").unwrap_or_default();
            let status = statuses.get(&name).copied();
            let flag = |path: &str| status.and_then(|status| status.pointer(path)).and_then(Value::as_bool);
            let restarts = status.and_then(|status| status.get("restartCount")).and_then(Value::as_u64);
            let dumped = DumpedContainer {
                image: text(container, "/image").unwrap_or_default(),
                image_id: status.and_then(|status| text(status, "/imageID")).unwrap_or_default(),
                init,
                ready: flag("/ready").unwrap_or(false),
                restarts: restarts.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
                waiting: status.and_then(|status| text(status, "/state/waiting/reason")),
                name,
            };
            let goes_on = text(container, "/restartPolicy").as_deref() == Some("Always");
            found.push((dumped, !init || goes_on));
        }
    }
    found
}
