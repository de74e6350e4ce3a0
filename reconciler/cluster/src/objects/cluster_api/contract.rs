//! Control planes of any provider, by the fields of Cluster API's contract for them, as v1beta1 and v1beta2 name them.
//!
//! Which contract an object follows does not show in its `apiVersion`, which is the provider's own: the fields that are there tell.

use kube::core::DynamicObject;
use rollout::{ControlPlane, ControlPlaneKind, ControlPlaneReference};
use serde_json::Value;

use crate::objects::fields::{
    annotation, at, conditions, count, deleting, flag, generation, name, namespace, number, text,
};

const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Where providers name the template of their machines.
const TEMPLATES: [&[&str]; 4] = [
    &["spec", "machineTemplate", "spec", "infrastructureRef", "name"],
    &["spec", "machineTemplate", "infrastructureRef", "name"],
    &["spec", "infrastructureTemplate", "name"],
    &["spec", "infrastructureRef", "name"],
];

/// The control plane that the cluster of this name refers to.
pub(crate) fn contract_control_plane(
    object: &DynamicObject,
    reference: &ControlPlaneReference,
    cluster: &str,
) -> ControlPlane {
    let data = &object.data;
    let status = at(data, &["status"]).unwrap_or(&Value::Null);
    let modern = at(status, &["v1beta2"]);
    let first = |paths: [&[&str]; 2]| paths.into_iter().find_map(|path| text(data, path));
    let counted = |field: &str| modern.and_then(|modern| count(modern, &[field])).or_else(|| count(status, &[field]));
    let replicas = count(status, &["replicas"]);
    let unavailable = count(status, &["unavailableReplicas"]);
    let mut reported = conditions(status, &["conditions"]);
    // What v1beta2 says under a name counts more than what v1beta1 does.
    reported.extend(modern.map(|modern| conditions(modern, &["conditions"])).unwrap_or_default());
    ControlPlane {
        kind: ControlPlaneKind::clone(&reference.kind),
        namespace: namespace(object),
        name: name(object),
        cluster: cluster.to_owned(),
        rollout: None,
        generation: generation(object),
        observed_generation: number(status, &["observedGeneration"]),
        paused: annotation(object, PAUSED).is_some() || flag(data, &["spec", "paused"]).unwrap_or_default(),
        paused_in_place: false,
        deleting: deleting(object),
        // Google's provider had names of its own before the contract's.
        spec_version: first([&["spec", "version"], &["spec", "controlPlaneVersion"]]).unwrap_or_default(),
        status_version: first([&["status", "version"], &["status", "currentVersion"]]),
        spec_replicas: count(data, &["spec", "replicas"]),
        replicas,
        up_to_date_replicas: counted("upToDateReplicas").or_else(|| count(status, &["updatedReplicas"])),
        ready_replicas: counted("readyReplicas"),
        available_replicas: counted("availableReplicas").or_else(|| Some(replicas?.saturating_sub(unavailable?))),
        conditions: reported,
        infrastructure_template: TEMPLATES.into_iter().find_map(|path| text(data, path)),
        ready: flag(status, &["ready"]),
        initialized: flag(status, &["initialization", "controlPlaneInitialized"])
            .or_else(|| flag(status, &["initialized"])),
        external: flag(status, &["externalManagedControlPlane"]).unwrap_or_default(),
        failure: text(status, &["failureMessage"]).or_else(|| text(status, &["failureReason"])),
    }
}
