//! What the rules of writing ask of an object.

use serde_json::{Map, Value, json};

use crate::kind::ServedKind;
use crate::reply::Cause;

/// The fields of an object that is being deleted.
pub(crate) const ENDING: &[&str] = &["deletionTimestamp", "deletionGracePeriodSeconds"];

/// What `metadata.generation` counts the changes of.
pub(crate) fn asked_for(kind: &ServedKind, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("metadata");
        if kind.has_status() {
            fields.remove("status");
        }
    }
    object
}

/// An object of which nothing was said: those of the server itself have what asks for something, and what is, always.
pub(crate) fn empty(kind: &ServedKind) -> Value {
    if kind.is_custom() { json!({}) } else { json!({"spec": {}, "status": {}}) }
}

/// Whether it is being deleted.
pub(crate) fn is_ending(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// What keeps it from being deleted.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let items = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Why an object may not become another.
pub(crate) fn what_is_wrong(before: &Value, after: &Value) -> Vec<Cause> {
    let old = finalizers(before);
    let new: Vec<String> = finalizers(after).into_iter().filter(|item| !old.contains(item)).collect();
    let mut causes = if is_ending(before) && !new.is_empty() { Cause::new_finalizers(&new) } else { Vec::new() };
    let nulls = ["spec", "status"].into_iter().filter(|field| after.get(field).is_some_and(Value::is_null));
    causes.extend(nulls.map(Cause::no_object));
    causes
}

/// Maps and lists with nothing in them are left out of metadata, and of kinds of the server itself.
pub(crate) fn without_empty(kind: &ServedKind, object: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|_, value| !is_empty(value));
    }
    if let Some(fields) = object.as_object_mut().filter(|_| !kind.is_custom()) {
        fields.retain(|_, value| !is_empty(value));
    }
}

/// Gives a field a value, or takes it away.
pub(crate) fn set(object: &mut Value, name: &str, value: Option<&Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match value {
        Some(value) => fields.insert(name.to_owned(), value.clone()),
        None => fields.remove(name),
    };
}

/// A JSON merge patch (RFC 7386).
pub(crate) fn patched(object: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut fields: Map<String, Value> = object.as_object().cloned().unwrap_or_default();
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            let value = patched(fields.get(name).unwrap_or(&Value::Null), change);
            fields.insert(name.clone(), value);
        }
    }
    Value::Object(fields)
}
