//! One object with what happened to it on the way.

use crate::id::{Gvk, ResourceId};
use crate::object::Object;
use crate::schema::Schema;
use crate::shared::SharedScalars;
use crate::yaml::{Mapping, Node, Span, Style, Text, Value};
use std::sync::Arc;

/// Where a resource was read: a file, and the object in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Path of the file in the file system; of the kustomization for generated objects.
    pub file: Arc<str>,
    /// 1-based line of the object in it.
    pub line: usize,
    /// The text that stands in an `originAnnotations` annotation, if asked for.
    pub(crate) annotation: Option<String>,
}

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

/// A Kubernetes object on its way through a build.
#[derive(Debug, Clone, Default)]
pub struct Resource {
    pub(crate) node: Object,
    pub(crate) origin: Origin,
    /// Oldest first.
    pub(crate) previous: Vec<PreviousId>,
    pub(crate) prefixes: Vec<String>,
    pub(crate) suffixes: Vec<String>,
    pub(crate) behavior: Behavior,
    pub(crate) needs_hash: bool,
    pub(crate) allow_name_change: bool,
    pub(crate) allow_kind_change: bool,
    /// Variables that read from this object.
    pub(crate) variables: Vec<String>,
    /// Texts for the `transformations` annotation.
    pub(crate) transformations: Vec<String>,
    /// A chart made it: namespaces are left to the chart.
    pub(crate) from_chart: bool,
    /// Set when the build ends.
    pub(crate) cluster_scoped: bool,
    /// kustomize's own annotations stand behind the labels; only validators see that.
    pub(crate) labels_are_followed: bool,
    /// Scalars that are one in several places.
    pub(crate) shared: SharedScalars,
}

impl Resource {
    pub(crate) fn new(node: Node) -> Self {
        Self { node: node.into(), ..Self::default() }
    }

