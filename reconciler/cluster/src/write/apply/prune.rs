//! Deleting what was applied and is in git no longer.

use std::collections::BTreeSet;

use kube::core::DynamicObject;
use policy::DataPattern;
use serde_json::Value;

use super::Applied;
use super::addresses::Addresses;
use super::inventory::Entry;
use super::manifest::Phase;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::request::FIELD_MANAGER;
use crate::kubernetes::SYSTEM_NAMESPACE;
use crate::{ApplyReport, ApplyRequest, KeptObject};

/// By this annotation with the value `disabled` people keep an object that left git.
const PRUNE: &str = "stepgate.dev/prune";

/// Groups whose objects stand for machines: deleting one takes a node or a whole cluster along.
const MACHINE_GROUPS: [&str; 2] = ["cluster.x-k8s.io", "anywhere.eks.amazonaws.com"];

/// What became of an object that left git.
enum Pruned {
    /// It is gone, or somebody else's by now: the inventory forgets it.
    Forgotten,
    /// It was deleted.
    Deleted,
    /// It stays, and the inventory keeps it.
    Kept(String),
}

/// Deletes those of these objects that were not applied now, in the opposite order of applying, and returns those that stay in the
/// inventory.
pub(super) async fn prune(
    connection: &Connection,
    addresses: &mut Addresses<'_>,
    before: BTreeSet<Entry>,
    applied: &Applied,
    request: &ApplyRequest,
    report: &mut ApplyReport,
) -> Result<Vec<Entry>, RequestError> {
    let mut candidates: Vec<Entry> =
        before.into_iter().filter(|entry| !applied.all.iter().any(|applied| applied.is(entry))).collect();
    candidates.sort_by_key(|entry| std::cmp::Reverse(Phase::of(&entry.kind)));
    let mut kept = Vec::new();
    for entry in candidates {
        let shown = entry.shown();
        match prune_one(connection, addresses, &entry, applied, &request.delete_data).await? {
            Pruned::Forgotten => {}
            Pruned::Deleted => report.deleted.push(shown),
            Pruned::Kept(reason) => {
                report.kept.push(KeptObject { object: shown, reason });
                kept.push(entry);
            }
        }
    }
    Ok(kept)
}

async fn prune_one(
    connection: &Connection,
    addresses: &mut Addresses<'_>,
    entry: &Entry,
    applied: &Applied,
    consent: &[DataPattern],
) -> Result<Pruned, RequestError> {
    // A version may have gone since the object was applied.
    let Some(address) = addresses.of_entry(entry).await? else { return Ok(Pruned::Forgotten) };
    let namespace = address.namespaced.then(|| entry.namespace.as_deref().unwrap_or("default"));
    let resolved = Entry { namespace: namespace.map(str::to_owned), ..entry.clone() };
    if applied.all.iter().any(|applied| applied.is(&resolved)) {
        return Ok(Pruned::Forgotten);
    }
    let Some(found) = connection.get(&address.resource, namespace, &entry.name).await? else {
        return Ok(Pruned::Forgotten);
    };
    if !is_ours(entry, &found) || found.metadata.deletion_timestamp.is_some() {
        return Ok(Pruned::Forgotten);
    }
    if found.metadata.annotations.iter().flatten().any(|(key, value)| key == PRUNE && value == "disabled") {
        return Ok(Pruned::Kept(format!("its annotation {PRUNE} says `disabled`")));
    }
    if let Some(what) = holds_data(entry, &found)
        && !consent.iter().any(|pattern| pattern.matches(&entry.kind, entry.namespace.as_deref(), &entry.name))
    {
        let place = entry.namespace.iter().fold(String::new(), |_, namespace| format!("{namespace}/"));
        let help =
            format!("delete it, or name it in stepgate.yaml: `deleteData: [{}/{place}{}]`", entry.kind, entry.name);
        return Ok(Pruned::Kept(format!("{what}; {help}")));
    }
    match connection.delete(&address.resource, namespace, &found).await {
        Ok(()) => Ok(Pruned::Deleted),
        Err(RequestError::Conflict { .. }) => {
            Ok(Pruned::Kept(String::from("it changed meanwhile; the next pass looks again")))
        }
        Err(error) if error.is_not_found() => Ok(Pruned::Forgotten),
        Err(error) => Err(error),
    }
}

/// Whether this program applied what is there: somebody may have deleted ours and made another of the same name.
fn is_ours(entry: &Entry, object: &DynamicObject) -> bool {
    if entry.uid.is_some() {
        return entry.uid == object.metadata.uid;
    }
    object
        .metadata
        .managed_fields
        .iter()
        .flatten()
        .any(|fields| fields.manager.as_deref() == Some(FIELD_MANAGER) && fields.operation.as_deref() == Some("Apply"))
}

/// What is lost with an object and is nowhere in git.
fn holds_data(entry: &Entry, object: &DynamicObject) -> Option<&'static str> {
    let is_machine =
        MACHINE_GROUPS.iter().any(|group| entry.group == *group || entry.group.ends_with(&format!(".{group}")));
    match entry.kind.as_str() {
        "Namespace" if entry.name == SYSTEM_NAMESPACE => Some("stepgate itself lives in it"),
        "Namespace" => Some("everything in it would go with it"),
        "CustomResourceDefinition" => Some("every object of its kind would go with it"),
        "PersistentVolumeClaim" | "PersistentVolume" => Some("its volume would go with it"),
        "StatefulSet" if takes_claims_along(&object.data) => Some("its volumes would go with it"),
        _ if is_machine => Some("machines would go with it"),
        _ => None,
    }
}

fn takes_claims_along(stateful_set: &Value) -> bool {
    let policy = stateful_set.get("spec").and_then(|spec| spec.get("persistentVolumeClaimRetentionPolicy"));
    policy.and_then(|policy| policy.get("whenDeleted")).and_then(Value::as_str) == Some("Delete")
}

impl Entry {
    pub(super) fn shown(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }
}
