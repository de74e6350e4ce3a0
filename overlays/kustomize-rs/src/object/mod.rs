//! An object as a tree, with its name at hand.

mod data_value;
pub(crate) mod round_trip;
pub(crate) mod shared_scalars;
pub(crate) mod type_mismatch;

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use yaml::{Node, Text};

use crate::id::{Gvk, ResourceId};
use crate::schema::Schema;

pub(crate) use data_value::data_value;

/// A tree that remembers the name it spells: a build asks for names far more often than it changes them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object {
    node: Node,
    id: OnceLock<Arc<ResourceId>>,
    /// The name before the last change: most changes leave most of it as it is.
    before: Option<Arc<ResourceId>>,
}

impl From<Node> for Object {
    fn from(node: Node) -> Self {
        Self { node, ..Self::default() }
    }
}

impl Deref for Object {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.node
    }
}

/// Whoever changes the tree may change its name, which is read anew then.
impl DerefMut for Object {
    fn deref_mut(&mut self) -> &mut Node {
        if let Some(id) = self.id.take() {
            self.before = Some(id);
        }
        &mut self.node
    }
}

impl Object {
    /// The tree, for changes that leave kind, name and namespace alone.
    pub(crate) fn beside_name(&mut self) -> &mut Node {
        &mut self.node
    }

    /// The tree, for changes at the end of a path and of nothing else but what is missing on the way.
    pub(crate) fn along(&mut self, path: &[String]) -> &mut Node {
        let mut parts = crate::schema::field_names(path);
        let leads_to_name = match parts.next() {
            Some("metadata") => matches!(parts.next(), None | Some("name" | "namespace")),
            first => matches!(first, None | Some("apiVersion" | "kind")),
        };
        if leads_to_name { self } else { self.beside_name() }
    }

    /// The tree alone.
    pub(crate) fn into_node(self) -> Node {
        self.node
    }

    /// Its name, cluster-scoped if the built-in schema says so.
    pub(crate) fn name(&self) -> &Arc<ResourceId> {
        self.id.get_or_init(|| {
            let [api_version, kind, name, namespace] = self.name_fields();
            match self.before.as_ref().filter(|before| before.gvk.is_written(&api_version, &kind)) {
                Some(before) if before.name == name && before.namespace == namespace => Arc::clone(before),
                Some(before) => {
                    let (gvk, cluster_scoped) = (Arc::clone(&before.gvk), before.cluster_scoped);
                    Arc::new(ResourceId { gvk, name, namespace, cluster_scoped })
                }
                None => {
                    let gvk = Gvk::new(&api_version, &kind);
                    let cluster_scoped = Schema::builtin().is_cluster_scoped(&gvk);
                    Arc::new(ResourceId { gvk: Arc::new(gvk), name, namespace, cluster_scoped })
                }
            }
        })
    }

    /// Reads its name while the tree is at hand; objects of one kind in a row share what says so.
    pub(crate) fn name_after(&mut self, last: Option<&Arc<ResourceId>>) {
        self.before = last.map(Arc::clone);
        self.name();
        self.before = None;
    }

    /// Reads a name that may have changed at once, while the tree is at hand, and in place where nobody else holds it.
    pub(crate) fn renew_name(&mut self) {
        if self.id.get().is_some() || self.before.is_none() {
            return;
        }
        let [api_version, kind, name, namespace] = self.name_fields();
        let Some(mut id) = self.before.take() else {
            return;
        };
        match Arc::get_mut(&mut id).filter(|id| id.gvk.is_written(&api_version, &kind)) {
            Some(own) => {
                (own.name, own.namespace) = (name, namespace);
                self.id = OnceLock::from(id);
            }
            None => self.before = Some(id),
        }
    }

    /// `apiVersion`, `kind`, name and namespace.
    fn name_fields(&self) -> [Text; 4] {
        [&["apiVersion"][..], &["kind"], &["metadata", "name"], &["metadata", "namespace"]].map(|path| self.text(path))
    }

    /// Its name, cluster-scoped if `schema` says so.
    pub(crate) fn id(&self, schema: &Schema) -> Arc<ResourceId> {
        let name = self.name();
        if std::ptr::eq(schema, Schema::builtin()) {
            return Arc::clone(name);
        }
        let cluster_scoped = schema.is_cluster_scoped(&name.gvk);
        Arc::new(ResourceId { cluster_scoped, ..(**name).clone() })
    }

    fn text(&self, path: &[&str]) -> Text {
        match self.node.at(path) {
            Some(node) if !node.is_null() => node.to_text(),
            _ => Text::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use yaml::Mapping;

    #[test]
    fn a_name_that_is_renewed_is_the_one_that_would_be_read() {
        let named = |name: &str| Node::from(Mapping::from_iter([("name", Node::from(name))]));
        let pod =
            |name| Mapping::from_iter([("apiVersion", "v1".into()), ("kind", "Pod".into()), ("metadata", named(name))]);
        let mut first = Object::from(Node::from(pod("one")));
        first.name_after(None);
        let mut second = Object::from(Node::from(pod("two")));
        second.name_after(Some(first.name()));
        assert!(Arc::ptr_eq(&first.name().gvk, &second.name().gvk));
        let held = Arc::clone(second.name());
        for object in [&mut first, &mut second] {
            object.as_mapping_mut().unwrap().insert("metadata", named("three"));
            object.renew_name();
            assert_eq!(object.name().to_string(), "Pod.v1.[noGrp]/three.[noNs]");
            object.as_mapping_mut().unwrap().insert("kind", "Node");
            object.renew_name();
            assert!(object.name().cluster_scoped && object.name().gvk.kind == "Node");
        }
        assert_eq!(held.name, "two");
    }

    #[test]
    fn a_name_is_read_anew_after_a_change() {
        let mut object = Object::from(Node::default());
        assert_eq!(object.name().name, "");
        *object = Node::from(Mapping::from_iter([("kind", Node::from("Pod"))]));
        assert_eq!(object.name().gvk.kind, "Pod");
        let copy = object.clone();
        object.as_mapping_mut().unwrap().insert("kind", "Node");
        assert_eq!((object.name().gvk.kind.as_str(), copy.name().gvk.kind.as_str()), ("Node", "Pod"));
        object.as_mapping_mut().unwrap().insert("apiVersion", "v1");
        assert!(object.name().cluster_scoped && object.name().gvk.version == "v1");
        object.as_mapping_mut().unwrap().insert("apiVersion", "example.com/v1");
        assert!(!object.name().cluster_scoped && object.name().gvk.group == "example.com");
        object.as_mapping_mut().unwrap().insert("metadata", Mapping::from_iter([("name", Node::from("one"))]));
        assert_eq!(object.name().to_string(), "Node.v1.example.com/one.[noNs]");
    }
}
