//! Files of a step, put together from documents of both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use yaml::{Node, emit};

use super::composite::Move;
use super::etcd::{self, EtcdMove};
use super::side::{PRINTED, Side};
use super::{SpecStage, text};
use crate::RenderedTree;
use crate::edit;
use crate::object::ObjectId;
use domain::RepoPath;

/// How the Cluster of every step but the last is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By byte-span edits of the people's text.
    Edited,
    /// Printed from its fields.
    Printed,
}

/// The files of one step.
pub(super) struct Layout<'a> {
    movement: &'a Move,
    old: &'a Side,
    new: &'a Side,
    rank: usize,
    form: Form,
    etcd: EtcdMove,
}

impl<'a> Layout<'a> {
    pub fn new(movement: &'a Move, old: &'a Side, new: &'a Side, rank: usize, form: Form, etcd: EtcdMove) -> Self {
        Self { movement, old, new, rank, form, etcd }
    }

    /// The form in which every step but the last can be made, also by a process that finds one of them deployed. A mixture could not: what one
    /// step prints, the next process would edit, and come to other bytes than the plan has.
    pub fn form(movement: &Move, old: &Side, new: &Side, steps: usize) -> Form {
        let id = &movement.cluster;
        let (Some(before), Some(after)) = (old.node_of(id), new.node_of(id)) else { return Form::Edited };
        let mut ranks = 0..steps.saturating_sub(1);
        let is_editable = |rank: usize| {
            let layout = Layout::new(movement, old, new, rank, Form::Edited, EtcdMove::Apart);
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
        let text = side.text_of(id)?;
        let is_guarded = self.etcd == EtcdMove::Guarded && self.rank == self.movement.rank_of(&SpecStage::Etcd);
        let marked = if is_guarded { etcd::marked(id, text) } else { None };
        Some(marked.unwrap_or_else(|| text.to_owned()))
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

/// `wanted` with the end of what it takes the place of: a line end when more follows, or when that had one. Its own end is that of a place where it
/// stood before, which a process that finds the step deployed does not know.
fn ended(wanted: &str, text: &str, range: &Range<usize>) -> String {
    let replaced = text.get(range.clone()).unwrap_or_default();
    let is_ended = range.end < text.len() || replaced.ends_with('\n');
    let bare = wanted.strip_suffix('\n').unwrap_or(wanted);
    let bare = if is_ended { bare } else { bare.strip_suffix('\r').unwrap_or(bare) };
    if is_ended { format!("{bare}\n") } else { bare.to_owned() }
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
