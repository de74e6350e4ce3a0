//! Replacements that go on into JSON or YAML inside a text.

use super::path::{Make, look_up, visit};
use super::plain_scalar;
use crate::budget::Budget;
use crate::error::BuildError;
use crate::json::{to_json, to_pretty_json};
use crate::yaml::{Document, Limits, Node, Rules, Scalar, Style, Value, YamlErrorKind, parse, parse_with, resolve_v3};

/// Sets `value` where `path` goes on inside of a text. `false` if the path does not do that.
pub(crate) fn set(
    object: &mut Node,
    path: &[String],
    value: &Node,
    make: Option<Make>,
    budget: &Budget,
) -> Result<bool, BuildError> {
    try_set(object, path, value, make, budget).map_or(Ok(false), |done| done.map(|()| true))
}

fn try_set(
    object: &mut Node,
    path: &[String],
    value: &Node,
    make: Option<Make>,
    budget: &Budget,
) -> Option<Result<(), BuildError>> {
    let limits = Limits::default();
    for end in 1..path.len() {
        let (outer, inner) = path.split_at_checked(end)?;
        let Ok(Some(found)) = look_up(object, outer) else {
            continue;
        };
        if !found.is_scalar() || found.is_null() {
            continue;
        }
        let text = found.scalar_text()?.into_owned();
        // It is read and written anew.
        if let Err(error) = budget.spend(text.len()).and_then(|()| budget.grow(text.len())) {
            return Some(Err(error));
        }
        let Some(mut document) = read(&text, &limits) else {
            continue;
        };
        let mut edits: Vec<(usize, usize, String)> = Vec::new();
        let mut only_edits = true;
        let count = visit(&mut document.root, inner, make, false, &mut |node, is_new| {
            let (span, old) = (node.span, node.clone());
            set_value(node, value, is_new)?;
            if is_new || !node.is_scalar() || span.end <= span.start {
                only_edits = false;
            } else {
                let new = value.scalar_text().unwrap_or_default();
                edits.push((span.start, span.end, scalar_source(&old, &text, &new)));
            }
            Ok(())
        });
        if count.ok()? == 0 {
            return None;
        }
        let is_json = text.trim_start().starts_with(['{', '[']);
        let changed = if is_json {
            // What does not fit its type cannot be written as JSON.
            document.root.refuse_misfits().ok()?;
            let pretty = text.contains('\n') && text.contains("  ");
            if pretty { to_pretty_json(&document.root) } else { to_json(&document.root) }
        } else if only_edits {
            match super::laid_out::rewrite(&text, &document.root, &edits) {
                Some(text) => text,
                None => apply_edits(&text, edits)?,
            }
        } else {
            crate::yaml::emit(&document.root).trim().to_owned()
        };
        let mut done = false;
        let outer: Vec<String> = outer.to_vec();
        visit(object, &outer, None, false, &mut |node, _| {
            if !done {
                node.replace_value(Node::from(changed.as_str()));
                done = true;
            }
            Ok(())
        })
        .ok()?;
        return Some(Ok(()));
    }
    None
}

/// Reads the first document of a text. Tags that do not fit do not matter here.
pub(super) fn read(text: &str, limits: &Limits) -> Option<Document> {
    let read = parse(text, limits).or_else(|error| match error.kind {
        YamlErrorKind::Value => parse_with(text, limits, Rules::Manifest),
        _ => Err(error),
    });
    read.ok()?.into_iter().next()
}

/// A new text in the quotes that the scalar had; without quotes, with the tag of its type if it no longer has that type.
fn scalar_source(old: &Node, source: &str, text: &str) -> String {
    match source.as_bytes().get(old.span.start) {
        Some(b'"') => return format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Some(b'\'') => return format!("'{}'", text.replace('\'', "''")),
        _ => {}
    }
    let tag = |scalar: &Scalar| match scalar {
        Scalar::Null => "!!null",
        Scalar::Bool(_) => "!!bool",
        Scalar::Int(_) | Scalar::Uint(_) => "!!int",
        Scalar::Float(_) => "!!float",
        Scalar::Timestamp(_) => "!!timestamp",
        Scalar::Merge | Scalar::Text => "!!str",
    };
    let old = old.scalar_text().unwrap_or_default();
    let (before, after) = (tag(&resolve_v3(&old)), tag(&resolve_v3(text)));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    let simple = text.bytes().all(is_plain) && text.starts_with(|first: char| first.is_ascii_alphanumeric());
    if before == "!!str" && after != before {
        return format!("\"{text}\"");
    }
    let written = if simple { text.to_owned() } else { crate::yaml::emit(&Node::from(text)).trim_end().to_owned() };
    if before == after { written } else { format!("{before} {written}") }
}

fn apply_edits(text: &str, mut edits: Vec<(usize, usize, String)>) -> Option<String> {
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.0));
    let mut text = text.to_owned();
    for (start, end, with) in edits {
        text.get(start..end)?;
        text.replace_range(start..end, &with);
    }
    Some(text.trim().to_owned())
}

/// Sets a field to the value of a replacement: scalars keep their type and take the text.
pub(crate) fn set_value(node: &mut Node, value: &Node, is_new: bool) -> Result<(), BuildError> {
    if !node.is_scalar() {
        let span = node.span;
        *node = value.clone();
        node.span = span;
        return Ok(());
    }
    if is_new && !value.is_scalar() {
        *node = value.clone();
        return Ok(());
    }
    set_text(node, &value.scalar_text().unwrap_or_default(), is_new);
    Ok(())
}

/// Sets the text of a scalar, whose type stays.
pub(super) fn set_text(node: &mut Node, text: &str, is_new: bool) {
    let typed = plain_scalar(text);
    if node.style() == Style::Untyped {
        node.replace_plainly(text);
        return;
    }
    let fits = match (&node.value, &typed.value) {
        (_, _) if is_new => true,
        (Value::String(_), _) if node.style() != Style::Misfit => {
            node.replace_value(Node::from(text));
            return;
        }
        (Value::Int(_) | Value::Uint(_), Value::Int(_) | Value::Uint(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Float(_), Value::Float(_) | Value::Int(_))
        | (Value::Null, Value::Null) => true,
        _ => false,
    };
    if fits {
        node.replace_value(typed);
        return;
    }
    // Not yet an error: something else may still be put here.
    let span = node.span;
    *node = Node::with_span(Value::String(text.into()), span);
    node.set_style(Style::Misfit);
}
