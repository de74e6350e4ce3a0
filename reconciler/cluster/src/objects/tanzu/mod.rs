//! `TanzuKubernetesCluster`s in every version of their interface, their releases and images, and what their machines are made of.

use kube::core::DynamicObject;
use rollout::{ConditionStatus, MachineHardware, TanzuAddon, TanzuAddonState, TanzuCluster, TanzuImage};
use serde_json::Value;

use crate::objects::cluster_api::{POOL_LABELS, infrastructure_of};
use crate::objects::fields::{at, condition, conditions, deleting, list, name, namespace, text};

/// Begins the properties of an image that are about Kubernetes.
const PROPERTIES: &str = "vmware-system.guest.kubernetes.";
const DISTRIBUTION: &str = "distribution.image.version";
const ADDON: &str = "addons.";

fn filled(value: &Value, path: &[&str]) -> Option<String> {
    text(value, path).filter(|text| !text.is_empty())
}

/// A `TanzuKubernetesCluster`, read in `version`.
pub(crate) fn tanzu_cluster(object: &DynamicObject, version: &str) -> TanzuCluster {
    let data = &object.data;
    let failure = list(data, &["status", "conditions"]).iter().find_map(|condition| {
        let is = |field: &str, wanted: &str| text(condition, &[field]).as_deref() == Some(wanted);
        let has_failed = is("type", "Ready") && is("status", "False") && is("severity", "Error");
        let said = ["reason", "message"].map(|field| filled(condition, &[field]));
        has_failed.then(|| said.into_iter().flatten().collect::<Vec<_>>().join(": "))
    });
    TanzuCluster {
        namespace: namespace(object),
        name: name(object),
        version: version.to_owned(),
        deleting: deleting(object),
        release: filled(data, &["spec", "topology", "controlPlane", "tkr", "reference", "name"])
            .or_else(|| filled(data, &["spec", "distribution", "fullVersion"]))
            .or_else(|| filled(data, &["spec", "distribution", "version"])),
        phase: filled(data, &["status", "phase"]),
        addons: addons(data),
        conditions: conditions(data, &["status", "conditions"]),
        failure,
        image: None,
    }
}

fn addons(data: &Value) -> Vec<TanzuAddon> {
    let mut addons: Vec<TanzuAddon> = match at(data, &["status", "addons"]) {
        Some(Value::Object(entries)) => entries.iter().map(|(role, entry)| mapped(role, entry)).collect(),
        Some(Value::Array(entries)) => entries.iter().map(listed).collect(),
        _ => Vec::new(),
    };
    addons.sort_by(|left, right| (&left.role, &left.name).cmp(&(&right.role, &right.name)));
    addons
}

fn mapped(role: &str, entry: &Value) -> TanzuAddon {
    let state = match text(entry, &["status"]).as_deref() {
        Some("applied") => TanzuAddonState::Applied,
        Some("error") => TanzuAddonState::Error,
        Some("unmanaged") => TanzuAddonState::Unmanaged,
        _ => TanzuAddonState::Pending,
    };
    TanzuAddon {
        name: filled(entry, &["name"]).unwrap_or_else(|| role.to_owned()),
        role: role.to_owned(),
        state,
        version: filled(entry, &["version"]),
        message: filled(entry, &["lastErrorMessage"]),
    }
}

fn listed(entry: &Value) -> TanzuAddon {
    let provisioned = list(entry, &["conditions"])
        .iter()
        .find(|condition| text(condition, &["type"]).as_deref() == Some("Provisioned"));
    let read = provisioned.and_then(condition);
    let state = match &read {
        Some(read) if read.status == ConditionStatus::True => TanzuAddonState::Applied,
        Some(read) if read.reason == "AddonUnManaged" => TanzuAddonState::Unmanaged,
        Some(read) if read.reason == "ProvisioningFailed" => TanzuAddonState::Error,
        Some(_) | None => TanzuAddonState::Pending,
    };
    let role = filled(entry, &["type"]).unwrap_or_default();
    TanzuAddon {
        name: filled(entry, &["name"]).unwrap_or_else(|| role.clone()),
        role,
        state,
        version: filled(entry, &["version"]),
        message: read.map(|read| read.message).filter(|message| !message.is_empty()),
    }
}

/// The image that a release names for its nodes: namespace, where it is said, and name.
pub(crate) fn node_image(release: &DynamicObject) -> Option<(Option<String>, String)> {
    let field = |field: &str| filled(&release.data, &["spec", "nodeImageRef", field]);
    Some((field("namespace"), field("name")?))
}

/// What an image says in its annotations, or since v1alpha2 in its status; none where it names no release.
pub(crate) fn tanzu_image(object: &DynamicObject) -> Option<TanzuImage> {
    let annotations = object.metadata.annotations.iter().flatten();
    let annotations = annotations.map(|(key, value)| (key.clone(), value.clone()));
    let properties = list(&object.data, &["status", "vmwareSystemProperties"]).iter();
    let properties = properties.filter_map(|property| Some((text(property, &["key"])?, text(property, &["value"])?)));
    let mut image = TanzuImage::default();
    for (key, value) in annotations.chain(properties) {
        let Some(key) = key.strip_prefix(PROPERTIES) else { continue };
        // One that cannot be read says nothing, and the versions of its add-ons are not known.
        let Ok(value) = serde_json::from_str::<Value>(&value) else { continue };
        if key == DISTRIBUTION {
            image.release = filled(&value, &["distribution", "version"]).unwrap_or_default();
            image.coredns = filled(&value, &["coredns", "version"]);
            image.kubernetes = filled(&value, &["kubernetes", "version"]);
        } else if let Some(addon) = key.strip_prefix(ADDON) {
            image.addons.insert(addon.to_owned(), filled(&value, &["version"]));
        }
    }
    (!image.release.is_empty()).then_some(image)
}

/// What a machine is made of, by its infrastructure object among `infrastructure`; none where it names none.
pub(crate) fn hardware(machine: &DynamicObject, infrastructure: &[DynamicObject]) -> Option<MachineHardware> {
    let found = infrastructure_of(machine, infrastructure)?;
    let labels = machine.metadata.labels.as_ref();
    let pool = POOL_LABELS.iter().find_map(|label| labels?.get(*label)).cloned();
    let Some(found) = found else { return Some(MachineHardware { pool, ..MachineHardware::default() }) };
    let volume = |volume: &Value| Some((filled(volume, &["name"])?, filled(volume, &["capacity", "storage"])?));
    Some(MachineHardware {
        pool,
        found: true,
        class: filled(&found.data, &["spec", "className"]),
        storage_class: filled(&found.data, &["spec", "storageClass"]),
        volumes: list(&found.data, &["spec", "volumes"]).iter().filter_map(volume).collect(),
    })
}

#[cfg(test)]
mod tests;
