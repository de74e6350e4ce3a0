//! Reading of objects with named errors; what was read is known from then on.

use std::cell::RefCell;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use git2::{ErrorClass, ErrorCode, ObjectType, Oid};
use overlays::Remembered;

use super::commit_fields::CommitFields;
use super::error::GitError;
use super::loose::{LooseError, LooseObjects};
use super::tree::{Tree, parse_tree};

/// Largest tree or commit that is read, in bytes. A folder of a million files has 40 MB.
const LARGEST_STRUCTURE: u64 = 64 << 20;

/// The object store of an open repository.
pub(super) struct Objects<'a> {
    odb: git2::Odb<'a>,
    loose: &'a LooseObjects,
    known: &'a KnownObjects,
}

/// Objects that were read before. An id names one content for ever, so nothing here is ever out of date.
pub(super) struct KnownObjects {
    trees: RefCell<Remembered<Oid, Arc<Tree>>>,
    commits: RefCell<Remembered<Oid, Arc<CommitFields>>>,
    blobs: RefCell<Remembered<Oid, Arc<[u8]>>>,
    sizes: RefCell<Remembered<Oid, u64>>,
    differing: RefCell<Remembered<(Oid, Oid), Differing>>,
}

/// The names under which two trees hold different things, in order; none where that cannot be told.
pub(super) type Differing = Option<Arc<[Vec<u8>]>>;

impl Default for KnownObjects {
    /// About 180 MiB at most: the trees and small files of 10,000 clusters. Equal files of many clusters are one.
    fn default() -> Self {
        Self {
            trees: RefCell::new(Remembered::new(64 << 20)),
            commits: RefCell::new(Remembered::new(16 << 20)),
            blobs: RefCell::new(Remembered::new(64 << 20)),
            sizes: RefCell::new(Remembered::new(16 << 20)),
            differing: RefCell::new(Remembered::new(16 << 20)),
        }
    }
}

/// The value that is known, or the one that is read and then known. Reading does not come back to what is known.
fn known<K: Clone + Eq + Hash, V: Clone, E>(
    known: &RefCell<Remembered<K, V>>,
    id: K,
    bytes: impl FnOnce(&V) -> usize,
    read: impl FnOnce() -> Result<V, E>,
) -> Result<V, E> {
    if let Some(value) = known.borrow_mut().get(&id) {
        return Ok(value);
    }
    let value = read()?;
    known.borrow_mut().insert(id, value.clone(), bytes(&value) + size_of::<(K, V, usize)>());
    Ok(value)
}

/// The content of an object.
pub(super) enum Content<'a> {
    Packed(git2::OdbObject<'a>),
    Loose(Vec<u8>),
}

impl Content<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Packed(object) => object.data(),
            Self::Loose(content) => content,
        }
    }
}

/// Why an object was not read.
pub(super) enum ObjectError {
    /// It has more bytes than the limit.
    TooLarge { size: u64 },
    /// Anything else, already described.
    Other(GitError),
}

impl<'a> Objects<'a> {
    pub(super) fn new(
        repository: &'a git2::Repository,
        loose: &'a LooseObjects,
        known: &'a KnownObjects,
    ) -> Result<Self, GitError> {
        let odb = repository.odb().map_err(|error| library("open the object store", &error))?;
        Ok(Self { odb, loose, known })
    }

