//! How objects differ from what the deploy branch holds, and who changed them.
//!
//! Who owns which field is read off the objects. Where this program may apply a kind itself, the API server is asked
//! besides what applying the manifest would change: in the name of the manager that applies it, and as a dry run.

use std::collections::BTreeMap;

use kube::core::{ApiResource, DynamicObject};
use rollout::{Drift, DriftKind, ObjectReference};
use serde_json::Value;

use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::request::{Address, Selection};
use crate::client::review;
use crate::objects::{self, Taken};

/// More objects of a kind in one namespace than this are read as one list.
const FEW: usize = 3;

/// The manager that applies the deploy branch where the object does not name another one.
const FLUX: &str = "kustomize-controller";

/// Values of Secrets are nobody's to read, and nobody may list them.
const UNREAD: &str = "Secret";

/// Each object that differs, and why others could not be looked at.
pub(super) async fn drifts(own: &Connection, deployed: Vec<Value>) -> (Vec<Drift>, Option<RequestError>) {
    let mut groups: BTreeMap<(String, String, Option<String>), Vec<Value>> = BTreeMap::new();
    for object in deployed {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let (Some(api_version), Some(kind)) = (text("/apiVersion"), text("/kind")) else { continue };
        // What Flux substitutes is another text in the cluster.
        let is_substituted = object.to_string().contains("${");
        if kind != UNREAD && !is_substituted && !objects::is_left_alone(&object) {
            groups.entry((api_version, kind, text("/metadata/namespace"))).or_default().push(object);
        }
    }
    let mut kinds: BTreeMap<String, Vec<Address>> = BTreeMap::new();
    let mut may_apply: BTreeMap<String, bool> = BTreeMap::new();
    let (mut found, mut problem) = (Vec::new(), None);
    for ((api_version, kind, namespace), manifests) in groups {
        if !kinds.contains_key(&api_version) {
            let served = own.kinds(&api_version).await.unwrap_or_else(|error| {
                problem.get_or_insert(error);
                Vec::new()
            });
            kinds.insert(api_version.clone(), served);
        }
        let address = kinds.get(&api_version).into_iter().flatten().find(|known| known.resource.kind == kind);
        // A version that is not served is another check's.
        let Some(Address { resource, namespaced }) = address.cloned() else { continue };
        let namespace = namespaced.then(|| namespace.unwrap_or_else(|| String::from("default")));
        let live = live(own, &resource, namespace.as_deref(), &manifests).await.unwrap_or_else(|error| {
            problem.get_or_insert(error);
            Vec::new()
        });
        for (manifest, live) in manifests.iter().zip(live) {
            let reference = reference(manifest, namespace.clone());
            let Some(live) = live else {
                found.push(Drift { object: reference, kind: DriftKind::Gone });
                continue;
            };
            let (taken, manager) = (objects::taken(manifest, &live), objects::applier(&live));
            if taken.is_empty() && manager.is_some() {
                continue;
            }
            let key = format!("{}/{}", resource.group, resource.plural);
            let may_apply = match may_apply.get(&key) {
                Some(known) => *known,
                None => {
                    // Whoever is not told may not.
                    let answer = review::may_patch(own, &resource).await.unwrap_or(false);
                    may_apply.insert(key, answer);
                    answer
                }
            };
            let name = reference.name.as_str();
            let changes = if may_apply {
                let manager = manager.as_deref().unwrap_or(FLUX);
                match own.apply_dry_run(&resource, namespace.as_deref(), name, manifest, manager).await {
                    Ok(applied) => Some(differences(&live, &applied)),
                    Err(error) => {
                        problem.get_or_insert(error);
                        None
                    }
                }
            } else {
                None
            };
            found.extend(changed(&reference, &live, taken, changes));
        }
    }
    (found, problem)
}

/// The objects as they are, in the order of their manifests.
async fn live(
    own: &Connection,
    resource: &ApiResource,
    namespace: Option<&str>,
    manifests: &[Value],
) -> Result<Vec<Option<DynamicObject>>, RequestError> {
    let names: Vec<&str> =
        manifests.iter().map(|it| it.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()).collect();
    if names.len() <= FEW {
        let requests = names.iter().map(|name| own.get(resource, namespace, name)).collect();
        return concurrently(requests).await.into_iter().collect();
    }
    let selection = Selection { managers: true, ..Selection::default() };
    let listed = own.list_resource(resource, namespace, selection, &format!("list {}", resource.plural)).await?;
    let mut by_name: BTreeMap<String, DynamicObject> =
        listed.into_iter().filter_map(|object| Some((object.metadata.name.clone()?, object))).collect();
    Ok(names.iter().map(|name| by_name.remove(*name)).collect())
}

/// What is said of an object, by manager; `changes` are the fields that applying it would change, where that is known.
fn changed(
    reference: &ObjectReference,
    live: &DynamicObject,
    taken: Vec<Taken>,
    changes: Option<Vec<String>>,
) -> Vec<Drift> {
    let drift = |fields: Vec<String>, manager: String, at| Drift {
        object: reference.clone(),
        kind: DriftKind::Changed { fields, manager, at },
    };
    match changes {
        // Others own the field, and have given it the same value.
        Some(changes) if changes.is_empty() => Vec::new(),
        Some(changes) if taken.is_empty() => {
            let (manager, at) = objects::last_writer(live);
            vec![drift(changes, manager, at)]
        }
        Some(_) | None => {
            let mut by: BTreeMap<String, (Vec<String>, Option<jiff::Timestamp>)> = BTreeMap::new();
            for Taken { field, manager, at, .. } in taken {
                let known = by.entry(manager).or_default();
                known.0.push(field);
                known.1 = known.1.max(at);
            }
            by.into_iter().map(|(manager, (fields, at))| drift(fields, manager, at)).collect()
        }
    }
}

/// The fields that differ; what servers and controllers keep of an object is left out.
fn differences(live: &DynamicObject, applied: &DynamicObject) -> Vec<String> {
    let mut found = Vec::new();
    let body = |object: &DynamicObject| {
        let mut data = object.data.clone();
        if let Some(fields) = data.as_object_mut() {
            fields.remove("status");
        }
        data
    };
    differing(&body(live), &body(applied), "", &mut found);
    let texts = |map: &Option<BTreeMap<String, String>>| serde_json::to_value(map).unwrap_or_default();
    let (live, applied) = (&live.metadata, &applied.metadata);
    differing(&texts(&live.labels), &texts(&applied.labels), "metadata.labels", &mut found);
    differing(&texts(&live.annotations), &texts(&applied.annotations), "metadata.annotations", &mut found);
    found
}

fn differing(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(fields), Value::Object(others)) => {
            let more = others.keys().filter(|key| !fields.contains_key(*key));
            for key in fields.keys().chain(more) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differing(&of(fields), &of(others), &path, found);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (index, (item, other)) in items.iter().zip(others).enumerate() {
                differing(item, other, &format!("{path}[{index}]"), found);
            }
        }
        _ if one == other => {}
        _ => found.push(path.to_owned()),
    }
}

fn reference(manifest: &Value, namespace: Option<String>) -> ObjectReference {
    let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    ObjectReference { api_version: text("/apiVersion"), kind: text("/kind"), namespace, name: text("/metadata/name") }
}
