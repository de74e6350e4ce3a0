//! Reading of objects with named errors; what was read is known from then on.

use std::cell::{Cell, RefCell};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use git2::{ErrorClass, ErrorCode, ObjectType, Oid};
use overlays::Remembered;

use super::budget::{Exceeded, Usage};
use super::directories::Store;
use super::loose::LooseError;
use super::measure::Read;
use super::packs::Cost;
use super::tree::{Tree, parse_tree};
use crate::error::GitError;
use crate::history::commit_fields::CommitFields;
use crate::limits::{Limit, Limits};
use host::memory::Part;

/// Largest commit that is read as a whole, in bytes. Of a larger one the message counts as empty.
const LARGEST_COMMIT: u64 = 1 << 20;

/// About how many bytes of memory it takes to know which stage of one cluster a commit is.
const STAGE: usize = 320;

/// The object store of an open repository, for one look at it.
pub(crate) struct Objects<'a> {
    odb: git2::Odb<'a>,
    store: &'a Store,
    known: &'a KnownObjects,
    limits: &'a Limits,
    /// Bytes of commits that were read.
    history: Cell<u64>,
}

/// Objects that were read before. An id names one content for ever, so nothing here is ever out of date.
pub(crate) struct KnownObjects {
    trees: RefCell<Remembered<Oid, Arc<Tree>>>,
    commits: RefCell<Remembered<Oid, Arc<CommitFields>>>,
    blobs: RefCell<Remembered<Oid, Arc<[u8]>>>,
    costs: RefCell<Remembered<Oid, Cost>>,
    measured: RefCell<Remembered<(Oid, Read), Usage>>,
    differing: RefCell<Remembered<(Oid, Oid), Differing>>,
}

/// The names under which two trees hold different things, in order; none where that cannot be told.
pub(crate) type Differing = Option<Arc<[Vec<u8>]>>;

impl Default for KnownObjects {
    /// The trees and small files of a whole fleet, as far as there is memory. Equal files of many clusters are one.
    fn default() -> Self {
        Self {
            trees: RefCell::new(Remembered::new(Part::Trees.bytes())),
            commits: RefCell::new(Remembered::new(Part::Commits.bytes())),
            blobs: RefCell::new(Remembered::new(Part::Blobs.bytes())),
            costs: RefCell::new(Remembered::new(Part::Costs.bytes() / 3)),
            measured: RefCell::new(Remembered::new(Part::Costs.bytes() / 3)),
            differing: RefCell::new(Remembered::new(Part::Differences.bytes())),
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
pub(crate) enum Content<'a> {
    Packed(git2::OdbObject<'a>),
    Loose(Vec<u8>),
}

impl Content<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Packed(object) => object.data(),
            Self::Loose(content) => content,
        }
    }
}

/// Why an object was not read.
pub(crate) enum ObjectError {
    /// It has more bytes than the limit.
    TooLarge { size: u64 },
    /// Anything else, already described.
    Other(GitError),
}

impl<'a> Objects<'a> {
    pub(crate) fn new(
        repository: &'a git2::Repository,
        store: &'a Store,
        known: &'a KnownObjects,
        limits: &'a Limits,
    ) -> Result<Self, GitError> {
        let odb = repository.odb().map_err(|error| library("open the object store", &error))?;
        Ok(Self { odb, store, known, limits, history: Cell::new(0) })
    }

    /// Packs have been written just now.
    pub(crate) fn forget_packs(&self) {
        self.store.packs.forget();
    }

