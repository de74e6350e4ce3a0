//! `stepgate kustomize` through the program.

mod build;
mod charts;
mod diff;
mod flux;
mod hostile;
mod remotes;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{Run, stepgate};

/// A folder of files.
pub struct Folder(TempDir);

impl Folder {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            folder.write(path, text);
        }
        folder
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.join(path)).unwrap()
    }

    /// Runs `stepgate kustomize build`; the tree that may be read is this folder.
    pub fn build(&self, directory: &str, arguments: &[&str]) -> Run {
        let (directory, root) = (self.join(directory), self.path().to_str().unwrap());
        stepgate(&[&["kustomize", "build", directory.to_str().unwrap(), "--root", root], arguments].concat())
    }

    /// Runs `stepgate kustomize diff` on two paths of this folder.
    pub fn diff(&self, old: &str, new: &str, arguments: &[&str]) -> Run {
        let (old, new) = (self.join(old), self.join(new));
        stepgate(&[&["kustomize", "diff", old.to_str().unwrap(), new.to_str().unwrap()], arguments].concat())
    }
}
