//! How nodes were written, and what becomes of that where kustomize changes or prints them.

use super::super::{Holder, Limits, Rules, Scalar, emit, parse_with, resolve, resolve_v3};
use super::{Node, Span, Text, Value};

/// How a text was written. The next value of a field is written in the same way, which can make a number a text.
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

impl Style {
    /// Of a text between these quotes.
    pub fn of_quote(quote: char) -> Self {
        if quote == '\'' { Self::SingleQuoted } else { Self::Quoted }
    }
}

impl Node {
    /// A scalar of `text` without a type: what it says decides.
    pub fn plain_scalar(text: &str) -> Self {
        let value = match resolve_v3(text) {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(number) => Value::Int(number),
            Scalar::Uint(number) => Value::Uint(number),
            Scalar::Float(number) => Value::Float(number),
            Scalar::Timestamp(time) => Value::String(time.into()),
            Scalar::Merge | Scalar::Text => return Self::from(text),
        };
        let mut node = Self::new(value);
        if node.scalar_text().is_some_and(|canonical| canonical != text) {
            node.set_written(text);
        }
        node
    }

    /// A text as kustomize makes one: in quotes if YAML 1.1 reads it as something else.
    pub fn made(text: impl Into<Text>) -> Self {
        let text = text.into();
        let style = if is_other_without_quotes(&text) { Style::Quoted } else { Style::Plain };
        Self { style, ..Self::from(text) }
    }

    /// Returns how this was written.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Sets how this is written.
    pub fn set_style(&mut self, style: Style) {
        self.style = style;
    }

    /// Says whether this was written in quotes or as a block.
    fn is_quoted(&self) -> bool {
        matches!(self.style, Style::Quoted | Style::SingleQuoted | Style::Literal | Style::Folded)
    }

    /// Takes over a value as kustomize does where there was one: how the old one was written stays, and a number that
    /// takes the place of a quoted text becomes text.
    pub fn replace_value(&mut self, new: Node) {
        let (style, shared, span) = (self.style, self.shared, self.span);
        let was_scalar = self.is_scalar();
        // A quoted number has a tag that says so.
        let had_tag = self.is_quoted() && self.as_str().is_none();
        let written_style = match self.as_str() {
            Some(text) if style == Style::Written && text.contains('\n') => Style::Literal,
            Some(_) if style == Style::Written && emit(self).starts_with(['"', '\'']) => Style::Quoted,
            _ => Style::Plain,
        };
        // What the quotes of the new one hide, a place without quotes shows.
        let shown = if style == Style::Plain && new.is_quoted() { new.hidden_type() } else { None };
        *self = new;
        if let Some(value) = shown {
            (self.value, self.style) = (value, Style::Untyped);
        }
        if !was_scalar || !self.is_scalar() {
            return;
        }
        let style = match style {
            _ if self.style == Style::TypeMismatch => Style::TypeMismatch,
            Style::Plain if self.style == Style::Untyped => Style::Untyped,
            Style::Untyped | Style::TypeMismatch => Style::Plain,
            Style::Written => written_style,
            style => style,
        };
        (self.style, self.shared, self.span) = (style, shared, span);
        if !matches!(style, Style::Plain | Style::Untyped) && !had_tag && self.has_type_of_its_text() {
            // The type is still there: see `hidden_type`.
            let text = self.scalar_text().unwrap_or_default().into_owned();
            self.value = Value::String(text.as_str().into());
            self.written = Some(text).filter(|text| !text.is_empty()).map(Into::into);
        }
    }

    /// Returns what a text was read as where that is no text: a date, or what was put between the quotes of its place.
    pub fn hidden_type(&self) -> Option<Value> {
        let text = self.written.as_deref().filter(|_| self.as_str().is_some() && self.style != Style::TypeMismatch)?;
        let read = Self::plain_scalar(text);
        (read.as_str().is_none() || matches!(resolve_v3(text), Scalar::Timestamp(_))).then_some(read.value)
    }

