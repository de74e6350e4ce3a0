//! One rule on one object before and after.

use serde_json::{Map, Value};
use yaml::Node;

use super::rule::{Check, Rule};
use crate::json;

/// A value that may not change and does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// Its field, as `spec.template.spec.vmSize`.
    pub field: String,
    /// The value before.
    pub old: Option<Value>,
    /// The value after.
    pub new: Option<Value>,
}

/// The values of an object that a rule refuses to change, and that change.
pub(super) fn evaluate(rule: &Rule, old: &Node, new: &Node) -> Vec<Change> {
    let path: Vec<&str> = rule.field.split('.').collect();
    let [before, after] = [old, new].map(|object| value(object.at(&path)));
    let change = |field: String, old: Option<Value>, new: Option<Value>| Change { field, old, new };
    let whole = |is_refused: bool| {
        let (old, new) = (before.clone(), after.clone());
        is_refused.then(|| change(rule.field.to_owned(), old, new)).into_iter().collect()
    };
    let are_at_one_version = old.get("apiVersion") == new.get("apiVersion");
    match rule.check {
        Check::Any => leaves(rule.field, before.as_ref(), after.as_ref()),
        Check::AnyAtOneVersion if !are_at_one_version => Vec::new(),
        Check::AnyAtOneVersion => leaves(rule.field, before.as_ref(), after.as_ref()),
        Check::AnyBut(_) if !are_at_one_version => Vec::new(),
        Check::AnyBut(fields) => {
            let without = |value: Option<Value>| match value {
                Some(Value::Object(mut entries)) => {
                    entries.retain(|key, _| !fields.contains(&key.as_str()));
                    Some(Value::Object(entries))
                }
                other => other,
            };
            leaves(rule.field, without(before).as_ref(), without(after).as_ref())
        }
        Check::BetweenValues => whole(before.is_some() && after.is_some() && before != after),
        Check::ValuesOfList => whole(sorted(before.as_ref()) != sorted(after.as_ref())),
        Check::Removal => whole(before.is_some() && after.is_none()),
        Check::RemovalWithout(other) => {
            let other: Vec<&str> = other.split('.').collect();
            whole(before.is_some() && after.is_none() && value(new.at(&other)).is_none())
        }
        Check::Presence => whole(before.is_some() != after.is_some()),
        Check::Reference => whole(reference(before.as_ref()) != reference(after.as_ref())),
        Check::AnotherReference => {
            let is_named = before.is_some() && after.is_some();
            whole(is_named && reference(before.as_ref()) != reference(after.as_ref()))
        }
        Check::ReferenceOfKind(kind) => {
            let find = |value: Option<&Value>| {
                let is_it = |item: &&Value| item.get("kind").and_then(Value::as_str) == Some(kind);
                items(value).iter().find(is_it).cloned()
            };
            let (before, after) = (find(before.as_ref()), find(after.as_ref()));
            let is_refused =
                before.is_some() && after.is_some() && reference(before.as_ref()) != reference(after.as_ref());
            is_refused.then(|| change(rule.field.to_owned(), before, after)).into_iter().collect()
        }
        Check::ItemsByName => named(rule.field, before.as_ref(), after.as_ref(), |item| Some(item.clone())),
        Check::FieldOfItems(field) => {
            let found = named(rule.field, before.as_ref(), after.as_ref(), |item| item.get(field).cloned());
            found.into_iter().map(|change| Change { field: format!("{}.{field}", change.field), ..change }).collect()
        }
        Check::FirstUser => {
            let is_refused =
                before.is_some() && after.is_some() && first_user(before.as_ref()) != first_user(after.as_ref());
            whole(is_refused)
        }
        Check::NetworkPlugin => {
            let [before, after] = [old, new].map(|object| plugin(object.at(&path)));
            let is_refused = before.is_some() && after.is_some() && before != after;
            let field = format!("{}.cniConfig", rule.field);
            is_refused.then(|| change(field, before.map(Value::String), after.map(Value::String))).into_iter().collect()
        }
    }
}

/// A node as a value, where what is empty is the same as what is absent: `false`, 0 and empty text, lists and maps.
pub(super) fn value(node: Option<&Node>) -> Option<Value> {
    pruned(json::to_json(node?))
}

fn pruned(value: Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            Some(Value::Array(items.into_iter().map(|item| pruned(item).unwrap_or_default()).collect()))
        }
        Value::Object(entries) => {
            let entries: Map<_, _> =
                entries.into_iter().filter_map(|(key, value)| Some((key, pruned(value)?))).collect();
            (!entries.is_empty()).then_some(Value::Object(entries))
        }
        other => Some(other),
    }
}

/// The innermost values that differ.
pub(super) fn leaves(field: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<Change> {
    if old == new {
        return Vec::new();
    }
    if let (Some(Value::Object(left)), Some(Value::Object(right))) = (old, new) {
        let added = right.keys().filter(|key| !left.contains_key(*key));
        let keys = left.keys().chain(added);
        return keys.flat_map(|key| leaves(&format!("{field}.{key}"), left.get(key), right.get(key))).collect();
    }
    vec![Change { field: field.to_owned(), old: old.cloned(), new: new.cloned() }]
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn sorted(value: Option<&Value>) -> Vec<String> {
    let mut items: Vec<String> = items(value).iter().map(Value::to_string).collect();
    items.sort();
    items
}

fn reference(value: Option<&Value>) -> (Option<&Value>, Option<&Value>) {
    (value.and_then(|value| value.get("kind")), value.and_then(|value| value.get("name")))
}

/// What differs in the items that both lists have, by name.
fn named(field: &str, old: Option<&Value>, new: Option<&Value>, part: impl Fn(&Value) -> Option<Value>) -> Vec<Change> {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    let changes = items(old).iter().filter_map(|before| {
        let known = name(before)?;
        let after = items(new).iter().find(|item| name(item).as_ref() == Some(&known))?;
        let (old, new) = (part(before), part(after));
        (old != new).then(|| Change { field: format!("{field}[{known}]"), old, new })
    });
    changes.collect()
}

/// What the webhook of bare metal looks at: how many users, the first one's name, how many keys, the first key.
fn first_user(users: Option<&Value>) -> (usize, Option<&Value>, usize, Option<&Value>) {
    let users = items(users);
    let first = users.first();
    let keys = items(first.and_then(|user| user.get("sshAuthorizedKeys")));
    (users.len(), first.and_then(|user| user.get("name")), keys.len(), keys.first())
}

/// `cilium` or `kindnetd`: the key alone counts, and what is below it may be empty.
fn plugin(network: Option<&Node>) -> Option<String> {
    let network = network?;
    let older = || network.get("cni").and_then(Node::as_str).map(str::to_owned);
    let newer = network.get("cniConfig").and_then(Node::as_mapping);
    newer.and_then(|config| config.iter().next()).map(|entry| entry.key.to_string()).or_else(older)
}
