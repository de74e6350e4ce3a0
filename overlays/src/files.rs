//! The files of one commit, as values.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::RepoPath;

/// What a path of a commit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink {
        /// Its text, not resolved.
        target: String,
    },
    /// A submodule (a commit of another repository).
    Submodule,
}

/// One path of a commit. Folders have no entry of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Where it is.
    pub path: RepoPath,
    /// What it is.
    pub kind: EntryKind,
    /// Size in bytes; 0 for submodules.
    pub size: u64,
}

/// Why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No such file in the commit.
    #[error("no file {0} in this commit")]
    NotFound(String),
    /// There is one, and reading it failed.
    #[error("cannot read {path}: {message}")]
    Failed {
        /// The path asked for.
        path: String,
        /// The cause.
        message: String,
    },
}

/// Read access to the tree of one commit (or of a folder of it). The order of [`Files::paths`] is not relied on.
pub trait Files {
    /// Every entry whose path is UTF-8 and a [`RepoPath`].
    fn paths(&self) -> Vec<FileEntry>;

    /// The bytes of a regular file.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such file or it cannot be read.
    fn read(&self, path: &RepoPath) -> Result<Arc<[u8]>, ReadError>;

    /// Paths that no [`RepoPath`] can name (not UTF-8, or with a refused segment), shown lossily for messages.
    fn unusable_paths(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A [`Files`] in memory, for tests, the demo and rendered trees.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    files: BTreeMap<RepoPath, (EntryKind, Arc<[u8]>)>,
    unusable: Vec<String>,
}

impl MemoryFiles {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a regular file.
    pub fn insert(&mut self, path: RepoPath, bytes: impl Into<Arc<[u8]>>) {
        self.files.insert(path, (EntryKind::File, bytes.into()));
    }

    /// Adds or replaces an entry that is no regular file.
    pub fn insert_entry(&mut self, path: RepoPath, kind: EntryKind) {
        self.files.insert(path, (kind, Arc::from(&b""[..])));
    }

    /// Notes a path that no [`RepoPath`] can name.
    pub fn insert_unusable(&mut self, path: impl Into<String>) {
        self.unusable.push(path.into());
    }

    /// Removes an entry; `false` when there was none.
    pub fn remove(&mut self, path: &RepoPath) -> bool {
        self.files.remove(path).is_some()
    }
}

impl<B: Into<Arc<[u8]>>> FromIterator<(RepoPath, B)> for MemoryFiles {
    fn from_iter<I: IntoIterator<Item = (RepoPath, B)>>(iterator: I) -> Self {
        let mut files = Self::new();
        for (path, bytes) in iterator {
            files.insert(path, bytes);
        }
        files
    }
}

impl Files for MemoryFiles {
    fn paths(&self) -> Vec<FileEntry> {
        self.files
            .iter()
            .map(|(path, (kind, bytes))| FileEntry {
                path: path.clone(),
                kind: kind.clone(),
                size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            })
            .collect()
    }

    fn read(&self, path: &RepoPath) -> Result<Arc<[u8]>, ReadError> {
        match self.files.get(path) {
            Some((EntryKind::File, bytes)) => Ok(Arc::clone(bytes)),
            Some((EntryKind::Symlink { .. }, _)) => {
                Err(ReadError::Failed { path: path.to_string(), message: "it is a symbolic link".to_owned() })
            }
            Some((EntryKind::Submodule, _)) => {
                Err(ReadError::Failed { path: path.to_string(), message: "it is a submodule".to_owned() })
            }
            None => Err(ReadError::NotFound(path.to_string())),
        }
    }

    fn unusable_paths(&self) -> Vec<String> {
        self.unusable.clone()
    }
}
