//! Saved objects as values: what names them, who owns them, and what is sent to make them anew.

use std::fmt;

use serde_json::{Map, Value, json};

/// What names an object, whatever its version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, .. } = self;
        if namespace.is_empty() {
            write!(formatter, "{kind} {name}")
        } else {
            write!(formatter, "{kind} {namespace}/{name}")
        }
    }
}

/// The text at a path; empty where there is none.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// What names this object.
pub(super) fn key(object: &Value) -> Key {
    Key {
        group: group_of(text(object, "/apiVersion")),
        kind: text(object, "/kind").to_owned(),
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
    }
}

/// What names an owner, of an object in this namespace. An owner lives in the same one, or in none.
pub(super) fn owner_keys(owner: &Value, namespace: &str) -> [Key; 2] {
    [namespace, ""].map(|namespace| Key {
        group: group_of(text(owner, "/apiVersion")),
        kind: text(owner, "/kind").to_owned(),
        namespace: namespace.to_owned(),
        name: text(owner, "/name").to_owned(),
    })
}

fn group_of(api_version: &str) -> String {
    api_version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default()
}

/// The owners that an object names.
pub(super) fn owners(object: &Value) -> &[Value] {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What is in an object apart from its type, its metadata and its status.
pub(super) fn content(object: &Value) -> Map<String, Value> {
    let mut content = object.as_object().cloned().unwrap_or_default();
    content.retain(|name, _| !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()));
    content
}

/// What is sent to make a saved object anew, with these owners.
pub(super) fn anew(saved: &Value, owners: Vec<Value>) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "labels", "annotations", "finalizers"] {
        if let Some(value) = saved.pointer(&format!("/metadata/{field}")) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    if !owners.is_empty() {
        metadata.insert("ownerReferences".to_owned(), Value::Array(owners));
    }
    let mut object = content(saved);
    for field in ["apiVersion", "kind"] {
        object.insert(field.to_owned(), saved.get(field).cloned().unwrap_or_default());
    }
    object.insert("metadata".to_owned(), Value::Object(metadata));
    Value::Object(object)
}

/// The same owner under another uid.
pub(super) fn linked(owner: &Value, uid: &str) -> Value {
    let mut owner = owner.as_object().cloned().unwrap_or_default();
    owner.insert("uid".to_owned(), json!(uid));
    Value::Object(owner)
}

/// The paths at which two values differ, at most `most`. What stands there is not told: it may be a credential.
pub(super) fn differing(one: &Value, other: &Value, path: &str, most: usize, found: &mut Vec<String>) {
    if found.len() >= most || one == other {
        return;
    }
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
            for name in names {
                let side = |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                differing(&side(one), &side(other), &format!("{path}.{name}"), most, found);
            }
        }
        _ => found.push(path.trim_start_matches('.').to_owned()),
    }
}
