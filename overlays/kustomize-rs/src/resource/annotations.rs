//! Labels and annotations as kustomize writes them.

use yaml::{Mapping, Node, Span, Style, Text, Value};

use super::Resource;
use crate::error::BuildError;

impl Resource {
    /// Notes the file that the object is from; kustomize adds an annotation to those that are there.
    pub(crate) fn add_origin_annotation(&mut self, text: &str) -> Result<(), BuildError> {
        let annotations = self.node.at(&["metadata", "annotations"]);
        if let Some(odd) = annotations.filter(|node| !node.is_null() && node.as_mapping().is_none()) {
            let error = BuildError::transform("the origin cannot be noted: `metadata.annotations` is not a map");
            return Err(error.at(&self.origin.file, odd.span));
        }
        self.note_labels_before_state();
        self.origin.annotation = Some(text.to_owned());
        Ok(())
    }

    /// Notes where the object is from; kustomize writes all annotations anew for that.
    pub(crate) fn set_origin_annotation(&mut self, text: &str) -> Result<(), BuildError> {
        self.origin.annotation = Some(text.to_owned());
        self.rewrite_annotations()
    }

    pub(crate) fn metadata_mut(&mut self) -> Option<&mut Mapping> {
        metadata_of(&mut self.node)
    }

    /// Sets a text below `metadata`; an empty text removes the field.
    pub(crate) fn set_metadata(&mut self, field: &str, text: &str) {
        if let Some(metadata) = self.metadata_mut() {
            match metadata.get_mut(field) {
                _ if text.is_empty() => {
                    metadata.remove(field);
                }
                Some(old) if old.is_scalar() && !old.is_null() => {
                    old.replace_plainly(text);
                }
                _ => {
                    metadata.insert(field, text);
                }
            }
        }
    }

    /// Labels or annotations as text.
    pub(crate) fn metadata_map(&self, field: &str) -> Vec<(Text, Text)> {
        let mapping = self.node.at(&["metadata", field]).and_then(Node::as_mapping);
        mapping.into_iter().flatten().map(|entry| (entry.key.clone(), entry.value.to_text())).collect()
    }

