//! What kustomize keeps about an object in annotations: the names it had, its prefixes and suffixes, how it was generated.

use std::sync::Arc;

use yaml::{Mapping, Node, Text};

use super::Resource;
use super::annotations::{find_without_content, metadata_of};
use crate::id::{Gvk, ResourceId};
use crate::schema::Schema;

/// Stands for the state that kustomize keeps in annotations.
const STATE: &str = "internal.config.kubernetes.io/previousNames";

/// How a generated object meets one that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Behavior {
    /// Nothing generated it.
    #[default]
    Absent,
    Unspecified,
    Create,
    Replace,
    Merge,
}

impl Behavior {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "create" => Self::Create,
            "replace" => Self::Replace,
            "merge" => Self::Merge,
            _ => Self::Unspecified,
        }
    }
}

/// A name that a resource had before. Group and version are always the current ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreviousId {
    pub(crate) name: Text,
    pub(crate) namespace: Text,
    pub(crate) kind: Text,
}

impl Resource {
    /// Names it had, oldest first, without the current one. As in kustomize, these never count as cluster-scoped:
    /// the scope is in their namespace.
    pub(crate) fn previous_ids(&self) -> impl Iterator<Item = ResourceId> + '_ {
        let gvk = &self.node.name().gvk;
        let with_kind = move |kind: &Text| match *kind == gvk.kind {
            true => Arc::clone(gvk),
            false => Arc::new(Gvk { kind: kind.clone(), ..Gvk::clone(gvk) }),
        };
        self.previous.iter().map(move |previous| ResourceId {
            gvk: with_kind(&previous.kind),
            name: previous.name.clone(),
            namespace: previous.namespace.clone(),
            cluster_scoped: false,
        })
    }

    /// The first name it had.
    pub(crate) fn original_id(&self, schema: &Schema) -> Arc<ResourceId> {
        self.previous_ids().next().map_or_else(|| self.id(schema), Arc::new)
    }

    /// All names, the current one last.
    pub(crate) fn all_ids(&self, schema: &Schema) -> Vec<Arc<ResourceId>> {
        self.previous_ids().map(Arc::new).chain(std::iter::once(self.id(schema))).collect()
    }

    /// Remembers the current name before it changes.
    pub(crate) fn store_previous_id(&mut self, schema: &Schema) {
        let id = self.id(schema);
        self.store_id(&id);
    }

    /// As [`Self::store_previous_id`], with the name that it has.
    pub(crate) fn store_id(&mut self, id: &ResourceId) {
        self.begin_state();
        let namespace = id.effective_namespace().into();
        // Most objects have one or two, and there are many objects.
        self.previous.reserve_exact(1);
        self.previous.push(PreviousId { name: id.name.clone(), namespace, kind: id.gvk.kind.clone() });
    }

    /// Before something is kept about the object.
    pub(crate) fn begin_state(&mut self) {
        // kustomize first takes empty annotations away, and empty metadata: also where they stand a second time.
        let metadata = self.node.get("metadata");
        if let Some(at) = metadata.and_then(|metadata| find_without_content(metadata, "annotations"))
            && let Some(metadata) = self.node.beside_name().get_mut("metadata").and_then(Node::as_mapping_mut)
        {
            metadata.remove_at(at);
        }
        if let Some(at) = find_without_content(&self.node, "metadata")
            && let Some(object) = self.node.as_mapping_mut()
        {
            object.remove_at(at);
        }
        self.note_labels_before_state();
    }

    pub(super) fn note_labels_before_state(&mut self) {
        if !self.has_state() && self.node.at(&["metadata", "annotations"]).is_none() {
            self.labels_are_followed |= self.node.at(&["metadata", "labels"]).is_some();
        }
    }

    /// Says whether kustomize would keep annotations of its own on the object.
    pub(crate) fn has_state(&self) -> bool {
        !self.previous.is_empty()
            || !self.prefixes.is_empty()
            || !self.suffixes.is_empty()
            || self.behavior != Behavior::Absent
            || self.needs_hash
            || self.allow_name_change
            || self.allow_kind_change
            || self.origin.annotation.is_some()
            || self.from_chart
    }

    pub(crate) fn has_null_annotations(&self) -> bool {
        self.node.at(&["metadata", "annotations"]).is_some_and(Node::is_null)
    }

    /// Shows transformers that there are annotations, where kustomize keeps its own state in them.
    pub(crate) fn show_state(&mut self) {
        if !self.has_state() {
            return;
        }
        let Some(metadata) = metadata_of(self.node.beside_name()) else {
            return;
        };
        let annotations = metadata.get_or_insert_with("annotations", || Mapping::new().into());
        if annotations.is_null() {
            *annotations = Mapping::new().into();
        }
        if let Some(annotations) = annotations.as_mapping_mut() {
            annotations.insert(STATE, "");
        }
    }

    /// Ends [`Self::show_state`]; `false` if the annotations were thrown away in between.
    pub(crate) fn hide_state(&mut self) -> bool {
        if !self.has_state() {
            return true;
        }
        let Some(metadata) = self.node.beside_name().get_mut("metadata").and_then(Node::as_mapping_mut) else {
            return false;
        };
        let Some(annotations) = metadata.get_mut("annotations").and_then(Node::as_mapping_mut) else {
            return false;
        };
        let kept = annotations.remove(STATE).is_some();
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
        kept
    }

    /// Says whether the annotations were thrown away after [`Self::show_state`].
    pub(crate) fn has_lost_state(&self) -> bool {
        self.has_state() && self.node.at(&["metadata", "annotations", STATE]).is_none()
    }

    /// In a copy of the metadata or annotations made after [`Self::show_state`], writes what kustomize would have there.
    pub(crate) fn reveal_state(&self, copy: &mut Node) {
        if !self.has_state() {
            return;
        }
        let annotations = if copy.get(STATE).is_some() { Some(copy) } else { copy.get_mut("annotations") };
        let Some(annotations) = annotations.and_then(Node::as_mapping_mut) else {
            return;
        };
        if annotations.remove(STATE).is_some() {
            for (key, text) in crate::resource::provenance::annotations(self) {
                annotations.insert(key, text);
            }
        }
    }

    /// Forgets what kustomize keeps in annotations.
    pub(crate) fn forget_state(&mut self) {
        self.previous.clear();
        self.prefixes.clear();
        self.suffixes.clear();
        self.behavior = Behavior::Absent;
        (self.needs_hash, self.allow_name_change, self.allow_kind_change) = (false, false, false);
        self.origin.annotation = None;
        self.from_chart = false;
        self.transformations.clear();
    }
}