    /// The object store as the library knows it.
    pub(crate) fn odb(&self) -> &git2::Odb<'a> {
        &self.odb
    }

    /// Reads an object of a known kind that has at most `limit` bytes; `what` names it in errors.
    pub(crate) fn read(
        &self,
        id: Oid,
        kind: ObjectType,
        limit: u64,
        what: impl Fn() -> String,
    ) -> Result<Content<'_>, ObjectError> {
        let corrupt =
            |message| ObjectError::Other(GitError::CorruptObject { id: id.to_string(), what: what(), message });
        let (found, content) = match self.store.loose(id, limit) {
            Some(Ok(object)) => (object.kind, Content::Loose(object.content)),
            Some(Err(LooseError::TooLarge { size })) => return Err(ObjectError::TooLarge { size }),
            Some(Err(LooseError::Corrupt(message))) => return Err(corrupt(message)),
            None => {
                let cost = self.cost(id, &what).map_err(ObjectError::Other)?;
                if cost.size > limit {
                    return Err(ObjectError::TooLarge { size: cost.size });
                }
                self.affordable(cost).map_err(|exceeded| ObjectError::Other(exceeded.of(what())))?;
                let read = guarded(|| self.odb.read(id).map(|object| (object.kind(), object)));
                let (found, object) = read.map_err(|error| ObjectError::Other(unreadable(id, what(), &error)))?;
                (found, Content::Packed(object))
            }
        };
        if found == kind { Ok(content) } else { Err(corrupt(format!("it is a {found}, not a {kind}"))) }
    }

    /// Whether what is inflated to make an object may be.
    fn affordable(&self, cost: Cost) -> Result<(), Exceeded> {
        for (limit, bytes) in [(Limit::BaseBytes, cost.largest), (Limit::DeltaBytes, cost.bases)] {
            let allowed = self.limits.get(limit);
            if bytes > allowed {
                return Err(Exceeded { limit, allowed });
            }
        }
        Ok(())
    }

    /// What reading an object costs, told by headers alone.
    pub(crate) fn cost(&self, id: Oid, what: impl Fn() -> String) -> Result<Cost, GitError> {
        known(
            &self.known.costs,
            id,
            |_| 0,
            || match self.store.loose_size(id) {
                Some(Ok(size)) | Some(Err(LooseError::TooLarge { size })) => Ok(Cost::whole(size)),
                Some(Err(LooseError::Corrupt(message))) => {
                    Err(GitError::CorruptObject { id: id.to_string(), what: what(), message })
                }
                None => match self.store.packs.cost(id) {
                    Ok(Some(cost)) => Ok(cost),
                    Ok(None) => Err(GitError::MissingObject { id: id.to_string(), what: what() }),
                    Err(error) => {
                        Err(GitError::CorruptObject { id: id.to_string(), what: what(), message: error.to_string() })
                    }
                },
            },
        )
    }

    /// What a folder and all below it come to, as far as it was counted before.
    pub(crate) fn measured(&self, id: Oid, read: Read) -> Option<Usage> {
        self.known.measured.borrow_mut().get(&(id, read))
    }

    /// Notes what a folder and all below it come to.
    pub(crate) fn measure(&self, id: Oid, read: Read, usage: Usage) {
        self.known.measured.borrow_mut().insert((id, read), usage, size_of::<(Oid, Read, Usage, usize)>());
    }

    /// The bytes of a blob that has at most `limit` bytes; `what` names it in errors.
    pub(crate) fn blob(&self, id: Oid, limit: u64, what: impl Fn() -> String) -> Result<Arc<[u8]>, ObjectError> {
        known(
            &self.known.blobs,
            id,
            |bytes| bytes.len(),
            || Ok(Arc::from(self.read(id, ObjectType::Blob, limit, what)?.bytes())),
        )
    }

    /// The entries of a tree; `what` names it in errors.
    pub(crate) fn tree(&self, id: Oid, what: impl Fn() -> String) -> Result<Arc<Tree>, GitError> {
        known(
            &self.known.trees,
            id,
            |tree| tree.bytes(),
            || {
                let allowed = self.limits.get(Limit::FolderBytes);
                let object = self.read(id, ObjectType::Tree, allowed, &what).map_err(|error| match error {
                    ObjectError::Other(error) => error,
                    ObjectError::TooLarge { .. } => Exceeded { limit: Limit::FolderBytes, allowed }.of(what()),
                })?;
                let entries = parse_tree(object.bytes()).ok_or_else(|| GitError::CorruptObject {
                    id: id.to_string(),
                    what: what(),
                    message: "it is not a well-formed tree".to_owned(),
                })?;
                Ok(Arc::new(Tree::new(entries)))
            },
        )
    }

    /// The names under which two trees hold different things; `what` names the trees in errors.
    pub(crate) fn differing(&self, left: Oid, right: Oid, what: impl Fn() -> String) -> Result<Differing, GitError> {
        known(
            &self.known.differing,
            (left, right),
            |names| names.iter().flat_map(|names| names.iter()).map(|name| name.len() + 48).sum(),
            || Ok(self.tree(left, &what)?.differing(self.tree(right, &what)?.as_ref()).map(Arc::from)),
        )
    }

    /// The tree of a commit and its parents.
    pub(crate) fn commit(&self, id: Oid) -> Result<Arc<CommitFields>, GitError> {
        let what = || format!("commit {id}");
        known(
            &self.known.commits,
            id,
            |fields| fields.message.len() + fields.stages.len() * STAGE + fields.parents.len() * size_of::<Oid>() + 256,
            || {
                let cost = self.cost(id, what)?;
                let read = self
                    .history
                    .get()
                    .saturating_add(cost.size.min(LARGEST_COMMIT))
                    .saturating_add(cost.bases.saturating_sub(LARGEST_COMMIT));
                let allowed = self.limits.get(Limit::HistoryBytes);
                if read > allowed {
                    let exceeded = Exceeded { limit: Limit::HistoryBytes, allowed };
                    return Err(exceeded.of(format!("the history at commit {id}")));
                }
                self.history.set(read);
                let fields = match self.read(id, ObjectType::Commit, LARGEST_COMMIT, what) {
                    Ok(object) => CommitFields::parse(object.bytes()),
                    Err(ObjectError::Other(error)) => return Err(error),
                    Err(ObjectError::TooLarge { .. }) => {
                        let beginning = self.store.beginning(id, LARGEST_COMMIT);
                        beginning.ok().flatten().and_then(|bytes| CommitFields::parse_beginning(&bytes))
                    }
                };
                let fields = fields.ok_or_else(|| GitError::CorruptObject {
                    id: id.to_string(),
                    what: what(),
                    message: "it is not a well-formed commit".to_owned(),
                })?;
                Ok(Arc::new(fields))
            },
        )
    }
}

/// An error of the library that fits no named one.
pub(crate) fn library(action: impl Into<String>, error: &git2::Error) -> GitError {
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
