//! The tree of a commit as kustomizations read it.

use std::sync::Arc;

use git2::Oid;
use kustomize_rs::{FileError, FileSystem};

use super::error::GitError;
use super::object::Objects;
use super::snapshot::GitSnapshot;
use super::tree::{Entry, Mode};

/// As many symbolic links may lie on the way to a file, as in Linux.
const MOST_LINKS: usize = 40;

/// The files of a [`GitSnapshot`] for `kustomize_rs::build`: there is no work tree to escape from.
///
/// Symbolic links are followed inside of the tree: relative ones to any path of it; absolute ones lead out. Submodules are
/// not there.
#[derive(Clone, Debug)]
pub struct GitFileSystem {
    snapshot: GitSnapshot,
}

/// Where a path leads.
struct Found {
    /// The folders on the way and the file itself, links resolved.
    path: Vec<String>,
    id: Oid,
    is_folder: bool,
}

impl GitFileSystem {
    /// The files of `snapshot`; its root is the root of the file system.
    #[must_use]
    pub fn new(snapshot: GitSnapshot) -> Self {
        Self { snapshot }
    }

    fn find(&self, path: &str) -> Result<Found, FileError> {
        let found = self.snapshot.repository().with_objects(|objects| self.walk(objects, path));
        found.map_err(|error| FileError::Other(error.to_string()))?
    }

    fn walk(&self, objects: &Objects<'_>, path: &str) -> Result<Result<Found, FileError>, GitError> {
        let Some(root) = self.snapshot.tree_oid() else { return Ok(Err(FileError::Missing)) };
        let mut folders: Vec<(String, Oid)> = Vec::new();
        let mut rest: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut links = 0;
        while let Some(segment) = rest.pop() {
            if matches!(segment.as_str(), "" | ".") {
                continue;
            }
            if segment == ".." {
                if folders.pop().is_none() {
                    return Ok(Err(FileError::Outside));
                }
                continue;
            }
            let Some(entry) = self.entry(objects, folders.last().map_or(root, |(_, id)| *id), &segment)? else {
                return Ok(Err(FileError::Missing));
            };
            match entry.mode {
                Mode::Folder => folders.push((segment, entry.id)),
                Mode::File | Mode::Executable if rest.iter().all(|segment| segment.is_empty()) => {
                    let path = folders.into_iter().map(|(name, _)| name).chain([segment]).collect();
                    return Ok(Ok(Found { path, id: entry.id, is_folder: false }));
                }
                // Nothing is below a file, and a submodule is a commit that is not here.
                Mode::File | Mode::Executable | Mode::Submodule => return Ok(Err(FileError::Missing)),
                Mode::Symlink => {
                    links += 1;
                    if links > MOST_LINKS {
                        let message = format!("more than {MOST_LINKS} symbolic links on the way");
                        return Ok(Err(FileError::Other(message)));
                    }
                    let target = self.snapshot.blob(objects, entry.id, path)?;
                    let Ok(target) = std::str::from_utf8(&target) else { return Ok(Err(FileError::Missing)) };
                    if target.starts_with('/') {
                        return Ok(Err(FileError::Outside));
                    }
                    rest.extend(target.rsplit('/').map(str::to_owned));
                }
            }
        }
        let id = folders.last().map_or(root, |(_, id)| *id);
        Ok(Ok(Found { path: folders.into_iter().map(|(name, _)| name).collect(), id, is_folder: true }))
    }

    fn entry(&self, objects: &Objects<'_>, tree: Oid, name: &str) -> Result<Option<Entry>, GitError> {
        let entries = objects.tree(tree, || format!("a folder of commit {}", self.snapshot.commit()))?;
        Ok(entries.find(name.as_bytes()).cloned())
    }
}

impl FileSystem for GitFileSystem {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, FileError> {
        let found = self.find(path)?;
        if found.is_folder {
            return Err(FileError::NotAFile);
        }
        let read = self.snapshot.repository().with_objects(|objects| self.snapshot.blob(objects, found.id, path));
        read.map_err(|error| match error {
            GitError::TooLarge { limit, .. } => FileError::TooLarge { limit },
            error => FileError::Other(error.to_string()),
        })
    }

    fn is_dir(&self, path: &str) -> bool {
        self.find(path).is_ok_and(|found| found.is_folder)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, FileError> {
        let found = self.find(path)?;
        if !found.is_folder {
            return Err(FileError::Missing);
        }
        let what = || format!("folder {path:?} of commit {}", self.snapshot.commit());
        let entries = self.snapshot.repository().with_objects(|objects| objects.tree(found.id, what));
        let entries = entries.map_err(|error| FileError::Other(error.to_string()))?;
        let names = entries.entries.iter().filter(|entry| entry.mode != Mode::Submodule);
        let mut names: Vec<String> = names.filter_map(|entry| String::from_utf8(entry.name.clone()).ok()).collect();
        names.sort();
        Ok(names)
    }

    fn canonical(&self, path: &str) -> Result<String, FileError> {
        Ok(self.find(path)?.path.join("/"))
    }
}
