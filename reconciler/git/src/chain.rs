//! The newest commits of a branch, as far back as each has one parent.

use std::collections::HashMap;
use std::sync::Arc;

use domain::CommitId;

use super::error::GitError;
use super::object_id::{commit_id, oid};
use super::repository::Repository;

/// How many commits of a branch are read at most. What is older is looked for in git.
const LONGEST: usize = 100_000;

/// Commits of which each follows the one before, the newest last: what contains one of them is what comes after it.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    commits: Vec<CommitId>,
    places: HashMap<CommitId, usize>,
}

impl Chain {
    /// The newest commit; none before any was read.
    pub fn head(&self) -> Option<&CommitId> {
        self.commits.last()
    }

    /// This commit and all that contain it, oldest first, as [`Repository::lineage`] tells them; none where it is not part of the chain.
    pub fn since(&self, commit: &CommitId) -> Option<&[CommitId]> {
        self.commits.get(*self.places.get(commit)?..)
    }

    /// Takes what comes after this commit off the chain; all where it is no part of it.
    fn end_in(&mut self, commit: Option<&CommitId>) {
        let length = commit.and_then(|commit| self.places.get(commit)).map_or(0, |place| place + 1);
        for commit in self.commits.drain(length..) {
            self.places.remove(&commit);
        }
    }
}

impl Repository {
    /// Brings a chain to a newer head of its branch. Only the commits since are read.
    ///
    /// # Errors
    /// What the commits suffer from; the chain is as it was then.
    pub fn extend(&self, chain: &mut Arc<Chain>, head: &CommitId) -> Result<(), GitError> {
        if chain.commits.len() > 2 * LONGEST {
            *chain = Arc::default();
        }
        let (mut new, mut met, mut next) = (Vec::new(), None, Some(oid(head)?));
        self.with_objects(|objects| {
            while let Some(id) = next.filter(|_| new.len() < LONGEST) {
                let commit = commit_id(id)?;
                if chain.places.contains_key(&commit) {
                    met = Some(commit);
                    break;
                }
                new.push(commit);
                next = match objects.commit(id)?.parents.as_slice() {
                    [parent] => Some(*parent),
                    _ => None,
                };
            }
            Ok(())
        })?;
        let chain = Arc::make_mut(chain);
        chain.end_in(met.as_ref());
        for commit in new.into_iter().rev() {
            chain.places.insert(commit.clone(), chain.commits.len());
            chain.commits.push(commit);
        }
        Ok(())
    }
}
