//! One object with what happened to it on the way.

mod annotations;
mod list;
pub(crate) mod objects;
pub(crate) mod provenance;
mod state;

use std::sync::Arc;

use thin_vec::ThinVec;
use yaml::{Node, Style, Text};

use crate::id::{Gvk, ResourceId};
use crate::object::Object;
use crate::object::shared_scalars::SharedScalars;
use crate::schema::Schema;

pub(crate) use annotations::REWRITTEN;
pub(crate) use list::Names;
pub use list::Resources;
pub(crate) use state::{Behavior, PreviousId};

/// Where an object was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Path of the file in the file system; of the kustomization for generated objects.
    pub file: Arc<str>,
    /// 1-based line of the object in it.
    pub line: usize,
    /// Text of the `originAnnotations` annotation, if requested.
    pub(crate) annotation: Option<String>,
}

/// A Kubernetes object on its way through a build.
#[derive(Debug, Clone, Default)]
pub struct Resource {
    pub(crate) node: Object,
    pub(crate) origin: Origin,
    /// Oldest first.
    pub(crate) previous: ThinVec<PreviousId>,
    pub(crate) prefixes: ThinVec<Text>,
    pub(crate) suffixes: ThinVec<Text>,
    pub(crate) behavior: Behavior,
    pub(crate) needs_hash: bool,
    pub(crate) allow_name_change: bool,
    pub(crate) allow_kind_change: bool,
    /// Variables that read from this object.
    pub(crate) variables: ThinVec<String>,
    /// Texts for the `transformations` annotation.
    pub(crate) transformations: ThinVec<String>,
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

    /// Returns where it was read.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> Gvk {
        Gvk::clone(&self.node.name().gvk)
    }

    /// `metadata.name`.
    pub fn name(&self) -> Text {
        self.node.name().name.clone()
    }

    /// `metadata.namespace`, empty where there is none.
    pub fn namespace(&self) -> Text {
        self.node.name().namespace.clone()
    }

    /// Returns whether the built-in or custom schema lists the kind as cluster-scoped.
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

    /// Sets `apiVersion` or `kind`, in the way the old one was written.
    pub(crate) fn set_top(&mut self, field: &str, text: &str) {
        if let Some(mapping) = self.node.as_mapping_mut() {
            match mapping.get_mut(field) {
                Some(old) if old.is_scalar() && !old.is_null() => old.replace_plainly(text),
                _ => {
                    let mut new = Node::default();
                    new.replace_plainly(text);
                    mapping.insert(field, new);
                }
            }
        }
    }

    /// Sets `apiVersion` and `kind` to what they are, as kustomize does to some patches: the type that they were written
    /// with may be lost.
    pub(crate) fn rewrite_type(&mut self) {
        let gvk = self.gvk();
        self.set_top("apiVersion", &gvk.api_version());
        self.set_top("kind", &gvk.kind);
    }
}
