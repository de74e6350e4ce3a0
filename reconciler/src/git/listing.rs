//! All paths of a snapshot, and the files below one of its folders.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use git2::Oid;
use overlays::{ContentId, EntryKind, FileEntry, Files, ReadError, RenderedTree, RepoPath, Unusable, UnusablePath};

use super::error::GitError;
use super::object::Objects;
use super::snapshot::{GitSnapshot, escaped, usable};
use super::tree::{Entry, Mode};

/// Folders deeper than this are refused; git itself stops at 2,048 (`core.maxTreeDepth`).
const DEEPEST: usize = 256;

/// What a walk comes to: an entry that is no folder, or a folder that cannot be read.
enum Visited<'a> {
    Entry(&'a Entry),
    Unreadable(GitError),
}

type Visit<'a> = dyn FnMut(&[u8], Visited<'_>) -> Result<(), GitError> + 'a;

/// Whether a path lies in the folder of one cluster: what cannot be read there concerns that cluster alone.
fn of_one_cluster(path: &[u8]) -> bool {
    path.strip_prefix(b"clusters/").is_some_and(|rest| !rest.is_empty())
}

/// All paths of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Files, symbolic links and submodules, in order of path, which is git's.
    pub entries: Vec<FileEntry>,
    /// Paths that no [`RepoPath`] can name, and what cannot be read in the folders of clusters.
    pub unusable: Vec<UnusablePath>,
}

impl GitSnapshot {
    /// Every path of the snapshot, with kinds and sizes.
    ///
    /// What cannot be read below `clusters/<name>` is listed as unusable, since it concerns that cluster alone; a file
    /// whose size is not known is listed with none, so that reading it tells what is wrong with it.
    ///
    /// # Errors
    /// What the other trees suffer from, or [`GitError::CorruptObject`] for folders nested too deep.
    pub fn listing(&self) -> Result<Listing, GitError> {
        let mut listing = Listing::default();
        self.repository().with_objects(|objects| {
            self.walk(objects, &mut |path, visited| {
                let unreadable = |listing: &mut Listing, error: GitError| {
                    let reason = Unusable::Unreadable { message: error.detail(), hint: error.hint() };
                    listing.unusable.push(UnusablePath { path: escaped(path), reason });
                };
                let entry = match visited {
                    Visited::Entry(entry) => entry,
                    Visited::Unreadable(error) if of_one_cluster(path) => {
                        unreadable(&mut listing, error);
                        return Ok(());
                    }
                    Visited::Unreadable(error) => return Err(error),
                };
                let path = match usable(path) {
                    Ok(path) => path,
                    Err(path) => {
                        listing.unusable.push(UnusablePath { path, reason: Unusable::Name });
                        return Ok(());
                    }
                };
                let size = match entry.mode {
                    Mode::Submodule | Mode::Folder => 0,
                    Mode::File | Mode::Executable | Mode::Symlink => {
                        objects.size(entry.id, || self.described(path.as_str())).unwrap_or_default()
                    }
                };
                let kind = match entry.mode {
                    Mode::Submodule | Mode::Folder => EntryKind::Submodule,
                    Mode::File | Mode::Executable => EntryKind::File,
                    Mode::Symlink => match self.blob(objects, entry.id, path.as_str()) {
                        Ok(target) => EntryKind::Symlink { target: String::from_utf8_lossy(&target).into_owned() },
                        Err(error) if of_one_cluster(path.as_str().as_bytes()) => {
                            unreadable(&mut listing, error);
                            return Ok(());
                        }
                        Err(error) => return Err(error),
                    },
                };
                let id = entry.id.as_bytes().try_into().ok().map(ContentId::new);
                listing.entries.push(FileEntry { path, kind, size, id });
                Ok(())
            })
        })?;
        Ok(listing)
    }

    /// The snapshot with its paths listed.
    ///
    /// # Errors
    /// As [`GitSnapshot::listing`].
    pub fn listed(self) -> Result<ListedSnapshot, GitError> {
        let listing = self.listing()?;
        Ok(ListedSnapshot { snapshot: self, listing: Arc::new(listing) })
    }

    /// The regular files of the snapshot with their bytes: what a cluster's directory on the deploy branch holds.
    /// Links, submodules and paths that cannot be named are left out; [`GitSnapshot::listing`] reports them.
    ///
    /// # Errors
    /// As [`GitSnapshot::read`].
    pub fn files(&self) -> Result<RenderedTree, GitError> {
        let mut files = BTreeMap::new();
        self.repository().with_objects(|objects| {
            self.walk(objects, &mut |path, visited| {
                let entry = match visited {
                    Visited::Entry(entry) => entry,
                    Visited::Unreadable(error) => return Err(error),
                };
                if let (Mode::File | Mode::Executable, Ok(path)) = (entry.mode, usable(path)) {
                    let bytes = self.blob(objects, entry.id, path.as_str())?;
                    files.insert(path, bytes);
                }
                Ok(())
            })
        })?;
        Ok(RenderedTree { files })
    }

    /// Visits everything but folders; paths are bytes, since git does not promise UTF-8.
    fn walk(&self, objects: &Objects<'_>, visit: &mut Visit<'_>) -> Result<(), GitError> {
        let Some(tree) = self.tree_oid() else { return Ok(()) };
        // Without the top there is nothing to go on with.
        objects.tree(tree, || self.described(""))?;
        self.walk_tree(objects, tree, &mut Vec::new(), 0, visit)
    }

    fn walk_tree(
        &self,
        objects: &Objects<'_>,
        tree: Oid,
        path: &mut Vec<u8>,
        depth: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), GitError> {
        let described = |path: &[u8]| self.described(&escaped(path));
        let read = if depth > DEEPEST {
            Err(GitError::CorruptObject {
                id: tree.to_string(),
                what: described(path),
                message: format!("folders are nested more than {DEEPEST} deep"),
            })
        } else {
            objects.tree(tree, || described(path))
        };
        let tree = match read {
            Ok(tree) => tree,
            Err(error) => return visit(path, Visited::Unreadable(error)),
        };
        let length = path.len();
        for entry in &tree.entries {
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            if entry.mode == Mode::Folder {
                self.walk_tree(objects, entry.id, path, depth + 1, visit)?;
            } else {
                visit(path, Visited::Entry(entry))?;
            }
            path.truncate(length);
        }
        Ok(())
    }
}

/// A snapshot whose paths have been listed once: what `overlays` reads a fleet from.
///
/// Listing comes first because a tree that cannot be read must be an error, not an empty fleet.
#[derive(Clone, Debug)]
pub struct ListedSnapshot {
    snapshot: GitSnapshot,
    listing: Arc<Listing>,
}

impl ListedSnapshot {
    /// The snapshot behind it.
    pub fn snapshot(&self) -> &GitSnapshot {
        &self.snapshot
    }
}

impl Files for ListedSnapshot {
    fn paths(&self) -> Cow<'_, [FileEntry]> {
        Cow::Borrowed(&self.listing.entries)
    }

    fn read(&self, path: &RepoPath) -> Result<Arc<[u8]>, ReadError> {
        self.snapshot.read(path).map_err(|error| match error {
            GitError::MissingPath { path, .. } => ReadError::NotFound(path),
            error => ReadError::Failed { path: path.to_string(), message: error.detail(), hint: error.hint() },
        })
    }

    fn unusable_paths(&self) -> Vec<UnusablePath> {
        self.listing.unusable.clone()
    }
}
