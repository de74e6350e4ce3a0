//! The newest commits of a branch, as far back as each has one parent.

use std::collections::HashMap;

use domain::CommitId;
use rollout::Lineage;

use crate::error::GitError;
use crate::refs::object_id::{commit_id, oid};
use crate::repository::Repository;

/// About how many bytes of memory one of the commits takes: in the lineage, and in the table of places.
const COMMIT: usize = Lineage::COMMIT + 2 * size_of::<(CommitId, usize)>();

/// Commits of which each follows the one before, the newest last: what contains one of them is what comes after it.
///
/// What is told of it is shared with it, however the branch goes on.
#[derive(Clone, Debug)]
pub struct Chain {
    commits: Lineage,
    /// Where each is, counted from the oldest that there ever was.
    places: HashMap<CommitId, usize>,
    /// How many that were older are not kept any more.
    dropped: usize,
    /// How many are kept at most. What is older is looked for in git.
    longest: usize,
}

impl Chain {
    /// A chain that takes about so many bytes of memory at most.
    pub fn new(bytes: usize) -> Self {
        let longest = (bytes / COMMIT).max(1);
        Self { commits: Lineage::default(), places: HashMap::new(), dropped: 0, longest }
    }

    /// The newest commit; none before any was read.
    pub fn head(&self) -> Option<&CommitId> {
        self.commits.last()
    }

    /// Where a commit is in it, counted from its oldest; none where it is no part of it.
    pub fn place(&self, commit: &CommitId) -> Option<usize> {
        self.places.get(commit)?.checked_sub(self.dropped)
    }

    /// This commit and all that contain it, oldest first, as [`Repository::lineage`] tells them; none where it is not part of the chain.
    pub fn since(&self, commit: &CommitId) -> Option<Lineage> {
        Some(self.commits.since(self.place(commit)?))
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.commits.len() * COMMIT
    }

    /// Brings it to a newer head: `newer` commits follow on this one; on none where it is no part of it.
    fn follow(&mut self, met: Option<&CommitId>, newer: Vec<CommitId>) {
        let kept = met.and_then(|met| self.place(met)).map_or(0, |place| place + 1);
        for commit in self.commits.since(kept).iter() {
            self.places.remove(commit);
        }
        for (number, commit) in newer.iter().enumerate() {
            self.places.insert(commit.clone(), self.dropped + kept + number);
        }
        self.commits = self.commits.grown(kept, newer);
        // Half of what there may be goes at once, so that the table is not made anew with each commit.
        if self.commits.len() > self.longest {
            let older = self.commits.len() - self.longest.div_ceil(2);
            for commit in self.commits.iter().take(older) {
                self.places.remove(commit);
            }
            self.commits = self.commits.since(older);
            self.dropped += older;
        }
    }
}

impl Repository {
    /// Brings a chain to a newer head of its branch. Only the commits since are read.
    ///
    /// # Errors
    /// What the commits suffer from; the chain is as it was then.
    pub fn extend(&self, chain: &mut Chain, head: &CommitId) -> Result<(), GitError> {
        let (mut new, mut met, mut next) = (Vec::new(), None, Some(oid(head)?));
        self.with_objects(|objects| {
            while let Some(id) = next.filter(|_| new.len() < chain.longest) {
                let commit = commit_id(id)?;
                if chain.place(&commit).is_some() {
                    met = Some(commit);
                    break;
                }
                // Where a clone was cut, what is older is looked for in git, if at all.
                let fields = match objects.commit(id) {
                    Err(GitError::MissingObject { .. }) if !new.is_empty() => break,
                    fields => fields?,
                };
                new.push(commit);
                next = match fields.parents.as_slice() {
                    [parent] => Some(*parent),
                    _ => None,
                };
            }
            Ok(())
        })?;
        new.reverse();
        chain.follow(met.as_ref(), new);
        Ok(())
    }
}
