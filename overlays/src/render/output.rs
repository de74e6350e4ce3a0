//! From objects to the files of a directory.

use yaml::{Mapping, Node, emit, emit_all};

use super::{ComponentName, RenderError};
use crate::RenderedTree;
use crate::object::ObjectSummary;
use domain::RepoPath;

/// The files of a component's directory, in the order in which they are applied.
pub(super) struct Directory {
    component: ComponentName,
    files: Vec<(String, String)>,
    annotations: Vec<(String, String)>,
    nodes: Vec<Node>,
    objects: Vec<ObjectSummary>,
}

impl Directory {
    pub fn new(component: ComponentName) -> Self {
        Self { component, files: Vec::new(), annotations: Vec::new(), nodes: Vec::new(), objects: Vec::new() }
    }

    /// Adds a file of objects, unless there are none.
    pub fn add(&mut self, name: &str, objects: &[&Node]) {
        if objects.is_empty() {
            return;
        }
        self.objects.extend(objects.iter().filter_map(|node| ObjectSummary::of(node)));
        self.nodes.extend(objects.iter().map(|node| (*node).clone()));
        self.files.push((name.to_owned(), emit_all(objects.iter().copied())));
    }

    /// Adds a file as it is.
    pub fn add_text(&mut self, name: &str, text: String) {
        let nodes = crate::object::objects_of(text.as_bytes());
        self.objects.extend(nodes.iter().filter_map(ObjectSummary::of));
        self.nodes.extend(nodes);
        self.files.push((name.to_owned(), text));
    }

    /// Remembers something on the directory's kustomization.
    pub fn annotate(&mut self, key: &str, value: &str) {
        self.annotations.push((key.to_owned(), value.to_owned()));
    }

    /// Every object, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The tree, with a kustomization that names the files in order, and what they hold.
    pub fn finish(self) -> Result<(RenderedTree, Vec<ObjectSummary>), RenderError> {
        let mut tree = RenderedTree::new();
        let kustomization = emit(&self.kustomization());
        for (name, text) in
            self.files.iter().map(|(name, text)| (name.as_str(), text)).chain([("kustomization.yaml", &kustomization)])
        {
            let path = RepoPath::new(format!("{}/{name}", self.component.directory()));
            let path = path.map_err(|error| RenderError::Other(error.to_string()))?;
            tree.insert(path, text.clone().into_bytes());
        }
        Ok((tree, self.objects))
    }

    fn kustomization(&self) -> Node {
        let mut root = Mapping::new();
        root.insert("apiVersion", "kustomize.config.k8s.io/v1beta1");
        root.insert("kind", "Kustomization");
        if !self.annotations.is_empty() {
            let annotations: Mapping =
                self.annotations.iter().map(|(key, value)| (key.clone(), Node::from(value.as_str()))).collect();
            root.insert("metadata", Mapping::from_iter([("annotations".to_owned(), Node::from(annotations))]));
        }
        let resources: Vec<Node> = self.files.iter().map(|(name, _)| Node::from(name.as_str())).collect();
        root.insert("resources", resources);
        // Definitions and namespaces take every object in them along when they go: Flux must never prune them.
        let kept: Vec<Node> = [("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("v1", "Namespace")]
            .into_iter()
            .filter(|(_, kind)| self.objects.iter().any(|object| object.kind == *kind))
            .map(|(api_version, kind)| {
                let patch = format!(
                    "apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: any\n  annotations:\n    \
                     kustomize.toolkit.fluxcd.io/prune: disabled\n"
                );
                let target = Mapping::from_iter([("kind".to_owned(), Node::from(kind))]);
                Node::from(Mapping::from_iter([
                    ("patch".to_owned(), Node::from(patch)),
                    ("target".to_owned(), Node::from(target)),
                ]))
            })
            .collect();
        if !kept.is_empty() {
            root.insert("patches", kept);
        }
        Node::from(root)
    }
}
