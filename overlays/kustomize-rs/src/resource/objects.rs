//! From the text of a file to the objects in it.

use std::collections::VecDeque;
use std::sync::Arc;

use yaml::{Limits, Mapping, Node, Rules, Sequence, Value, decode, parse_with};

use crate::error::BuildError;
use crate::object::type_mismatch;
use crate::resource::{Origin, Resource};

/// Reads all objects of a file. Lists are unpacked, empty documents dropped.
pub(crate) fn read(bytes: &[u8], file: &str, limits: &Limits) -> Result<Vec<Resource>, BuildError> {
    let text = decode(bytes).map_err(|error| BuildError::from_yaml(error, file))?;
    let documents = parse_with(&text, limits, Rules::Manifest).map_err(|error| BuildError::from_yaml(error, file))?;
    // kustomize counts the empty documents too.
    let alone = documents.len() == 1 && !text.contains("\n---");
    let mut found = Found::new(file, documents.len());
    for document in documents {
        let root = document.root;
        let kind = root.get("kind").and_then(Node::as_str).unwrap_or_default();
        let wraps = alone
            && matches!(kind, "List" | "ResourceList")
            && (root.get("items").is_some() || root.get("functionConfig").is_some());
        if wraps {
            items_of(root).unwrap_or_default().into_iter().try_for_each(|item| found.take(item))?;
        } else {
            found.take(root)?;
        }
    }
    found.unpack()
}

/// The objects of a file so far.
struct Found<'f> {
    file: &'f str,
    origin: Arc<str>,
    resources: Vec<Resource>,
    /// Lists wait: what is in them stands behind everything else.
    lists: VecDeque<Node>,
}

impl<'f> Found<'f> {
    fn new(file: &'f str, documents: usize) -> Self {
        Self { file, origin: Arc::from(file), resources: Vec::with_capacity(documents), lists: VecDeque::new() }
    }

    fn take(&mut self, node: Node) -> Result<(), BuildError> {
        if node.is_null() || node.as_mapping().is_some_and(Mapping::is_empty) {
            return Ok(());
        }
        let kind = check(&node, self.file)?;
        if kind.ends_with("List") {
            // kustomize reads what looks like a list as a whole, to see whether it is one.
            type_mismatch::refuse_repeated_keys(&node).map_err(|error| error.in_file(self.file))?;
            if let Some(items) = node.get("items") {
                if !items.is_null() && items.as_sequence().is_none() {
                    let error = BuildError::syntax(format!("`items` of a {kind} must be a list"));
                    return Err(error.at(self.file, items.span));
                }
                self.lists.push_back(node);
                return Ok(());
            }
        }
        let origin = Origin { file: Arc::clone(&self.origin), line: node.span.line(), annotation: None };
        let mut resource = Resource { origin, ..Resource::new(node) };
        resource.node.name_after(self.resources.last().map(|last| last.node.name()));
        self.resources.push(resource);
        Ok(())
    }

    fn unpack(mut self) -> Result<Vec<Resource>, BuildError> {
        while let Some(list) = self.lists.pop_front() {
            for mut item in items_of(list).unwrap_or_default() {
                type_mismatch::refuse(&item).map_err(|error| error.in_file(self.file))?;
                item.as_from_json();
                self.take(item)?;
            }
        }
        Ok(self.resources)
    }
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

/// An object has a kind, which is returned, and a name unless it is a list.
fn check<'n>(node: &'n Node, file: &str) -> Result<&'n str, BuildError> {
    let fail = |message: &str| Err(BuildError::syntax(message).at(file, node.span));
    if node.as_mapping().is_none() {
        return fail("expected an object");
    }
    let text = |node: Option<&Node>| {
        node.filter(|node| !node.is_null()).and_then(Node::scalar_text).is_some_and(|text| !text.is_empty())
    };
    let kind = node.get("kind");
    if !text(kind) {
        return fail("the object has no `kind`");
    }
    let kind = kind.and_then(Node::as_str).unwrap_or_default();
    if !kind.ends_with("List") && !text(node.at(&["metadata", "name"])) {
        return fail("the object has no `metadata.name`");
    }
    Ok(kind)
}
