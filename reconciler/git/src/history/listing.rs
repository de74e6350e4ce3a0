//! All paths of a snapshot, and the files below one of its folders.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use domain::RepoPath;
use git2::Oid;
use overlays::{ContentId, EntryKind, FileEntry, Files, ReadError, RenderedTree, Unusable, UnusablePath};

use super::snapshot::{GitSnapshot, escaped, usable};
use crate::error::GitError;
use crate::limits::Limits;
use crate::store::budget::Usage;
use crate::store::measure::{LONGEST_LINK, LONGEST_NAME, Measures, Read};
use crate::store::object::Objects;
use crate::store::tree::{Entry, Mode};
use crate::store::units::{Units, What};

/// What a walk comes to: an entry that is not a folder, or a folder that cannot be read.
enum Visited<'a> {
    Entry(&'a Entry),
    Unreadable(GitError),
}

type Visit<'a> = dyn FnMut(&[u8], Visited<'_>) -> Result<(), GitError> + 'a;

/// Whether a path lies in the folder of one cluster: what cannot be read there concerns that cluster alone.
fn of_one_cluster(path: &[u8]) -> bool {
    path.strip_prefix(b"clusters/").is_some_and(|rest| !rest.is_empty())
}

/// Whether the rest of the repository is read without this. Without the clusters there would be nothing left to tell.
fn is_left_out(path: &[u8], error: &GitError) -> bool {
    matches!(error, GitError::OverBudget { .. }) && !path.is_empty() && !path.ends_with(b"clusters")
}

/// All paths of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Files, symbolic links and submodules, in order of path, which is git's.
    pub entries: Vec<FileEntry>,
    /// Paths that no [`RepoPath`] can name, what cannot be read in the folders of clusters, and folders that would cost too much.
    pub unusable: Vec<UnusablePath>,
}

impl GitSnapshot {
    /// Every path of the snapshot, with kinds and sizes.
    ///
    /// What cannot be read below `clusters/<name>` is listed as unusable, since it concerns that cluster alone; so is a folder, of
    /// a cluster or of nobody, that is above a limit: nothing of it is listed. A file whose size is not known is listed with none, so
    /// that reading it tells what is wrong with it.
    ///
    /// # Errors
    /// What the other trees suffer from; [`GitError::OverBudget`] where the top, or the folder that is listed, costs too much.
    pub fn listing(&self) -> Result<Listing, GitError> {
        let mut listing = Listing::default();
        let Some(top) = self.tree_oid() else { return Ok(listing) };
        let limits = &self.repository().inner.limits;
        self.repository().with_objects(|objects| {
            if self.is_folder() {
                self.affordable(objects, top, limits)?;
                return self.walk(objects, top, &mut |path, visited| self.list(objects, &mut listing, path, visited));
            }
            let describe = |path: &[u8]| self.described(&escaped(path));
            let top = objects.tree(top, || describe(b""))?;
            let mut units = Units::of(objects, limits, &describe, &top)?;
            for unit in &units.units {
                match unit.refused {
                    Some(exceeded) if unit.path.is_empty() => return Err(exceeded.of(self.described(""))),
                    Some(exceeded) => listing.unreadable(&unit.path, &exceeded.of(escaped(&unit.path))),
                    None => {}
                }
            }
            units.walk(&top, &mut |path, what| {
                let mut visit = |path: &[u8], visited: Visited<'_>| self.list(objects, &mut listing, path, visited);
                match what {
                    What::Leaf(entry) => visit(path, Visited::Entry(entry)),
                    What::Unreadable(error) => visit(path, Visited::Unreadable(error)),
                    What::Folder(tree) => self.walk_tree(objects, tree, path, &mut visit),
                }
            })
        })?;
        Ok(listing)
    }

    fn list(
        &self,
        objects: &Objects<'_>,
        listing: &mut Listing,
        path: &[u8],
        visited: Visited<'_>,
    ) -> Result<(), GitError> {
        let entry = match visited {
            Visited::Entry(entry) => entry,
            Visited::Unreadable(error) if of_one_cluster(path) || is_left_out(path, &error) => {
                listing.unreadable(path, &error);
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
                objects.cost(entry.id, || self.described(path.as_str())).map(|cost| cost.size).unwrap_or_default()
            }
        };
        let kind = match entry.mode {
            Mode::Submodule | Mode::Folder => EntryKind::Submodule,
            Mode::File | Mode::Executable => EntryKind::File,
            Mode::Symlink => match self.link(objects, entry.id, path.as_str()) {
                Ok(target) => EntryKind::Symlink { target: String::from_utf8_lossy(&target).into_owned() },
                Err(error)
                    if of_one_cluster(path.as_str().as_bytes()) || matches!(error, GitError::TooLarge { .. }) =>
                {
                    listing.unreadable(path.as_str().as_bytes(), &error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
        };
        let id = entry.id.as_bytes().try_into().ok().map(ContentId::new);
        listing.entries.push(FileEntry { path, kind, size, id });
        Ok(())
    }

    /// What a symbolic link points to.
    fn link(&self, objects: &Objects<'_>, id: Oid, path: &str) -> Result<Arc<[u8]>, GitError> {
        self.blob_within(objects, id, path, LONGEST_LINK)
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
    /// As [`GitSnapshot::read`]; [`GitError::OverBudget`] where all of them together cost too much.
    pub fn files(&self) -> Result<RenderedTree, GitError> {
        let mut files = BTreeMap::new();
        let Some(top) = self.tree_oid() else { return Ok(RenderedTree { files }) };
        let limits = &self.repository().inner.limits;
        self.repository().with_objects(|objects| {
            self.affordable(objects, top, limits)?;
            self.walk(objects, top, &mut |path, visited| {
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

    /// Whether everything below a folder may be read.
    fn affordable(&self, objects: &Objects<'_>, top: Oid, limits: &Limits) -> Result<(), GitError> {
        let usage = Measures::new(objects, limits, Read::All, 1, Usage::default()).folder(top);
        usage.map(drop).map_err(|exceeded| exceeded.of(self.described("")))
    }

    /// Visits everything but folders; paths are bytes, since git does not promise UTF-8.
    fn walk(&self, objects: &Objects<'_>, top: Oid, visit: &mut Visit<'_>) -> Result<(), GitError> {
        // Without the top there is nothing to go on with.
        objects.tree(top, || self.described(""))?;
        self.walk_tree(objects, top, &mut Vec::new(), visit)
    }

    /// Only what was counted before is walked, so that nothing here is without an end.
    fn walk_tree(
        &self,
        objects: &Objects<'_>,
        tree: Oid,
        path: &mut Vec<u8>,
        visit: &mut Visit<'_>,
    ) -> Result<(), GitError> {
        let tree = match objects.tree(tree, || self.described(&escaped(path))) {
            Ok(tree) => tree,
            Err(error) => return visit(path, Visited::Unreadable(error)),
        };
        let length = path.len();
        for entry in &tree.entries {
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            if entry.mode == Mode::Folder && entry.name.len() <= LONGEST_NAME {
                self.walk_tree(objects, entry.id, path, visit)?;
            } else {
                visit(path, Visited::Entry(entry))?;
            }
            path.truncate(length);
        }
        Ok(())
    }
}

impl Listing {
    fn unreadable(&mut self, path: &[u8], error: &GitError) {
        let reason = Unusable::Unreadable { message: error.detail(), hint: error.hint() };
        self.unusable.push(UnusablePath { path: escaped(path), reason });
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
