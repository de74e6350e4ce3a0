//! Our own kinds, between what the server has and what is decided on.

use in_place::objects::{GroupKind, GroupUpgrade, NodeUpgrade, RETRY};
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::kind::{CONTROL_PLANE_UPGRADE, Kind, WORKERS_UPGRADE};

const DEFINITIONS: &str = include_str!("../../../install/in-place-definitions.yaml");

/// The definitions of our kinds, as they are installed.
#[must_use]
pub fn definitions() -> Vec<Value> {
    overlays::objects_of(DEFINITIONS.as_bytes()).iter().map(crate::objects::from_yaml).collect()
}

/// The kind of a group's object.
pub(super) fn kind_of(group: GroupKind) -> &'static Kind {
    match group {
        GroupKind::ControlPlane => &CONTROL_PLANE_UPGRADE,
        GroupKind::Workers => &WORKERS_UPGRADE,
    }
}

fn part<T: DeserializeOwned>(object: &DynamicObject, key: &str) -> Option<T> {
    serde_json::from_value(object.data.get(key)?.clone()).ok()
}

/// A `NodeKubeadmUpgrade`; none where it does not say what it has to.
pub(super) fn node_upgrade(object: &DynamicObject) -> Option<NodeUpgrade> {
    let metadata = &object.metadata;
    Some(NodeUpgrade {
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
        generation: metadata.generation,
        deleting: metadata.deletion_timestamp.is_some(),
        retry: metadata.annotations.as_ref().and_then(|all| all.get(RETRY)).cloned(),
        spec: part(object, "spec")?,
        status: part(object, "status").unwrap_or_default(),
    })
}

/// The upgrade of a group; none where it does not say what it has to.
pub(super) fn group_upgrade(kind: GroupKind, object: &DynamicObject) -> Option<GroupUpgrade> {
    let metadata = &object.metadata;
    Some(GroupUpgrade {
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
        generation: metadata.generation,
        kind,
        spec: part(object, "spec")?,
        status: part(object, "status").unwrap_or_default(),
    })
}
