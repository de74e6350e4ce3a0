//! From the text of a file to the objects in it.

use crate::error::BuildError;
use crate::resource::{Origin, Resource};
use crate::yaml::{Limits, Node, Rules, Sequence, Value, decode, parse_with};
use std::sync::Arc;

/// Reads all objects of a file. Lists are unpacked, empty documents dropped.
pub(crate) fn read(bytes: &[u8], file: &str, limits: &Limits) -> Result<Vec<Resource>, BuildError> {
    let text = decode(bytes).map_err(|error| BuildError::from_yaml(error, file))?;
    let documents = parse_with(&text, limits, Rules::Manifest).map_err(|error| BuildError::from_yaml(error, file))?;
    // kustomize counts the empty documents too.
    let alone = documents.len() == 1 && !text.contains("\n---");
    let mut queue: std::collections::VecDeque<Node> = std::collections::VecDeque::new();
    for document in documents {
        let root = document.root;
        let kind = root.get("kind").and_then(Node::as_str).unwrap_or_default();
        let wraps = alone
            && matches!(kind, "List" | "ResourceList")
            && (root.get("items").is_some() || root.get("functionConfig").is_some());
        if !wraps {
            check(&root, file)?;
            queue.extend(keep(root));
            continue;
        }
        for item in items_of(root).unwrap_or_default() {
            check(&item, file)?;
            queue.extend(keep(item));
        }
    }
    let name: Arc<str> = Arc::from(file);
    let mut resources = Vec::new();
    while let Some(node) = queue.pop_front() {
        let kind = node.get("kind").and_then(Node::as_str).unwrap_or_default();
        let is_list = kind.ends_with("List");
        if is_list {
            // kustomize reads what looks like a list as a whole, to see whether it is one.
            node.refuse_repeated_keys().map_err(|error| error.in_file(file))?;
        }
        match node.get("items") {
            Some(items) if is_list => {
                if !items.is_null() && items.as_sequence().is_none() {
                    let error = BuildError::syntax(format!("`items` of a {kind} must be a list"));
                    return Err(error.at(file, items.span));
                }
                for mut item in items_of(node).unwrap_or_default() {
                    item.refuse_misfits().map_err(|error| error.in_file(file))?;
                    item.as_from_json();
                    check(&item, file)?;
                    queue.extend(keep(item));
                }
            }
            _ => {
                let origin = Origin { file: Arc::clone(&name), line: node.span.line(), annotation: None };
                resources.push(Resource { origin, ..Resource::new(node) });
            }
        }
    }
    Ok(resources)
}

fn keep(node: Node) -> Option<Node> {
    let is_empty = node.is_null() || node.as_mapping().is_some_and(crate::yaml::Mapping::is_empty);
    (!is_empty).then_some(node)
}

fn items_of(node: Node) -> Option<Sequence> {
    let Value::Mapping(mut mapping) = node.value else {
        return None;
    };
    match mapping.remove("items")?.value {
        Value::Sequence(items) => Some(items),
        _ => None,
    }
}

/// An object has a kind, and a name unless it is a list.
fn check(node: &Node, file: &str) -> Result<(), BuildError> {
    let fail = |message: &str, at: &Node| Err(BuildError::syntax(message).at(file, at.span));
    if node.is_null() {
        return Ok(());
    }
    let Some(mapping) = node.as_mapping() else {
        return fail("expected an object", node);
    };
    if mapping.is_empty() {
        return Ok(());
    }
    let text = |node: Option<&Node>| {
        node.filter(|node| !node.is_null()).and_then(Node::scalar_text).is_some_and(|text| !text.is_empty())
    };
    if !text(node.get("kind")) {
        return fail("the object has no `kind`", node);
    }
    let is_list = node.get("kind").and_then(Node::as_str).is_some_and(|kind| kind.ends_with("List"));
    if !is_list && !text(node.at(&["metadata", "name"])) {
        return fail("the object has no `metadata.name`", node);
    }
    Ok(())
}
