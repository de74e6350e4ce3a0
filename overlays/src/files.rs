//! The files of one commit, as values.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use domain::RepoPath;

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

/// The name that a store of files has for a content, such as the id of a git blob. Equal ids mean equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId([u8; 20]);

impl ContentId {
    /// The id with these bytes.
    pub fn new(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 20] {
        &self.0
    }
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
    /// What its content is called; none where that is not known without reading it. With it, what was read from a file
    /// can be remembered.
    pub id: Option<ContentId>,
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
        /// What to do about it, where there is something to say.
        hint: Option<String>,
    },
}

/// A path of a commit that is not used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusablePath {
    /// The path; bytes that are not UTF-8 are escaped, as `caf\xE9.yaml`.
    pub path: String,
    /// Why it is not used.
    pub reason: Unusable,
}

/// Why a path of a commit is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// No [`RepoPath`] can name it: it is not UTF-8, or has a refused segment.
    Name,
    /// The store of the files cannot give what is there.
    Unreadable {
        /// The cause.
        message: String,
        /// What to do about it, where there is something to say.
        hint: Option<String>,
    },
}

/// Read access to the tree of one commit (or of a folder of it).
pub trait Files {
    /// Every entry whose path is UTF-8 and a [`RepoPath`], in order of path.
    fn paths(&self) -> Cow<'_, [FileEntry]>;

    /// The entries below a folder, in order of path.
    fn below(&self, folder: &str) -> Cow<'_, [FileEntry]> {
        match self.paths() {
            Cow::Borrowed(entries) => Cow::Borrowed(entries_below(entries, folder)),
            Cow::Owned(entries) => Cow::Owned(entries_below(&entries, folder).to_vec()),
        }
    }

    /// The entry at a path.
    fn entry(&self, path: &RepoPath) -> Option<FileEntry> {
        let entries = self.paths();
        let found = entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        entries.get(found).cloned()
    }

    /// The bytes of a regular file.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such file or it cannot be read.
    fn read(&self, path: &RepoPath) -> Result<Arc<[u8]>, ReadError>;

    /// Paths that are not among [`Files::paths`] and should be: they cannot be named, or not be read.
    fn unusable_paths(&self) -> Vec<UnusablePath> {
        Vec::new()
    }
}

/// Those of sorted entries whose path lies below `folder`.
fn entries_below<'a>(entries: &'a [FileEntry], folder: &str) -> &'a [FileEntry] {
    let first = format!("{folder}/");
    let start = entries.partition_point(|entry| entry.path.as_str() < first.as_str());
    let rest = entries.get(start..).unwrap_or_default();
    let end = rest.partition_point(|entry| entry.path.is_below(folder));
    rest.get(..end).unwrap_or_default()
}

/// A [`Files`] in memory, for tests, the demo and rendered trees.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    files: BTreeMap<RepoPath, (EntryKind, Arc<[u8]>)>,
    unusable: Vec<UnusablePath>,
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

    /// Adds or replaces an entry that is not a regular file.
    pub fn insert_entry(&mut self, path: RepoPath, kind: EntryKind) {
        self.files.insert(path, (kind, Arc::from(&b""[..])));
    }

    /// Notes a path that is not used.
    pub fn insert_unusable(&mut self, path: impl Into<String>, reason: Unusable) {
        self.unusable.push(UnusablePath { path: path.into(), reason });
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
    fn paths(&self) -> Cow<'_, [FileEntry]> {
        self.files
            .iter()
            .map(|(path, (kind, bytes))| FileEntry {
                path: path.clone(),
                kind: kind.clone(),
                size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
                id: None,
            })
            .collect()
    }

    fn read(&self, path: &RepoPath) -> Result<Arc<[u8]>, ReadError> {
        match self.files.get(path) {
            Some((EntryKind::File, bytes)) => Ok(Arc::clone(bytes)),
            Some((EntryKind::Symlink { .. }, _)) => Err(not_a_file(path, "it is a symbolic link")),
            Some((EntryKind::Submodule, _)) => Err(not_a_file(path, "it is a submodule")),
            None => Err(ReadError::NotFound(path.to_string())),
        }
    }

    fn unusable_paths(&self) -> Vec<UnusablePath> {
        self.unusable.clone()
    }
}

fn not_a_file(path: &RepoPath, message: &str) -> ReadError {
    ReadError::Failed { path: path.to_string(), message: message.to_owned(), hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_of_a_folder_are_those_below_it_and_no_neighbours() {
        let names = ["a", "a-b/x", "a.b", "a/b", "a/c/d", "a0", "b/a/b"];
        let files: MemoryFiles = names.iter().map(|name| (RepoPath::new(*name).unwrap(), &b""[..])).collect();
        let below = |folder: &str| files.below(folder).iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>();
        assert_eq!(below("a"), ["a/b", "a/c/d"]);
        assert_eq!(below("a/c"), ["a/c/d"]);
        assert!(below("c").is_empty() && below("a0").is_empty());
        assert!(files.entry(&RepoPath::new("a.b").unwrap()).is_some());
        assert!(files.entry(&RepoPath::new("a/c").unwrap()).is_none(), "a folder has no entry");
    }
}
