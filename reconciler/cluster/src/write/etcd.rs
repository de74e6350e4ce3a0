//! The first member of an external etcd is taken back: what `kubectl` and `etcdctl` would do, in an
//! order that its controller does not undo.
//!
//! Each act may be cut off anywhere and done again: whatever is done already is found so.

use kube::core::{ApiResource, DynamicObject};
use rollout::EtcdAct;
use serde_json::{Value, json};

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{ETCDADM_CLUSTER, Kind, MACHINE};
use crate::objects;
use crate::read::etcd;

/// Cluster API's annotation: its controllers leave the object alone.
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Who has paused it, and until when.
const REASON: &str = "stepgate: until its first new member is taken back";

/// Does this to an external etcd.
///
/// # Errors
/// When the API server refuses or does not answer.
pub(crate) async fn act(connection: &Connection, act: &EtcdAct) -> Result<(), RequestError> {
    match act {
        EtcdAct::TakeBack { cluster, namespace, name, before, give_back, delete } => {
            let Some(etcd) = annotate(connection, namespace, name, &json!(REASON)).await? else { return Ok(()) };
            // Since this was decided etcd's controller may have gone on: without an old member, a new one less would
            // be a quorum lost. The next decision sees that there is no way back, and lets the controller go on.
            for machine in before {
                let known = get(connection, &MACHINE, namespace, machine).await?;
                if known.is_none_or(|known| known.metadata.deletion_timestamp.is_some()) {
                    return Ok(());
                }
            }
            let mut members = objects::etcd_endpoints(&etcd);
            for machine in give_back {
                own_again(connection, &etcd, namespace, machine).await?;
                let known = get(connection, &MACHINE, namespace, machine).await?;
                members.extend(known.iter().flat_map(objects::machine_addresses));
            }
            for machine in delete {
                let Some(object) = get(connection, &MACHINE, namespace, machine).await? else { continue };
                let addresses = objects::machine_addresses(&object);
                let asked = etcd::Asked { namespace, cluster: cluster.as_str(), addresses: members.clone() };
                // Without the machine nobody would know which member it was.
                etcd::remove(connection, &asked, &addresses).await.map_err(|message| RequestError::Unavailable {
                    attempt: format!("take the member of Machine {namespace}/{machine} off etcd's list"),
                    server: asked.addresses.join(", "),
                    code: 503,
                    message,
                })?;
                let Some(resource) = resource(connection, &MACHINE).await? else { continue };
                connection.delete(&resource, Some(namespace), &object).await?;
            }
            Ok(())
        }
        EtcdAct::Resume { namespace, name, .. } => annotate(connection, namespace, name, &Value::Null).await.map(drop),
    }
}

/// Where objects of a kind are; none where the server does not serve it, and there are none then.
async fn resource(connection: &Connection, kind: &Kind) -> Result<Option<ApiResource>, RequestError> {
    Ok(connection.served_versions().await?.version_of(kind).map(|version| kind.resource(version)))
}

async fn get(
    connection: &Connection,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<DynamicObject>, RequestError> {
    let Some(resource) = resource(connection, kind).await? else { return Ok(None) };
    connection.get(&resource, Some(namespace), name).await
}

/// Pauses the object, or ends the pause that is ours.
async fn annotate(
    connection: &Connection,
    namespace: &str,
    name: &str,
    pause: &Value,
) -> Result<Option<DynamicObject>, RequestError> {
    let Some(object) = get(connection, &ETCDADM_CLUSTER, namespace, name).await? else { return Ok(None) };
    let is_theirs = objects::is_paused_by_others(&object);
    if is_theirs {
        return Ok(Some(object));
    }
    let Some(resource) = resource(connection, &ETCDADM_CLUSTER).await? else { return Ok(None) };
    let patch = json!({"metadata": {"annotations": {PAUSED: pause}}});
    connection.merge(&resource, Some(namespace), name, &patch, false).await.map(Some)
}

/// A machine that etcd's controller gave away is its own again.
async fn own_again(
    connection: &Connection,
    etcd: &DynamicObject,
    namespace: &str,
    machine: &str,
) -> Result<(), RequestError> {
    let Some(object) = get(connection, &MACHINE, namespace, machine).await? else { return Ok(()) };
    // Cluster API gives a machine that nobody controls to its Cluster.
    let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
    if owners.iter().any(|owner| owner.controller == Some(true)) {
        return Ok(());
    }
    let kinds = (resource(connection, &ETCDADM_CLUSTER).await?, resource(connection, &MACHINE).await?);
    let (Some(owning), Some(resource)) = kinds else { return Ok(()) };
    let owner = json!({"apiVersion": owning.api_version, "kind": owning.kind,
        "name": etcd.metadata.name, "uid": etcd.metadata.uid, "controller": true, "blockOwnerDeletion": true});
    let owners: Vec<Value> = owners.iter().map(|owner| json!(owner)).chain([owner]).collect();
    let patch = json!({"metadata": {"resourceVersion": object.metadata.resource_version, "ownerReferences": owners}});
    connection.merge(&resource, Some(namespace), machine, &patch, false).await.map(drop)
}
