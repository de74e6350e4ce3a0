//! Ids of objects as the library has them and as ours.

use domain::{CommitId, ObjectId};
use git2::Oid;

use crate::error::GitError;

/// Our id of a tree or blob.
pub(crate) fn object_id(id: Oid) -> ObjectId {
    let mut bytes = [0; 20];
    // An id of SHA-256, which repositories here never have, would be cut.
    bytes.iter_mut().zip(id.as_bytes()).for_each(|(to, from)| *to = *from);
    bytes.into()
}

/// The library's id of a tree or blob.
pub(crate) fn object_oid(id: ObjectId) -> Result<Oid, GitError> {
    Oid::from_bytes(id.as_bytes())
        .map_err(|error| GitError::Library { action: format!("use object id {id}"), message: error.to_string() })
}

/// The library's id of a commit.
pub(crate) fn oid(commit: &CommitId) -> Result<Oid, GitError> {
    Oid::from_str(commit.as_str()).map_err(|_| GitError::MissingObject {
        id: commit.to_string(),
        what: format!("commit {commit} (a SHA-256 id in a SHA-1 repository)"),
    })
}

/// Our id of a commit.
pub(crate) fn commit_id(oid: Oid) -> Result<CommitId, GitError> {
    oid.to_string()
        .parse()
        .map_err(|error| GitError::Library { action: format!("read object id {oid}"), message: format!("{error}") })
}
