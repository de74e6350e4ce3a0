//! File trees a build reads from. Paths are relative to the tree's root, with `/`, without `.` or `..`; the root is
//! the empty path. Nothing outside of the tree can be named.

#[cfg(feature = "disk")]
mod disk;
mod memory;
#[cfg(all(feature = "disk", target_os = "linux"))]
mod openat2;
mod snapshot;

use std::sync::Arc;

#[cfg(feature = "disk")]
pub use disk::DiskFileSystem;
pub use memory::MemoryFileSystem;
pub use snapshot::SnapshotFileSystem;

/// Why a file cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// There is nothing at the path.
    #[error("there is no such file")]
    Missing,
    /// There is a directory, a pipe or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// The path leads out of the tree, for example through a symbolic link.
    #[error("it leads out of the file tree")]
    Outside,
    /// The file is larger than the tree allows.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// A tree of files.
pub trait FileSystem: Sync {
    /// Returns the content of a file.
    fn read(&self, path: &str) -> Result<Arc<[u8]>, FileError>;
    /// Says whether there is a directory.
    fn is_dir(&self, path: &str) -> bool;
    /// Returns the names in a directory, sorted.
    fn list(&self, path: &str) -> Result<Vec<String>, FileError>;
    /// Returns the path under which the same directory is known when symbolic links on the way are followed.
    fn canonical(&self, path: &str) -> Result<String, FileError> {
        Ok(path.to_owned())
    }
}

/// Joins `path` to `base` and resolves `.` and `..`; `None` if it leads above the root or is absolute.
pub(crate) fn join(base: &str, path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains('\0') {
        return None;
    }
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Says whether `path` is `directory` or below it.
pub(crate) fn is_within(path: &str, directory: &str) -> bool {
    directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::{is_within, join};

    #[test]
    fn paths_stay_in_the_tree() {
        let check = |base: &str, path: &str, expect: Option<&str>| {
            assert_eq!(join(base, path).as_deref(), expect, "{base} + {path}");
        };
        check("", "a/b", Some("a/b"));
        check("a/b", "../c", Some("a/c"));
        check("a", "./b//c/", Some("a/b/c"));
        check("a", "..", Some(""));
        check("a", "../..", None);
        check("a", "/etc/passwd", None);
        check("a", "b\0", None);
        check("a/b", "../../c/../d", Some("d"));
    }

    #[test]
    fn directories_contain_whole_names() {
        assert!(is_within("a/b", "a"));
        assert!(is_within("a", "a"));
        assert!(is_within("a", ""));
        assert!(!is_within("ab", "a"));
        assert!(!is_within("a", "a/b"));
    }
}
