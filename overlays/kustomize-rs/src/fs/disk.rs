//! A directory of the machine. The one place of this crate that opens files.
#![allow(clippy::disallowed_methods, reason = "reading files is what the feature `disk` is for")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{FileError, FileSystem};

/// A directory; symbolic links are followed as long as they stay inside.
#[derive(Debug, Clone)]
pub struct DiskFileSystem {
    root: PathBuf,
    largest_file: u64,
}

impl DiskFileSystem {
    /// Opens a directory. Files above 64 MiB are refused.
    pub fn new(root: impl AsRef<Path>) -> std::io::Result<Self> {
        Ok(Self { root: std::fs::canonicalize(root)?, largest_file: 64 << 20 })
    }

    fn resolve(&self, path: &str) -> Result<PathBuf, FileError> {
        let found = std::fs::canonicalize(self.root.join(path)).map_err(convert)?;
        if found.starts_with(&self.root) { Ok(found) } else { Err(FileError::Outside) }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "used with map_err")]
fn convert(error: std::io::Error) -> FileError {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => FileError::Missing,
        _ => FileError::Other(error.to_string()),
    }
}

impl FileSystem for DiskFileSystem {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, FileError> {
        let path = self.resolve(path)?;
        let metadata = std::fs::metadata(&path).map_err(convert)?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile);
        }
        if metadata.len() > self.largest_file {
            return Err(FileError::TooLarge { limit: self.largest_file });
        }
        std::fs::read(&path).map(Arc::from).map_err(convert)
    }

    fn is_dir(&self, path: &str) -> bool {
        self.resolve(path).is_ok_and(|path| path.is_dir())
    }

    fn list(&self, path: &str) -> Result<Vec<String>, FileError> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.resolve(path)?).map_err(convert)? {
            names.push(entry.map_err(convert)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn canonical(&self, path: &str) -> Result<String, FileError> {
        let found = self.resolve(path)?;
        let inside = found.strip_prefix(&self.root).map_err(|_| FileError::Outside)?;
        Ok(inside.to_string_lossy().replace('\\', "/"))
    }
}
