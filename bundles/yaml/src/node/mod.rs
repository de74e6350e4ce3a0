//! The typed tree that everything else works on.

mod json;
mod mapping;
mod scalar;
mod sequence;
mod span;
mod style;
mod written;

use crate::text::Text;

pub use mapping::{Entry, Mapping};
pub(crate) use scalar::scalar_value;
pub use sequence::Sequence;
pub use span::Span;
pub use style::{Holder, Style};
use written::Written;

/// A value with its place in the source. Two nodes are equal if their values are.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its place in the source, with quotes, without tag and anchor.
    pub span: Span,
    /// The scalar as written, kept only where the value does not show it (`1.30`, `0x1F`, a date). Of a list or map,
    /// the schema in its comment, behind a mark for its holder.
    pub(crate) written: Option<Written>,
    pub(crate) style: Style,
    /// Scalars of one object with the same number here, if it is not 0, are one scalar in several places.
    pub(crate) shared: u32,
}

/// The value of a node, decided by go-yaml v3's reading rules.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// `null`, `~` or nothing.
    #[default]
    Null,
    /// `true` or `false`; never `yes` or `on`.
    Bool(bool),
    /// Any integer that fits 64 bits with sign.
    Int(i64),
    /// A larger one that fits 64 bits without.
    Uint(u64),
    /// Every other number.
    Float(f64),
    /// Text.
    String(Text),
    /// A list.
    Sequence(Sequence),
    /// A map with text keys.
    Mapping(Mapping),
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        Self::new(value)
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::new(Value::String(text.into()))
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::new(Value::String(text.into()))
    }
}

impl From<Text> for Node {
    fn from(text: Text) -> Self {
        Self::new(Value::String(text))
    }
}

impl From<Mapping> for Node {
    fn from(mapping: Mapping) -> Self {
        Self::new(Value::Mapping(mapping))
    }
}

impl From<Vec<Node>> for Node {
    fn from(items: Vec<Node>) -> Self {
        Self::new(Value::Sequence(items.into()))
    }
}

impl Node {
    /// Returns a node without source.
    pub fn new(value: Value) -> Self {
        Self::with_span(value, Span::default())
    }

    /// Returns a node at `span`.
    pub fn with_span(value: Value, span: Span) -> Self {
        Self { value, span, written: None, style: Style::Plain, shared: 0 }
    }

