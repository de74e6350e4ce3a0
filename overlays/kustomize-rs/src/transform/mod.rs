//! What a kustomization does to its objects; one file per transformer.

pub(crate) mod annotations;
pub(crate) mod field;
mod image_places;
pub(crate) mod images;
pub(crate) mod labels;
pub(crate) mod names;
pub(crate) mod namespace;
pub(crate) mod order;
pub(crate) mod patches;
pub(crate) mod path;
pub(crate) mod replacements;
pub(crate) mod replicas;
pub(crate) mod structured;
mod targets;
pub(crate) mod value_add;
pub(crate) mod variables;

use crate::yaml::{Node, Scalar, Value, resolve_v3};

/// A scalar of `text` without a type: what it says decides.
pub(crate) fn plain_scalar(text: &str) -> Node {
    let value = match resolve_v3(text) {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => Value::Bool(value),
        Scalar::Int(number) => Value::Int(number),
        Scalar::Uint(number) => Value::Uint(number),
        Scalar::Float(number) => Value::Float(number),
        Scalar::Timestamp(time) => Value::String(time.into()),
        Scalar::Merge | Scalar::Text => return Node::from(text),
    };
    let mut node = Node::new(value);
    if node.scalar_text().is_some_and(|canonical| canonical != text) {
        node.set_written(text);
    }
    node
}
