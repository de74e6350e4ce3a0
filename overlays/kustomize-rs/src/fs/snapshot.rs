//! A file tree that is asked about each path once.

use std::sync::{Arc, PoisonError, RwLock};

use foldhash::HashMap;

use super::{FileError, FileSystem};

/// Remembers the answers of another tree, and the files it has given.
///
/// Builds of many overlays read the same bases: with a snapshot each file is opened once, and all builds see the same
/// bytes whatever happens to the tree meanwhile. A snapshot may be shared by builds on several threads. It holds
/// what was read until it is dropped.
#[derive(Debug)]
pub struct SnapshotFileSystem<F> {
    files: F,
    read: Answers<Result<Arc<[u8]>, FileError>>,
    is_dir: Answers<bool>,
    list: Answers<Result<Vec<String>, FileError>>,
    canonical: Answers<Result<String, FileError>>,
}

type Answers<T> = RwLock<HashMap<String, T>>;

impl<F: FileSystem> SnapshotFileSystem<F> {
    /// Returns a snapshot of `files` that is taken path by path, when a path is first asked for.
    pub fn new(files: F) -> Self {
        Self {
            files,
            read: RwLock::default(),
            is_dir: RwLock::default(),
            list: RwLock::default(),
            canonical: RwLock::default(),
        }
    }
}

/// The answer for a path; the first one counts, also if two threads ask at once.
fn once<T: Clone>(answers: &Answers<T>, path: &str, ask: impl FnOnce() -> T) -> T {
    if let Some(known) = answers.read().unwrap_or_else(PoisonError::into_inner).get(path) {
        return known.clone();
    }
    let answer = ask();
    let mut answers = answers.write().unwrap_or_else(PoisonError::into_inner);
    answers.entry(path.to_owned()).or_insert(answer).clone()
}

impl<F: FileSystem + Send> FileSystem for SnapshotFileSystem<F> {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, FileError> {
        once(&self.read, path, || self.files.read(path))
    }

    fn is_dir(&self, path: &str) -> bool {
        once(&self.is_dir, path, || self.files.is_dir(path))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, FileError> {
        once(&self.list, path, || self.files.list(path))
    }

    fn canonical(&self, path: &str) -> Result<String, FileError> {
        once(&self.canonical, path, || self.files.canonical(path))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::MemoryFileSystem;

    /// Files that change when they are asked for.
    struct Counting(Mutex<u8>);

    impl FileSystem for Counting {
        fn read(&self, _: &str) -> Result<Arc<[u8]>, FileError> {
            let mut count = self.0.lock().unwrap();
            *count += 1;
            Ok(Arc::from([*count]))
        }

        fn is_dir(&self, _: &str) -> bool {
            false
        }

        fn list(&self, _: &str) -> Result<Vec<String>, FileError> {
            Err(FileError::Missing)
        }
    }

    #[test]
    fn a_file_is_read_once_and_stays_as_it_was() {
        let snapshot = SnapshotFileSystem::new(Counting(Mutex::new(0)));
        for (path, expected) in [("a", 1), ("b", 2), ("a", 1), ("b", 2)] {
            assert_eq!(&*snapshot.read(path).unwrap(), [expected]);
        }
    }

    #[test]
    fn answers_are_those_of_the_tree() {
        let files: MemoryFileSystem = [("a/b", *b"x")].into_iter().collect();
        let snapshot = SnapshotFileSystem::new(files.clone());
        for path in ["", "a", "a/b", "c"] {
            for _ in 0..2 {
                assert_eq!(snapshot.read(path), files.read(path));
                assert_eq!(snapshot.is_dir(path), files.is_dir(path));
                assert_eq!(snapshot.list(path), files.list(path));
                assert_eq!(snapshot.canonical(path), files.canonical(path));
            }
        }
    }
}
