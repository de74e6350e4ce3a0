//! The tree of one commit, read without a checkout.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use git2::Oid;
use overlays::{ContentId, EntryKind, FileEntry, Files, ReadError, RenderedTree, RepoPath, Unusable, UnusablePath};
use rollout::CommitId;

use super::error::GitError;
use super::object::{Entry, Mode, ObjectError, Objects, commit_id};
use super::repository::Repository;

/// Folders deeper than this are refused; git itself stops at 2,048 (`core.maxTreeDepth`).
const DEEPEST: usize = 256;

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

/// A commit and its tree, or a folder of that tree. Cheap to clone; files are read when asked for.
///
/// Nothing is checked out and no link is followed, so no content of the repository can lead outside of it.
#[derive(Clone, Debug)]
pub struct GitSnapshot {
    repository: Repository,
    commit: Oid,
    id: CommitId,
    tree: Option<Oid>,
    folder: Option<RepoPath>,
}

/// What a walk comes to: an entry that is no folder, or a folder that cannot be read.
enum Visited<'a> {
    Entry(&'a Entry),
    Unreadable(GitError),
}

type Visit<'a> = dyn FnMut(&[u8], Visited<'_>) -> Result<(), GitError> + 'a;

/// The path, or how it is shown when no [`RepoPath`] can name it.
pub(super) fn usable(path: &[u8]) -> Result<RepoPath, String> {
    let named = std::str::from_utf8(path).ok().and_then(|text| RepoPath::new(text).ok());
    named.ok_or_else(|| escaped(path))
}

