//! Reading single fields of an object. A field of an unexpected type counts as absent, so that its gate waits.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::DynamicObject;
use rollout::{Condition, ConditionStatus};
use serde_json::Value;

/// The value at `path`, whose segments are keys.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
}

/// A text that is not empty.
pub(super) fn text(value: &Value, path: &[&str]) -> Option<String> {
    at(value, path)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A number.
pub(super) fn number(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path)?.as_i64()
}

/// A number of things.
pub(super) fn count(value: &Value, path: &[&str]) -> Option<u32> {
    at(value, path)?.as_u64()?.try_into().ok()
}

/// A switch.
pub(super) fn flag(value: &Value, path: &[&str]) -> Option<bool> {
    at(value, path)?.as_bool()
}

/// A point in time, RFC 3339.
pub(super) fn time(value: &Value, path: &[&str]) -> Option<Timestamp> {
    at(value, path)?.as_str()?.parse().ok()
}

/// The elements of a list; none where there is no list.
pub(super) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts of a list.
pub(super) fn texts(value: &Value, path: &[&str]) -> Vec<String> {
    list(value, path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The conditions of a list at `path`, by type. Of two with one type the last one counts, as in a merge by key.
pub(super) fn conditions(value: &Value, path: &[&str]) -> BTreeMap<String, Condition> {
    list(value, path)
        .iter()
        .filter_map(|condition| Some((text(condition, &["type"])?, self::condition(condition)?)))
        .collect()
}

/// A condition; none where its status is none of the three.
pub(super) fn condition(value: &Value) -> Option<Condition> {
    Some(Condition {
        status: status(at(value, &["status"])?.as_str()?)?,
        reason: text(value, &["reason"]).unwrap_or_default(),
        message: text(value, &["message"]).unwrap_or_default(),
        observed_generation: number(value, &["observedGeneration"]),
    })
}

/// A condition's status, as Kubernetes writes it.
pub(crate) fn status(text: &str) -> Option<ConditionStatus> {
    match text {
        "True" => Some(ConditionStatus::True),
        "False" => Some(ConditionStatus::False),
        "Unknown" => Some(ConditionStatus::Unknown),
        _ => None,
    }
}

/// A condition that is derived here and not reported by the server.
pub(super) fn derived(holds: bool, message: &str) -> Condition {
    Condition {
        status: if holds { ConditionStatus::True } else { ConditionStatus::False },
        reason: String::from("Derived"),
        message: message.to_owned(),
        observed_generation: None,
    }
}

/// `metadata.name`; empty where there is none.
pub(super) fn name(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

/// `metadata.namespace`; empty for cluster-scoped objects.
pub(super) fn namespace(object: &DynamicObject) -> String {
    object.metadata.namespace.clone().unwrap_or_default()
}

/// `metadata.generation`; 0 where the server keeps none, which no `observedGeneration` equals.
pub(super) fn generation(object: &DynamicObject) -> i64 {
    object.metadata.generation.unwrap_or_default()
}

/// Whether `metadata.deletionTimestamp` is set.
pub(super) fn deleting(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// `metadata.creationTimestamp`.
pub(super) fn creation_time(object: &DynamicObject) -> Option<Timestamp> {
    object.metadata.creation_timestamp.as_ref().and_then(|time| time.0.to_string().parse().ok())
}

/// `metadata.deletionTimestamp`.
pub(super) fn deletion_time(object: &DynamicObject) -> Option<Timestamp> {
    object.metadata.deletion_timestamp.as_ref().and_then(|time| time.0.to_string().parse().ok())
}

/// Since when a `PodDisruptionBudget` lets none go, by its condition.
pub(crate) fn refuses_since(budget: &DynamicObject) -> Option<Timestamp> {
    let conditions = list(&budget.data, &["status", "conditions"]).iter();
    let refuses = |condition: &&Value| {
        text(condition, &["type"]).as_deref() == Some("DisruptionAllowed")
            && text(condition, &["status"]).as_deref() == Some("False")
    };
    { conditions }.find(refuses).and_then(|condition| time(condition, &["lastTransitionTime"]))
}

/// The label `key`.
pub(super) fn label<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.labels.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// The annotation `key`.
pub(super) fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The name of the owner of this kind; the controlling one where several are.
pub(crate) fn owner(object: &DynamicObject, kind: &str) -> Option<String> {
    let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
    let of_kind = || owners.iter().filter(|owner| owner.kind == kind);
    of_kind().find(|owner| owner.controller == Some(true)).or_else(|| of_kind().next()).map(|owner| owner.name.clone())
}
