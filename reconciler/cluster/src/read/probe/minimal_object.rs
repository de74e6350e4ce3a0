//! The smallest object that a schema allows: what a dry run can create where the cluster has none of the kind.
//!
//! An API server checks the schema before it asks the webhooks that only check, so that an empty object never comes as far as these.

use regex::Regex;
use serde_json::{Map, Value, json};

/// Schemas are nested deeper only where they refer to themselves.
const DEEPEST: usize = 24;

/// Texts that patterns of Kubernetes' kinds ask for: names, versions, addresses, quantities, times.
const TEXTS: [&str; 12] = [
    "stepgate-probe",
    "v1.0.0",
    "1.0.0",
    "192.0.2.1",
    "192.0.2.0/24",
    "probe.stepgate.invalid",
    "https://probe.stepgate.invalid",
    "1h0m0s",
    "1Gi",
    "1",
    "stepgate.dev/probe",
    "02:00:00:00:00:01",
];

/// What a definition's schema for `version` asks for at least, without type and metadata; none where it has no such version.
pub(super) fn specimen(definition: &Value, version: &str) -> Option<Map<String, Value>> {
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    let known = versions.iter().find(|known| known.get("name").and_then(Value::as_str) == Some(version))?;
    let schema = known.pointer("/schema/openAPIV3Schema")?;
    let mut object = Map::new();
    // A specification is asked for by webhooks even where the schema lets it be left out.
    for name in required(schema).chain(["spec"]).filter(|name| !["apiVersion", "kind", "metadata"].contains(name)) {
        if let Some(property) = schema.pointer("/properties").and_then(|properties| properties.get(name)) {
            object.insert(name.to_owned(), value(property, 0));
        }
    }
    Some(object)
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn value(schema: &Value, depth: usize) -> Value {
    if let Some(given) = schema.get("default").or_else(|| schema.pointer("/enum/0")) {
        return given.clone();
    }
    let at_least = |key: &str| schema.get(key).and_then(Value::as_u64).unwrap_or_default();
    match schema.get("type").and_then(Value::as_str) {
        _ if depth > DEEPEST => Value::Null,
        Some("object") => object(schema, at_least("minProperties"), depth),
        Some("array") => {
            let item = schema.get("items").map_or(Value::Null, |items| value(items, depth + 1));
            let count = usize::try_from(at_least("minItems").min(8)).unwrap_or_default();
            Value::Array(vec![item; count])
        }
        Some("string") => json!(text(schema)),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(false),
        // A number or a text, or anything at all.
        _ => json!(1),
    }
}

fn object(schema: &Value, fewest: u64, depth: usize) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let property = |name: &str| properties.and_then(|properties| properties.get(name));
    let mut object = Map::new();
    for name in required(schema) {
        object.insert(name.to_owned(), property(name).map_or(Value::Null, |schema| value(schema, depth + 1)));
    }
    let mut others = properties.into_iter().flatten().filter(|(name, _)| !required(schema).any(|known| known == *name));
    while u64::try_from(object.len()).unwrap_or(u64::MAX) < fewest {
        let Some((name, schema)) = others.next() else { break };
        object.insert(name.clone(), value(schema, depth + 1));
    }
    if let (true, Some(schema)) = (object.is_empty() && fewest > 0, schema.get("additionalProperties")) {
        object.insert("stepgate-probe".to_owned(), value(schema, depth + 1));
    }
    Value::Object(object)
}

/// The first text that fits; where none does, one that is long enough.
fn text(schema: &Value) -> String {
    let number = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    let (shortest, longest) = (number("minLength").unwrap_or_default(), number("maxLength").unwrap_or(usize::MAX));
    let pattern = schema.get("pattern").and_then(Value::as_str).and_then(|pattern| Regex::new(pattern).ok());
    let by_format = match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => Some("2026-01-01T00:00:00Z"),
        Some("duration") => Some("1h0m0s"),
        Some("byte") => Some("cHJvYmU="),
        _ => None,
    };
    let fits = |text: &&str| {
        (shortest..=longest).contains(&text.len()) && pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
    };
    let found = by_format.into_iter().chain(TEXTS).find(fits);
    found.map_or_else(|| "a".repeat(shortest.clamp(1, 256)), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &Value, expected: Value) {
        let definition = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
        assert_eq!(specimen(&definition, "v1").map(Value::Object), Some(expected));
        assert_eq!(specimen(&definition, "v2"), None);
    }

    #[test]
    fn what_is_required_is_there_and_fits() {
        let spec = json!({"type": "object", "required": ["name", "size", "on", "when", "parts", "mode", "port"], "properties": {
            "name": {"type": "string", "minLength": 1}, "size": {"type": "integer", "minimum": 3}, "on": {"type": "boolean"},
            "when": {"type": "string", "format": "date-time"}, "mode": {"type": "string", "enum": ["slow", "fast"]},
            "parts": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^v[0-9]+\\.[0-9]+\\.[0-9]+$"}},
            "port": {"x-kubernetes-int-or-string": true}, "left": {"type": "string"}}});
        check(
            &json!({"type": "object", "required": ["spec"], "properties": {"spec": spec}}),
            json!({"spec": {"name": "stepgate-probe", "size": 3, "on": false, "when": "2026-01-01T00:00:00Z", "mode": "slow",
                "parts": ["v1.0.0"], "port": 1}}),
        );
    }

    #[test]
    fn an_object_that_must_not_be_empty_is_filled_and_defaults_are_kept() {
        let inner =
            json!({"type": "object", "minProperties": 1, "properties": {"a": {"type": "string", "maxLength": 5}}});
        check(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["template", "kept"],
                "properties": {"template": inner, "kept": {"type": "integer", "default": 7}}}}}),
            json!({"spec": {"template": {"a": "1.0.0"}, "kept": 7}}),
        );
        check(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}}}),
            json!({"spec": {"stepgate-probe": "stepgate-probe"}}),
        );
        check(&json!({"type": "object"}), json!({}));
    }
}
