//! What a single commit says of itself.

use std::collections::HashSet;

use domain::CommitId;
use git2::Oid;
use jiff::Timestamp;
use rollout::Lineage;

use crate::error::GitError;
use crate::history::range::range;
use crate::refs::object_id::{commit_id, oid};
use crate::repository::Repository;

impl Repository {
    /// The first parent of a commit; none for the first commit of a branch.
    ///
    /// # Errors
    /// [`GitError`] when the commit cannot be read.
    pub fn parent(&self, commit: &CommitId) -> Result<Option<CommitId>, GitError> {
        let id = oid(commit)?;
        let fields = self.with_objects(|objects| objects.commit(id))?;
        fields.parents.first().copied().map(commit_id).transpose()
    }

    /// Who merged `merged`, and when: the author and time of the first of `later` that brought it to a branch without it, alone or with
    /// commits that follow from it. `later` are commits with parents before children, such as [`Repository::lineage`] gives.
    ///
    /// # Errors
    /// [`GitError`] when a commit cannot be read.
    pub fn merged_by(&self, later: &Lineage, merged: &CommitId) -> Result<Option<(String, Timestamp)>, GitError> {
        let mut containing = HashSet::from([oid(merged)?]);
        for commit in later.iter() {
            let id = oid(commit)?;
            let fields = self.with_objects(|objects| objects.commit(id))?;
            let mut parents = fields.parents.iter().map(|parent| containing.contains(parent));
            let first = parents.next().unwrap_or_default();
            if !first && parents.any(|inside| inside) {
                let at = Timestamp::from_second(fields.committed_at).unwrap_or(Timestamp::UNIX_EPOCH);
                return Ok(Some((fields.author.clone(), at)));
            }
            if first {
                containing.insert(id);
            }
        }
        Ok(None)
    }

    /// The commits of a branch that are not reachable from `base`, newest first, by first parents. Without a base all of them.
    ///
    /// # Errors
    /// [`GitError`] when commits cannot be read; [`GitError::OverBudget`] where the branch has more than `limit` of its own.
    pub fn beyond(&self, head: &CommitId, base: Option<&CommitId>, limit: usize) -> Result<Vec<CommitId>, GitError> {
        let (head, base) = (oid(head)?, base.map(oid).transpose()?);
        self.with_objects(|objects| {
            let own: HashSet<Oid> = range(objects, base, head, limit)?.into_iter().collect();
            let (mut next, mut found) = (Some(head), Vec::new());
            while let Some(id) = next.filter(|id| own.contains(id)) {
                found.push(commit_id(id)?);
                next = objects.commit(id)?.parents.first().copied();
            }
            Ok(found)
        })
    }

    /// Who wrote a commit, by its own word: `Name <address>`.
    ///
    /// # Errors
    /// [`GitError`] when the commit cannot be read.
    pub fn author(&self, commit: &CommitId) -> Result<String, GitError> {
        let id = oid(commit)?;
        self.with_objects(|objects| Ok(objects.commit(id)?.author.clone()))
    }

    /// What a commit says of itself.
    ///
    /// # Errors
    /// [`GitError`] when the commit cannot be read.
    pub fn message(&self, commit: &CommitId) -> Result<String, GitError> {
        let id = oid(commit)?;
        self.with_objects(|objects| Ok(objects.commit(id)?.message.clone()))
    }

    /// When a commit was made, by its own word.
    ///
    /// # Errors
    /// [`GitError`] when the commit cannot be read.
    pub fn committed_at(&self, commit: &CommitId) -> Result<Timestamp, GitError> {
        let id = oid(commit)?;
        let seconds = self.with_objects(|objects| objects.commit(id))?.committed_at;
        Ok(Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH))
    }
}
