//! What a single commit says of itself.

use jiff::Timestamp;
use rollout::CommitId;

use super::error::GitError;
use super::object::{commit_id, oid};
use super::repository::Repository;

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

    /// Who merged `merged`, and when: the author and time of `commit`, where that is a merge of it; else none.
    ///
    /// # Errors
    /// [`GitError`] when the commit cannot be read.
    pub fn merged_by(&self, commit: &CommitId, merged: &CommitId) -> Result<Option<(String, Timestamp)>, GitError> {
        let (id, merged) = (oid(commit)?, oid(merged)?);
        let fields = self.with_objects(|objects| objects.commit(id))?;
        let at = || Timestamp::from_second(fields.committed_at).unwrap_or(Timestamp::UNIX_EPOCH);
        Ok(fields.parents.iter().skip(1).any(|parent| *parent == merged).then(|| (fields.author.clone(), at())))
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
