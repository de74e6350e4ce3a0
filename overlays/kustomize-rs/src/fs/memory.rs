//! A file tree in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashSet;

use super::{FileError, FileSystem};

/// Files by path.
#[derive(Debug, Clone, Default)]
pub struct MemoryFileSystem {
    files: BTreeMap<String, Arc<[u8]>>,
    /// All directories but the root.
    folders: HashSet<String>,
}

impl MemoryFileSystem {
    /// Returns an empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file; `.` and `..` in the path are resolved, a path out of the tree is ignored.
    pub fn insert(&mut self, path: &str, content: impl Into<Arc<[u8]>>) {
        if let Some(path) = super::join("", path) {
            let mut rest = path.as_str();
            while let Some((folder, _)) = rest.rsplit_once('/')
                && !self.folders.contains(folder)
            {
                self.folders.insert(folder.to_owned());
                rest = folder;
            }
            self.files.insert(path, content.into());
        }
    }
}

impl<P: AsRef<str>, C: Into<Arc<[u8]>>> FromIterator<(P, C)> for MemoryFileSystem {
    fn from_iter<T: IntoIterator<Item = (P, C)>>(files: T) -> Self {
        let mut tree = Self::new();
        for (path, content) in files {
            tree.insert(path.as_ref(), content);
        }
        tree
    }
}

impl FileSystem for MemoryFileSystem {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, FileError> {
        match self.files.get(path) {
            Some(content) => Ok(Arc::clone(content)),
            None if self.is_dir(path) => Err(FileError::NotAFile),
            None => Err(FileError::Missing),
        }
    }

    fn is_dir(&self, path: &str) -> bool {
        path.is_empty() || self.folders.contains(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, FileError> {
        if !self.is_dir(path) {
            return Err(FileError::Missing);
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let names: BTreeSet<String> = self
            .files
            .keys()
            .filter_map(|name| name.strip_prefix(&prefix))
            .filter_map(|rest| rest.split('/').next())
            .map(str::to_owned)
            .collect();
        Ok(names.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories_are_told_apart() {
        let tree: MemoryFileSystem =
            [("a/b.yaml", *b"x"), ("a/c/d", *b"y")].into_iter().map(|(p, c)| (p, c.to_vec())).collect();
        assert_eq!(&*tree.read("a/b.yaml").unwrap(), b"x");
        assert_eq!(tree.read("a"), Err(FileError::NotAFile));
        assert_eq!(tree.read("x"), Err(FileError::Missing));
        assert!(tree.is_dir("a/c") && !tree.is_dir("a/b.yaml"));
        assert_eq!(tree.list("a").unwrap(), ["b.yaml", "c"]);
        assert_eq!(tree.list("").unwrap(), ["a"]);
    }
}
