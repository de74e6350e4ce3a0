//! What a step changes, field by field.

use std::collections::BTreeMap;

use serde::Serialize;
use yaml::{Node, Value};

use crate::RenderedTree;
use crate::object::{ObjectId, object_id, objects_of};

/// One field that a step changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpecChange {
    /// The object, as `Kind namespace/name`.
    pub object: String,
    /// The field, as `spec.kubernetesVersion`; empty for the object as a whole. Items of lists that have a `name` are
    /// shown by it.
    pub field: String,
    /// The old value as compact JSON; absent when it is new.
    pub old: Option<String>,
    /// The new value as compact JSON; absent when it goes.
    pub new: Option<String>,
}

/// The fields that differ between the objects of two trees.
pub(super) fn between(before: &RenderedTree, after: &RenderedTree) -> Vec<SpecChange> {
    let index = |tree: &RenderedTree| -> BTreeMap<ObjectId, Node> {
        let nodes = tree.files.values().flat_map(|bytes| objects_of(bytes));
        nodes.filter_map(|node| Some((object_id(&node)?, node))).collect()
    };
    let (old, new) = (index(before), index(after));
    let mut changes = Vec::new();
    for (id, node) in &old {
        match new.get(id) {
            Some(other) => compare(&id.to_string(), "", node, other, &mut changes),
            None => changes.push(SpecChange {
                object: id.to_string(),
                field: String::new(),
                old: Some("{…}".to_owned()),
                new: None,
            }),
        }
    }
    for id in new.keys().filter(|id| !old.contains_key(id)) {
        changes.push(SpecChange {
            object: id.to_string(),
            field: String::new(),
            old: None,
            new: Some("{…}".to_owned()),
        });
    }
    changes
}

fn compare(object: &str, path: &str, old: &Node, new: &Node, changes: &mut Vec<SpecChange>) {
    if old == new {
        return;
    }
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let mut pairs: Vec<(String, Option<&Node>, Option<&Node>)> = Vec::new();
    match (&old.value, &new.value) {
        (Value::Mapping(left), Value::Mapping(right)) => {
            pairs.extend(left.iter().map(|entry| (join(&entry.key), Some(&entry.value), right.get(&entry.key))));
            let added = right.iter().filter(|entry| !left.contains_key(&entry.key));
            pairs.extend(added.map(|entry| (join(&entry.key), None, Some(&entry.value))));
        }
        (Value::Sequence(left), Value::Sequence(right)) if named(left) && named(right) => {
            let find = |items: &'_ [Node], name: &str| items.iter().position(|item| name_of(item) == Some(name));
            for item in left {
                let Some(name) = name_of(item) else { continue };
                pairs.push((format!("{path}[{name}]"), Some(item), find(right, name).and_then(|at| right.get(at))));
            }
            for item in right {
                let Some(name) = name_of(item) else { continue };
                if find(left, name).is_none() {
                    pairs.push((format!("{path}[{name}]"), None, Some(item)));
                }
            }
        }
        _ => {
            changes.push(SpecChange {
                object: object.to_owned(),
                field: path.to_owned(),
                old: Some(crate::json::compact(old)),
                new: Some(crate::json::compact(new)),
            });
            return;
        }
    }
    for (field, left, right) in pairs {
        match (left, right) {
            (Some(left), Some(right)) => compare(object, &field, left, right, changes),
            (left, right) => changes.push(SpecChange {
                object: object.to_owned(),
                field,
                old: left.map(crate::json::compact),
                new: right.map(crate::json::compact),
            }),
        }
    }
}

fn name_of(node: &Node) -> Option<&str> {
    node.get("name").and_then(Node::as_str)
}

fn named(items: &[Node]) -> bool {
    items.iter().all(|item| name_of(item).is_some())
}
