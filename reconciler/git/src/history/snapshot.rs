//! The tree of one commit, read without a checkout.

use std::sync::Arc;

use domain::CommitId;
use domain::RepoPath;
use git2::Oid;

use crate::error::GitError;
use crate::limits::Limit;
use crate::refs::object_id::{commit_id, object_id, object_oid};
use crate::repository::Repository;
use crate::store::measure::LONGEST_NAME;
use crate::store::object::{ObjectError, Objects};
use crate::store::tree::{Entry, Mode};
use domain::ObjectId;

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

/// The longest path that is used, in bytes: no system opens a longer one (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;

/// As much of a path as is shown, in bytes.
const SHOWN: usize = 300;

/// The path, or how it is shown when no [`RepoPath`] can name it.
pub(crate) fn usable(path: &[u8]) -> Result<RepoPath, String> {
    let is_short =
        path.len() <= LONGEST_PATH && path.split(|byte| *byte == b'/').all(|name| name.len() <= LONGEST_NAME);
    let named = std::str::from_utf8(path).ok().filter(|_| is_short).and_then(|text| RepoPath::new(text).ok());
    named.ok_or_else(|| escaped(path))
}

/// A path as text: what is not UTF-8 is escaped, as `caf\xE9.yaml`; of a long one the beginning is shown.
pub(crate) fn escaped(path: &[u8]) -> String {
    if let (Some(beginning), true) = (path.get(..SHOWN), path.len() > LONGEST_PATH) {
        return format!("{}… ({} bytes)", escaped(beginning), path.len());
    }
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

impl GitSnapshot {
    /// Whether it is one of the folders of a commit.
    pub(crate) fn is_folder(&self) -> bool {
        self.folder.is_some()
    }

    pub(crate) fn tree_oid(&self) -> Option<Oid> {
        self.tree
    }

    pub(crate) fn of(repository: Repository, commit: Oid) -> Result<Self, GitError> {
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
        self.tree.map(object_id)
    }

    /// The same commit seen from one of its folders: paths are relative to it. An absent folder has no files.
    ///
    /// # Errors
    /// [`GitError`] when a tree on the way cannot be read, or [`GitError::NotAFile`] when the path is not a folder.
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
        Ok(self.entry(path)?.map(|entry| object_id(entry.id)))
    }

    /// Names of the folders at the top; those whose names are not UTF-8 are left out.
    ///
    /// # Errors
    /// [`GitError`] when the tree cannot be read.
    pub fn top_folders(&self) -> Result<Vec<String>, GitError> {
        let Some(top) = self.tree else { return Ok(Vec::new()) };
        let tree = self.repository.with_objects(|objects| objects.tree(top, || self.described("/")))?;
        let folders = tree.entries.iter().filter(|entry| entry.mode == Mode::Folder);
        Ok(folders.filter_map(|entry| String::from_utf8(entry.name.clone()).ok()).collect())
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
        let usable = |entry: &&Entry| entry.mode == Mode::Folder && entry.name.len() <= LONGEST_NAME;
        let folders = tree.entries.iter().filter(usable);
        let named = |entry: &Entry| Some((String::from_utf8(entry.name.clone()).ok()?, object_id(entry.id)));
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
            Mode::File | Mode::Executable => self.read_object(object_id(entry.id), path.as_str()),
            Mode::Folder | Mode::Symlink | Mode::Submodule => Err(self.not_a_file(path.as_str(), entry.mode)),
        }
    }

    /// The bytes of a blob whose id is known, for example from [`crate::ChangedFile`]. `path` names it in errors.
    ///
    /// # Errors
    /// [`GitError::TooLarge`], or what the object suffers from.
    pub fn read_object(&self, id: ObjectId, path: &str) -> Result<Arc<[u8]>, GitError> {
        self.repository.with_objects(|objects| self.blob(objects, object_oid(id)?, path))
    }

    /// The bytes of many blobs, in the order of `ids`; cheaper than one call each.
    ///
    /// # Errors
    /// As [`GitSnapshot::read_object`]; the first error ends the reading.
    pub fn read_objects<'a>(
        &self,
        ids: impl IntoIterator<Item = (ObjectId, &'a str)>,
    ) -> Result<Vec<Arc<[u8]>>, GitError> {
        self.repository.with_objects(|objects| {
            ids.into_iter().map(|(id, path)| self.blob(objects, object_oid(id)?, path)).collect()
        })
    }

    pub(crate) fn blob(&self, objects: &Objects<'_>, id: Oid, path: &str) -> Result<Arc<[u8]>, GitError> {
        self.blob_within(objects, id, path, self.repository.inner.limits.get(Limit::FileBytes))
    }

    /// The bytes of a blob that has at most so many.
    pub(crate) fn blob_within(
        &self,
        objects: &Objects<'_>,
        id: Oid,
        path: &str,
        limit: u64,
    ) -> Result<Arc<[u8]>, GitError> {
        match objects.blob(id, limit, || self.described(path)) {
            Ok(bytes) => Ok(bytes),
            Err(ObjectError::Other(error)) => Err(error),
            Err(ObjectError::TooLarge { size }) => {
                Err(GitError::TooLarge { commit: self.id.clone(), path: self.shown(path), size, limit })
            }
        }
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

    pub(crate) fn described(&self, path: &str) -> String {
        format!("{} of commit {}", self.shown(path), self.commit)
    }

    fn not_a_file(&self, path: &str, mode: Mode) -> GitError {
        GitError::NotAFile { commit: self.id.clone(), path: self.shown(path), kind: mode.shown() }
    }
}