    /// Sets labels or annotations in the place of those that are there; an empty map removes the field.
    pub(crate) fn set_metadata_map(&mut self, field: &str, pairs: Mapping) {
        let Some(metadata) = metadata_of(self.node.beside_name()) else {
            return;
        };
        if pairs.is_empty() {
            metadata.remove(field);
        } else {
            let mut map = Node::from(pairs);
            map.set_shared(REWRITTEN);
            metadata.insert(field, map);
        }
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<Text> {
        let node = self.node.at(&["metadata", "annotations"])?.get(key)?;
        node.scalar_text().map(Text::from)
    }

    /// Says whether the object is for kustomize and other programs alone.
    pub(crate) fn is_local(&self) -> bool {
        self.annotation("config.kubernetes.io/local-config").is_some_and(|value| value != "false")
    }

    /// What kustomize does to annotations when a build ends and after JSON patches: it sets them `times` times, and keeps
    /// no state in them any more.
    pub(crate) fn finish_annotations(&mut self, times: usize) -> Result<(), BuildError> {
        (0..times).try_for_each(|_| self.rewrite_map("annotations", false))
    }

    /// What kustomize does to annotations whenever it sets some: all values are texts of their own.
    pub(crate) fn rewrite_annotations(&mut self) -> Result<(), BuildError> {
        let holds_state = self.has_state();
        let is_there = holds_state || self.node.at(&["metadata", "annotations"]).is_some();
        self.labels_are_followed |= is_there && self.node.at(&["metadata", "labels"]).is_some();
        self.rewrite_map("annotations", holds_state)
    }

    /// Makes labels and annotations texts of their own, as kustomize does with some patches.
    pub(crate) fn rewrite_metadata(&mut self) -> Result<(), BuildError> {
        if !self.loses_first("annotations") {
            self.rewrite_annotations()?;
        }
        if self.loses_first("labels") { Ok(()) } else { self.rewrite_map("labels", false) }
    }

    /// Takes the first labels or annotations of a patch away if there are others that are not a map: what was read of the
    /// first cannot go into those, and kustomize does not notice.
    fn loses_first(&mut self, field: &str) -> bool {
        let Some(metadata) = self.node.get_mut("metadata").and_then(Node::as_mapping_mut) else {
            return false;
        };
        let second = metadata.iter().filter(|entry| entry.key == field).nth(1);
        let loses = second.is_some_and(|entry| entry.value.as_mapping().is_none());
        if loses {
            metadata.remove(field);
        }
        loses
    }

    /// Labels or annotations are taken away and set anew, in the order of their keys. Where they stand twice, the first
    /// are taken away and what was read of them goes into the next.
    fn rewrite_map(&mut self, field: &str, holds_state: bool) -> Result<(), BuildError> {
        let Some(metadata) = self.node.beside_name().get_mut("metadata") else {
            return Ok(());
        };
        let may_repeat = metadata.style() == Style::TypeMismatch;
        let Some(metadata) = metadata.as_mapping_mut() else {
            return Ok(());
        };
        let Some(map) = metadata.get_mut(field) else {
            return Ok(());
        };
        set_anew(map);
        let is_lost = !holds_state && map.as_mapping().is_none_or(Mapping::is_empty);
        let is_repeated = may_repeat && metadata.iter().filter(|entry| entry.key == field).count() > 1;
        if !is_lost && !is_repeated {
            return Ok(());
        }
        let first = metadata.remove(field).unwrap_or_default();
        let Some(next) = metadata.get_mut(field).filter(|_| !is_lost) else {
            return Ok(());
        };
        if next.is_null() {
            *next = Mapping::new().into();
        }
        let span = next.span;
        let Some(next) = next.as_mapping_mut() else {
            let error =
                BuildError::transform(format!("`metadata.{field}` is there twice, and the second is not a map"));
            return Err(error.at(&self.origin.file, span));
        };
        for entry in first.as_mapping().into_iter().flatten() {
            next.insert(entry.key.clone(), entry.value.clone());
        }
        Ok(())
    }
}

/// Makes a map of texts in the order of their keys; of a list, pairs are read, of a scalar nothing.
fn set_anew(map: &mut Node) {
    let may_repeat = map.style() == Style::TypeMismatch;
    if map.as_mapping().is_none() {
        let pair = |pair: &[Node]| match pair {
            [key, value] => Some((key.to_text(), Node::from(value.to_text()))),
            _ => None,
        };
        let pairs: Mapping = map.as_sequence().unwrap_or_default().chunks(2).filter_map(pair).collect();
        *map = pairs.into();
    }
    map.span = Span::default();
    map.set_shared(REWRITTEN);
    let Some(mapping) = map.as_mapping_mut() else {
        return;
    };
    if may_repeat {
        // The last of equal keys counts.
        *mapping = mapping.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect();
    }
    mapping.iter_mut().for_each(|entry| to_own_text(&mut entry.value));
    if !mapping.iter().is_sorted_by_key(|entry| &entry.key) {
        let mut entries: Vec<_> = std::mem::take(mapping).into_iter().collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        *mapping = Mapping::from_entries(entries);
    }
}

/// The first field of this name that holds nothing: no entries, no items, just a scalar.
pub(super) fn find_without_content(map: &Node, field: &str) -> Option<usize> {
    let holds_nothing = |node: &Node| match &node.value {
        Value::Mapping(mapping) => mapping.is_empty(),
        Value::Sequence(items) => items.is_empty(),
        _ => true,
    };
    map.as_mapping()?.iter().position(|entry| entry.key == field && holds_nothing(&entry.value))
}

pub(super) fn metadata_of(object: &mut Node) -> Option<&mut Mapping> {
    object.as_mapping_mut()?.get_or_insert_with("metadata", || Mapping::new().into()).as_mapping_mut()
}

/// In the place of a shared number, marks labels or annotations that were set as a whole.
pub(crate) const REWRITTEN: u32 = u32::MAX;

fn to_own_text(node: &mut Node) {
    if !matches!(node.value, Value::String(_))
        || node.is_rewritten()
        || node.style() != Style::Plain
        || node.shared() != 0
    {
        let text = node.scalar_text().unwrap_or_default().into_owned();
        *node = Node::with_span(Value::String(text.into()), node.span);
    }
}
