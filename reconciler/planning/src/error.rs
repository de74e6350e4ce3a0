//! What goes wrong where names that were checked before make up a path.

use domain::{InvalidIdentifier, RepoPathError};

/// A path or a name of the deploy branch that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is not a valid path of the repository.
    #[error(transparent)]
    Path(#[from] RepoPathError),
    /// It holds a name that is none.
    #[error(transparent)]
    Name(#[from] InvalidIdentifier),
}
