//! Merge patches (RFC 7386): what Cluster API applies to the current specification.

use serde_json::{Map, Value};

/// The patch that makes `from` into `to`; none when they are equal.
pub(super) fn between(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Some(old), Some(new)) = (from.as_object(), to.as_object()) else { return Some(to.clone()) };
    let gone = old.keys().filter(|name| !new.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let changed = new.iter().filter_map(|(name, value)| {
        let patch = match old.get(name) {
            None => value.clone(),
            Some(before) => between(before, value)?,
        };
        Some((name.clone(), patch))
    });
    Some(Value::Object(gone.chain(changed).collect()))
}

/// Applies a merge patch, as Cluster API does.
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(object) = target else { return };
    for (name, value) in fields {
        if value.is_null() {
            object.remove(name);
        } else {
            apply(object.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
