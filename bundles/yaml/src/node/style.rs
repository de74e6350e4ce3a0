//! How nodes were written, and what becomes of that where kustomize changes or prints them.

use super::{Node, Value};
use crate::resolve::{self, Scalar, resolve_v3};

/// How a scalar was written. A value that replaces it keeps the style, which can turn a number into
/// a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// Without quotes, or made here.
    #[default]
    Plain,
    /// In double quotes.
    Quoted,
    /// In single quotes.
    SingleQuoted,
    /// As a block that keeps its lines (`|`).
    Literal,
    /// As a block that joins its lines (`>`).
    Folded,
    /// A list or map in brackets or braces.
    Flow,
    /// A text made here without quotes and without a type: what is put in its place decides the type anew.
    Untyped,
    /// A text that kustomize has written itself: in quotes only if it needs them.
    Written,
    /// What does not fit the type that the place has. An object must not end with one.
    TypeMismatch,
}

/// What a schema comment belongs to. A patch passes on the comments of its values, not of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The key of the field.
    Key,
    /// Its value.
    Value,
}

impl Style {
    /// Returns the style of a scalar in these quotes.
    pub fn of_quote(quote: char) -> Self {
        if quote == '\'' { Self::SingleQuoted } else { Self::Quoted }
    }
}

impl Node {
    /// Returns the style.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Sets the style.
    pub fn set_style(&mut self, style: Style) {
        self.style = style;
    }

    /// Says whether this was written in quotes or as a block.
    pub(crate) fn is_quoted(&self) -> bool {
        matches!(self.style, Style::Quoted | Style::SingleQuoted | Style::Literal | Style::Folded)
    }

    /// Returns the value behind a string that was not read as one: a date, or a value put between
    /// existing quotes.
    pub fn hidden_type(&self) -> Option<Value> {
        let text = self.written.as_deref().filter(|_| self.as_str().is_some() && self.style != Style::TypeMismatch)?;
        let read = Self::plain_scalar(text);
        (read.as_str().is_none() || matches!(resolve_v3(text), Scalar::Timestamp(_))).then_some(read.value)
    }

    /// Takes the value and the written text of `new`; keeps the style.
    pub fn reveal_type(&mut self, new: Node) {
        (self.value, self.written) = (new.value, new.written);
    }

    /// Says whether the text alone, without quotes, has another type than text, and the node has that type.
    pub(crate) fn has_type_of_its_text(&self) -> bool {
        let text = self.scalar_text().unwrap_or_default();
        match (&self.value, resolve_v3(&text)) {
            (Value::String(_), Scalar::Timestamp(_)) => self.written.is_some(),
            (Value::Null, Scalar::Null)
            | (Value::Bool(_), Scalar::Bool(_))
            | (Value::Int(_) | Value::Uint(_), Scalar::Int(_) | Scalar::Uint(_))
            | (Value::Float(_), Scalar::Float(_)) => true,
            _ => false,
        }
    }

    /// Returns whether this is an omitted null (`key:`). kustomize quotes it in flow collections.
    pub fn is_left_out(&self) -> bool {
        self.is_null() && self.written.as_deref() == Some("")
    }

    /// Returns whether this is an unquoted timestamp with a time of day, which flow collections quote.
    pub fn is_time_of_day(&self) -> bool {
        let is_time = |text: &str| text.contains(':') && matches!(resolve_v3(text), Scalar::Timestamp(_));
        matches!(self.style, Style::Plain | Style::Untyped)
            && self.as_str().is_some()
            && self.written.as_deref().is_some_and(is_time)
    }

    /// Turns the scalar into the string it was written as.
    pub fn become_as_written(&mut self) {
        if let Some(written) = self.written.take() {
            self.value = Value::String((*written).into());
        }
    }

    /// Returns the text of a plain string: no date, no `!!binary`, no type mismatch.
    pub fn untyped_text(&self) -> Option<&str> {
        self.as_str().filter(|_| self.style != Style::TypeMismatch && self.written.is_none())
    }

    /// Drops the type of a plain scalar, so that its replacement decides the type.
    pub fn lose_type(&mut self) {
        if self.is_scalar() && self.style == Style::Plain {
            self.style = Style::Untyped;
        }
    }

    /// Quotes a string or untyped scalar that YAML 1.1 or 1.2 would read as another type.
    /// Dates stay dates.
    pub fn settle_type(&mut self) {
        let may_be_text = match self.style {
            Style::Untyped => self.is_scalar(),
            Style::Plain => self.untyped_text().is_some(),
            _ => false,
        };
        let text = if may_be_text { self.scalar_text() } else { None };
        let is_other =
            |text: &str| !text.is_empty() && !matches!(resolve::resolve_v2(text), Scalar::Text | Scalar::Timestamp(_));
        let Some(text) = text.filter(|text| is_other(text)) else {
            return;
        };
        let text = text.into_owned();
        self.set_plainly(Value::String(text.into()));
        self.style = Style::Quoted;
    }

