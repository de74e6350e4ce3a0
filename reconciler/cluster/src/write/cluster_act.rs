//! What is done to a Cluster while its machines are made: attempts that are noted, machines that go, a pause as a lease.
//!
//! Each act may be cut off anywhere and done again: whatever is done already is found so.

use jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject};
use rollout::{ATTEMPTS, Attempts, ClusterAct, Hold, MADE_IN, MachineId, MachineOwner};
use serde_json::{Value, json};

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{
    CLUSTER, DEV_MACHINE, KUBEADM_CONFIG, KUBEADM_CONTROL_PLANE, Kind, MACHINE, MACHINE_DEPLOYMENT,
    VSPHERE_SUPERVISOR_MACHINE,
};
use crate::client::request::Selection;
use crate::objects::{self, PauseLease};

/// The label by which paused objects are found.
const LABEL: &str = "stepgate.dev/paused";

/// How often an object is looked at whose controllers write it at the same time.
const TRIES: usize = 8;

/// Does this to a Cluster.
///
/// # Errors
/// When the API server refuses or does not answer; what was done before stays so.
pub(crate) async fn act(connection: &Connection, act: &ClusterAct) -> Result<(), RequestError> {
    match act {
        ClusterAct::GiveUp { namespace, cluster, attempts, machines } => {
            // Noted first: whoever finds a machine gone knows why.
            let note = |object: &DynamicObject| noted(object, attempts);
            change(connection, namespace, cluster, note).await?;
            for machine in machines {
                delete(connection, namespace, machine).await?;
            }
            Ok(())
        }
        ClusterAct::Sign { namespace, rollout, machines, owners } => {
            for owner in owners {
                let (kind, name) = match owner {
                    MachineOwner::KubeadmControlPlane(name) => (&KUBEADM_CONTROL_PLANE, name),
                    MachineOwner::MachineDeployment(name) => (&MACHINE_DEPLOYMENT, name),
                };
                sign(connection, kind, (namespace, name), None, rollout.as_str()).await?;
            }
            for machine in machines {
                sign_machine(connection, namespace, machine, rollout.as_str()).await?;
            }
            Ok(())
        }
        ClusterAct::Pause { namespace, cluster, lease } => {
            change(connection, namespace, cluster, |object| paused(object, lease)).await
        }
        ClusterAct::Resume { namespace, cluster } => change(connection, namespace, cluster, resumed).await,
    }
}

fn noted(_: &DynamicObject, attempts: &Attempts) -> Option<Value> {
    let text = serde_json::to_string(attempts).ok()?;
    Some(json!({"metadata": {"annotations": {ATTEMPTS: text}}}))
}

/// A pause that says what was before; none where somebody else has paused it.
fn paused(object: &DynamicObject, lease: &Hold) -> Option<Value> {
    let known = object.data.pointer("/spec/paused").and_then(Value::as_bool);
    let ours = objects::pause_lease(object);
    if known == Some(true) && ours.is_none() {
        return None;
    }
    let before = ours.map_or(known, |ours| ours.before);
    let Hold { owner, reason, until } = lease.clone();
    let text = serde_json::to_string(&PauseLease { owner, reason, until, before }).ok()?;
    Some(
        json!({"metadata": {"labels": {LABEL: "true"}, "annotations": {objects::PAUSE: text}}, "spec": {"paused": true}}),
    )
}

fn resumed(object: &DynamicObject) -> Option<Value> {
    let lease = objects::pause_lease(object)?;
    // Version v1beta1 keeps `false`, later ones keep nothing: either says that it goes on.
    let before = lease.before.filter(|before| *before);
    Some(
        json!({"metadata": {"labels": {LABEL: null}, "annotations": {objects::PAUSE: null}}, "spec": {"paused": before}}),
    )
}

/// Changes a Cluster as it is now by what `patch` makes of it; one that is gone stays so.
async fn change(
    connection: &Connection,
    namespace: &str,
    name: &str,
    patch: impl Fn(&DynamicObject) -> Option<Value>,
) -> Result<(), RequestError> {
    let Some(resource) = resource(connection, &CLUSTER).await? else { return Ok(()) };
    let mut tries = TRIES;
    loop {
        let Some(object) = connection.get(&resource, Some(namespace), name).await? else { return Ok(()) };
        let Some(patch) = patch(&object) else { return Ok(()) };
        match write(connection, &resource, &object, patch).await {
            Err(error) if error.is_conflict() && tries > 1 => tries -= 1,
            outcome => return outcome,
        }
    }
}

