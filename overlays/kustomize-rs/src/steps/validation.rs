//! What a validator may do to an object.

use yaml::{Node, Style, is_other_without_quotes};

use crate::resource::{REWRITTEN, Resource};

/// Says whether a validator left the object alone, but for the label it may set. As kustomize takes that label away by
/// writing all labels anew, other labels must not come from a file.
pub(crate) fn unchanged(after: &Resource, before: &Resource) -> bool {
    const VALIDATED_BY: &str = "validated-by";
    // A name that was written anew counts as changed, even to what it was.
    let name =
        |resource: &Resource| resource.node.at(&["metadata", "name"]).map(|name| (name.style(), name.span.line()));
    if name(after) != name(before) {
        return false;
    }
    let mut after = Node::clone(&after.node);
    let labels = after.get_mut("metadata").and_then(Node::as_mapping_mut).and_then(|metadata| {
        let labels = metadata.get_mut("labels")?.as_mapping_mut()?;
        labels.remove(VALIDATED_BY).map(|_| labels.is_empty()).map(|empty| (metadata, empty))
    });
    if let Some((metadata, empty)) = labels {
        if empty {
            metadata.remove("labels");
        }
        let is_last = |metadata: &Node| {
            metadata.as_mapping().and_then(|metadata| metadata.iter().last()).is_none_or(|entry| entry.key == "labels")
        };
        let Some(old) = before.node.at(&["metadata", "labels"]) else {
            return after == *before.node;
        };
        if is_written_anew(old) || before.labels_are_followed || !before.node.get("metadata").is_some_and(is_last) {
            return false;
        }
    }
    after == *before.node
}

fn is_written_anew(labels: &Node) -> bool {
    let mapping = labels.as_mapping();
    let is_sorted = mapping.is_some_and(|mapping| mapping.iter().is_sorted_by_key(|entry| &entry.key));
    let rewritten = labels.shared() == REWRITTEN;
    let from_label_transformer = |node: &Node| {
        let Some(text) = node.as_str() else {
            return false;
        };
        let in_quotes = is_other_without_quotes(text);
        match node.style() {
            Style::Plain => rewritten || node.shared() != 0 && !in_quotes && !text.contains('\n'),
            Style::Quoted => (rewritten || node.shared() != 0) && in_quotes,
            _ => false,
        }
    };
    labels.span.line() != 0
        || !is_sorted
        || mapping.into_iter().flatten().any(|entry| !from_label_transformer(&entry.value))
}