    /// The object store as the library knows it.
    pub(super) fn odb(&self) -> &git2::Odb<'a> {
        &self.odb
    }

    /// Reads an object of a known kind that has at most `limit` bytes; `what` names it in errors.
    pub(super) fn read(
        &self,
        id: Oid,
        kind: ObjectType,
        limit: u64,
        what: impl Fn() -> String,
    ) -> Result<Content<'_>, ObjectError> {
        let corrupt =
            |message| ObjectError::Other(GitError::CorruptObject { id: id.to_string(), what: what(), message });
        let (found, content) = match self.loose.read(id, limit) {
            Some(Ok(object)) => (object.kind, Content::Loose(object.content)),
            Some(Err(LooseError::TooLarge { size })) => return Err(ObjectError::TooLarge { size }),
            Some(Err(LooseError::Corrupt(message))) => return Err(corrupt(message)),
            None => {
                let size = self.packed_size(id, &what).map_err(ObjectError::Other)?;
                if size > limit {
                    return Err(ObjectError::TooLarge { size });
                }
                let read = guarded(|| self.odb.read(id).map(|object| (object.kind(), object)));
                let (found, object) = read.map_err(|error| ObjectError::Other(unreadable(id, what(), &error)))?;
                (found, Content::Packed(object))
            }
        };
        if found == kind { Ok(content) } else { Err(corrupt(format!("it is a {found}, not a {kind}"))) }
    }

    fn structure(&self, id: Oid, kind: ObjectType, what: impl Fn() -> String) -> Result<Content<'_>, GitError> {
        self.read(id, kind, LARGEST_STRUCTURE, &what).map_err(|error| match error {
            ObjectError::Other(error) => error,
            ObjectError::TooLarge { size } => GitError::CorruptObject {
                id: id.to_string(),
                what: what(),
                message: format!("a {kind} of {size} bytes is not read; the limit is {LARGEST_STRUCTURE}"),
            },
        })
    }

    /// Size in bytes of an object, without reading all of it.
    pub(super) fn size(&self, id: Oid, what: impl Fn() -> String) -> Result<u64, GitError> {
        known(
            &self.known.sizes,
            id,
            |_| 0,
            || match self.loose.size(id) {
                Some(Ok(size)) | Some(Err(LooseError::TooLarge { size })) => Ok(size),
                Some(Err(LooseError::Corrupt(message))) => {
                    Err(GitError::CorruptObject { id: id.to_string(), what: what(), message })
                }
                None => self.packed_size(id, what),
            },
        )
    }

    /// The bytes of a blob that has at most `limit` bytes; `what` names it in errors.
    pub(super) fn blob(&self, id: Oid, limit: u64, what: impl Fn() -> String) -> Result<Arc<[u8]>, ObjectError> {
        known(
            &self.known.blobs,
            id,
            |bytes| bytes.len(),
            || Ok(Arc::from(self.read(id, ObjectType::Blob, limit, what)?.bytes())),
        )
    }

    fn packed_size(&self, id: Oid, what: impl Fn() -> String) -> Result<u64, GitError> {
        let (size, _) = guarded(|| self.odb.read_header(id)).map_err(|error| unreadable(id, what(), &error))?;
        Ok(u64::try_from(size).unwrap_or(u64::MAX))
    }

    /// The entries of a tree; `what` names it in errors.
    pub(super) fn tree(&self, id: Oid, what: impl Fn() -> String) -> Result<Arc<Tree>, GitError> {
        known(
            &self.known.trees,
            id,
            |tree| tree.bytes(),
            || {
                let object = self.structure(id, ObjectType::Tree, &what)?;
                let entries = parse_tree(object.bytes()).ok_or_else(|| GitError::CorruptObject {
                    id: id.to_string(),
                    what: what(),
                    message: "it is no well-formed tree".to_owned(),
                })?;
                Ok(Arc::new(Tree::new(entries)))
            },
        )
    }

    /// The names under which two trees hold different things; `what` names the trees in errors.
    pub(super) fn differing(&self, left: Oid, right: Oid, what: impl Fn() -> String) -> Result<Differing, GitError> {
        known(
            &self.known.differing,
            (left, right),
            |names| names.iter().flat_map(|names| names.iter()).map(|name| name.len() + 48).sum(),
            || Ok(self.tree(left, &what)?.differing(self.tree(right, &what)?.as_ref()).map(Arc::from)),
        )
    }

    /// The tree of a commit and its parents.
    pub(super) fn commit(&self, id: Oid) -> Result<Arc<CommitFields>, GitError> {
        known(
            &self.known.commits,
            id,
            |fields| fields.message.len() + 256,
            || {
                let what = || format!("commit {id}");
                let object = self.structure(id, ObjectType::Commit, what)?;
                let fields = CommitFields::parse(object.bytes()).ok_or_else(|| GitError::CorruptObject {
                    id: id.to_string(),
                    what: what(),
                    message: "it is no well-formed commit".to_owned(),
                })?;
                Ok(Arc::new(fields))
            },
        )
    }
}

/// An error of the library that fits no named one.
pub(super) fn library(action: impl Into<String>, error: &git2::Error) -> GitError {
    GitError::Library { action: action.into(), message: error.message().to_owned() }
}

/// Runs a call of the library that panics on an object whose kind it does not know (git2 0.21, `Odb::read_header`).
fn guarded<T>(call: impl FnOnce() -> Result<T, git2::Error>) -> Result<T, git2::Error> {
    // Reading changes nothing that a panic could leave half-changed.
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(git2::Error::new(ErrorCode::GenericError, ErrorClass::Odb, "its kind is unknown")))
}

fn unreadable(id: Oid, what: String, error: &git2::Error) -> GitError {
    let id = id.to_string();
    match (error.code(), error.class()) {
        (ErrorCode::NotFound, _) => GitError::MissingObject { id, what },
        (_, ErrorClass::Os | ErrorClass::NoMemory) => library(format!("read {what}"), error),
        _ => GitError::CorruptObject { id, what, message: error.message().to_owned() },
    }
}
