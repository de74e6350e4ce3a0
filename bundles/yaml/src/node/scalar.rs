//! The node of a scalar.

use std::borrow::Cow;

use super::{Node, Span, Value};
use crate::resolve::{Scalar, resolve_v3};

impl Node {
    /// Returns the plain scalar `text`, typed by go-yaml v3's rules.
    pub fn plain_scalar(text: &str) -> Self {
        scalar_value(resolve_v3(text), Cow::Borrowed(text), Span::default())
    }
}

/// The node of a scalar whose meaning is known.
pub(crate) fn scalar_value(scalar: Scalar, text: Cow<'_, str>, span: Span) -> Node {
    let value = match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => Value::Bool(value),
        Scalar::Int(number) => Value::Int(number),
        Scalar::Uint(number) => Value::Uint(number),
        Scalar::Float(number) => Value::Float(number),
        Scalar::Timestamp(time) => Value::String(time.into()),
        Scalar::Merge | Scalar::Text => return Node::with_span(Value::String(text.into()), span),
    };
    let mut node = Node::with_span(value, span);
    if node.scalar_text().is_some_and(|canonical| canonical != text) {
        node.set_written(&text);
    }
    node
}