    /// Returns the value at `key` of a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_mapping()?.get(key)
    }

    /// Returns the value at `key` of a mapping, for mutation.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.as_mapping_mut()?.get_mut(key)
    }

    /// Follows `path` through mappings.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Follows a path of entry and item indices.
    pub fn at_indices(&self, indices: &[usize]) -> Option<&Node> {
        indices.iter().try_fold(self, |node, index| match &node.value {
            Value::Sequence(items) => items.get(*index),
            Value::Mapping(mapping) => mapping.iter().nth(*index).map(|entry| &entry.value),
            _ => None,
        })
    }

    /// Follows a path of entry and item indices, for mutation.
    pub fn at_indices_mut(&mut self, indices: &[usize]) -> Option<&mut Node> {
        indices.iter().try_fold(self, |node, index| match &mut node.value {
            Value::Sequence(items) => items.get_mut(*index),
            Value::Mapping(mapping) => mapping.iter_mut().nth(*index).map(|entry| &mut entry.value),
            _ => None,
        })
    }

    /// Returns the text of a string; `None` for every other value, numbers included.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.value {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }

    /// Returns a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the items of a list.
    pub fn as_sequence(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the items of a list, for mutation.
    pub fn as_sequence_mut(&mut self) -> Option<&mut Vec<Node>> {
        match &mut self.value {
            Value::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the mapping.
    pub fn as_mapping(&self) -> Option<&Mapping> {
        match &self.value {
            Value::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// Returns the mapping, for mutation.
    pub fn as_mapping_mut(&mut self) -> Option<&mut Mapping> {
        match &mut self.value {
            Value::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// Returns whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// Returns whether the value is neither list nor mapping.
    pub fn is_scalar(&self) -> bool {
        !matches!(self.value, Value::Sequence(_) | Value::Mapping(_))
    }

    /// Returns the raw source slice of a scalar, `1.30` for an unquoted version; empty if `source` is another text.
    pub fn text<'a>(&self, source: &'a str) -> &'a str {
        source.get(self.span.range()).unwrap_or_default()
    }

    /// Returns a scalar as written, without quotes: what kustomize works on where it treats a value as text.
    /// `None` for lists and mappings.
    pub fn scalar_text(&self) -> Option<std::borrow::Cow<'_, str>> {
        use std::borrow::Cow;
        if let (true, Some(written)) = (self.is_scalar(), &self.written) {
            return Some(Cow::Borrowed(written));
        }
        Some(match &self.value {
            Value::Null => Cow::Borrowed("null"),
            Value::Bool(true) => Cow::Borrowed("true"),
            Value::Bool(false) => Cow::Borrowed("false"),
            Value::Int(number) => Cow::Owned(number.to_string()),
            Value::Uint(number) => Cow::Owned(number.to_string()),
            Value::Float(number) => Cow::Owned(super::float_text(*number)),
            Value::String(text) => Cow::Borrowed(text),
            Value::Sequence(_) | Value::Mapping(_) => return None,
        })
    }

    /// Estimates the memory of the tree in bytes.
    pub fn size(&self) -> usize {
        self.weight().1
    }

    /// Returns [`count`](Self::count) and [`size`](Self::size) in one walk.
    pub fn weight(&self) -> (usize, usize) {
        const NODE: usize = 128;
        let own = (1, NODE);
        let with = |(count, size), bytes: usize, below: &Node| {
            let (nodes, memory) = below.weight();
            (count + nodes, size + bytes + memory)
        };
        match &self.value {
            Value::String(text) => (1, NODE + text.len()),
            Value::Sequence(items) => items.iter().fold(own, |sum, item| with(sum, 0, item)),
            Value::Mapping(mapping) => mapping.iter().fold(own, |sum, entry| with(sum, entry.key.len(), &entry.value)),
            _ => own,
        }
    }

    /// Estimates the printed size in bytes, without quotes and escapes. Returns `None` if a node
    /// cannot be printed as it is: a folded scalar, a type mismatch, an omitted value, a time, an
    /// infinite number.
    pub fn ordinary_size(&self) -> Option<usize> {
        self.size_at(0, &|node| {
            let is_number = !matches!(node.value, Value::Float(number) if !number.is_finite());
            is_number
                && !matches!(node.style, Style::Folded | Style::TypeMismatch)
                && !node.is_left_out()
                && !node.is_time_of_day()
                && !node.begins_with_a_tab()
        })
    }

    /// Estimates the printed size in bytes of any tree, see [`ordinary_size`](Self::ordinary_size).
    pub fn printed_size(&self) -> usize {
        self.size_at(0, &|_| true).unwrap_or_default()
    }

    fn size_at(&self, indent: usize, is_ordinary: &impl Fn(&Node) -> bool) -> Option<usize> {
        if !is_ordinary(self) {
            return None;
        }
        let below = |node: &Node| node.size_at(indent + 2, is_ordinary);
        match &self.value {
            Value::String(text) => Some(text.len() + 1),
            Value::Sequence(items) => items.iter().map(|item| Some(indent + 2 + below(item)?)).sum(),
            Value::Mapping(mapping) => {
                mapping.iter().map(|entry| Some(indent + entry.key.len() + 2 + below(&entry.value)?)).sum()
            }
            _ => Some(2),
        }
    }

    /// Returns [`scalar_text`](Self::scalar_text) as an owned text; empty for lists and mappings.
    pub fn to_text(&self) -> Text {
        match (&self.written, &self.value) {
            (None, Value::String(text)) => text.clone(),
            _ => self.scalar_text().unwrap_or_default().into(),
        }
    }

    /// Returns the number of nodes in the tree, this one included; keys do not count.
    pub fn count(&self) -> usize {
        self.weight().0
    }
}
