//! Ids of objects as the library has them and as ours.

use std::fmt;

use domain::CommitId;
use git2::Oid;

use super::error::GitError;

/// Id of a tree or blob. Equal ids mean equal content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(Oid);

impl ObjectId {
    pub(super) fn new(id: Oid) -> Self {
        Self(id)
    }

    pub(super) fn oid(self) -> Oid {
        self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ObjectId({})", self.0)
    }
}

/// The library's id of a commit.
pub(super) fn oid(commit: &CommitId) -> Result<Oid, GitError> {
    Oid::from_str(commit.as_str()).map_err(|_| GitError::MissingObject {
        id: commit.to_string(),
        what: format!("commit {commit} (a SHA-256 id in a SHA-1 repository)"),
    })
}

/// Our id of a commit.
pub(super) fn commit_id(oid: Oid) -> Result<CommitId, GitError> {
    oid.to_string()
        .parse()
        .map_err(|error| GitError::Library { action: format!("read object id {oid}"), message: format!("{error}") })
}
