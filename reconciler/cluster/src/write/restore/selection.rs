//! Which objects of a backup belong to a cluster.
//!
//! A backup holds what the whole management cluster had. Restored is what carries the cluster's
//! name, what that refers to, what owns it and what it owns; never what belongs to another cluster,
//! nor the inventory of providers, which says what is installed where it was taken.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use serde_json::Value;

use super::object::{Key, key, owners, text};
use crate::client::kind::{CLUSTER, EKSA_CLUSTER, SECRET};
use crate::client::secrets;

/// The label of everything that belongs to a cluster.
const CLUSTER_NAME: &str = "/metadata/labels/cluster.x-k8s.io~1cluster-name";

/// The group of clusterctl's inventory.
const INVENTORY: &str = "clusterctl.cluster.x-k8s.io";

/// What is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope<'a> {
    /// Everything: the cluster manages itself, and others.
    Everything,
    /// What belongs to one cluster, by namespace and name.
    Of(&'a str, &'a str),
}

/// The objects of this scope, in the order of the backup.
pub(crate) fn select<'b>(objects: &'b [Value], scope: Scope<'_>) -> Vec<&'b Value> {
    let restorable = || objects.iter().filter(|object| key(object).group != INVENTORY);
    let Scope::Of(namespace, name) = scope else { return restorable().collect() };
    let candidates: Vec<&Value> = restorable()
        .filter(|object| key(object).kind != SECRET.kind && !is_of_another(object, namespace, name))
        .collect();
    let mut wanted: BTreeSet<Key> =
        candidates.iter().filter(|object| is_of(object, namespace, name)).map(|object| key(object)).collect();
    let by_uid: BTreeMap<&str, Key> =
        candidates.iter().map(|object| (text(object, "/metadata/uid"), key(object))).collect();
    loop {
        let before = wanted.len();
        for object in &candidates {
            let owners = owners(object).iter().filter_map(|owner| by_uid.get(text(owner, "/uid")));
            if wanted.contains(&key(object)) {
                wanted.extend(owners.cloned());
                referred(object, &candidates, &mut wanted);
            } else if owners.into_iter().any(|owner| wanted.contains(owner)) {
                wanted.insert(key(object));
            }
        }
        if wanted.len() == before {
            break;
        }
    }
    let chosen: Vec<&Value> = candidates.into_iter().filter(|object| wanted.contains(&key(object))).collect();
    let typed: Vec<DynamicObject> =
        chosen.iter().filter_map(|object| serde_json::from_value((*object).clone()).ok()).collect();
    let named = secrets::named_by(&typed, Some(name));
    let is_wanted = |object: &Value| {
        let Key { group, kind, namespace: place, name: own } = key(object);
        let is_secret = group.is_empty() && kind == SECRET.kind;
        let is_labelled = || text(object, CLUSTER_NAME) == name && place == namespace;
        is_secret && (is_labelled() || named.contains(&(place.clone(), own)))
    };
    let mut selected = chosen;
    selected.extend(objects.iter().filter(|object| is_wanted(object)));
    selected
}

/// Whether an object says that it belongs to this cluster.
fn is_of(object: &Value, namespace: &str, name: &str) -> bool {
    let Key { group, kind, namespace: place, name: own } = key(object);
    if kind == CLUSTER.kind && (group == CLUSTER.group || group == EKSA_CLUSTER.group) {
        return own == name && (place == namespace || group == EKSA_CLUSTER.group);
    }
    let says = text(object, CLUSTER_NAME) == name || text(object, "/spec/clusterName") == name;
    says && place == namespace
}

/// Whether an object says that it belongs to another cluster.
fn is_of_another(object: &Value, namespace: &str, name: &str) -> bool {
    let Key { group, kind, .. } = key(object);
    let is_cluster = kind == CLUSTER.kind && (group == CLUSTER.group || group == EKSA_CLUSTER.group);
    let says = !text(object, CLUSTER_NAME).is_empty() || !text(object, "/spec/clusterName").is_empty();
    (is_cluster || says) && !is_of(object, namespace, name)
}

/// Adds what an object's specification refers to.
fn referred(object: &Value, candidates: &[&Value], wanted: &mut BTreeSet<Key>) {
    let place = text(object, "/metadata/namespace");
    let mut references = BTreeSet::new();
    references_in(object.get("spec").unwrap_or(&Value::Null), place, &mut references);
    // The class of a topology is named without its kind.
    let topology = |path: &str| text(object, &format!("/spec/topology/{path}"));
    for (name, namespace) in [("classRef/name", "classRef/namespace"), ("class", "classNamespace")] {
        let (name, namespace) = (topology(name), topology(namespace));
        if !name.is_empty() {
            let namespace = if namespace.is_empty() { place } else { namespace };
            references.insert(("ClusterClass".to_owned(), namespace.to_owned(), name.to_owned()));
        }
    }
    for candidate in candidates {
        let found = key(candidate);
        // What lives in no namespace is referred to as if it did.
        let is_referred =
            |place: &str| references.contains(&(found.kind.clone(), place.to_owned(), found.name.clone()));
        if is_referred(&found.namespace) || (found.namespace.is_empty() && is_referred(place)) {
            wanted.insert(found);
        }
    }
}

/// Kind, namespace and name of everything with a kind and a name.
fn references_in(value: &Value, namespace: &str, found: &mut BTreeSet<(String, String, String)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references_in(item, namespace, found)),
        Value::Object(fields) => {
            let field = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            if let (Some(kind), Some(name)) = (field("kind"), field("name")) {
                let place = field("namespace").unwrap_or(namespace);
                found.insert((kind.to_owned(), place.to_owned(), name.to_owned()));
            }
            fields.values().for_each(|field| references_in(field, namespace, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
