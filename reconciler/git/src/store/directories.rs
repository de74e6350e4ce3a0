//! Where the objects of a repository lie: in its own folder, and in those that it borrows from.

use std::io;
use std::path::{Path, PathBuf};

use git2::Oid;

use super::loose::{LooseError, LooseObject, LooseObjects};
use super::packs::Packs;
use host::disk;

/// How far a store borrows from one that borrows itself, as in git.
const DEEPEST: usize = 5;
const MOST: usize = 32;
const LONGEST_FILE: u64 = 64 << 10;

/// The objects of a repository, as far as our own code reads them.
#[derive(Debug)]
pub(crate) struct Store {
    loose: Vec<LooseObjects>,
    pub(crate) packs: Packs,
}

impl Store {
    /// The store whose own folder is `objects`.
    pub(crate) fn new(objects: &Path) -> Self {
        let mut folders = Vec::new();
        borrowed(objects, 0, &mut folders);
        let packs = Packs::new(&folders);
        Self { loose: folders.into_iter().map(LooseObjects::new).collect(), packs }
    }

    /// Reads an object that has a file of its own; none when it has not.
    pub(crate) fn loose(&self, id: Oid, limit: u64) -> Option<Result<LooseObject, LooseError>> {
        self.loose.iter().find_map(|loose| loose.read(id, limit))
    }

    /// The first bytes of an object, at most `limit`; none where it is stored as a delta or is not there.
    ///
    /// # Errors
    /// When it does not inflate.
    pub(crate) fn beginning(&self, id: Oid, limit: u64) -> io::Result<Option<Vec<u8>>> {
        match self.loose.iter().find_map(|loose| loose.beginning(id, limit)) {
            Some(beginning) => beginning.map(Some),
            None => self.packs.beginning(id, limit),
        }
    }

    /// The declared size of an object that has a file of its own; none when it has not.
    pub(crate) fn loose_size(&self, id: Oid) -> Option<Result<u64, LooseError>> {
        self.loose.iter().find_map(|loose| loose.size(id))
    }
}

/// The folder and those that it borrows from (gitrepository-layout(5), `objects/info/alternates`).
fn borrowed(objects: &Path, depth: usize, folders: &mut Vec<PathBuf>) {
    if depth > DEEPEST || folders.len() >= MOST || folders.iter().any(|known| known == objects) {
        return;
    }
    folders.push(objects.to_owned());
    let Ok(text) = disk::read_text(&objects.join("info").join("alternates"), LONGEST_FILE) else { return };
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        borrowed(&objects.join(line), depth + 1, folders);
    }
}
