//! Compact JSON of a node.

use yaml::{Node, Value};

/// `node` as JSON without spaces, keys sorted: equal values give equal text.
pub(crate) fn compact(node: &Node) -> String {
    to_json(node).to_string()
}

/// `node` as a JSON value with sorted keys; numbers that JSON has not become text.
pub(crate) fn to_json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Uint(value) => (*value).into(),
        Value::Float(value) => serde_json::Number::from_f64(*value)
            .map_or_else(|| serde_json::Value::String(value.to_string()), serde_json::Value::Number),
        Value::String(text) => serde_json::Value::String(text.to_string()),
        Value::Sequence(items) => serde_json::Value::Array(items.iter().map(to_json).collect()),
        Value::Mapping(mapping) => {
            let mut entries: Vec<_> = mapping.iter().collect();
            entries.sort_by(|left, right| left.key.cmp(&right.key));
            serde_json::Value::Object(
                entries.into_iter().map(|entry| (entry.key.to_string(), to_json(&entry.value))).collect(),
            )
        }
    }
}
