//! Trees of rendered files and their digests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::{EntryKind, FileEntry, Files, ReadError};
use domain::{RepoPath, TreeDigest};

/// Files by path. Equal trees have equal digests, on every machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedTree {
    /// The files; paths are relative to the folder that the tree stands for.
    pub files: BTreeMap<RepoPath, Arc<[u8]>>,
}

/// The files below `clusters/<name>/` on the deploy branch, paths relative to that folder; empty for a new cluster.
pub type DeployedTree = RenderedTree;

/// What happened to one file between two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileChange {
    /// Only in the new tree.
    Added,
    /// Only in the old tree.
    Removed,
    /// In both, with other bytes.
    Modified,
}

/// The files that differ between two trees.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TreeDifference {
    /// Path and what happened to it, in order of path.
    pub files: BTreeMap<RepoPath, FileChange>,
}

impl TreeDifference {
    /// Whether the trees are equal.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl RenderedTree {
    /// A tree without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a file.
    pub fn insert(&mut self, path: RepoPath, bytes: impl Into<Arc<[u8]>>) {
        self.files.insert(path, bytes.into());
    }

    /// The bytes of one file.
    pub fn get(&self, path: &str) -> Option<&Arc<[u8]>> {
        self.files.get(path)
    }

    /// Whether it has no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The digest of paths and bytes.
    pub fn digest(&self) -> TreeDigest {
        let mut hash = Sha256::new();
        for (path, bytes) in &self.files {
            hash.update(path.as_str().as_bytes());
            hash.update([0]);
            hash.update(bytes.len().to_string().as_bytes());
            hash.update([0]);
            hash.update(bytes);
        }
        TreeDigest::from(<[u8; 32]>::from(hash.finalize()))
    }

    /// What changes when this tree is replaced by `new`.
    pub fn diff(&self, new: &Self) -> TreeDifference {
        let mut files = BTreeMap::new();
        for (path, bytes) in &self.files {
            match new.files.get(path) {
                None => {
                    files.insert(path.clone(), FileChange::Removed);
                }
                Some(other) if other != bytes => {
                    files.insert(path.clone(), FileChange::Modified);
                }
                Some(_) => {}
            }
        }
        for path in new.files.keys().filter(|path| !self.files.contains_key(*path)) {
            files.insert(path.clone(), FileChange::Added);
        }
        TreeDifference { files }
    }

    /// The files below `folder`, paths kept as they are.
    #[must_use]
    pub fn below(&self, folder: &str) -> Self {
        self.files
            .iter()
            .filter(|(path, _)| path.is_below(folder))
            .map(|(path, bytes)| (path.clone(), Arc::clone(bytes)))
            .collect()
    }

    /// Takes over the files of `other`; on equal paths `other` wins.
    pub fn extend(&mut self, other: &Self) {
        self.files.extend(other.files.iter().map(|(path, bytes)| (path.clone(), Arc::clone(bytes))));
    }
}

impl<B: Into<Arc<[u8]>>> FromIterator<(RepoPath, B)> for RenderedTree {
    fn from_iter<I: IntoIterator<Item = (RepoPath, B)>>(iterator: I) -> Self {
        Self { files: iterator.into_iter().map(|(path, bytes)| (path, bytes.into())).collect() }
    }
}

impl Files for RenderedTree {
    fn paths(&self) -> Cow<'_, [FileEntry]> {
        self.files
            .iter()
            .map(|(path, bytes)| FileEntry {
                path: path.clone(),
                kind: EntryKind::File,
                size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
                id: None,
            })
            .collect()
    }

    fn read(&self, path: &RepoPath) -> Result<Arc<[u8]>, ReadError> {
        self.files.get(path).cloned().ok_or_else(|| ReadError::NotFound(path.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> RenderedTree {
        files.iter().map(|(path, text)| (RepoPath::new(*path).unwrap(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn the_digest_depends_on_paths_and_bytes_and_nothing_else() {
        assert_eq!(tree(&[("a", "1"), ("b", "2")]).digest(), tree(&[("b", "2"), ("a", "1")]).digest());
        assert_ne!(tree(&[("a", "1"), ("b", "2")]).digest(), tree(&[("a", "12"), ("b", "")]).digest());
        assert_ne!(tree(&[("a", "")]).digest(), tree(&[]).digest());
        assert_eq!(
            tree(&[]).digest().to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn a_difference_names_each_file_once() {
        let difference = tree(&[("a", "1"), ("b", "2"), ("c", "3")]).diff(&tree(&[("a", "1"), ("b", "x"), ("d", "4")]));
        let shown: Vec<_> = difference.files.iter().map(|(path, change)| (path.as_str(), *change)).collect();
        assert_eq!(shown, [("b", FileChange::Modified), ("c", FileChange::Removed), ("d", FileChange::Added)]);
    }
}
