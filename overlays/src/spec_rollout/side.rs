//! What a specification holds before or after a movement.

use std::collections::BTreeMap;
use std::ops::Range;

use yaml::Node;

use crate::edit;
use crate::object::{ObjectId, object_id};
use crate::{ClusterSpec, RenderedTree};
use domain::RepoPath;

/// The first line of a Cluster that was printed. It tells the next process, which starts from such a step, how the steps are made.
pub(super) const PRINTED: &str = "# Printed by Stepgate, as the text of this specification cannot be edited in place. The last stage brings it back.\n";

/// One side of a movement: its files and documents.
pub(super) struct Side {
    pub files: BTreeMap<RepoPath, SideFile>,
    objects: Vec<(ObjectId, Node)>,
}

pub(super) struct SideFile {
    pub text: String,
    pub documents: Vec<SideDocument>,
}

pub(super) struct SideDocument {
    pub range: Range<usize>,
    pub node: Node,
    pub id: Option<ObjectId>,
}

impl Side {
    /// `None` when a file cannot be read.
    pub fn read(tree: &RenderedTree) -> Option<Self> {
        let mut side = Self { files: BTreeMap::new(), objects: Vec::new() };
        for (path, bytes) in &tree.files {
            let text = yaml::decode(bytes).ok()?.into_owned();
            let mut documents = Vec::new();
            for (range, node) in edit::documents(&text).ok()? {
                let id = object_id(&node);
                side.objects.extend(id.clone().map(|id| (id, node.clone())));
                documents.push(SideDocument { range, node, id });
            }
            side.files.insert(path.clone(), SideFile { text, documents });
        }
        Some(side)
    }

    pub fn objects(&self) -> impl Iterator<Item = (&ObjectId, &Node)> {
        self.objects.iter().map(|(id, node)| (id, node))
    }

    pub fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.objects.iter().map(|(id, _)| id)
    }

    pub fn has_cluster(&self, spec: &ClusterSpec) -> bool {
        object_id(&spec.node).is_some_and(|wanted| self.ids().any(|id| *id == wanted))
    }

    /// The value at `path` of an object, and as it is written.
    pub fn version(&self, id: &ObjectId, path: &[&str]) -> (String, Option<String>) {
        let Some((file, document)) = self.find(id) else { return (String::new(), None) };
        let Some(node) = document.node.at(path).filter(|_| !path.is_empty()) else { return (String::new(), None) };
        let text = node.scalar_text().map(std::borrow::Cow::into_owned).unwrap_or_default();
        let written = node.text(&file.text);
        let plain = !written.is_empty() && !written.contains(['\n', '*', '&', '!']);
        (text, plain.then(|| written.to_owned()))
    }

    fn find(&self, id: &ObjectId) -> Option<(&SideFile, &SideDocument)> {
        self.files.values().find_map(|file| {
            let document = file.documents.iter().find(|document| document.id.as_ref() == Some(id))?;
            Some((file, document))
        })
    }

    pub fn text_of(&self, id: &ObjectId) -> Option<&str> {
        let (file, document) = self.find(id)?;
        file.text.get(document.range.clone())
    }

    pub fn node_of(&self, id: &ObjectId) -> Option<&Node> {
        self.find(id).map(|(_, document)| &document.node)
    }

    /// Whether this side is a step that was printed anew.
    pub fn is_printed(&self, id: &ObjectId) -> bool {
        self.text_of(id).is_some_and(|text| text.starts_with(PRINTED))
    }
}
