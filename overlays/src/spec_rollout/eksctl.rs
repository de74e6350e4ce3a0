//! The steps of a `ClusterConfig`: control plane, add-ons, then each node group beside the one that it replaces, which goes in
//! the step after.

use std::collections::BTreeMap;

use yaml::{Node, emit};

use super::side::{PRINTED, Side};
use super::{ClusterStage, SpecStage, change, text};
use crate::edit;
use crate::eksctl::{GROUP_LISTS, minor_of, names, sequence, stem};
use crate::object::{ObjectId, object_id};
use crate::{ClusterSpec, RenderedTree};

const ADDONS: &str = "addons";

/// Which side an item of a list is taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Old,
    New,
}

/// The steps from one `ClusterConfig` to another.
pub(super) struct Steps<'a> {
    id: ObjectId,
    old: &'a Side,
    new: &'a Side,
    stages: Vec<SpecStage>,
}

impl<'a> Steps<'a> {
    pub fn new(spec: &ClusterSpec, old: &'a Side, new: &'a Side, order: &[&str], back: bool) -> Self {
        let id = object_id(&spec.node).unwrap_or_else(|| ObjectId {
            group: String::new(),
            kind: String::new(),
            namespace: None,
            name: spec.name.clone(),
        });
        let before = old.node_of(&id).map(names).unwrap_or_default();
        let version = |side: &Side| side.version(&id, &["metadata", "version"]).0;
        let minors = (minor_of(&version(new)), minor_of(&version(old)));
        let down = back || matches!(minors, (Some(new), Some(old)) if new < old);
        let gone: Vec<&str> = before.iter().map(String::as_str).collect();
        let stages = sequence(&spec.node, order, &gone, down);
        Self { id, old, new, stages }
    }

    pub fn stages(&self, before: RenderedTree, target: RenderedTree) -> Vec<ClusterStage> {
        let (Some(old), Some(new)) = (self.old.node_of(&self.id), self.new.node_of(&self.id)) else {
            return vec![super::whole(&before, target)];
        };
        let last = self.stages.len().saturating_sub(1);
        let is_editable = |rank: usize| self.edited(old, new, rank).is_some();
        let is_printed = self.old.is_printed(&self.id) || !(0..last).all(is_editable);
        let mut stages = Vec::new();
        let mut previous = before;
        for (rank, stage) in self.stages.iter().enumerate() {
            let tree = if rank == last { target.clone() } else { self.tree(old, new, rank, is_printed) };
            if tree != previous {
                let changes = change::between(&previous, &tree);
                stages.push(ClusterStage { stage: stage.clone(), tree: tree.clone(), changes, moves: Vec::new() });
                previous = tree;
            }
        }
        stages
    }

    fn rank_of(&self, stage: &SpecStage) -> usize {
        self.stages.iter().position(|known| known == stage).unwrap_or(0)
    }

    fn moved(&self, rank: usize) -> bool {
        rank >= self.rank_of(&SpecStage::ControlPlane)
    }