    /// Takes a value whose tag says what it is, whatever the quotes of the place.
    pub fn reveal_type(&mut self, new: Node) {
        (self.value, self.written) = (new.value, new.written);
    }

    /// Says whether the text alone, without quotes, has another type than text, and the node has that type.
    fn has_type_of_its_text(&self) -> bool {
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

    /// Says whether this is a null of which nothing is written. In braces and brackets it is given quotes.
    pub fn is_left_out(&self) -> bool {
        self.is_null() && self.written.as_deref() == Some("")
    }

    /// Says whether this is a time without quotes that is more than a date. In braces and brackets its colons need some.
    pub fn is_time_of_day(&self) -> bool {
        let is_time = |text: &str| text.contains(':') && matches!(resolve_v3(text), Scalar::Timestamp(_));
        matches!(self.style, Style::Plain | Style::Untyped)
            && self.as_str().is_some()
            && self.written.as_deref().is_some_and(is_time)
    }

    /// Becomes the text that it was written as.
    pub fn become_as_written(&mut self) {
        if let Some(written) = self.written.take() {
            self.value = Value::String((*written).into());
        }
    }

    /// Returns the text of a string that was not read as something else: no date, no `!!binary`, no type mismatch.
    pub fn untyped_text(&self) -> Option<&str> {
        self.as_str().filter(|_| self.style != Style::TypeMismatch && self.written.is_none())
    }

    /// Takes a text that has no type of its own: without quotes it is whatever it looks like.
    pub fn replace_plainly(&mut self, text: &str) {
        self.replace_value(Self::plain_scalar(text));
        self.span = Span::default();
        if self.style == Style::Plain {
            self.style = Style::Untyped;
        }
    }

    /// Loses the type of a scalar: what is put in its place decides the type anew.
    pub fn lose_type(&mut self) {
        if self.is_scalar() && self.style == Style::Plain {
            self.style = Style::Untyped;
        }
    }

    /// Gives quotes to a text, and to what has no type of its own, if YAML of either version reads it as something else
    /// without them. Dates stay what they are.
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

    /// Takes the place of `old` in a map: what stood there with or without brackets does so still.
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

    /// Takes a value that is written plainly, whatever was there; still one with the scalars it was one with.
    pub fn set_plainly(&mut self, value: Value) {
        (self.value, self.written, self.style) = (value, None, Style::Plain);
    }

    /// Forgets which texts were in quotes or blocks: what takes their place is written by its own type.
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

    /// Forgets how scalars were written.
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

    /// Says whether this is an empty value inside of braces: null while an object is worked on, an empty text in the
    /// end.
    pub fn is_flow_null(&self) -> bool {
        matches!(&self.value, Value::String(text) if text.is_empty()) && self.written.is_some()
    }

    /// Says whether this is a block of text that begins with a tab.
    pub fn begins_with_a_tab(&self) -> bool {
        matches!(self.style, Style::Literal | Style::Folded)
            && matches!(&self.value, Value::String(text) if text.starts_with('\t'))
    }

    /// Says whether the value does not show how it was written.
    pub fn is_rewritten(&self) -> bool {
        self.written.is_some()
    }

    /// The schema in the comment of a list or map.
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

    /// As the value of another key: the comment of its own stays behind.
    pub fn drop_key_remark(&mut self) {
        if matches!(self.remark(), Some((Holder::Key, _))) {
            self.written = None;
        }
    }

    /// Returns the number of the group of scalars that are one in several places, 0 for none.
    pub fn shared(&self) -> u32 {
        self.shared
    }

    /// Sets the number of the group of scalars that are one in several places.
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

/// Says whether go-yaml v2 reads a text without quotes as something else than this text.
pub fn is_other_without_quotes(text: &str) -> bool {
    if text.is_empty() || text.contains('\n') {
        return false;
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(is_word) {
        return !matches!(resolve::resolve_v2(text), Scalar::Text | Scalar::Timestamp(_));
    }
    let read = parse_with(text, &Limits::default(), Rules::V2);
    read.is_ok_and(|documents| documents.first().is_none_or(|document| document.root.as_str().is_none()))
}