    /// Takes over the block or flow style of `old`, which this replaces in a mapping.
    pub fn take_place_of(&mut self, old: &Node) {
        let was_empty = match &old.value {
            Value::Sequence(items) => items.is_empty(),
            Value::Mapping(mapping) => mapping.is_empty(),
            _ => false,
        };
        let is_plain = |style: Style| matches!(style, Style::Plain | Style::Flow);
        if !self.is_scalar() && !was_empty && is_plain(self.style) && is_plain(old.style) {
            self.style = old.style;
        }
    }

    /// Sets a plain value; keeps the group of shared scalars.
    pub fn set_plainly(&mut self, value: Value) {
        (self.value, self.written, self.style) = (value, None, Style::Plain);
    }

    /// Resets quoted and block scalars of the tree to the plain style.
    pub fn forget_quotes(&mut self) {
        match &mut self.value {
            Value::Sequence(items) => items.iter_mut().for_each(Node::forget_quotes),
            Value::Mapping(mapping) => mapping.iter_mut().for_each(|entry| entry.value.forget_quotes()),
            _ if matches!(self.style, Style::Quoted | Style::SingleQuoted | Style::Literal | Style::Folded) => {
                self.style = Style::Plain;
            }
            _ => {}
        }
    }

    /// Drops the written text of all scalars in the tree.
    pub fn forget_writing(&mut self) {
        self.written = None;
        match &mut self.value {
            Value::Sequence(items) if items.iter().any(Node::holds_writing) => {
                items.iter_mut().for_each(Node::forget_writing);
            }
            Value::Mapping(mapping) if mapping.iter().any(|entry| entry.value.holds_writing()) => {
                mapping.iter_mut().for_each(|entry| entry.value.forget_writing());
            }
            _ => {}
        }
    }

    /// Says whether [`forget_writing`](Self::forget_writing) changes anything.
    fn holds_writing(&self) -> bool {
        self.written.is_some()
            || match &self.value {
                Value::Sequence(items) => items.iter().any(Node::holds_writing),
                Value::Mapping(mapping) => mapping.iter().any(|entry| entry.value.holds_writing()),
                _ => false,
            }
    }

    /// Returns whether this is an empty value in a flow mapping: null during a build, the empty
    /// string at its end.
    pub fn is_flow_null(&self) -> bool {
        matches!(&self.value, Value::String(text) if text.is_empty()) && self.written.is_some()
    }

    /// Returns whether this is a block scalar that begins with a tab.
    pub fn begins_with_a_tab(&self) -> bool {
        matches!(self.style, Style::Literal | Style::Folded)
            && matches!(&self.value, Value::String(text) if text.starts_with('\t'))
    }

    /// Returns whether the written text differs from the value.
    pub fn is_rewritten(&self) -> bool {
        self.written.is_some()
    }

    /// Returns the schema in the comment of a list or mapping.
    pub fn remark(&self) -> Option<(Holder, &str)> {
        let text = self.written.as_deref().filter(|_| !self.is_scalar())?;
        let value = text.strip_prefix(VALUE_REMARK).map(|text| (Holder::Value, text));
        value.or_else(|| text.strip_prefix(KEY_REMARK).map(|text| (Holder::Key, text)))
    }

    /// Sets the schema in the comment of a list or map.
    pub fn set_remark(&mut self, holder: Holder, text: &str) {
        let mark = if holder == Holder::Value { VALUE_REMARK } else { KEY_REMARK };
        self.written = Some(format!("{mark}{text}").into());
    }

    /// Drops the schema in the comment of a list or map.
    pub fn drop_remark(&mut self) {
        if self.remark().is_some() {
            self.written = None;
        }
    }

    /// Drops a schema comment that belongs to the key.
    pub fn drop_key_remark(&mut self) {
        if matches!(self.remark(), Some((Holder::Key, _))) {
            self.written = None;
        }
    }

    /// Returns the group of scalars that share one value, 0 for none.
    pub fn shared(&self) -> u32 {
        self.shared
    }

    /// Sets the group of scalars that share one value.
    pub fn set_shared(&mut self, number: u32) {
        self.shared = number;
    }

    /// Sets the text of a scalar as written.
    pub fn set_written(&mut self, text: &str) {
        self.written = Some(text.into());
    }
}

const KEY_REMARK: char = 'k';
const VALUE_REMARK: char = 'v';