    /// The lists whose items go by steps of their own.
    fn lists() -> impl Iterator<Item = &'static str> {
        GROUP_LISTS.into_iter().map(|(list, _)| list).chain([ADDONS])
    }

    /// The items of a list in a step, in order.
    fn items(&self, list: &str, old: &Node, new: &Node, rank: usize) -> Vec<(String, From)> {
        let of = |node: &Node| text::group_names(node, &[list]);
        let (before, after) = (of(old), of(new));
        let staged = |stage: SpecStage| self.rank_of(&stage) <= rank;
        if list == ADDONS {
            let staged = |name: &String| staged(SpecStage::Addon(name.clone()));
            let item = |name: &String| match (staged(name), before.contains(name)) {
                (true, _) => Some((name.clone(), From::New)),
                (false, true) => Some((name.clone(), From::Old)),
                (false, false) => None,
            };
            let gone = before.iter().filter(|name| !after.contains(name) && !self.moved(rank));
            return after.iter().filter_map(item).chain(gone.map(|name| (name.clone(), From::Old))).collect();
        }
        // Those that are replaced stand behind what replaces them, so that each step is read off the one before.
        let mut left: Vec<&String> = before
            .iter()
            .filter(|name| !after.contains(name) && !staged(SpecStage::Workers((*name).clone())))
            .collect();
        let mut items = Vec::new();
        for name in &after {
            if staged(SpecStage::Workers(name.clone())) {
                items.push((name.clone(), From::New));
            } else if before.contains(name) {
                items.push((name.clone(), From::Old));
            }
            let own = stem(new, name);
            let (replaced, others): (Vec<&String>, Vec<&String>) =
                left.into_iter().partition(|other| stem(new, other) == own);
            items.extend(replaced.into_iter().map(|name| (name.clone(), From::Old)));
            left = others;
        }
        items.extend(left.into_iter().map(|name| (name.clone(), From::Old)));
        items
    }

    /// What the `ClusterConfig` says in a step.
    fn composite(&self, old: &Node, new: &Node, rank: usize) -> Node {
        let mut root = if self.moved(rank) { new.clone() } else { old.clone() };
        for list in Self::lists() {
            let items = self.items(list, old, new, rank);
            let found =
                items.iter().filter_map(|(name, from)| find(if *from == From::Old { old } else { new }, list, name));
            let found: Vec<Node> = found.cloned().collect();
            let Some(mapping) = root.as_mapping_mut() else { continue };
            if found.is_empty() {
                mapping.remove(list);
            } else {
                mapping.insert(list, Node::from(found));
            }
        }
        root
    }

    /// The `ClusterConfig` of a step by byte-span edits, where they give what it should say.
    fn edited(&self, old: &Node, new: &Node, rank: usize) -> Option<String> {
        let (before, after) = (self.old.text_of(&self.id)?, self.new.text_of(&self.id)?);
        let mut text = if self.moved(rank) { after } else { before }.to_owned();
        for list in Self::lists() {
            text = with_items(text, list, &self.items(list, old, new, rank), before, after)?;
        }
        let documents = edit::documents(&text).ok()?;
        let wanted = without_empty(&self.composite(old, new, rank));
        matches!(documents.as_slice(), [(_, node)] if without_empty(node) == wanted).then_some(text)
    }

    fn tree(&self, old: &Node, new: &Node, rank: usize, is_printed: bool) -> RenderedTree {
        let side = if self.moved(rank) { self.new } else { self.old };
        let edited = if is_printed { None } else { self.edited(old, new, rank) };
        let wanted = edited.unwrap_or_else(|| format!("{PRINTED}{}", emit(&self.composite(old, new, rank))));
        let files: BTreeMap<_, _> = side
            .files
            .iter()
            .map(|(path, file)| {
                let document = file.documents.iter().find(|document| document.id.as_ref() == Some(&self.id));
                let text = match document {
                    Some(document) => edit::splice(&file.text, document.range.clone(), &wanted),
                    None => file.text.clone(),
                };
                (path.clone(), text)
            })
            .collect();
        files.into_iter().map(|(path, text)| (path, text.into_bytes())).collect()
    }
}

fn find<'n>(root: &'n Node, list: &str, name: &str) -> Option<&'n Node> {
    let items = root.get(list)?.as_sequence()?;
    items.iter().find(|item| item.get("name").and_then(Node::as_str) == Some(name))
}

/// The same without lists that hold nothing: the edits leave their keys.
fn without_empty(root: &Node) -> Node {
    let mut root = root.clone();
    if let Some(mapping) = root.as_mapping_mut() {
        let is_empty = |node: &Node| node.is_null() || node.as_sequence().is_some_and(<[Node]>::is_empty);
        mapping.retain(|entry| !(Steps::lists().any(|list| list == entry.key) && is_empty(&entry.value)));
    }
    root
}

/// A text whose list has these items, in their order. One that stands in the place of another takes its lines, so that comments
/// stay where they are.
fn with_items(mut base: String, list: &str, items: &[(String, From)], old: &str, new: &str) -> Option<String> {
    let path = [list];
    let names = |text: &str| Some(text::group_names(&text::root(text)?, &path));
    let stem_of = |name: &str| Some(stem(&text::root(new)?, name));
    for (index, (name, from)) in items.iter().enumerate() {
        let side = if *from == From::Old { old } else { new };
        let item = text::item_text(side, &path, name)?;
        let present = names(&base)?;
        let there = present.get(index).filter(|there| *there != name);
        let is_wanted = |other: &String| items.iter().any(|(wanted, _)| wanted == other);
        let replaced = there.filter(|there| !is_wanted(there) && stem_of(there) == stem_of(name));
        base = if present.contains(name) {
            let (root, other) = (text::root(&base)?, text::root(side)?);
            let is_same = find(&root, list, name) == find(&other, list, name);
            if is_same { base } else { text::replace_item(&base, &path, name, Some(&item))? }
        } else if let Some(replaced) = replaced {
            text::replace_item(&base, &path, replaced, Some(&item))?
        } else {
            let previous = index.checked_sub(1).and_then(|index| items.get(index));
            text::insert_item(&base, &path, previous.map(|(name, _)| name.as_str()), &item)?
        };
    }
    for name in names(&base)?.iter().filter(|name| !items.iter().any(|(wanted, _)| wanted == *name)) {
        base = text::replace_item(&base, &path, name, None)?;
    }
    Some(base)
}

#[cfg(test)]
#[path = "eksctl_tests.rs"]
mod tests;
