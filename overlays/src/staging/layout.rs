//! Files of a step, put together from documents of both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use kustomize_rs::yaml::{self, Node, emit};

use super::composite::Move;
use super::text;
use crate::edit;
use crate::object::{ObjectId, object_id};
use crate::{ClusterSpec, RenderedTree, RepoPath};

/// One side of a movement: its files and documents.
pub(super) struct Side {
    files: BTreeMap<RepoPath, SideFile>,
    objects: Vec<(ObjectId, Node)>,
}

pub(super) struct SideFile {
    text: String,
    documents: Vec<SideDocument>,
}

struct SideDocument {
    range: Range<usize>,
    node: Node,
    id: Option<ObjectId>,
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

    fn text_of(&self, id: &ObjectId) -> Option<&str> {
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

/// How the Cluster of every step but the last is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By byte-span edits of the people's text.
    Edited,
    /// Printed from its fields.
    Printed,
}

/// The first line of a Cluster that was printed. It tells the next process, which starts from such a step, how the steps are made.
const PRINTED: &str = "# Printed by Stepgate, as the text of this specification cannot be edited in place. The last stage brings it back.\n";

/// The files of one step.
pub(super) struct Layout<'a> {
    movement: &'a Move,
    old: &'a Side,
    new: &'a Side,
    rank: usize,
    form: Form,
}

impl<'a> Layout<'a> {
    pub fn new(movement: &'a Move, old: &'a Side, new: &'a Side, rank: usize, form: Form) -> Self {
        Self { movement, old, new, rank, form }
    }

    /// The form in which every step but the last can be made, also by a process that finds one of them deployed. A mixture could not: what one
    /// step prints, the next process would edit, and come to other bytes than the plan has.
    pub fn form(movement: &Move, old: &Side, new: &Side, steps: usize) -> Form {
        let id = &movement.cluster;
        let (Some(before), Some(after)) = (old.node_of(id), new.node_of(id)) else { return Form::Edited };
        let mut ranks = 0..steps.saturating_sub(1);
        let is_editable = |rank: usize| {
            let layout = Layout::new(movement, old, new, rank, Form::Edited);
            layout.edited(id, &movement.composite(before, after, rank)).is_some()
        };
        if !old.is_printed(id) && ranks.all(is_editable) { Form::Edited } else { Form::Printed }
    }

    /// What an object is in this step; `None` when it is not there.
    fn text(&self, id: &ObjectId) -> Option<String> {
        if *id == self.movement.cluster
            && let (Some(old), Some(new)) = (self.old.node_of(id), self.new.node_of(id))
        {
            return Some(self.cluster(id, old, new));
        }
        let side = if self.movement.rank(id) <= self.rank { self.new } else { self.old };
        side.text_of(id).map(str::to_owned)
    }

    /// The Cluster of this step.
    fn cluster(&self, id: &ObjectId, old: &Node, new: &Node) -> String {
        let wanted = self.movement.composite(old, new, self.rank);
        let edited = if self.form == Form::Edited { self.edited(id, &wanted) } else { None };
        edited.unwrap_or_else(|| {
            let moved = self.movement.control_plane_moved(self.rank);
            let side = if wanted == *new && (moved || wanted != *old) {
                self.new.text_of(id)
            } else if wanted == *old {
                self.old.text_of(id)
            } else {
                None
            };
            side.map_or_else(|| format!("{PRINTED}{}", emit(&wanted)), str::to_owned)
        })
    }

    /// The Cluster by byte-span edits, where they give what it should say.
    fn edited(&self, id: &ObjectId, wanted: &Node) -> Option<String> {
        let (before, after) = (self.old.text_of(id).unwrap_or_default(), self.new.text_of(id).unwrap_or_default());
        let edited = text::composite(self.movement, before, after, self.rank)?;
        let documents = edit::documents(&edited).ok()?;
        matches!(documents.as_slice(), [(_, node)] if node == wanted).then_some(edited)
    }

    pub fn tree(&self) -> RenderedTree {
        let (base, other) =
            if self.movement.control_plane_moved(self.rank) { (self.new, self.old) } else { (self.old, self.new) };
        let mut files: BTreeMap<RepoPath, String> = BTreeMap::new();
        let mut placed: BTreeSet<&ObjectId> = BTreeSet::new();
        for (path, file) in &base.files {
            let mut text = file.text.clone();
            let mut left = file.documents.len();
            for document in file.documents.iter().rev() {
                let Some(id) = &document.id else { continue };
                placed.insert(id);
                match self.text(id) {
                    Some(wanted) => {
                        if text.get(document.range.clone()) != Some(wanted.as_str()) {
                            text = edit::splice(&text, document.range.clone(), &ended(&wanted, &text, &document.range));
                        }
                    }
                    None => {
                        left -= 1;
                        text = without(&text, &document.range);
                    }
                }
            }
            if left > 0 {
                files.insert(path.clone(), text);
            }
        }
        for (path, file) in &other.files {
            for id in file.documents.iter().filter_map(|document| document.id.as_ref()) {
                if placed.contains(id) {
                    continue;
                }
                let Some(wanted) = self.text(id) else { continue };
                let text = files.entry(path.clone()).or_default();
                if !text.is_empty() {
                    if !text.ends_with('\n') {
                        text.push('\n');
                    }
                    text.push_str("---\n");
                }
                text.push_str(wanted.trim_start_matches(['\r', '\n']));
                if !text.ends_with('\n') {
                    text.push('\n');
                }
            }
        }
        files.into_iter().map(|(path, text)| (path, text.into_bytes())).collect()
    }
}

/// `wanted` with a line end when more follows it.
fn ended(wanted: &str, text: &str, range: &Range<usize>) -> String {
    let follows = range.end < text.len();
    if follows && !wanted.ends_with('\n') { format!("{wanted}\n") } else { wanted.to_owned() }
}

/// `text` without a document and the `---` before it (or after it, for the first one).
fn without(text: &str, range: &Range<usize>) -> String {
    let before = text.get(..range.start).unwrap_or_default();
    let after = text.get(range.end..).unwrap_or_default();
    let marker = before.trim_end_matches(['\r', '\n']).rfind('\n').map_or(0, |at| at + 1);
    if before.get(marker..).is_some_and(|line| line.starts_with("---")) {
        return format!("{}{after}", before.get(..marker).unwrap_or_default());
    }
    let after = after.split_once('\n').filter(|(line, _)| line.starts_with("---")).map_or(after, |(_, rest)| rest);
    format!("{before}{after}")
}
