//! Text to nodes. The only module that knows the event parser.

mod builder;
mod frame;
mod mapping;
mod repair;
mod scalar;

use granit_parser::{Options, Parser, ScanError};

use super::document::Document;
use super::node::Span;
use super::rules::Rules;
use crate::error::{YamlError, YamlErrorKind};
use crate::limits::Limits;
use crate::remark;

use frame::Builder;
use repair::Repaired;
pub(crate) use scalar::escaped_slash;

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

#[cfg(test)]
mod tests;
