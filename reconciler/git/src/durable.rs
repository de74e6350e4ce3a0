//! What has to outlast a loss of power, before anything refers to it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::error::GitError;

/// Synchronises files, or the names in folders, at once: a disk that writes its cache through for one writes it for all.
pub(super) fn together(files: &[&File]) -> io::Result<()> {
    std::thread::scope(|scope| {
        let Some((last, others)) = files.split_last() else { return Ok(()) };
        let others: Vec<_> = others.iter().map(|file| scope.spawn(|| file.sync_all())).collect();
        let last = last.sync_all();
        let ended = |_| Err(io::Error::other("the thread that synchronised ended"));
        others.into_iter().map(|other| other.join().unwrap_or_else(ended)).fold(last, io::Result::and)
    })
}

/// Makes the names in a folder durable.
pub(super) fn synchronise(folder: &Path) -> Result<(), GitError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(storage("synchronise", folder))
}

/// Where a repository keeps its packs; none where all of its objects are loose.
pub(super) fn packs(repository: &Path) -> Result<Option<File>, GitError> {
    let folder = repository.join("objects").join("pack");
    match File::open(&folder) {
        Ok(packs) => Ok(Some(packs)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(storage("open", &folder)(error)),
    }
}

/// Wraps an I/O error with what was attempted.
pub(super) fn storage(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GitError {
    let path = PathBuf::from(path);
    move |source| GitError::Storage { action, path, source }
}
