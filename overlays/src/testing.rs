//! What the tests of this package share.
#![allow(clippy::disallowed_methods, reason = "tests read fixtures")]

use std::path::{Path, PathBuf};

use crate::MemoryFiles;
use domain::RepoPath;

/// The files of a folder below `/fixtures`.
pub(crate) fn fixture(folder: &str) -> MemoryFiles {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(folder);
    let mut files = MemoryFiles::new();
    read(&root, &root, &mut files);
    files
}

fn read(root: &Path, folder: &Path, files: &mut MemoryFiles) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.insert(RepoPath::new(name).unwrap(), std::fs::read(&path).unwrap());
        }
    }
}

/// Files by path and text.
pub(crate) fn memory(files: &[(&str, &str)]) -> MemoryFiles {
    files.iter().map(|(path, text)| (RepoPath::new(*path).unwrap(), text.as_bytes().to_vec())).collect()
}

/// The shared data.
pub(crate) fn shared() -> Option<PathBuf> {
    skip::shared("data")
}

/// The bytes of a file.
pub(crate) fn read_file(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// The entries of a folder, sorted.
pub(crate) fn list(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}
