//! A base that was built, and what it rests on.
//!
//! What a base makes depends on the files that were read for it, and on what else was asked about files: a file that is
//! not there counts too. A [`Witness`] writes that down while the base is built.

use std::sync::{Arc, Mutex, PoisonError};

use crate::accumulator::Accumulator;
use crate::fs::{FileError, FileSystem};
use crate::resource::Resource;
use crate::schema::BuiltinSchema;

/// What a base made, and what that rests on.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) asked: Vec<Asked>,
    pub(crate) made: Accumulator,
    pub(crate) warnings: Vec<String>,
    pub(crate) builtin: BuiltinSchema,
    /// Taken from what the build may read and spend.
    pub(crate) objects: usize,
    pub(crate) steps: u64,
    pub(crate) growth: u64,
}

impl Base {
    pub(crate) fn objects(&self) -> &[Resource] {
        &self.made.resources.items
    }

    /// Bytes of the files that were read.
    pub(crate) fn witnessed_bytes(&self) -> usize {
        self.asked.iter().map(Asked::bytes).sum()
    }
}

/// Something that was asked about a file, and the answer.
#[derive(Debug)]
pub(crate) enum Asked {
    Read(String, Result<Arc<[u8]>, FileError>),
    IsDir(String, bool),
    List(String, Result<Vec<String>, FileError>),
    Canonical(String, Result<String, FileError>),
}

impl Asked {
    pub(crate) fn is_answered_alike(&self, files: &dyn FileSystem) -> bool {
        match self {
            // Bytes in memory are often the very same.
            Self::Read(path, Ok(content)) => {
                files.read(path).is_ok_and(|now| Arc::ptr_eq(&now, content) || now == *content)
            }
            Self::Read(path, before) => files.read(path) == *before,
            Self::IsDir(path, before) => files.is_dir(path) == *before,
            Self::List(path, before) => files.list(path) == *before,
            Self::Canonical(path, before) => files.canonical(path) == *before,
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Read(path, Ok(content)) => path.len() + content.len(),
                Self::List(path, Ok(names)) => path.len() + names.iter().map(String::len).sum::<usize>(),
                Self::Canonical(path, Ok(real)) => path.len() + real.len(),
                Self::Read(path, Err(_)) | Self::List(path, Err(_)) | Self::Canonical(path, Err(_)) => path.len(),
                Self::IsDir(path, _) => path.len(),
            }
    }
}

/// A file tree that remembers what it was asked.
pub(crate) struct Witness<'f> {
    files: &'f dyn FileSystem,
    asked: Mutex<Vec<Asked>>,
}

impl<'f> Witness<'f> {
    pub(crate) fn new(files: &'f dyn FileSystem) -> Self {
        Self { files, asked: Mutex::default() }
    }

    /// All that was asked.
    pub(crate) fn into_asked(self) -> Vec<Asked> {
        self.asked.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, asked: Asked) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    }
}

impl FileSystem for Witness<'_> {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, FileError> {
        let answer = self.files.read(path);
        self.note(Asked::Read(path.to_owned(), answer.clone()));
        answer
    }

    fn is_dir(&self, path: &str) -> bool {
        let answer = self.files.is_dir(path);
        self.note(Asked::IsDir(path.to_owned(), answer));
        answer
    }

    fn list(&self, path: &str) -> Result<Vec<String>, FileError> {
        let answer = self.files.list(path);
        self.note(Asked::List(path.to_owned(), answer.clone()));
        answer
    }

    fn canonical(&self, path: &str) -> Result<String, FileError> {
        let answer = self.files.canonical(path);
        self.note(Asked::Canonical(path.to_owned(), answer.clone()));
        answer
    }
}
