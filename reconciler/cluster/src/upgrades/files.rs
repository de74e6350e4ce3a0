//! Files that a node has to have besides a release: read of what its machine is to be made from, and brought to its cluster
//! as a Secret, never as part of an object of ours.

use in_place::files::{WholeFile, files, known};
use in_place::objects::NodeUpgrade;
use in_place::pod::NAMESPACE;
use kube::core::DynamicObject;
use serde_json::Value;

use super::declined::template;
use super::snapshot::{Snapshot, is_ours, namespace, text, waits_for_hook};
use super::world::{configuration_of, deployment_of, is_controlled_by};
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::SECRET;

/// Those of a machine; none where it goes nowhere.
pub(super) async fn of_machine(
    management: &Connection,
    snapshot: &Snapshot,
    machine: &DynamicObject,
) -> Result<Vec<WholeFile>, RequestError> {
    if waits_for_hook(machine) {
        // Cluster API has written what it wants already.
        let configuration = configuration_of(snapshot, machine).and_then(|known| known.data.get("spec"));
        return Ok(configuration.map(files).unwrap_or_default());
    }
    let is_owner = |owner: &&DynamicObject| is_ours(owner) && is_controlled_by(machine, owner);
    if let Some(owner) = snapshot.control_planes.iter().find(is_owner) {
        let wanted = owner.data.pointer("/spec/kubeadmConfigSpec");
        let goes = text(owner, "/spec/version") != text(machine, "/spec/version");
        return Ok(wanted.filter(|_| goes).map(files).unwrap_or_default());
    }
    let Some(owner) = deployment_of(snapshot, machine).filter(|owner| is_ours(owner)) else { return Ok(Vec::new()) };
    if text(owner, "/spec/template/spec/version") == text(machine, "/spec/version") {
        return Ok(Vec::new());
    }
    let reference = owner.data.pointer("/spec/template/spec/bootstrap/configRef");
    let Some(name) = reference.and_then(|reference| reference.get("name")?.as_str()) else { return Ok(Vec::new()) };
    let wanted = template(management, &namespace(owner), reference, name).await?;
    Ok(wanted.as_ref().map(files).unwrap_or_default())
}

/// Has the Secret made that a Pod finds the files in, as its upgrade knows them.
pub(super) async fn ensure(
    own: &Connection,
    secret: &Value,
    upgrade: &NodeUpgrade,
    wanted: &[WholeFile],
) -> Result<(), RequestError> {
    let name = secret.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    // Some servers do not say in a way of their own that there is none: making it tells.
    let is_there = own.get(&SECRET.resource("v1"), Some(NAMESPACE), name).await.is_ok_and(|found| found.is_some());
    // What was wanted when this began is finished, whatever is wanted by now.
    if known(wanted) != upgrade.spec.files {
        if is_there {
            return Ok(());
        }
        return Err(RequestError::Unavailable {
            attempt: String::from("bring files to a node"),
            server: own.server().to_owned(),
            code: 409,
            message: format!("files of Machine {} have changed since {}", upgrade.spec.machine.name, upgrade.name),
        });
    }
    let resource = SECRET.resource("v1");
    if is_there {
        return own.merge(&resource, Some(NAMESPACE), name, secret, false).await.map(drop);
    }
    own.create(&resource, Some(NAMESPACE), secret).await.map(drop)
}

/// Has the Secret of an upgrade's Pod go before the Pod does.
pub(super) async fn delete(own: &Connection, pod: &DynamicObject) -> Result<(), RequestError> {
    let has_files = pod.data.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let names = has_files.filter_map(|volume| volume.pointer("/secret/secretName").and_then(Value::as_str));
    for name in names {
        let Some(secret) = own.get(&SECRET.resource("v1"), Some(NAMESPACE), name).await? else { continue };
        match own.delete(&SECRET.resource("v1"), Some(NAMESPACE), &secret).await {
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            outcome => outcome?,
        }
    }
    Ok(())
}
