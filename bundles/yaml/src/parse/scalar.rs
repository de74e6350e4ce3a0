//! What one scalar means, by its text, style and tag.

use std::borrow::Cow;

use base64::Engine;
use granit_parser::{ScalarStyle, Tag};

use super::frame::{Builder, Key, error_at};
use crate::error::{YamlError, YamlErrorKind};
use crate::node::{Node, Span, Style, Value, scalar_value};
use crate::number::float_text;
use crate::resolve::{Scalar, resolve_with};
use crate::rules::Rules;

impl Builder<'_> {
    /// The event parser reads more than go-yaml: surrogate pairs and escaped slashes as JSON has them, and breaks of
    /// YAML 1.1 as text.
    pub(super) fn refuse_what_libyaml_refuses(
        &self,
        text: &str,
        style: ScalarStyle,
        span: Span,
    ) -> Result<(), YamlError> {
        if style == ScalarStyle::DoubleQuoted && self.rules != Rules::Json && text.contains('/') {
            self.refuse_escaped_slash(span)?;
        }
        if text.is_ascii() {
            return Ok(());
        }
        let fail = |message: &str| Err(error_at(YamlErrorKind::Syntax, message, span));
        if style == ScalarStyle::Plain && text.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
            return fail("a line break of YAML 1.1 inside of unquoted text");
        }
        if style == ScalarStyle::DoubleQuoted && text.chars().any(|character| character > '\u{FFFF}') {
            let source = self.source.get(span.range()).unwrap_or_default();
            let mut escapes = source.match_indices("\\u").filter_map(|(at, _)| source.get(at + 2..at + 6));
            if escapes.any(|digits| {
                digits.starts_with(['d', 'D']) && u16::from_str_radix(digits, 16).is_ok_and(|code| code >= 0xD800)
            }) {
                return fail("an escape of half a character; write \\U and eight digits");
            }
        }
        Ok(())
    }

    fn refuse_escaped_slash(&self, span: Span) -> Result<(), YamlError> {
        let source = self.source.get(span.range()).unwrap_or_default();
        let Some(before) = escaped_slash(source).and_then(|at| source.get(..at)) else {
            return Ok(());
        };
        let (line, column) = match before.rsplit_once('\n') {
            None => (span.line(), span.column() + before.chars().count()),
            Some((lines, last)) => (span.line() + lines.matches('\n').count() + 1, last.chars().count() + 1),
        };
        let message = "`\\/` is not a valid escape in double quotes; write `/`";
        Err(YamlError::new(YamlErrorKind::Syntax, message, line, column))
    }

    /// A block scalar that ends the text in the middle of a line has no break at its end; the event parser adds one.
    pub(super) fn unended_block<'t>(&self, text: Cow<'t, str>, style: ScalarStyle, span: Span) -> Cow<'t, str> {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let last = self.source.rsplit('\n').next().unwrap_or_default();
        if !is_block || last.trim().is_empty() || span.end() + last.len() < self.source.len() {
            return text;
        }
        let ends_here = text.ends_with('\n') && text.trim_end_matches('\n').ends_with(last.trim_start());
        match ends_here {
            true => Cow::Owned(text.strip_suffix('\n').unwrap_or(&text).to_owned()),
            false => text,
        }
    }

    pub(super) fn scalar_node(
        &self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<Node, YamlError> {
        let scalar = match tag {
            None if style == ScalarStyle::Plain => self.resolve(&text),
            None => Scalar::Text,
            Some(tag) => {
                let binary = tag.handle() == "tag:yaml.org,2002:" && tag.suffix() == "binary";
                if binary {
                    let mut node = Node::with_span(Value::String(decode_binary(&text, span)?.into()), span);
                    node.set_written(&text);
                    return Ok(node);
                }
                match self.resolve_tagged(&text, style, tag, span) {
                    // kustomize finds this out when it prints the object, if it is still there.
                    Err(error) if self.rules.is_of_manifests() && error.kind == YamlErrorKind::Value => {
                        let mut node = Node::with_span(Value::String(text.into()), span);
                        node.set_style(Style::TypeMismatch);
                        return Ok(node);
                    }
                    result => result?,
                }
            }
        };
        let empty_in_braces = scalar == Scalar::Text && text.is_empty() && style == ScalarStyle::Plain && tag.is_none();
        let mut node = scalar_value(scalar, text, span);
        node.set_style(match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted => Style::SingleQuoted,
            ScalarStyle::DoubleQuoted => Style::Quoted,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
        });
        if empty_in_braces {
            node.set_written("");
        }
        Ok(node)
    }

    fn resolve(&self, text: &str) -> Scalar {
        match self.rules {
            Rules::Manifest | Rules::Values if text.is_empty() && self.in_flow_mapping() => Scalar::Text,
            rules => resolve_with(text, rules),
        }
    }

    /// A scalar with an explicit tag: the core types must fit, every other tag means text.
    fn resolve_tagged(&self, text: &str, style: ScalarStyle, tag: &Tag, span: Span) -> Result<Scalar, YamlError> {
        if tag.handle() == "!" && tag.suffix().is_empty() || tag.handle().is_empty() && tag.suffix() == "!" {
            // The non-specific tag changes nothing in go-yaml v3; in v2 it means text.
            let plain = style == ScalarStyle::Plain && self.rules != Rules::V2;
            return Ok(if plain { self.resolve(text) } else { Scalar::Text });
        }
        let Some(name) = tag.core_suffix().or_else(|| timestamp_tag(tag)) else {
            return Ok(Scalar::Text);
        };
        let found = self.resolve(text);
        let fits = match (name, &found) {
            ("str", _) => return Ok(Scalar::Text),
            ("float", Scalar::Int(number)) => {
                #[allow(clippy::cast_precision_loss, reason = "what the tag asks for")]
                return Ok(Scalar::Float(*number as f64));
            }
            ("null", Scalar::Null)
            | ("bool", Scalar::Bool(_))
            | ("int", Scalar::Int(_) | Scalar::Uint(_))
            | ("float", Scalar::Float(_))
            | ("timestamp", Scalar::Timestamp(_)) => true,
            _ => false,
        };
        if fits {
            return Ok(found);
        }
        Err(error_at(YamlErrorKind::Value, format!("`{text}` is not a valid value of the tag !!{name}"), span))
    }

    pub(super) fn scalar_key(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<Key, YamlError> {
        if style == ScalarStyle::Plain && tag.is_none() && text == "<<" {
            return Ok(Key::Merge(span));
        }
        let node = self.scalar_node(Cow::Borrowed(text), style, tag, span)?;
        let is_text = node.as_str().is_some() && node.hidden_type().is_none();
        if self.rules == Rules::Values && !is_text {
            return Ok(Key::TypeMismatch(text.into(), span));
        }
        let key = match node.value {
            Value::String(text) => text,
            Value::Int(number) => number.to_string().into(),
            Value::Uint(number) if self.rules != Rules::V2 => number.to_string().into(),
            Value::Bool(value) if self.rules == Rules::V2 => value.to_string().into(),
            Value::Float(number) if self.rules == Rules::V2 => float_text(number).into(),
            // kustomize finds this out when it prints the object, if it is still there.
            Value::Bool(_) | Value::Null | Value::Float(_) if self.rules.is_of_manifests() => {
                return Ok(Key::TypeMismatch(text.into(), span));
            }
            _ => {
                let message = format!("the key `{text}` is not text; put it in quotes");
                return Err(error_at(YamlErrorKind::KeyType, message, span));
            }
        };
        Ok(Key::Text(key, span))
    }
}

/// Finds `\/` in a text in double quotes: YAML 1.2 took it from JSON, go-yaml has the escapes of YAML 1.1.
pub(crate) fn escaped_slash(source: &str) -> Option<usize> {
    let mut bytes = source.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if byte == b'\\' && matches!(bytes.next(), Some((_, b'/'))) {
            return Some(at);
        }
    }
    None
}

fn timestamp_tag(tag: &Tag) -> Option<&'static str> {
    (tag.handle() == "tag:yaml.org,2002:" && tag.suffix() == "timestamp").then_some("timestamp")
}

fn decode_binary(text: &str, span: Span) -> Result<String, YamlError> {
    let compact: String = text.chars().filter(|character| !matches!(character, '\n' | '\r')).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(compact)
        .map_err(|error| error_at(YamlErrorKind::Value, format!("!!binary is not valid base64: {error}"), span))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}
