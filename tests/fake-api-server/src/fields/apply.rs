//! Applying a configuration: merging it into an object, and taking away what its manager has dropped.

use serde_json::{Map, Value};

use super::set::{Element, FieldSet};

/// An object with a configuration merged into it: lists and single values are replaced, maps are merged, sets united.
pub(crate) fn merged(object: &Value, configuration: &Value) -> Value {
    merge(&mut Vec::new(), object, configuration)
}

fn merge(path: &mut Vec<Element>, object: &Value, configuration: &Value) -> Value {
    match (object, configuration) {
        (Value::Object(fields), Value::Object(wanted)) => {
            let mut fields = fields.clone();
            for (name, wanted) in wanted {
                path.push(Element::Field(name.clone()));
                let value = fields.get(name).map_or_else(|| wanted.clone(), |field| merge(path, field, wanted));
                fields.insert(name.clone(), value);
                path.pop();
            }
            Value::Object(fields)
        }
        (Value::Array(items), Value::Array(wanted)) if super::is_set(path) => Value::Array(united(items, wanted)),
        _ => configuration.clone(),
    }
}

/// Both lists as one: in the order that is wanted, and what is in the first alone where it was.
fn united(items: &[Value], wanted: &[Value]) -> Vec<Value> {
    let mut kept = items.iter().peekable();
    let mut united = Vec::new();
    for item in wanted {
        while let Some(other) = kept.next_if(|other| !wanted.contains(other)) {
            united.push(other.clone());
        }
        kept.next_if(|other| *other == item);
        united.push(item.clone());
    }
    united.extend(kept.filter(|other| !wanted.contains(other)).cloned());
    united
}

/// Takes away the fields that a manager applied before, applies no longer, and that nobody else owns. A field that the kind
/// names goes with the last of what was below it; a key of a map goes with all that is below it, whoever owns that.
pub(super) fn prune(object: &mut Value, before: &FieldSet, owned: &FieldSet) {
    let is_dropped = |path: &[Element]| {
        if super::is_named(path) { !owned.covers(path) } else { before.0.contains(path) && !owned.0.contains(path) }
    };
    for path in &before.0 {
        if let Some(dropped) = (1..=path.len()).filter_map(|length| path.get(..length)).find(|path| is_dropped(path)) {
            remove(object, dropped);
        }
    }
}

/// Takes a field away. An object or a list of which nothing is left then is null.
fn remove(value: &mut Value, path: &[Element]) {
    match (path, &mut *value) {
        ([Element::Field(name)], Value::Object(fields)) => {
            fields.remove(name);
        }
        ([Element::Item(text)], Value::Array(items)) => items.retain(|item| item.as_str() != Some(text)),
        ([Element::Field(name), rest @ ..], Value::Object(fields)) => {
            if let Some(field) = fields.get_mut(name) {
                remove(field, rest);
            }
        }
        _ => {}
    }
    if value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty) {
        *value = Value::Null;
    }
}
