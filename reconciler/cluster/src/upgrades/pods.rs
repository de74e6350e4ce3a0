//! The Pods of upgraders.

use std::collections::BTreeMap;

use in_place::files::WholeFile;
use in_place::objects::{NamedObject, NodeUpgrade, NodeUpgradeSpec, Role};
use in_place::order::{Container, ContainerState, Failure, Pod, PodPurpose};
use in_place::pod::{NAMESPACE, NODE_LABEL, NodeChoices, NodePod, Way, access};
use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::files;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::POD;

/// On a Pod: the upgrade that it is of.
const UPGRADE: &str = "inplace.stepgate.dev/upgrade";

/// On a Pod: which upgrade of that name.
const UPGRADE_UID: &str = "inplace.stepgate.dev/upgrade-uid";

/// On a Pod: `upgrade` or `rollback`.
const PURPOSE: &str = "inplace.stepgate.dev/purpose";

/// The most of a message that is kept.
const LONGEST_MESSAGE: usize = 400;

pub(super) async fn list(connection: &Connection) -> Result<Vec<DynamicObject>, RequestError> {
    connection.list(&POD, Some("v1"), Some(NAMESPACE), Some(NODE_LABEL)).await
}

/// Pods by the name of their upgrade.
pub(super) fn read(objects: &[DynamicObject]) -> BTreeMap<String, Pod> {
    objects.iter().filter_map(|object| Some((annotation(object, UPGRADE)?.to_owned(), pod(object)?))).collect()
}

fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn pod(object: &DynamicObject) -> Option<Pod> {
    let purpose = match annotation(object, PURPOSE)? {
        "rollback" => PodPurpose::Rollback,
        _ => PodPurpose::Upgrade,
    };
    let phase = object.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let list = |place: &str| object.data.pointer(place).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let statuses: Vec<&Value> =
        list("/status/initContainerStatuses").iter().chain(list("/status/containerStatuses")).collect();
    let steps = match purpose {
        PodPurpose::Upgrade => list("/spec/initContainers"),
        PodPurpose::Rollback => list("/spec/containers"),
    };
    let container = |spec: &Value| {
        let name = spec.get("name")?.as_str()?.to_owned();
        let status = statuses.iter().find(|status| status.get("name").and_then(Value::as_str) == Some(&name));
        Some(container(name, status.copied()))
    };
    Some(Pod {
        purpose,
        upgrade_uid: annotation(object, UPGRADE_UID)?.to_owned(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        succeeded: phase == "Succeeded",
        failed: phase == "Failed",
        containers: steps.iter().filter_map(container).collect(),
    })
}

fn container(name: String, status: Option<&Value>) -> Container {
    let at = |place: &str| status.and_then(|status| status.pointer(place));
    let time = |place: &str| at(place).and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    let failure = |place: &str| {
        let exit_code = at(&format!("{place}/exitCode"))?.as_i64().and_then(|code| i32::try_from(code).ok())?;
        let message = at(&format!("{place}/message")).and_then(Value::as_str).unwrap_or_default();
        let finished = time(&format!("{place}/finishedAt"));
        (exit_code != 0).then(|| Failure { exit_code, finished, message: shortened(message) })
    };
    let restarts = at("/restartCount").and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
    let restarts = restarts.unwrap_or_default();
    let now = failure("/state/terminated");
    let ended = at("/state/terminated/exitCode").and_then(Value::as_i64);
    let state = if ended == Some(0) {
        let message = at("/state/terminated/message").and_then(Value::as_str).unwrap_or_default();
        let started = time("/state/terminated/startedAt");
        ContainerState::Succeeded {
            started,
            finished: time("/state/terminated/finishedAt"),
            message: shortened(message),
        }
    } else if ended.is_some() {
        ContainerState::Failed
    } else if at("/state/running").is_some() {
        ContainerState::Running { started: time("/state/running/startedAt") }
    } else {
        let reason = at("/state/waiting/reason").and_then(Value::as_str).unwrap_or("PodInitializing");
        ContainerState::Waiting(reason.to_owned())
    };
    let is_failure = u32::from(now.is_some());
    // A container that runs again after it has failed has been restarted as often as it failed.
    let failures = restarts.saturating_add(is_failure);
    Container { name, state, failures, last_failure: now.or_else(|| failure("/lastState/terminated")) }
}

/// The last line that says something: programs end with why.
fn shortened(message: &str) -> String {
    let line = message.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(LONGEST_MESSAGE).collect()
}

/// The Pod of a node, as it is wanted; kube-vip leaves a node of a control plane that has others to take the address.
fn node_pod(spec: &NodeUpgradeSpec, leaves_virtual_address: bool, is_anew: bool) -> Result<NodePod, String> {
    let image =
        spec.image.parse().map_err(|error| format!("image {:?} of the upgrader is not valid: {error}", spec.image))?;
    let leaves_virtual_address = leaves_virtual_address && spec.role != Role::Worker;
    let choices = NodeChoices { leaves_virtual_address, is_anew, ..NodeChoices::default() };
    let (node, target) = (spec.node.clone(), spec.kubernetes_version.to_string());
    Ok(NodePod { node, image, target, role: spec.role, has_files: !spec.files.is_empty(), choices })
}

/// The containers of an upgrade's Pod; none while no valid image is known: nothing begins then.
pub(super) fn steps(spec: &NodeUpgradeSpec, leaves_virtual_address: bool) -> Vec<Value> {
    node_pod(spec, leaves_virtual_address, false).map_or_else(|_| Vec::new(), |pod| pod.steps())
}

/// The Secret of an upgrade's Pod.
pub(super) fn secret(upgrade: &NodeUpgrade, files: &[WholeFile]) -> Result<Value, String> {
    Ok(node_pod(&upgrade.spec, false, false)?.secret(files))
}

/// The Pod of an upgrade: its containers are those that the upgrade says.
fn manifest(upgrade: &NodeUpgrade, purpose: PodPurpose, anew: bool) -> Result<Value, String> {
    let pod = node_pod(&upgrade.spec, false, anew)?;
    let (way, word) = match purpose {
        PodPurpose::Upgrade => (Way::Upgrade, "upgrade"),
        PodPurpose::Rollback => (Way::Rollback, "rollback"),
    };
    let mut manifest = pod.manifest(way);
    if purpose == PodPurpose::Upgrade && !upgrade.spec.steps.is_empty() {
        let mut steps = upgrade.spec.steps.clone();
        let arguments = steps.iter_mut().filter_map(|step| step.get_mut("args")?.as_array_mut());
        arguments.filter(|_| anew).for_each(|arguments| arguments.push(json!("--anew")));
        if let Some(place) = manifest.pointer_mut("/spec/initContainers") {
            *place = Value::Array(steps);
        }
    }
    if let Some(annotations) = manifest.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        let ours = [(UPGRADE, upgrade.name.as_str()), (UPGRADE_UID, upgrade.uid.as_str()), (PURPOSE, word)];
        annotations.extend(ours.map(|(key, value)| (key.to_owned(), json!(value))));
    }
    Ok(manifest)
}

