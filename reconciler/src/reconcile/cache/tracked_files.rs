//! The files of a source commit, for renderers that nearly always look at the overlays alone.
//!
//! An overlay that reaches beyond `overlays/` makes any file of the commit an input of its cluster.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use domain::RepoPath;
use overlays::{FileEntry, Files, ReadError, UnusablePath};

/// Files that notice when somebody asks for all of them.
///
/// A renderer asks for folders of overlays by name, and for every file only when an overlay reaches beyond them: then what
/// is rendered may follow from any file of the commit.
pub struct TrackedFiles<'a> {
    files: &'a dyn Files,
    all: Cell<bool>,
}

impl<'a> TrackedFiles<'a> {
    /// The files of a commit, of which nobody has asked for all yet.
    pub fn new(files: &'a dyn Files) -> Self {
        Self { files, all: Cell::new(false) }
    }

    /// Whether somebody asked for all of them.
    pub fn reached_far(&self) -> bool {
        self.all.get()
    }
}

impl Files for TrackedFiles<'_> {
    fn paths(&self) -> Cow<'_, [FileEntry]> {
        self.all.set(true);
        self.files.paths()
    }

    fn below(&self, folder: &str) -> Cow<'_, [FileEntry]> {
        self.files.below(folder)
    }

    fn entry(&self, path: &RepoPath) -> Option<FileEntry> {
        self.files.entry(path)
    }

    fn read(&self, path: &RepoPath) -> Result<Arc<[u8]>, ReadError> {
        self.files.read(path)
    }

    fn unusable_paths(&self) -> Vec<UnusablePath> {
        self.files.unusable_paths()
    }
}
