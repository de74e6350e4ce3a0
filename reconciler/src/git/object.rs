//! Objects as git stores them: reading with named errors, trees parsed by our own code.
//!
//! Trees are parsed here and not by the library because non-UTF-8 names, odd modes and malformed entries must become
//! errors of ours, and because comparing two trees needs nothing but their bytes.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use git2::{ErrorClass, ErrorCode, ObjectType, Oid};
use overlays::Remembered;
use rollout::CommitId;

use super::error::GitError;
use super::loose::{LooseError, LooseObjects};

/// What a tree entry is, from its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Folder,
    File,
    Executable,
    Symlink,
    Submodule,
}

impl Mode {
    fn read(text: &[u8]) -> Option<Self> {
        Some(match text {
            b"40000" | b"040000" => Self::Folder,
            // 100664 is written by very old programs and means a plain file.
            b"100644" | b"100664" => Self::File,
            b"100755" => Self::Executable,
            b"120000" => Self::Symlink,
            b"160000" => Self::Submodule,
            _ => return None,
        })
    }

    fn written(self) -> &'static str {
        match self {
            Self::Folder => "40000",
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::Submodule => "160000",
        }
    }

    pub(super) fn shown(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::File | Self::Executable => "file",
            Self::Symlink => "symbolic link",
            Self::Submodule => "submodule",
        }
    }
}

/// One entry of a tree. The name is bytes: git does not promise UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: Mode,
    pub(super) name: Vec<u8>,
    pub(super) id: Oid,
}

impl Entry {
    /// The order in which git keeps entries: by bytes, a folder as if its name ended in `/`.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let tail = |entry: &Self| (entry.mode == Mode::Folder).then_some(b'/');
        self.name.iter().copied().chain(tail(self)).cmp(other.name.iter().copied().chain(tail(other)))
    }
}

/// The entries of a tree object, in git's order where the tree is well-formed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) entries: Vec<Entry>,
    /// Whether they are in git's order, so that names can be searched for.
    sorted: bool,
}

impl Tree {
    pub(super) fn new(entries: Vec<Entry>) -> Self {
        let sorted = entries.is_sorted_by(|left, right| left.order(right) == Ordering::Less);
        Self { entries, sorted }
    }

    /// The entry of that name.
    pub(super) fn find(&self, name: &[u8]) -> Option<&Entry> {
        if !self.sorted {
            return self.entries.iter().find(|entry| entry.name == name);
        }
        // A folder is in another place of the order than a file of the same name.
        let place = |mode: Mode| {
            let wanted = Entry { mode, name: name.to_vec(), id: Oid::ZERO_SHA1 };
            self.entries.binary_search_by(|entry| entry.order(&wanted)).ok()
        };
        place(Mode::Folder).or_else(|| place(Mode::File)).and_then(|at| self.entries.get(at))
    }

    /// About how much memory it takes, in bytes.
    fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| size_of::<Entry>() + entry.name.len() + 16).sum::<usize>() + 64
    }
}

