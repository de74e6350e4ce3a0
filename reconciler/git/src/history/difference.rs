//! What changed between two trees.

use std::cmp::Ordering;
use std::sync::Arc;

use domain::RepoPath;
use git2::Oid;

use super::snapshot::{GitSnapshot, escaped, usable};
use crate::error::GitError;
use crate::limits::Limit;
use crate::refs::object_id::object_id;
use crate::store::budget::Budget;
use crate::store::measure::LONGEST_NAME;
use crate::store::object::Objects;
use crate::store::tree::{Entry, Mode, Tree};
use domain::ObjectId;

/// One file that differs between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path, relative to the snapshots.
    pub path: RepoPath,
    /// Its content before; none when it was added. Submodules have none either.
    pub before: Option<ObjectId>,
    /// Its content after; none when it was removed. Submodules have none either.
    pub after: Option<ObjectId>,
}

/// The files that differ between two snapshots, in git's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Added, removed and modified files, links and submodules. A change of the executable bit alone counts.
    pub changed: Vec<ChangedFile>,
    /// Changed paths that no [`RepoPath`] can name, shown lossily.
    pub unusable: Vec<String>,
}

impl Difference {
    /// Compares two snapshots of one repository. Folders with equal ids are not opened.
    ///
    /// # Errors
    /// What the trees suffer from; [`GitError::OverBudget`] where more than a cluster's folder may hold has changed.
    pub fn between(before: &GitSnapshot, after: &GitSnapshot) -> Result<Self, GitError> {
        let (old, new) = (before.tree_oid(), after.tree_oid());
        let mut difference = Self::default();
        if old != new {
            after.repository().with_objects(|objects| {
                let limits = &after.repository().inner.limits;
                let (budget, largest_file) = (Budget::new(limits), limits.get(Limit::FileBytes));
                let mut walk =
                    Walk { objects, path: Vec::new(), depth: 0, budget, largest_file, difference: &mut difference };
                walk.trees(old, new)
            })?;
        }
        Ok(difference)
    }
}

struct Walk<'a> {
    objects: &'a Objects<'a>,
    path: Vec<u8>,
    depth: usize,
    budget: Budget,
    largest_file: u64,
    difference: &'a mut Difference,
}

impl Walk<'_> {
    fn trees(&mut self, old: Option<Oid>, new: Option<Oid>) -> Result<(), GitError> {
        let old = self.entries(old)?;
        let new = self.entries(new)?;
        let (mut old, mut new) = (old.entries.iter().peekable(), new.entries.iter().peekable());
        loop {
            match (old.peek().copied(), new.peek().copied()) {
                (None, None) => return Ok(()),
                (before, after) => {
                    let order = match (before, after) {
                        (Some(before), Some(after)) => before.order(after),
                        (Some(_), None) => Ordering::Less,
                        (None, _) => Ordering::Greater,
                    };
                    let before = before.filter(|_| order != Ordering::Greater);
                    let after = after.filter(|_| order != Ordering::Less);
                    if before.is_some() {
                        old.next();
                    }
                    if after.is_some() {
                        new.next();
                    }
                    if before.map(identity) != after.map(identity) {
                        self.changed(before, after)?;
                    }
                }
            }
        }
    }

    fn entries(&mut self, tree: Option<Oid>) -> Result<Arc<Tree>, GitError> {
        let Some(tree) = tree else { return Ok(Arc::default()) };
        let shown = || format!("folder /{}", escaped(&self.path));
        let cost = self.objects.cost(tree, shown)?;
        self.budget
            .object(cost)
            .map_err(|exceeded| exceeded.of(format!("what changed up to folder /{}", escaped(&self.path))))?;
        self.objects.tree(tree, shown)
    }

    /// `before` and `after` have one name; a file and a folder of one name never meet, since git orders them apart.
    fn changed(&mut self, before: Option<&Entry>, after: Option<&Entry>) -> Result<(), GitError> {
        let Some(either) = before.or(after) else { return Ok(()) };
        let length = self.path.len();
        if length > 0 {
            self.path.push(b'/');
        }
        let charged = self.budget.entry(length + either.name.len() + 1, self.depth);
        charged.map_err(|exceeded| exceeded.of(format!("what changed up to folder /{}", escaped(&self.path))))?;
        self.path.extend_from_slice(&either.name);
        if either.mode == Mode::Folder && either.name.len() <= LONGEST_NAME {
            self.depth += 1;
            self.trees(before.map(|entry| entry.id), after.map(|entry| entry.id))?;
            self.depth -= 1;
        } else {
            let content = |entry: Option<&Entry>| {
                entry.filter(|entry| entry.mode != Mode::Submodule).map(|entry| object_id(entry.id))
            };
            for entry in [before, after].into_iter().flatten().filter(|entry| entry.mode != Mode::Submodule) {
                // What is too large to be read costs nothing, and what cannot be read is told by whoever reads it.
                if let Ok(cost) = self.objects.cost(entry.id, String::new)
                    && cost.size <= self.largest_file
                {
                    let charged = self.budget.object(cost);
                    charged.map_err(|exceeded| exceeded.of(format!("what changed up to /{}", escaped(&self.path))))?;
                }
            }
            match usable(&self.path) {
                Ok(path) => {
                    self.difference.changed.push(ChangedFile { path, before: content(before), after: content(after) });
                }
                Err(shown) => self.difference.unusable.push(shown),
            }
        }
        self.path.truncate(length);
        Ok(())
    }
}

fn identity(entry: &Entry) -> (Oid, Mode) {
    (entry.id, entry.mode)
}