/// A path as text: what is not UTF-8 is escaped, as `caf\xE9.yaml`.
fn escaped(path: &[u8]) -> String {
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        text.extend(chunk.valid().chars().flat_map(|character| {
            let escape = character.is_control();
            escape.then(|| character.escape_default()).into_iter().flatten().chain((!escape).then_some(character))
        }));
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02X}")));
    }
    text
}

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
    pub(super) fn tree_oid(&self) -> Option<Oid> {
        self.tree
    }

    pub(super) fn of(repository: Repository, commit: Oid) -> Result<Self, GitError> {
        let tree = repository.with_objects(|objects| objects.commit(commit))?.tree;
        Ok(Self { repository, commit, id: commit_id(commit)?, tree: Some(tree), folder: None })
    }

    /// The commit.
    pub fn commit(&self) -> &CommitId {
        &self.id
    }

    /// The repository that the snapshot reads from.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Id of the tree (or of the folder that [`GitSnapshot::below`] chose); none when that folder is absent.
    pub fn tree(&self) -> Option<ObjectId> {
        self.tree.map(ObjectId)
    }

    /// The same commit seen from one of its folders: paths are relative to it. An absent folder has no files.
    ///
    /// # Errors
    /// [`GitError`] when a tree on the way cannot be read, or [`GitError::NotAFile`] when the path is no folder.
    pub fn below(&self, folder: &RepoPath) -> Result<Self, GitError> {
        let tree = match self.entry(folder)? {
            None => None,
            Some(entry) if entry.mode == Mode::Folder => Some(entry.id),
            Some(entry) => return Err(self.not_a_file(folder.as_str(), entry.mode)),
        };
        let folder = match &self.folder {
            Some(above) => above.join(folder.as_str()).map_err(|error| GitError::Library {
                action: format!("go to folder {folder}"),
                message: error.to_string(),
            })?,
            None => folder.clone(),
        };
        Ok(Self { tree, folder: Some(folder), ..self.clone() })
    }

    /// Id of the file or folder at `path`; none when there is nothing. Comparing two of these ids compares everything
    /// below.
    ///
    /// # Errors
    /// [`GitError`] when a tree on the way cannot be read.
    pub fn tree_id(&self, path: &RepoPath) -> Result<Option<ObjectId>, GitError> {
        Ok(self.entry(path)?.map(|entry| ObjectId(entry.id)))
    }

    /// Names and ids of the folders directly inside `folder`; those whose names are not UTF-8 are left out. An absent
    /// folder holds none.
    ///
    /// # Errors
    /// [`GitError`] when a tree on the way cannot be read.
    pub fn folders(&self, folder: &RepoPath) -> Result<Vec<(String, ObjectId)>, GitError> {
        let Some(entry) = self.entry(folder)?.filter(|entry| entry.mode == Mode::Folder) else { return Ok(Vec::new()) };
        let tree =
            self.repository.with_objects(|objects| objects.tree(entry.id, || self.described(folder.as_str())))?;
        let folders = tree.entries.iter().filter(|entry| entry.mode == Mode::Folder);
        let named = |entry: &Entry| Some((String::from_utf8(entry.name.clone()).ok()?, ObjectId(entry.id)));
        Ok(folders.filter_map(named).collect())
    }

    /// The bytes of a regular file. Links are not followed.
    ///
    /// # Errors
    /// [`GitError::MissingPath`], [`GitError::NotAFile`], [`GitError::TooLarge`], or what the objects suffer from.
    pub fn read(&self, path: &RepoPath) -> Result<Arc<[u8]>, GitError> {
        let entry = self
            .entry(path)?
            .ok_or_else(|| GitError::MissingPath { commit: self.id.clone(), path: self.shown(path.as_str()) })?;
        match entry.mode {
            Mode::File | Mode::Executable => self.read_object(ObjectId(entry.id), path.as_str()),
            Mode::Folder | Mode::Symlink | Mode::Submodule => Err(self.not_a_file(path.as_str(), entry.mode)),
        }
    }

    /// The bytes of a blob whose id is known, for example from [`super::ChangedFile`]. `path` names it in errors.
    ///
    /// # Errors
    /// [`GitError::TooLarge`], or what the object suffers from.
    pub fn read_object(&self, id: ObjectId, path: &str) -> Result<Arc<[u8]>, GitError> {
        self.repository.with_objects(|objects| self.blob(objects, id.oid(), path))
    }

    /// The bytes of many blobs, in the order of `ids`; cheaper than one call each.
    ///
    /// # Errors
    /// As [`GitSnapshot::read_object`]; the first error ends the reading.
    pub fn read_objects<'a>(
        &self,
        ids: impl IntoIterator<Item = (ObjectId, &'a str)>,
    ) -> Result<Vec<Arc<[u8]>>, GitError> {
        self.repository
            .with_objects(|objects| ids.into_iter().map(|(id, path)| self.blob(objects, id.oid(), path)).collect())
    }

    /// Every path of the snapshot, with kinds and sizes.
    ///
    /// What cannot be read below `clusters/<name>` is listed as unusable, since it concerns that cluster alone; a file
    /// whose size is not known is listed with none, so that reading it tells what is wrong with it.
    ///
    /// # Errors
    /// What the other trees suffer from, or [`GitError::CorruptObject`] for folders nested too deep.
    pub fn listing(&self) -> Result<Listing, GitError> {
        let mut listing = Listing::default();
        self.repository.with_objects(|objects| {
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
        self.repository.with_objects(|objects| {
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

    pub(super) fn blob(&self, objects: &Objects<'_>, id: Oid, path: &str) -> Result<Arc<[u8]>, GitError> {
        let limit = self.repository.inner.largest_file;
        match objects.blob(id, limit, || self.described(path)) {
            Ok(bytes) => Ok(bytes),
            Err(ObjectError::Other(error)) => Err(error),
            Err(ObjectError::TooLarge { size }) => {
                Err(GitError::TooLarge { commit: self.id.clone(), path: self.shown(path), size, limit })
            }
        }
    }

    /// Visits everything but folders; paths are bytes, since git does not promise UTF-8.
    fn walk(&self, objects: &Objects<'_>, visit: &mut Visit<'_>) -> Result<(), GitError> {
        let Some(tree) = self.tree else { return Ok(()) };
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

    fn entry(&self, path: &RepoPath) -> Result<Option<Entry>, GitError> {
        let Some(mut tree) = self.tree else { return Ok(None) };
        self.repository.with_objects(|objects| {
            let mut segments = path.segments().peekable();
            while let Some(segment) = segments.next() {
                let entries = objects.tree(tree, || self.described(path.as_str()))?;
                let Some(entry) = entries.find(segment.as_bytes()) else { return Ok(None) };
                if segments.peek().is_none() {
                    return Ok(Some(entry.clone()));
                }
                match entry.mode {
                    Mode::Folder => tree = entry.id,
                    // Nothing is below a file, and links are not followed.
                    Mode::File | Mode::Executable | Mode::Symlink | Mode::Submodule => return Ok(None),
                }
            }
            Ok(None)
        })
    }

    fn shown(&self, path: &str) -> String {
        match &self.folder {
            Some(folder) => format!("{folder}/{path}"),
            None => path.to_owned(),
        }
    }

    fn described(&self, path: &str) -> String {
        format!("{} of commit {}", self.shown(path), self.commit)
    }

    fn not_a_file(&self, path: &str, mode: Mode) -> GitError {
        GitError::NotAFile { commit: self.id.clone(), path: self.shown(path), kind: mode.shown() }
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
