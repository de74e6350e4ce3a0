//! The hash in the names of generated objects.

use sha2::{Digest, Sha256};
use yaml::json::to_json;
use yaml::{Mapping, Node, Value};

use crate::error::BuildError;
use crate::object::round_trip::write_and_read;

/// Returns the hash of a ConfigMap or Secret.
pub(crate) fn of(object: &Node) -> Result<String, BuildError> {
    let kind = object.get("kind").and_then(Node::as_str).unwrap_or_default();
    let mut content = Mapping::new();
    let extra = match kind {
        "ConfigMap" => "binaryData",
        "Secret" => {
            content.insert("type", value(object.get("type"))?);
            "stringData"
        }
        _ => {
            let message = format!("the hash of a {kind} is not defined here");
            return Err(BuildError::new(crate::error::BuildErrorKind::Unsupported, message));
        }
    };
    content.insert("kind", kind);
    // kustomize looks for a field called `metadata/name`, which is never there.
    content.insert("name", "");
    content.insert("data", value(object.get("data"))?);
    if let Some(map) = object.get(extra).filter(|node| node.as_mapping().is_some()) {
        content.insert(extra, read_back(map)?);
    }
    let digest = Sha256::digest(to_json(&Node::from(content)).as_bytes());
    let hex: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    Ok(hex.chars().map(pronounceable).collect())
}

/// A map or list as kustomize has it for the hash: written out and read again, its numbers as JSON has them.
fn read_back(node: &Node) -> Result<Node, BuildError> {
    let mut node = node.clone();
    write_and_read(&mut node)?;
    lose_precision(&mut node);
    Ok(node)
}

/// Go reads every number of JSON as a float.
#[allow(clippy::cast_precision_loss, reason = "that is what is lost")]
fn lose_precision(node: &mut Node) {
    const EXACT: u64 = 1 << 53;
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().for_each(lose_precision),
        // A map of texts stays shared.
        Value::Mapping(map) if map.iter().any(|entry| entry.value.as_str().is_none()) => {
            map.iter_mut().for_each(|entry| lose_precision(&mut entry.value));
        }
        Value::Int(number) if number.unsigned_abs() > EXACT => node.value = Value::Float(*number as f64),
        Value::Uint(number) => node.value = Value::Float(*number as f64),
        _ => {}
    }
}

/// What stands in the content: a missing field is an empty text, a scalar is its text.
fn value(node: Option<&Node>) -> Result<Node, BuildError> {
    let Some(node) = node else { return Ok(Node::from("")) };
    match &node.value {
        Value::Mapping(_) | Value::Sequence(_) => read_back(node),
        Value::Null => Ok(Node::from("")),
        _ => Ok(Node::from(node.scalar_text().unwrap_or_default().into_owned())),
    }
}

/// Kubernetes avoids digits and letters that make words.
fn pronounceable(digit: char) -> char {
    match digit {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    }
}
