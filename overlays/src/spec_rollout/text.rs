//! Byte-span edits that put items of one text into another.
//!
//! Nothing here has to be right in every case: the caller reads the result back and compares it with what it should say.

use std::ops::Range;

use yaml::{Node, Span, Value};

use super::SpecStage;
use super::composite::{DEFER, Move, group_name, merged};
use crate::edit::{self, insert_after, splice};

/// The text of the Cluster in step `rank`; `None` where no edit is known.
pub(super) fn composite(movement: &Move, old: &str, new: &str, rank: usize) -> Option<String> {
    let moved = movement.control_plane_moved(rank);
    let (mut base, other) = if moved { (new.to_owned(), old) } else { (old.to_owned(), new) };
    if !moved && rank >= movement.rank_of(&SpecStage::Etcd) {
        base = with_entry(&base, other, "externalEtcdConfiguration")?;
    }
    for path in movement.group_lists() {
        base = with_groups(movement, base, other, path, rank)?;
    }
    Some(base)
}

/// `base` with the worker groups of the list at `path` as step `rank` has them.
fn with_groups(movement: &Move, mut base: String, other: &str, path: &[&str], rank: usize) -> Option<String> {
    let moved = movement.control_plane_moved(rank);
    // From the other side: groups whose step has (not yet) come, held at their version first.
    let names = group_names(&root(&base)?, path);
    let other_names = group_names(&root(other)?, path);
    for name in &names {
        let staged = movement.rank_of(&SpecStage::Workers(name.clone())) <= rank;
        if staged == moved {
            continue;
        }
        base = if other_names.contains(name) {
            let held = hold(movement, other, path, name, staged, moved)?;
            let item = item_text(&held, path, name)?;
            replace_item(&base, path, name, Some(&item))?
        } else {
            replace_item(&base, path, name, None)?
        };
    }
    for name in merged(&names, &other_names).iter().filter(|name| !names.contains(name)) {
        let staged = movement.rank_of(&SpecStage::Workers(name.clone())) <= rank;
        if staged == moved {
            continue;
        }
        let held = hold(movement, other, path, name, staged, moved)?;
        let neighbour = other_names.iter().take_while(|known| *known != name).last();
        base = insert_item(&base, path, neighbour.map(String::as_str), &item_text(&held, path, name)?)?;
    }
    Some(base)
}

pub(super) fn root(text: &str) -> Option<Node> {
    edit::documents(text).ok()?.into_iter().next().map(|(_, root)| root)
}

pub(super) fn group_names(root: &Node, path: &[&str]) -> Vec<String> {
    root.at(path).and_then(Node::as_sequence).unwrap_or_default().iter().filter_map(group_name).collect()
}

fn find<'n>(root: &'n Node, path: &[&str], name: &str) -> Option<&'n Node> {
    root.at(path)?.as_sequence()?.iter().find(|item| group_name(item).as_deref() == Some(name))
}

/// `text` with the group held at its version, where it has to be.
fn hold(movement: &Move, text: &str, path: &[&str], name: &str, staged: bool, moved: bool) -> Option<String> {
    let root = root(text)?;
    let item = find(&root, path, name)?;
    if !movement.must_hold(item, staged, moved) {
        return Some(text.to_owned());
    }
    let entry = item.as_mapping()?.entry("name")?;
    if !movement.is_class() {
        let written = if staged { &movement.new_version_written } else { &movement.old_version_written };
        let line = format!("kubernetesVersion: {}", written.as_deref()?);
        return Some(insert_after(text, entry.key_span, entry.value.span, &line));
    }
    let annotations = item.at(&["metadata", "annotations"]).and_then(Node::as_mapping);
    if let Some(first) = annotations.and_then(|annotations| annotations.iter().find(|entry| entry.value.is_scalar())) {
        return Some(insert_after(text, first.key_span, first.value.span, &format!("{DEFER}: \"\"")));
    }
    if item.get("metadata").is_some() {
        return None;
    }
    let column = entry.key_span.column().saturating_sub(1);
    let indent = |levels: usize| " ".repeat(column + 2 * levels);
    let lines = format!("metadata:\n{}annotations:\n{}{DEFER}: \"\"", indent(1), indent(2));
    Some(insert_after(text, entry.key_span, entry.value.span, &lines))
}

