//! What the tests of this crate share: trees from disk in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    dead_code,
    missing_docs
)]

use kustomize_rs::MemoryFileSystem;
use std::path::{Path, PathBuf};

/// Reads all files below `directory`.
pub fn tree(directory: &Path) -> MemoryFileSystem {
    let mut files = MemoryFileSystem::new();
    each_file(directory, &mut |path, content| files.insert(path, content));
    files
}

/// Hands out all files below `directory`, with their paths from there.
pub fn each_file(directory: &Path, take: &mut dyn FnMut(&str, Vec<u8>)) {
    add(directory, "", take);
}

fn add(directory: &Path, prefix: &str, take: &mut dyn FnMut(&str, Vec<u8>)) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.map(Result::unwrap) {
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            add(&entry.path(), &format!("{path}/"), take);
        } else {
            take(&path, std::fs::read(entry.path()).unwrap());
        }
    }
}

/// Finds `name` in the directory of the crate or above it.
pub fn find_up(name: &str) -> Option<PathBuf> {
    let mut directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    loop {
        let candidate = directory.join(name);
        if candidate.exists() {
            return Some(candidate);
        }
        directory = directory.parent()?;
    }
}
