//! A directory of the machine. The one place of this crate that opens files.
#![allow(clippy::disallowed_methods, reason = "reading files is what the feature `disk` is for")]

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

#[cfg(target_os = "linux")]
use super::openat2::{Links, Openat2};
use super::{FileError, FileSystem};

/// A directory; symbolic links are followed as long as they stay inside.
///
/// Reading never waits: a pipe or device is refused after it was opened without blocking, so nothing can be put in a
/// file's place between a check and the reading. Linux itself keeps the way to a file inside of the directory (openat2(2),
/// since 5.6). Elsewhere somebody who may exchange *directories* of the tree while a build reads them can still lead it out;
/// read a tree that others change from git there.
#[derive(Debug, Clone)]
pub struct DiskFileSystem {
    root: PathBuf,
    #[cfg(target_os = "linux")]
    openat2: Openat2,
    largest_file: u64,
}

impl DiskFileSystem {
    /// Opens a directory. Files above 32 MiB are refused.
    pub fn new(root: impl AsRef<Path>) -> std::io::Result<Self> {
        let root = std::fs::canonicalize(root)?;
        Ok(Self {
            #[cfg(target_os = "linux")]
            openat2: Openat2::new(&root)?,
            root,
            largest_file: 32 << 20,
        })
    }

    /// Changes the size above which files are refused.
    #[must_use]
    pub fn with_largest_file(self, bytes: u64) -> Self {
        Self { largest_file: bytes, ..self }
    }

    /// The directory, without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Opens a file for reading.
    fn open(&self, path: &str) -> Result<File, FileError> {
        #[cfg(target_os = "linux")]
        if let Some(answer) = self.openat2.open(Path::new(path)) {
            return match answer {
                // A link from the root of the machine may still lead back inside.
                Err(FileError::Outside) => {
                    let found = self.follow(path)?;
                    let inside = found.strip_prefix(&self.root).map_err(|_| FileError::Outside)?;
                    self.openat2.open(inside).unwrap_or(Err(FileError::Outside))
                }
                answer => answer,
            };
        }
        open(&self.resolve(path)?).map_err(convert)
    }

    /// Where `path` is, without symbolic links.
    fn resolve(&self, path: &str) -> Result<PathBuf, FileError> {
        let mut found = self.root.clone();
        for component in Path::new(path).components() {
            let Component::Normal(name) = component else {
                return self.follow(path);
            };
            found.push(name);
            if found.symlink_metadata().map_err(convert)?.is_symlink() {
                return self.follow(path);
            }
        }
        Ok(found)
    }

    /// The same for any path, which asks about every directory above the root too.
    fn follow(&self, path: &str) -> Result<PathBuf, FileError> {
        let found = std::fs::canonicalize(self.root.join(path)).map_err(convert)?;
        if found.starts_with(&self.root) { Ok(found) } else { Err(FileError::Outside) }
    }
}

/// Says whether a path has nothing but names.
#[cfg(target_os = "linux")]
fn is_plain(path: &str) -> bool {
    path.is_empty() || path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

#[allow(clippy::needless_pass_by_value, reason = "used with map_err")]
fn convert(error: std::io::Error) -> FileError {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => FileError::Missing,
        _ => FileError::Other(error.to_string()),
    }
}

/// Opens for reading, but neither waits for the other end of a pipe nor follows a link in the last place.
#[cfg(unix)]
fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new()
        .read(true)
        .custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits().cast_signed())
        .open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

impl FileSystem for DiskFileSystem {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, FileError> {
        let file = self.open(path)?;
        let metadata = file.metadata().map_err(convert)?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile);
        }
        let limit = self.largest_file;
        if metadata.len() > limit {
            return Err(FileError::TooLarge { limit });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
        // It may have grown since.
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(convert)?;
        if bytes.len() as u64 > limit {
            return Err(FileError::TooLarge { limit });
        }
        Ok(Arc::from(bytes))
    }

    fn is_dir(&self, path: &str) -> bool {
        #[cfg(target_os = "linux")]
        if self.openat2.is_dir(path, Links::Followed) {
            return true;
        }
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
        #[cfg(target_os = "linux")]
        if is_plain(path) && self.openat2.is_dir(path, Links::Refused) {
            return Ok(path.to_owned());
        }
        let found = self.resolve(path)?;
        let inside = found.strip_prefix(&self.root).map_err(|_| FileError::Outside)?;
        Ok(inside.to_string_lossy().replace('\\', "/"))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_inside_of_the_directory_only() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(root.join("a")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(root.join("a/file"), "inside").unwrap();
        fs::write(outside.join("file"), "outside").unwrap();
        symlink("a", root.join("b")).unwrap();
        symlink("file", root.join("a/link")).unwrap();
        symlink("../outside", root.join("out")).unwrap();
        symlink(outside.join("file"), root.join("a/out")).unwrap();
        symlink(root.join("a"), root.join("absolute")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let files = DiskFileSystem::new(&root).unwrap();
        for path in ["a/file", "b/file", "a/link", "b/link", "a/../a/file", "absolute/link"] {
            assert_eq!(files.read(path).as_deref(), Ok(&b"inside"[..]), "{path}");
        }
        for path in ["out/file", "a/out", "../outside/file", "b/../../outside/file"] {
            assert_eq!(files.read(path), Err(FileError::Outside), "{path}");
        }
        let absolute = outside.join("file");
        assert_eq!(files.read(absolute.to_str().unwrap()), Err(FileError::Outside));
        for (path, expected) in
            [("a", "a"), ("b", "a"), ("absolute", "a"), ("", ""), ("b/../a/", "a"), ("a/link", "a/file")]
        {
            assert_eq!(files.canonical(path).as_deref(), Ok(expected), "{path}");
        }
        assert_eq!(files.canonical("out"), Err(FileError::Outside));
        assert_eq!(files.canonical("missing"), Err(FileError::Missing));
        assert!(matches!(files.read("loop"), Err(FileError::Other(_))));
        assert_eq!(files.read("a"), Err(FileError::NotAFile));
        assert_eq!(files.read("a/file/x"), Err(FileError::Missing));
        assert!(
            files.is_dir("b")
                && files.is_dir("absolute")
                && files.is_dir("")
                && !files.is_dir("a/file")
                && !files.is_dir("out")
        );
    }
}