/// Writes an object only as it was read.
async fn write(
    connection: &Connection,
    resource: &ApiResource,
    object: &DynamicObject,
    mut patch: Value,
) -> Result<(), RequestError> {
    if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), json!(object.metadata.resource_version));
    }
    let name = object.metadata.name.as_deref().unwrap_or_default();
    connection.merge(resource, object.metadata.namespace.as_deref(), name, &patch, false).await.map(drop)
}

/// Writes on a Machine, and on what it is made of, which rollout it was made in. The Machine is the last, so that one that says so is done.
async fn sign_machine(
    connection: &Connection,
    namespace: &str,
    machine: &MachineId,
    rollout: &str,
) -> Result<(), RequestError> {
    let Some(resource) = resource(connection, &MACHINE).await? else { return Ok(()) };
    let Some(object) = connection.get(&resource, Some(namespace), &machine.name).await? else { return Ok(()) };
    if object.metadata.uid.as_ref() != Some(&machine.uid) {
        return Ok(());
    }
    for place in ["/spec/infrastructureRef", "/spec/bootstrap/configRef"] {
        let Some((kind, name)) = object.data.pointer(place).and_then(made_of) else { continue };
        sign(connection, kind, (namespace, &name), None, rollout).await?;
    }
    sign(connection, &MACHINE, (namespace, &machine.name), Some(&machine.uid), rollout).await
}

/// The kind of an object that a Machine refers to, where it is one that rendered clusters have, and its name.
fn made_of(reference: &Value) -> Option<(&'static Kind, String)> {
    let text = |field: &str| reference.get(field).and_then(Value::as_str);
    // Version v1beta1 names the version as well.
    let group = text("apiGroup").or_else(|| text("apiVersion")?.split('/').next())?;
    let mut known = [&DEV_MACHINE, &VSPHERE_SUPERVISOR_MACHINE, &KUBEADM_CONFIG].into_iter();
    let kind = known.find(|known| known.group == group && Some(known.kind) == text("kind"))?;
    Some((kind, text("name")?.to_owned()))
}

/// Writes on an object which rollout it is of; one that is gone needs none.
async fn sign(
    connection: &Connection,
    kind: &Kind,
    (namespace, name): (&str, &str),
    uid: Option<&str>,
    rollout: &str,
) -> Result<(), RequestError> {
    let Some(resource) = resource(connection, kind).await? else { return Ok(()) };
    let mut metadata = json!({"annotations": {MADE_IN: rollout}});
    if let (Some(uid), Some(metadata)) = (uid, metadata.as_object_mut()) {
        metadata.insert("uid".to_owned(), uid.into());
    }
    match connection.merge(&resource, Some(namespace), name, &json!({"metadata": metadata}), false).await {
        // Another one has its name now.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Deletes a Machine that still has no node, and no other that is called the same.
async fn delete(connection: &Connection, namespace: &str, machine: &MachineId) -> Result<(), RequestError> {
    let Some(resource) = resource(connection, &MACHINE).await? else { return Ok(()) };
    let mut tries = TRIES;
    loop {
        let Some(object) = connection.get(&resource, Some(namespace), &machine.name).await? else { return Ok(()) };
        let is_it = object.metadata.uid.as_ref() == Some(&machine.uid);
        let is_up = object.data.pointer("/status/nodeRef/name").is_some_and(Value::is_string);
        if !is_it || is_up || object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        match connection.delete(&resource, Some(namespace), &object).await {
            Err(error) if error.is_conflict() && tries > 1 => tries -= 1,
            Err(error) if error.is_not_found() => return Ok(()),
            outcome => return outcome,
        }
    }
}

/// Ends every pause of ours of a Cluster whose time is over, whoever made it. Answers with the end of the next.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn end_expired(connection: &Connection, now: Timestamp) -> Result<Option<Timestamp>, RequestError> {
    let Some(resource) = resource(connection, &CLUSTER).await? else { return Ok(None) };
    let label = format!("{LABEL}=true");
    let selection = Selection { labels: Some(&label), ..Selection::default() };
    let listed = connection.list_resource(&resource, None, selection, "list paused Clusters").await?;
    let mut next: Option<Timestamp> = None;
    for object in listed {
        let Some(lease) = objects::pause_lease(&object) else { continue };
        if lease.until > now {
            next = Some(next.map_or(lease.until, |known| known.min(lease.until)));
            continue;
        }
        let Some(patch) = resumed(&object) else { continue };
        match write(connection, &resource, &object, patch).await {
            // Somebody wrote it meanwhile: it is looked at again the next time.
            Ok(()) | Err(RequestError::Conflict { .. }) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(next)
}

async fn resource(connection: &Connection, kind: &Kind) -> Result<Option<ApiResource>, RequestError> {
    Ok(connection.lately_served_versions().await?.version_of(kind).map(|version| kind.resource(version)))
}
