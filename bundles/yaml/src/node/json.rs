//! What a way through Go's JSON makes of a tree.

use super::{Node, Span, Style, Value};
use crate::resolve::{self, Scalar};

impl Node {
    /// Applies a round trip through Go's JSON: styles are lost, large integers become floats.
    #[allow(clippy::cast_precision_loss, reason = "that is what is lost")]
    pub fn through_json(&mut self) {
        const EXACT: i64 = 1 << 53;
        self.written = None;
        self.shared = 0;
        self.style = match self.style {
            Style::Plain | Style::Untyped if self.as_str().is_some_and(is_quoted_anew) => Style::Written,
            Style::Plain | Style::Flow | Style::TypeMismatch | Style::Untyped => Style::Plain,
            Style::Quoted | Style::SingleQuoted | Style::Literal | Style::Folded | Style::Written => Style::Written,
        };
        match &mut self.value {
            Value::Sequence(items) if items.iter().any(|item| item.changes_in_json(EXACT)) => {
                items.iter_mut().for_each(Node::through_json);
            }
            Value::Mapping(mapping) if mapping.iter().any(|entry| entry.value.changes_in_json(EXACT)) => {
                mapping.iter_mut().for_each(|entry| entry.value.through_json());
            }
            Value::Int(number) if !(-EXACT..=EXACT).contains(number) => self.value = Value::Float(*number as f64),
            Value::Uint(number) => self.value = Value::Float(*number as f64),
            // Written as `-0`, which is an integer.
            Value::Float(number) if is_negative_zero(*number) => {
                self.value = Value::Int(0);
                self.written = Some("-0".into());
            }
            _ => {}
        }
    }

    /// Says whether a way through JSON changes anything here. Lists and mappings in which nothing changes stay shared.
    fn changes_in_json(&self, exact: i64) -> bool {
        self.written.is_some()
            || !matches!(self.style, Style::Plain | Style::Written)
            || self.shared != 0
            || match &self.value {
                Value::Sequence(items) => items.iter().any(|item| item.changes_in_json(exact)),
                Value::Mapping(mapping) => mapping.iter().any(|entry| entry.value.changes_in_json(exact)),
                Value::Int(number) => !(-exact..=exact).contains(number),
                Value::Uint(_) => true,
                Value::Float(number) => is_negative_zero(*number),
                Value::String(text) => self.style == Style::Plain && is_quoted_anew(text),
                _ => false,
            }
    }

    /// Finds a number that JSON cannot represent.
    pub fn find_infinite(&self) -> Option<Span> {
        match &self.value {
            Value::Float(number) if !number.is_finite() => Some(self.span),
            Value::Sequence(items) => items.iter().find_map(Node::find_infinite),
            Value::Mapping(mapping) => mapping.iter().find_map(|entry| entry.value.find_infinite()),
            _ => None,
        }
    }

    /// Sets the styles that a tree read from JSON has: quoted strings, flow collections.
    pub fn as_from_json(&mut self) {
        self.written = None;
        self.shared = 0;
        self.style = match &mut self.value {
            Value::Sequence(items) => {
                items.iter_mut().for_each(Node::as_from_json);
                Style::Flow
            }
            Value::Mapping(mapping) => {
                mapping.iter_mut().for_each(|entry| entry.value.as_from_json());
                Style::Flow
            }
            Value::String(_) => Style::Quoted,
            _ => Style::Plain,
        };
    }
}

fn is_negative_zero(number: f64) -> bool {
    number.to_bits() == (-0.0_f64).to_bits()
}

/// Says whether go-yaml v3 writes a text that stood there without quotes in quotes, or as a block.
fn is_quoted_anew(text: &str) -> bool {
    // It does not count characters beyond the basic plane as printable.
    let is_escaped = |character: char| character > '\u{FFFF}' || character == '\u{FEFF}';
    text.contains(|character| character == '\n' || is_escaped(character))
        || resolve::resolve_v2(text) != Scalar::Text
        || resolve::is_base60(text)
}
