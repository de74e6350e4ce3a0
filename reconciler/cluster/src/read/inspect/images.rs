//! Images that nodes could not pull, and what kinds of nodes there are to pull them.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use rollout::{ObjectReference, UnpulledImage};
use serde_json::Value;

/// Reasons for which a container waits for its image (`kubernetes/pkg/kubelet/images/types.go`).
const REASONS: [&str; 7] = [
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
    "ImageInspectError",
    "SignatureValidationFailed",
];

/// The images that a Pod waits for, each once.
pub(super) fn unpulled(pod: &DynamicObject) -> Vec<UnpulledImage> {
    let list = |path: &str| pod.data.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    // The status has the image as the runtime words it, the specification as the manifest does.
    let written: BTreeMap<String, String> = ["/spec/containers", "/spec/initContainers"]
        .iter()
        .flat_map(|path| list(path))
        .filter_map(|container| Some((text(container, "name")?, text(container, "image")?)))
        .collect();
    let mut found: Vec<UnpulledImage> = Vec::new();
    for status in ["/status/initContainerStatuses", "/status/containerStatuses"].iter().flat_map(|path| list(path)) {
        let reason = status.pointer("/state/waiting/reason").and_then(Value::as_str);
        let Some(reason) = reason.filter(|reason| REASONS.contains(reason)) else { continue };
        let written = text(status, "name").and_then(|name| written.get(&name).cloned());
        let Some(image) = written.or_else(|| text(status, "image")) else { continue };
        if found.iter().any(|known| known.image == image) {
            continue;
        }
        found.push(UnpulledImage {
            object: ObjectReference {
                api_version: String::from("v1"),
                kind: String::from("Pod"),
                namespace: pod.metadata.namespace.clone(),
                name: pod.metadata.name.clone().unwrap_or_default(),
            },
            image,
            reason: reason.to_owned(),
            node: pod.data.pointer("/spec/nodeName").and_then(Value::as_str).map(str::to_owned),
        });
    }
    found
}

/// The architecture of a node that runs Linux, as its kubelet tells.
pub(super) fn architecture(node: &DynamicObject) -> Option<String> {
    let told = |key: &str| node.data.pointer(&format!("/status/nodeInfo/{key}")).and_then(Value::as_str);
    let is_linux = told("operatingSystem").is_none_or(|system| system == "linux");
    told("architecture").filter(|name| is_linux && !name.is_empty()).map(str::to_owned)
}