/// Why there is no Pod, or no object of one.
pub(super) fn not_made(message: String, connection: &Connection) -> RequestError {
    RequestError::Unavailable {
        attempt: String::from("make the Pod of an upgrade"),
        server: connection.server().to_owned(),
        code: 422,
        message,
    }
}

/// Has the namespace of Pods there, and what they may do in their cluster.
pub(super) async fn grant(connection: &Connection) -> Result<(), RequestError> {
    for object in access() {
        ensure_object(connection, &object).await?;
    }
    Ok(())
}

/// Has the Pod of an upgrade made.
pub(super) async fn ensure(
    connection: &Connection,
    upgrade: &NodeUpgrade,
    purpose: PodPurpose,
    anew: bool,
) -> Result<(), RequestError> {
    let manifest = manifest(upgrade, purpose, anew).map_err(|message| not_made(message, connection))?;
    match connection.create(&POD.resource("v1"), Some(NAMESPACE), &manifest).await {
        Err(error) if !error.is_conflict() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Makes an object, or has it say what it has to.
async fn ensure_object(connection: &Connection, object: &Value) -> Result<(), RequestError> {
    let text = |place: &str| object.pointer(place).and_then(Value::as_str);
    let (Some(api_version), Some(kind), Some(name)) = (text("/apiVersion"), text("/kind"), text("/metadata/name"))
    else {
        return Ok(());
    };
    let Some(address) = connection.address(api_version, kind).await? else { return Ok(()) };
    let namespace = text("/metadata/namespace");
    match connection.get(&address.resource, namespace, name).await {
        Ok(Some(_)) => connection.merge(&address.resource, namespace, name, object, false).await.map(drop),
        // Some servers do not say in a way of their own that there is none: making it tells.
        Ok(None) | Err(_) => connection.create(&address.resource, namespace, object).await.map(drop),
    }
}

/// Deletes the Pods of an upgrade.
pub(super) async fn delete(connection: &Connection, upgrade: &NamedObject) -> Result<(), RequestError> {
    let of_it = |object: &DynamicObject| {
        annotation(object, UPGRADE) == Some(&upgrade.name) && object.metadata.deletion_timestamp.is_none()
    };
    for object in list(connection).await?.into_iter().filter(of_it) {
        files::delete(connection, &object).await?;
        match connection.delete(&POD.resource("v1"), Some(NAMESPACE), &object).await {
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            outcome => outcome?,
        }
    }
    Ok(())
}