/// `base` with the entry `spec.<key>` of `other`: replaced, added after the last entry, or removed.
fn with_entry(base: &str, other: &str, key: &str) -> Option<String> {
    let (root, other_root) = (root(base)?, root(other)?);
    let entry =
        |root: &Node| root.get("spec")?.as_mapping()?.entry(key).map(|entry| (entry.key_span, entry.value.clone()));
    let taken = entry(&other_root).map(|(span, value)| lines_of(other, span, &value));
    match (entry(&root), taken) {
        (None, None) => Some(base.to_owned()),
        (Some((span, value)), taken) => {
            let range = lines_of(base, span, &value)?;
            let text = match taken {
                Some(taken) => indented(other.get(taken?)?, span.column()),
                None => String::new(),
            };
            Some(splice(base, range, &text))
        }
        (None, Some(taken)) => {
            let last = root.get("spec")?.as_mapping()?.iter().last()?;
            let range = lines_of(base, last.key_span, &last.value)?;
            let text = indented(other.get(taken?)?, last.key_span.column());
            Some(splice(base, range.end..range.end, &text))
        }
    }
}

/// The whole lines of an entry or item that begins at `start` and holds `value`; `None` when the first line holds
/// something else before it, or the last line something after it, as in flow style.
pub(crate) fn lines_of(text: &str, start: Span, value: &Node) -> Option<Range<usize>> {
    let line_start = text.get(..start.start())?.rfind('\n').map_or(0, |at| at + 1);
    let before = text.get(line_start..start.start())?;
    if !before.chars().all(|character| matches!(character, ' ' | '-')) {
        return None;
    }
    let end = end_of(value).max(start.end());
    let last = text.get(..end)?;
    if last.ends_with('\n') {
        return Some(line_start..end);
    }
    let rest = text.get(end..)?;
    let line_end = rest.find('\n').map_or(text.len(), |at| end + at + 1);
    Some(line_start..line_end)
}

/// Where the last scalar below `node` ends.
fn end_of(node: &Node) -> usize {
    match &node.value {
        Value::Mapping(mapping) if !mapping.is_empty() => {
            let ends = mapping.iter().map(|entry| end_of(&entry.value).max(entry.key_span.end()));
            ends.max().unwrap_or(node.span.end())
        }
        Value::Sequence(items) if !items.is_empty() => items.iter().map(end_of).max().unwrap_or(node.span.end()),
        _ => node.span.end(),
    }
}

/// Lines moved so that the first one begins at `column` (from 1).
fn indented(lines: &str, column: usize) -> String {
    let width = |line: &str| line.chars().take_while(|character| *character == ' ').count();
    let have = lines.lines().next().map(width).unwrap_or_default();
    let want = column.saturating_sub(1);
    let mut text = String::new();
    for line in lines.split_inclusive('\n') {
        if line.trim().is_empty() {
            text.push_str(line);
        } else if want >= have {
            text.push_str(&" ".repeat(want - have));
            text.push_str(line);
        } else {
            let cut = (have - want).min(width(line));
            text.push_str(line.get(cut..).unwrap_or(line));
        }
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// The column of the dash of an item, from 1.
fn dash_column(text: &str, range: &Range<usize>) -> Option<usize> {
    text.get(range.clone())?.find('-').map(|at| at + 1)
}

fn item_range(text: &str, path: &[&str], name: &str) -> Option<Range<usize>> {
    let root = root(text)?;
    let item = find(&root, path, name)?;
    let range = lines_of(text, item.span, item)?;
    text.get(range.clone())?.trim_start().starts_with('-').then_some(range)
}

pub(super) fn item_text(text: &str, path: &[&str], name: &str) -> Option<String> {
    let range = item_range(text, path, name)?;
    text.get(range).map(str::to_owned)
}

pub(super) fn replace_item(base: &str, path: &[&str], name: &str, item: Option<&str>) -> Option<String> {
    let range = item_range(base, path, name)?;
    let column = dash_column(base, &range)?;
    let new = item.map(|item| indented(item, column)).unwrap_or_default();
    Some(splice(base, range, &new))
}

/// Puts an item behind the group `neighbour`, or before every other.
pub(super) fn insert_item(base: &str, path: &[&str], neighbour: Option<&str>, item: &str) -> Option<String> {
    let names = group_names(&root(base)?, path);
    let known = neighbour.filter(|neighbour| names.iter().any(|name| name == neighbour));
    let range = item_range(base, path, known.or(names.first().map(String::as_str))?)?;
    let column = dash_column(base, &range)?;
    let item = indented(item, column);
    if known.is_none() {
        return Some(splice(base, range.start..range.start, &item));
    }
    let separator = if base.get(range.clone())?.ends_with('\n') { "" } else { "\n" };
    Some(splice(base, range.end..range.end, &format!("{separator}{item}")))
}
