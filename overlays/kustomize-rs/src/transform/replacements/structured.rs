//! Replacements that go on into JSON or YAML inside a text.

use yaml::json::{to_json, to_pretty_json};
use yaml::{
    Document, Limits, Node, Rules, Scalar, Style, Value, YamlErrorKind, compose, parse, parse_with, resolve_v3,
};

use super::targets::{Make, targets};
use crate::budget::Budget;
use crate::error::BuildError;
use crate::object::type_mismatch;
use crate::transform::path::look_up;

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
        let is_json = text.trim_start().starts_with(['{', '[']);
        let changed = if is_json { in_json(&text, inner, value, make) } else { in_yaml(&text, inner, value, make) };
        let changed = match changed {
            Changed::To(text) => text,
            Changed::Unreadable => continue,
            Changed::NotFound => return None,
        };
        let outer: Vec<String> = outer.to_vec();
        let found = targets(object, &outer, None, None).ok()?.found;
        if let Some(node) = found.first().and_then(|target| object.at_indices_mut(&target.indices)) {
            node.replace_value(Node::from(changed.as_str()));
        }
        return Some(Ok(()));
    }
    None
}

/// What became of a text.
enum Changed {
    To(String),
    /// It is not the kind of text it seemed to be.
    Unreadable,
    /// There is no such place in it.
    NotFound,
}

/// JSON is written anew, on one line unless it was laid out.
fn in_json(text: &str, path: &[String], value: &Node, make: Option<Make>) -> Changed {
    let Some(mut document) = read(text, &Limits::default()) else {
        return Changed::Unreadable;
    };
    let Ok(targets) = targets(&mut document.root, path, make, None) else {
        return Changed::NotFound;
    };
    for target in &targets.found {
        let Some(node) = document.root.at_indices_mut(&target.indices) else {
            continue;
        };
        set_value(node, value, target.is_new);
        // Between brackets nothing at all would be lost: it is put in quotes.
        if node.is_null() && value.scalar_text().is_some_and(|text| text.is_empty()) {
            *node = Node::from("");
        }
    }
    // What does not fit its type cannot be written as JSON.
    if targets.is_empty() || type_mismatch::refuse(&document.root).is_err() {
        return Changed::NotFound;
    }
    let pretty = text.contains('\n') && text.contains("  ");
    Changed::To(if pretty { to_pretty_json(&document.root) } else { to_json(&document.root) })
}

/// YAML keeps its comments and quotes.
fn in_yaml(text: &str, path: &[String], value: &Node, make: Option<Make>) -> Changed {
    let Some(mut layout) = compose(text, &Limits::default()) else {
        return Changed::Unreadable;
    };
    let mut root = std::mem::take(&mut layout.root);
    let targets = targets(&mut root, path, make, Some(&layout));
    layout.root = root;
    let Some(targets) = targets.ok().filter(|targets| !targets.is_empty()) else {
        return Changed::NotFound;
    };
    for target in &targets.found {
        let Some(node) = layout.root.at_indices_mut(&target.indices) else {
            continue;
        };
        *node = if node.is_scalar() {
            let text = value.scalar_text().unwrap_or_default().into_owned();
            Node::with_span(Value::String(text.into()), node.span)
        } else {
            value.clone()
        };
    }
    Changed::To(layout.to_yaml())
}

/// Reads the first document of a text. Tags that do not fit do not matter here.
fn read(text: &str, limits: &Limits) -> Option<Document> {
    let read = parse(text, limits).or_else(|error| match error.kind {
        YamlErrorKind::Value => parse_with(text, limits, Rules::Manifest),
        _ => Err(error),
    });
    read.ok()?.into_iter().next()
}

/// Sets a field to the value of a replacement: scalars keep their type and take the text.
pub(crate) fn set_value(node: &mut Node, value: &Node, is_new: bool) {
    if !node.is_scalar() {
        let span = node.span;
        *node = value.clone();
        node.span = span;
    } else if is_new && !value.is_scalar() {
        *node = value.clone();
    } else {
        set_text(node, &value.scalar_text().unwrap_or_default(), is_new);
    }
}

/// Sets the text of a scalar, whose type stays.
pub(super) fn set_text(node: &mut Node, text: &str, is_new: bool) {
    if node.style() == Style::Untyped {
        node.replace_plainly(text);
        return;
    }
    let new = Node::plain_scalar(text);
    let hidden = if is_new { None } else { node.hidden_type() };
    if !is_new && hidden.is_none() && matches!(node.value, Value::String(_)) && node.style() != Style::TypeMismatch {
        node.replace_value(Node::from(text));
        return;
    }
    match (hidden.as_ref().unwrap_or(&node.value), &new.value) {
        (_, _) if is_new => {
            node.replace_value(new);
            node.lose_type();
        }
        // An integer shows the type that quotes hide.
        (Value::Float(_), Value::Int(_)) if hidden.is_some() => node.reveal_type(new),
        (Value::Int(_) | Value::Uint(_), Value::Int(_) | Value::Uint(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Float(_), Value::Float(_) | Value::Int(_))
        | (Value::Null, Value::Null) => node.replace_value(new),
        (Value::String(_), Value::String(_)) if hidden.is_some() && is_time(text) => node.replace_value(new),
        // Not yet an error: something else may still be put here.
        _ => {
            *node = Node::with_span(Value::String(text.into()), node.span);
            node.set_style(Style::TypeMismatch);
        }
    }
}

fn is_time(text: &str) -> bool {
    matches!(resolve_v3(text), Scalar::Timestamp(_))
}