/// Reads the entries of a tree object. `None` when it is malformed.
pub(super) fn parse_tree(mut data: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::with_capacity(data.len() / 40);
    while !data.is_empty() {
        let space = data.iter().position(|byte| *byte == b' ')?;
        let mode = Mode::read(data.get(..space)?)?;
        let rest = data.get(space + 1..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        let name = rest.get(..end)?;
        let id = Oid::from_bytes(rest.get(end + 1..end + 21)?).ok()?;
        if name.is_empty() || name.contains(&b'/') {
            return None;
        }
        entries.push(Entry { mode, name: name.to_vec(), id });
        data = rest.get(end + 21..)?;
    }
    Some(entries)
}

/// Writes a tree object, in git's order.
pub(super) fn write_tree(entries: &mut [Entry]) -> Vec<u8> {
    entries.sort_by(Entry::order);
    let mut bytes = Vec::with_capacity(entries.iter().map(|entry| entry.name.len() + 28).sum());
    for entry in entries {
        bytes.extend_from_slice(entry.mode.written().as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(&entry.name);
        bytes.push(0);
        bytes.extend_from_slice(entry.id.as_bytes());
    }
    bytes
}

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
}

impl Default for KnownObjects {
    /// About 160 MiB at most: the trees and small files of 10,000 clusters. Equal files of many clusters are one.
    fn default() -> Self {
        Self {
            trees: RefCell::new(Remembered::new(64 << 20)),
            commits: RefCell::new(Remembered::new(16 << 20)),
            blobs: RefCell::new(Remembered::new(64 << 20)),
            sizes: RefCell::new(Remembered::new(16 << 20)),
        }
    }
}

/// The value that is known, or the one that is read and then known. Reading does not come back to what is known.
fn known<V: Clone, E>(
    known: &RefCell<Remembered<Oid, V>>,
    id: Oid,
    bytes: impl FnOnce(&V) -> usize,
    read: impl FnOnce() -> Result<V, E>,
) -> Result<V, E> {
    if let Some(value) = known.borrow_mut().get(&id) {
        return Ok(value);
    }
    let value = read()?;
    known.borrow_mut().insert(id, value.clone(), bytes(&value) + size_of::<(Oid, V, usize)>());
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

/// What is read of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitFields {
    pub(super) tree: Oid,
    pub(super) parents: Vec<Oid>,
    pub(super) author: String,
    /// Seconds since 1970 of the committer.
    pub(super) committed_at: i64,
    pub(super) message: String,
}

impl CommitFields {
    fn parse(data: &[u8]) -> Option<Self> {
        let split = data.windows(2).position(|pair| pair == b"\n\n");
        let (header, message) = match split {
            Some(at) => (data.get(..at)?, data.get(at + 2..)?),
            None => (data, &b""[..]),
        };
        let (mut tree, mut parents, mut author, mut committed_at) = (None, Vec::new(), None, None);
        for line in header.split(|byte| *byte == b'\n') {
            let id = |rest: &[u8]| Oid::from_str(std::str::from_utf8(rest).ok()?).ok();
            if let Some(rest) = line.strip_prefix(b"tree ") {
                tree = tree.or(Some(id(rest)?));
            } else if let Some(rest) = line.strip_prefix(b"parent ") {
                parents.push(id(rest)?);
            } else if let Some(rest) = line.strip_prefix(b"author ") {
                author = author.or_else(|| Some(person(&String::from_utf8_lossy(rest)).0));
            } else if let Some(rest) = line.strip_prefix(b"committer ") {
                committed_at = committed_at.or_else(|| person(&String::from_utf8_lossy(rest)).1);
            }
        }
        Some(Self {
            tree: tree?,
            parents,
            author: author?,
            committed_at: committed_at?,
            message: String::from_utf8_lossy(message).into_owned(),
        })
    }
}

/// `Name <address> 1700000000 +0000` as (`Name <address>`, seconds).
fn person(text: &str) -> (String, Option<i64>) {
    match text.rsplit_once('>') {
        Some((who, rest)) => {
            (format!("{who}>"), rest.split_whitespace().next().and_then(|seconds| seconds.parse().ok()))
        }
        None => (text.to_owned(), None),
    }
}

/// The library's id of a commit.
pub(super) fn oid(commit: &CommitId) -> Result<Oid, GitError> {
    Oid::from_str(commit.as_str()).map_err(|_| GitError::MissingObject {
        id: commit.to_string(),
        what: format!("commit {commit} (a SHA-256 id in a SHA-1 repository)"),
    })
}

/// Our id of a commit.
pub(super) fn commit_id(oid: Oid) -> Result<CommitId, GitError> {
    oid.to_string()
        .parse()
        .map_err(|error| GitError::Library { action: format!("read object id {oid}"), message: format!("{error}") })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mode: Mode, name: &[u8]) -> Entry {
        Entry { mode, name: name.to_vec(), id: Oid::hash_object(ObjectType::Blob, name).unwrap() }
    }

    #[test]
    fn a_tree_reads_back_in_the_order_of_git() {
        let mut entries = vec![
            entry(Mode::Folder, b"a"),
            entry(Mode::File, b"a.b"),
            entry(Mode::File, b"a0"),
            entry(Mode::Symlink, b"\xff"),
            entry(Mode::Submodule, b"m"),
            entry(Mode::Executable, b"B"),
        ];
        let bytes = write_tree(&mut entries);
        let names: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
        // As `git mktree` orders them: the folder `a` counts as `a/`, which is after `a.b` and before `a0`.
        assert_eq!(names, [&b"B"[..], b"a.b", b"a", b"a0", b"m", b"\xff"]);
        assert_eq!(parse_tree(&bytes).unwrap(), entries);
    }

    #[test]
    fn an_entry_is_found_by_name_in_every_place_that_the_order_gives_it() {
        let names = [&b"B"[..], b"a.b", b"a", b"a0", b"m", b"\xff"];
        for folders in 0..1 << names.len() {
            let mode = |at: usize| if folders >> at & 1 == 1 { Mode::Folder } else { Mode::File };
            let mut entries: Vec<Entry> = names.iter().enumerate().map(|(at, name)| entry(mode(at), name)).collect();
            let shuffled = Tree::new(entries.clone());
            write_tree(&mut entries);
            let tree = Tree::new(entries);
            assert!(tree.sorted);
            for name in names {
                assert_eq!(tree.find(name).unwrap().name, name);
                assert_eq!(tree.find(name), shuffled.find(name));
            }
            assert!(tree.find(b"a.").is_none() && tree.find(b"").is_none());
        }
    }

    #[test]
    fn malformed_trees_are_refused_and_never_panic() {
        let good = write_tree(&mut [entry(Mode::File, b"a"), entry(Mode::Folder, b"b")]);
        for end in 1..good.len() {
            let cut = parse_tree(&good[..end]);
            assert!(cut.is_none() || end == 29, "cut at {end}");
        }
        for bad in [&b"100600 a\0"[..], b"100644 \x000123456789012345678901", b"100644 a/b\x0001234567890123456789"] {
            assert!(parse_tree(bad).is_none());
        }
    }

    #[test]
    fn commit_headers_survive_signatures_and_odd_people() {
        let id = "1".repeat(40);
        let text = format!(
            "tree {id}\nparent {id}\nauthor A > B <a@b> 5 +0000\ncommitter C <c@d> 7 -0130\ngpgsig -----BEGIN\n tree x\n -----END\n\nsubject\n\nbody\n"
        );
        let fields = CommitFields::parse(text.as_bytes()).unwrap();
        assert_eq!((fields.author.as_str(), fields.committed_at), ("A > B <a@b>", 7));
        assert_eq!((fields.parents.len(), fields.message.as_str()), (1, "subject\n\nbody\n"));
        for bad in ["", "tree x\n\n", "parent 1\n"] {
            assert!(CommitFields::parse(bad.as_bytes()).is_none());
        }
    }
}
