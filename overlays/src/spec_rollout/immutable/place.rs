//! Where a field stands in the file that people wrote.
//!
//! The files of a cluster may be cut to its own objects, or be what an overlay makes: a line of those helps nobody.

use yaml::Node;

use super::Object;
use crate::object::{object_id, objects_of};
use crate::{Files, json};

/// Line and column of a field, or of what it would stand in; none where the file says something else than what was read.
pub(super) fn find(object: &Object<'_>, files: &dyn Files, field: &str) -> Option<(usize, usize)> {
    let bytes = files.read(&object.file.path).ok()?;
    let written = objects_of(&bytes).into_iter().find(|node| object_id(node).as_ref() == Some(object.id))?;
    let (read, found) = (at(object.after, field), at(&written, field));
    let is_same = read.depth == found.depth && json::to_json(read.node) == json::to_json(found.node);
    is_same.then(|| (found.span.line(), found.span.column()))
}

/// The value of a field, or the innermost value around it that is there.
struct Found<'a> {
    node: &'a Node,
    span: yaml::Span,
    depth: usize,
}

fn at<'a>(object: &'a Node, field: &str) -> Found<'a> {
    let mut found = Found { node: object, span: object.span, depth: 0 };
    for part in parts(field) {
        let next = match part {
            Part::Key(key) => found.node.get(key).map(|node| (node, key_span(found.node, key).unwrap_or(node.span))),
            Part::Item(name) => item(found.node, name).map(|node| (node, node.span)),
        };
        let Some((node, span)) = next else { break };
        found = Found { node, span, depth: found.depth + 1 };
    }
    // A scalar is shown itself, what holds several lines by its key.
    if found.node.is_scalar() {
        found.span = found.node.span;
    }
    found
}

enum Part<'a> {
    Key(&'a str),
    Item(&'a str),
}

/// `spec.groups[md-0].labels`: keys, and items by their names. Names and keys may have dots of their own, which only costs the place.
fn parts(field: &str) -> impl Iterator<Item = Part<'_>> {
    field.split('.').flat_map(|part| {
        let (key, name) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((key, name)) => (key, Some(name)),
            None => (part, None),
        };
        [Some(Part::Key(key)), name.map(Part::Item)].into_iter().flatten()
    })
}

fn key_span(node: &Node, key: &str) -> Option<yaml::Span> {
    node.as_mapping()?.entry(key).map(|entry| entry.key_span)
}

fn item<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let is_it = |item: &&Node| item.get("name").and_then(Node::as_str) == Some(name);
    node.as_sequence()?.iter().find(is_it)
}
