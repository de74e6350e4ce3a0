//! Text to nodes. The only module that knows the event parser.

mod builder;
mod mapping;
mod repair;
mod scalar;

use std::borrow::Cow;

use granit_parser::{Options, Parser, ScanError};

use super::node::{Node, Span};
use super::shared::Text;
use super::{Limits, YamlError, YamlErrorKind, remark};

use builder::Builder;
use repair::Repaired;
pub(super) use scalar::scalar_value;

/// One document of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its top node; never null.
    pub root: Node,
    /// Keys that were given twice, where the rules let the last one win: only [`Rules::V2`] does.
    pub duplicates: Vec<(Text, Span)>,
}

/// Whose reading rules decide what a plain scalar means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rules {
    /// go-yaml v3: `yes` is text. Kubernetes objects are read so.
    #[default]
    V3,
    /// As `V3`, and as kustomize takes it in: an empty value inside of `{}` is the empty text, a quoted `<<` is no key,
    /// and a repeated key is no error yet; the first value counts.
    Manifest,
    /// As `Manifest`, of a chart's values: a key that is a number or a time is no text either.
    Values,
    /// go-yaml v2, which kustomize reads kustomization files with: `yes`, `no`, `on`, `off`, `y`, `n` are booleans, in
    /// keys too, and every scalar key becomes text.
    V2,
    /// go-yaml v3, but a key may be repeated with an equal value, as published Bundles of 2021 do. Kubernetes takes
    /// the last one; here a repeated key with another value stays an error.
    V3RepeatedKeys,
}

impl Rules {
    /// Whether this is how kustomize takes in what it renders.
    fn is_of_manifests(self) -> bool {
        matches!(self, Self::Manifest | Self::Values)
    }
}

/// Returns `bytes` as text without byte order mark. All spans refer to the returned text.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, YamlError> {
    match bytes {
        [0xFF, 0xFE, rest @ ..] => return utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => return utf16(rest, u16::from_be_bytes),
        _ => {}
    }
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
            Err(YamlError::new(YamlErrorKind::Encoding, "the file is not UTF-8", line, column))
        }
    }
}

fn utf16<'a>(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'a, str>, YamlError> {
    let units = bytes.chunks(2).map(|pair| match pair {
        [first, second] => unit([*first, *second]),
        _ => 0xFFFF,
    });
    char::decode_utf16(units)
        .collect::<Result<String, _>>()
        .map(Cow::Owned)
        .map_err(|_| YamlError::new(YamlErrorKind::Encoding, "the file is not UTF-16", 1, 1))
}

/// Reads all documents of `source` by go-yaml v3's rules: aliases expanded, `<<` merged, empty documents dropped.
pub fn parse(source: &str, limits: &Limits) -> Result<Vec<Document>, YamlError> {
    parse_with(source, limits, Rules::V3)
}

/// As [`parse`], with a choice of rules.
pub fn parse_with(source: &str, limits: &Limits, rules: Rules) -> Result<Vec<Document>, YamlError> {
    if source.len() > limits.bytes {
        let message = format!("the text has {} bytes, more than the limit of {}", source.len(), limits.bytes);
        return Err(YamlError::new(YamlErrorKind::Limit, message, 1, 1));
    }
    let has_remarks = rules.is_of_manifests() && remark::may_be_in(source);
    if !has_remarks && let Some(documents) = super::plain::read(source, limits, rules) {
        return Ok(documents);
    }
    parse_events(source, limits, rules)
}

/// Reads any text, by the events of the parser.
pub(super) fn parse_events(source: &str, limits: &Limits, rules: Rules) -> Result<Vec<Document>, YamlError> {
    let mut options = Options::default();
    // kustomize cuts a file at its `---` lines before it reads it, which leaves directives without a document.
    options.disallow_directives = rules.is_of_manifests();
    options.set_emit_comments(false);
    options.emit_anchor_events = true;
    options.block_nesting_limit = limits.depth.saturating_add(1);
    options.flow_nesting_limit = limits.depth.saturating_add(1);
    let mut repaired: Option<Repaired> = None;
    loop {
        let text = repaired.as_ref().map_or(source, |repaired| repaired.text.as_str());
        let mut builder = Builder::new(text, limits, rules);
        let failed = read_events(&mut builder, text, options.clone())?;
        let mut finished = builder.finished;
        let Some((error, after)) = failed else {
            if let Some(repaired) = &repaired {
                for document in &mut finished {
                    repaired.restore(&mut document.root);
                    document.duplicates.iter_mut().for_each(|(_, span)| repaired.restore_span(span));
                }
            }
            return Ok(finished);
        };
        // go-yaml v2 does not look behind the first document.
        if rules == Rules::V2 && !finished.is_empty() {
            return Ok(finished);
        }
        let slot = repaired.get_or_insert_with(|| Repaired::new(source));
        if !slot.repair(&error, after) {
            return Err(yaml_error(&error, limits));
        }
    }
}

/// Hands all events to the builder. An error of the parser comes back with the place where the last event ended.
fn read_events(
    builder: &mut Builder<'_>,
    text: &str,
    options: Options,
) -> Result<Option<(ScanError, usize)>, YamlError> {
    let mut after = 0;
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => {
                let span = convert(&span);
                after = after.max(span.end());
                builder.event(event, span)?;
            }
            Err(error) => return Ok(Some((error, after))),
        }
    }
    Ok(None)
}

fn yaml_error(error: &ScanError, limits: &Limits) -> YamlError {
    let marker = error.marker();
    let kind = match error.kind() {
        granit_parser::ErrorKind::UnknownAnchor => YamlErrorKind::Alias,
        granit_parser::ErrorKind::RecursionLimitExceeded => YamlErrorKind::Limit,
        _ => YamlErrorKind::Syntax,
    };
    let message = match kind {
        YamlErrorKind::Limit => format!("nested deeper than {} levels", limits.depth),
        _ => error.kind().to_string(),
    };
    YamlError::new(kind, message, marker.line().max(1), marker.col() + 1)
}

fn convert(span: &granit_parser::Span) -> Span {
    let range = span.byte_range().unwrap_or_default();
    Span::new(range.start, range.end, span.start.line(), span.start.col() + 1)
}

fn error_at(kind: YamlErrorKind, message: impl Into<String>, span: Span) -> YamlError {
    YamlError::new(kind, message, span.line(), span.column())
}

#[cfg(test)]
mod tests;
