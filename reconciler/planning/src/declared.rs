//! What a manifest declares, beside the object that a server holds.
//!
//! A server adds defaults and writes amounts and times in its own way: only fields that the
//! manifest sets count, by what they mean.

use jiff::SignedDuration;
use serde_json::Value;

/// Fields that a server writes itself, that say which object it is, or that are taken out when it
/// is decrypted.
const APART: [&str; 5] = ["apiVersion", "kind", "metadata", "sops", "status"];

/// Fields whose texts hold no secret, whatever the object.
const TOLD: [&str; 8] = ["apiVersion", "eksaVersion", "image", "kind", "kubernetesVersion", "name", "uri", "version"];

/// The longest text that is told.
const LONGEST: usize = 100;

/// What stands for a value that is not told.
const UNTOLD: &str = "another value";

/// A field that a manifest sets and the object has otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherValue {
    /// Where it is, such as `spec.controlPlaneConfiguration.count`.
    pub field: String,
    /// What the object has; none where it has nothing there.
    pub is: Option<String>,
    /// What the manifest says.
    pub declared: String,
}

/// The fields that `declared` sets and `object` has otherwise. Metadata is left out: everybody adds
/// to it, and nothing follows from it.
pub fn other_values(declared: &Value, object: &Value) -> Vec<OtherValue> {
    let mut found = Vec::new();
    for (key, wanted) in declared.as_object().into_iter().flatten() {
        if !APART.contains(&key.as_str()) {
            compare(wanted, object.get(key), key, key, &mut found);
        }
    }
    found
}

fn compare(wanted: &Value, is: Option<&Value>, key: &str, path: &str, found: &mut Vec<OtherValue>) {
    match (wanted, is) {
        (Value::Object(fields), Some(Value::Object(others))) => {
            for (key, wanted) in fields {
                compare(wanted, others.get(key), key, &format!("{path}.{key}"), found);
            }
        }
        // Defaults and controllers add items of their own.
        (Value::Array(items), Some(Value::Array(others))) if are_named(items) && are_named(others) => {
            for wanted in items {
                let item = wanted.get("name").and_then(Value::as_str).unwrap_or_default();
                let is = others.iter().find(|other| other.get("name") == wanted.get("name"));
                compare(wanted, is, key, &format!("{path}[{item}]"), found);
            }
        }
        (Value::Array(items), Some(Value::Array(others))) if items.len() == others.len() => {
            for (index, (wanted, is)) in items.iter().zip(others).enumerate() {
                compare(wanted, Some(is), key, &format!("{path}[{index}]"), found);
            }
        }
        _ if is_same(wanted, is) => {}
        _ => found.push(OtherValue {
            field: path.to_owned(),
            is: is.map(|is| told(key, is)),
            declared: told(key, wanted),
        }),
    }
}

fn are_named(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(|item| item.get("name").is_some_and(Value::is_string))
}

fn told(key: &str, value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if TOLD.contains(&key) && text.len() <= LONGEST => text.clone(),
        Value::String(_) => UNTOLD.to_owned(),
        Value::Array(items) => format!("{} entries", items.len()),
        Value::Object(fields) => format!("{} fields", fields.len()),
    }
}

fn is_same(wanted: &Value, is: Option<&Value>) -> bool {
    match (wanted, is) {
        (wanted, Some(is)) if wanted == is => true,
        // The server leaves out what is empty.
        (wanted, None | Some(Value::Null)) => is_empty(wanted),
        // What Flux substitutes or decrypts is another text in the cluster.
        (Value::String(wanted), Some(_)) if wanted.contains("${") || wanted.starts_with("ENC[") => true,
        (Value::String(wanted), Some(Value::String(is))) => is_same_text(wanted, is),
        (Value::String(text), Some(Value::Number(number))) | (Value::Number(number), Some(Value::String(text))) => {
            amount(text) == number.as_f64()
        }
        (Value::Number(wanted), Some(Value::Number(is))) => wanted.as_f64() == is.as_f64(),
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

/// `10m` and `10m0s`, `1024Mi` and `1Gi`: one time, and one amount.
fn is_same_text(one: &str, other: &str) -> bool {
    let same_time = || {
        let (one, other): (SignedDuration, SignedDuration) = (one.parse().ok()?, other.parse().ok()?);
        Some(one == other)
    };
    let same_amount = || Some(amount(one)? == amount(other)?);
    one == other || same_time().or_else(same_amount).unwrap_or(false)
}

/// A quantity as Kubernetes writes it.
fn amount(text: &str) -> Option<f64> {
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let number: f64 = text.get(..end)?.parse().ok()?;
    let factor = match text.get(end..)? {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(declared: &Value, object: &Value, expected: &[(&str, Option<&str>, &str)]) {
        let found = other_values(&json!({"spec": declared}), &json!({"spec": object, "status": {}}));
        let mut found: Vec<_> =
            found.iter().map(|it| (it.field.as_str(), it.is.as_deref(), it.declared.as_str())).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_the_server_adds_or_writes_in_its_way_is_no_difference() {
        check(
            &json!({"interval": "10m", "memory": "1024Mi", "paused": false, "list": [], "cpu": "1", "port": 80,
                "workers": [{"name": "a"}], "name": "${NAME}"}),
            &json!({"interval": "10m0s", "memory": "1Gi", "cpu": 1, "port": 80.0, "workers": [{"name": "a", "count": 3}],
                "name": "prod", "added": true}),
            &[],
        );
    }

    #[test]
    fn items_that_others_add_are_no_difference_and_those_that_are_gone_are() {
        let declared =
            json!({"variables": [{"name": "a", "value": 1}, {"name": "b", "value": "ENC[AES256_GCM,data:x]"}]});
        check(
            &declared,
            &json!({"variables": [{"name": "default"}, {"name": "b", "value": "x"}, {"name": "a", "value": 1}]}),
            &[],
        );
        check(
            &declared,
            &json!({"variables": [{"name": "a", "value": 2}]}),
            &[("spec.variables[a].value", Some("2"), "1"), ("spec.variables[b]", None, "2 fields")],
        );
    }

    #[test]
    fn another_value_is_told_by_its_field_and_without_secrets() {
        check(
            &json!({"kubernetesVersion": "1.34", "workers": [{"count": 3}], "password": "open", "pods": ["a", "b"], "etcd": {"count": 3}}),
            &json!({"kubernetesVersion": "1.33", "workers": [{"count": 5}], "password": "sesame", "pods": ["a"]}),
            &[
                ("spec.etcd", None, "1 fields"),
                ("spec.kubernetesVersion", Some("1.33"), "1.34"),
                ("spec.password", Some(UNTOLD), UNTOLD),
                ("spec.pods", Some("1 entries"), "2 entries"),
                ("spec.workers[0].count", Some("5"), "3"),
            ],
        );
    }
}