    /// The object.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Where it was read.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> Gvk {
        self.node.name().gvk.clone()
    }

    /// `metadata.name`.
    pub fn name(&self) -> Text {
        self.node.name().name.clone()
    }

    /// `metadata.namespace`, empty where there is none.
    pub fn namespace(&self) -> Text {
        self.node.name().namespace.clone()
    }

    /// Says whether the kind is known to live outside of namespaces: built in, or by the build's own schema.
    pub fn is_cluster_scoped(&self) -> bool {
        self.cluster_scoped
    }

    pub(crate) fn kind(&self) -> Text {
        self.node.name().gvk.kind.clone()
    }

    /// The current name of the object.
    pub(crate) fn id(&self, schema: &Schema) -> Arc<ResourceId> {
        self.node.id(schema)
    }

    /// Names it had, oldest first, without the current one. As in kustomize, these never count as cluster-scoped:
    /// the scope is in their namespace.
    pub(crate) fn previous_ids(&self) -> impl Iterator<Item = ResourceId> + '_ {
        let gvk = &self.node.name().gvk;
        self.previous.iter().map(move |previous| ResourceId {
            gvk: Gvk { group: gvk.group.clone(), version: gvk.version.clone(), kind: previous.kind.clone() },
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

    /// Carries changes of scalars that are one in several places from one place to the others.
    pub(crate) fn settle(&mut self) {
        if !self.shared.is_empty() {
            self.shared.settle(&mut self.node);
        }
    }

    /// Says whether the object has a kind, and a name unless it is a list.
    pub(crate) fn is_named(&self) -> bool {
        let kind = self.kind();
        let name = self.node.at(&["metadata", "name"]);
        // kustomize takes a null that it made itself for a name, if it is written out.
        let has_text = |name: &Node| name.scalar_text().is_some_and(|text| !text.is_empty());
        let has_name =
            !self.name().is_empty() || name.is_some_and(|name| name.style() == Style::Untyped && has_text(name));
        !kind.is_empty() && (kind.ends_with("List") || has_name)
    }

    /// Before something is kept about the object for the first time.
    pub(crate) fn begin_state(&mut self) {
        if !self.has_state() && self.node.at(&["metadata", "annotations"]).is_none() {
            self.labels_are_followed |= self.node.at(&["metadata", "labels"]).is_some();
        }
        self.take_annotations_for_a_map();
    }

    /// Where a replacement has put something else in the place of the annotations, kustomize reads pairs from what it
    /// holds, none from a scalar, when it next keeps something there.
    fn take_annotations_for_a_map(&mut self) {
        let annotations = self.node.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
        let Some(annotations) = annotations.filter(|node| node.as_mapping().is_none() && !node.is_null()) else {
            return;
        };
        let pair = |pair: &[Node]| match pair {
            [key, value] => Some((key.to_text(), Node::from(value.to_text()))),
            _ => None,
        };
        let items = annotations.as_sequence().unwrap_or_default();
        let pairs: Mapping = items.chunks(2).filter_map(pair).collect();
        *annotations = pairs.into();
    }

    /// Notes the file that the object is from; kustomize adds an annotation to those that are there.
    pub(crate) fn add_origin_annotation(&mut self, text: &str) {
        self.begin_state();
        self.origin.annotation = Some(text.to_owned());
    }

    /// Notes where the object is from; kustomize writes all annotations anew for that.
    pub(crate) fn set_origin_annotation(&mut self, text: &str) {
        self.origin.annotation = Some(text.to_owned());
        self.rewrite_annotations();
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
            for (key, text) in crate::provenance::annotations(self) {
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
        self.transformations.clear();
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

    pub(crate) fn set_top(&mut self, field: &str, text: &str) {
        if let Some(mapping) = self.node.as_mapping_mut() {
            mapping.insert(field, text);
        }
    }

    /// Labels or annotations as text.
    pub(crate) fn metadata_map(&self, field: &str) -> Vec<(Text, Text)> {
        let mapping = self.node.at(&["metadata", field]).and_then(Node::as_mapping);
        mapping.into_iter().flatten().map(|entry| (entry.key.clone(), entry.value.to_text())).collect()
    }

    /// Sets labels or annotations; an empty map removes the field.
    pub(crate) fn set_metadata_map(&mut self, field: &str, pairs: Vec<(Text, Text)>) {
        let Some(metadata) = metadata_of(self.node.beside_name()) else {
            return;
        };
        if pairs.is_empty() {
            metadata.remove(field);
        } else {
            let mapping: Mapping = pairs.into_iter().map(|(key, value)| (key, Node::from(value))).collect();
            let mut map = Node::from(mapping);
            map.shared = REWRITTEN;
            metadata.insert(field, map);
        }
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<Text> {
        let node = self.node.at(&["metadata", "annotations"])?.get(key)?;
        node.scalar_text().map(Text::from)
    }

    /// What kustomize does to annotations when a build ends and after JSON patches: values become texts, an empty map
    /// goes away.
    pub(crate) fn finish_annotations(&mut self) {
        self.rewrite_annotations();
        let Some(metadata) = self.node.beside_name().get_mut("metadata").and_then(Node::as_mapping_mut) else {
            return;
        };
        let is_empty = |node: &Node| node.as_mapping().is_none_or(Mapping::is_empty);
        if metadata.get("annotations").is_some_and(is_empty) {
            metadata.remove("annotations");
        }
    }

    /// What kustomize does to annotations whenever it keeps something in them: all values are texts of their own.
    pub(crate) fn rewrite_annotations(&mut self) {
        let is_there = self.has_state() || self.node.at(&["metadata", "annotations"]).is_some();
        self.labels_are_followed |= is_there && self.node.at(&["metadata", "labels"]).is_some();
        self.take_annotations_for_a_map();
        while self.join_repeated_annotations() {
            self.take_annotations_for_a_map();
        }
        self.rewrite_map("annotations");
    }

    /// Where annotations stand twice, kustomize takes the first away and writes what it read of them into the next.
    fn join_repeated_annotations(&mut self) -> bool {
        const FIELD: &str = "annotations";
        let metadata = self.node.beside_name().get_mut("metadata").filter(|node| node.style() == Style::Misfit);
        let Some(metadata) = metadata.and_then(Node::as_mapping_mut) else {
            return false;
        };
        let mut values = metadata.iter().filter(|entry| entry.key == FIELD).map(|entry| &entry.value);
        let can_follow = |node: &Node| node.is_null() || !node.is_scalar();
        if values.next().is_none() || !values.next().is_some_and(can_follow) {
            return false;
        }
        let first = metadata.remove(FIELD);
        let next = metadata.get_or_insert_with(FIELD, || Mapping::new().into());
        if next.is_null() {
            *next = Mapping::new().into();
        }
        if let (Some(first), Some(next)) = (first.as_ref().and_then(Node::as_mapping), next.as_mapping_mut()) {
            for entry in first {
                next.insert(entry.key.clone(), entry.value.clone());
            }
        }
        true
    }

    /// Makes labels and annotations texts of their own, as kustomize does with some patches.
    pub(crate) fn rewrite_metadata(&mut self) {
        self.rewrite_annotations();
        self.rewrite_map("labels");
    }

    fn rewrite_map(&mut self, field: &str) {
        let Some(map) = self.node.beside_name().get_mut("metadata").and_then(|metadata| metadata.get_mut(field)) else {
            return;
        };
        map.span = Span::default();
        map.shared = REWRITTEN;
        let may_repeat = map.style() == Style::Misfit;
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
}

fn metadata_of(object: &mut Node) -> Option<&mut Mapping> {
    object.as_mapping_mut()?.get_or_insert_with("metadata", || Mapping::new().into()).as_mapping_mut()
}

/// In the place of a shared number, marks labels or annotations that were set as a whole.
pub(crate) const REWRITTEN: u32 = u32::MAX;

/// Stands for the state that kustomize keeps in annotations.
const STATE: &str = "internal.config.kubernetes.io/previousNames";

fn to_own_text(node: &mut Node) {
    if !matches!(node.value, Value::String(_))
        || node.is_rewritten()
        || node.style() != Style::Plain
        || node.shared != 0
    {
        let text = node.scalar_text().unwrap_or_default().into_owned();
        *node = Node::with_span(Value::String(text.into()), node.span);
    }
}
