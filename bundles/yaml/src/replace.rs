//! Values that take the place of others, written as kustomize writes them there.

use crate::emit::emit;
use crate::limits::Limits;
use crate::node::{Node, Span, Style, Value};
use crate::parse::parse_with;
use crate::resolve::{Scalar, resolve_v2};
use crate::rules::Rules;
use crate::text::Text;

impl Node {
    /// Returns a string as kustomize creates one: quoted if YAML 1.1 reads it as another type.
    pub fn made(text: impl Into<Text>) -> Self {
        let text = text.into();
        let style = if is_other_without_quotes(&text) { Style::Quoted } else { Style::Plain };
        Self { style, ..Self::from(text) }
    }

    /// Replaces the value as kustomize does: the old style stays, so a number that replaces a quoted
    /// string becomes a string.
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

    /// Replaces the value with the plain scalar `text`.
    pub fn replace_plainly(&mut self, text: &str) {
        self.replace_value(Self::plain_scalar(text));
        self.span = Span::default();
        if self.style == Style::Plain {
            self.style = Style::Untyped;
        }
    }
}

/// Returns whether go-yaml v2 reads an unquoted `text` as anything but this string.
pub fn is_other_without_quotes(text: &str) -> bool {
    if text.is_empty() || text.contains('\n') {
        return false;
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(is_word) {
        return !matches!(resolve_v2(text), Scalar::Text | Scalar::Timestamp(_));
    }
    let read = parse_with(text, &Limits::default(), Rules::V2);
    read.is_ok_and(|documents| documents.first().is_none_or(|document| document.root.as_str().is_none()))
}
