//! Manifests as values.

use serde_json::{Map, Number, Value};
use yaml::Node;

/// A YAML document as the API server's JSON has it. A number that JSON cannot say becomes null.
pub(crate) fn from_yaml(node: &Node) -> Value {
    match &node.value {
        yaml::Value::Null => Value::Null,
        yaml::Value::Bool(value) => Value::Bool(*value),
        yaml::Value::Int(value) => Value::from(*value),
        yaml::Value::Uint(value) => Value::from(*value),
        yaml::Value::Float(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        yaml::Value::String(value) => Value::String(value.to_string()),
        yaml::Value::Sequence(items) => Value::Array(items.iter().map(from_yaml).collect()),
        yaml::Value::Mapping(mapping) => Value::Object(
            mapping.iter().map(|entry| (entry.key.to_string(), from_yaml(&entry.value))).collect::<Map<_, _>>(),
        ),
    }
}
