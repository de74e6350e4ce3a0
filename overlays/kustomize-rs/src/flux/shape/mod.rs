//! How Flux reads a `kustomization.yaml` before it writes it anew: looser than kustomize.
//!
//! It decodes the file into kustomize's Go type and encodes that again. On the way numbers and booleans become text
//! where text is wanted, field names are found in any case, unknown fields are lost, and so is what is empty.

mod fields;

use crate::error::BuildError;

use fields::{Field, KUSTOMIZATION, Kept, Shape};
use yaml::{Entry, Mapping, Node, Text, Value, float_text};

/// What is lost on the way: a field that kustomize's type does not have.
pub(super) struct Lost {
    pub(super) name: Text,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Reads a kustomization as Flux does; `lost` takes the fields that are dropped.
pub(super) fn kustomization(root: &Node, lost: &mut Vec<Lost>) -> Result<Mapping, BuildError> {
    object(root, &KUSTOMIZATION, "", lost)
}

fn wrong(place: &str, expected: &str, node: &Node) -> BuildError {
    let mut error = BuildError::syntax(format!("`{place}` must be {expected}"));
    (error.line, error.column) = (node.span.line(), node.span.column());
    error
}

fn convert(node: &Node, shape: &Shape, place: &str, lost: &mut Vec<Lost>) -> Result<Node, BuildError> {
    let value = match (shape, &node.value) {
        (Shape::Any, _) => return Ok(node.clone()),
        (Shape::Text, value) => Value::String(as_text(value).ok_or_else(|| wrong(place, "a text", node))?),
        (Shape::Flag, Value::Null) => Value::Bool(false),
        (Shape::Flag, Value::Bool(flag)) => Value::Bool(*flag),
        (Shape::Flag, _) => return Err(wrong(place, "true or false", node)),
        (Shape::Integer, Value::Null) => Value::Int(0),
        (Shape::Integer, Value::Int(number)) => Value::Int(*number),
        #[allow(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        (Shape::Integer, Value::Float(number)) if number.fract() == 0.0 && number.abs() < 1e15 => {
            Value::Int(*number as i64)
        }
        (Shape::Integer, _) => return Err(wrong(place, "an integer", node)),
        (Shape::Texts | Shape::Objects(_), Value::Null) => Value::Sequence(Vec::new().into()),
        (Shape::Texts, Value::Sequence(items)) => Value::Sequence(each(items, &Shape::Text, place, lost)?.into()),
        (Shape::Objects(fields), Value::Sequence(items)) => {
            Value::Sequence(each(items, &Shape::Object(fields), place, lost)?.into())
        }
        (Shape::Texts | Shape::Objects(_), _) => return Err(wrong(place, "a list", node)),
        (Shape::TextMap, Value::Null) => Value::Mapping(Mapping::new()),
        (Shape::TextMap, Value::Mapping(mapping)) => {
            let mut entries = Vec::new();
            for entry in mapping {
                let value = convert(&entry.value, &Shape::Text, &format!("{place}.{}", entry.key), lost)?;
                entries.push(Entry { value, ..entry.clone() });
            }
            Value::Mapping(Mapping::from_entries(entries))
        }
        (Shape::TextMap, _) => return Err(wrong(place, "a map", node)),
        (Shape::Object(fields), _) => Value::Mapping(object(node, fields, place, lost)?),
    };
    Ok(Node::with_span(value, node.span))
}

fn each(items: &[Node], shape: &Shape, place: &str, lost: &mut Vec<Lost>) -> Result<Vec<Node>, BuildError> {
    let numbered = items.iter().enumerate();
    numbered.map(|(index, item)| convert(item, shape, &format!("{place}[{index}]"), lost)).collect()
}

/// A scalar as text; numbers in single precision, as the Go library has it.
fn as_text(value: &Value) -> Option<Text> {
    Some(match value {
        Value::Null => Text::default(),
        Value::Bool(flag) => flag.to_string().into(),
        Value::Int(number) => number.to_string().into(),
        Value::Uint(number) => number.to_string().into(),
        #[allow(clippy::cast_possible_truncation, reason = "that is what is done")]
        Value::Float(number) => float_text((*number as f32).to_string().parse().unwrap_or(*number)).into(),
        Value::String(text) => text.clone(),
        Value::Sequence(_) | Value::Mapping(_) => return None,
    })
}

fn object(node: &Node, fields: &[Field], place: &str, lost: &mut Vec<Lost>) -> Result<Mapping, BuildError> {
    let empty = Mapping::new();
    let given = match &node.value {
        Value::Mapping(mapping) => mapping,
        Value::Null => &empty,
        _ if place.is_empty() => return Err(wrong("the kustomization", "a map", node)),
        _ => return Err(wrong(place, "a map", node)),
    };
    let known = |key: &str| fields.iter().any(|field| field.name.eq_ignore_ascii_case(key));
    for entry in given.iter().filter(|entry| !known(&entry.key)) {
        let (line, column) = (entry.key_span.line(), entry.key_span.column());
        lost.push(Lost { name: entry.key.clone(), line, column });
    }
    let mut entries = Vec::new();
    for field in fields {
        // Of several spellings the last one in the order of bytes counts, because JSON is written in that order.
        let spellings = given.iter().filter(|entry| entry.key.eq_ignore_ascii_case(field.name));
        let found = spellings.max_by(|a, b| a.key.cmp(&b.key));
        let place = if place.is_empty() { field.name.to_owned() } else { format!("{place}.{}", field.name) };
        let value = match found {
            Some(entry) if !entry.value.is_null() => convert(&entry.value, &field.shape, &place, lost)?,
            _ => match field.kept {
                Kept::Filled | Kept::Given => continue,
                Kept::OrNull => Node::default(),
                Kept::Always => convert(&Node::default(), &field.shape, &place, lost)?,
            },
        };
        if field.kept != Kept::Filled || !is_zero(&value) {
            let key_span = found.map(|entry| entry.key_span).unwrap_or_default();
            entries.push(Entry { key: field.name.into(), key_span, value });
        }
    }
    Ok(Mapping::from_entries(entries))
}

/// What Go leaves out where a field says `omitempty`.
fn is_zero(node: &Node) -> bool {
    match &node.value {
        Value::Null | Value::Bool(false) | Value::Int(0) => true,
        Value::String(text) => text.is_empty(),
        Value::Sequence(items) => items.is_empty(),
        Value::Mapping(mapping) => mapping.is_empty(),
        _ => false,
    }
}
