//! Moving a reference of a local repository in place.
//!
//! The lock is git's own: `refs/heads/NAME.lock`, so every other git program is kept out meanwhile. It is made as a hard
//! link to a file that already holds the new value, and a note of ours names that file. When a process of ours was killed
//! inside, or the machine lost its power, the next one can tell by the file's identity that the lock is ours and nobody's
//! any more, and removes it; a lock of another program is never touched. So on disk too there is a lock only where the value
//! and the note are.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::Oid;

use crate::durable;
use crate::durable::{storage, synchronise};
use crate::error::GitError;
use host::disk;

/// How often and at what distance a lock is tried for: two seconds in all. Who packs references (`git gc`) holds theirs for
/// a moment; git itself waits 100 ms for one (`core.filesRefLockTimeout`), and 1 s for the file of packed ones.
const TRIES: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(2);

/// What became of a swap.
pub(crate) enum Swap {
    /// The reference holds the new value.
    Done,
    /// It held this instead of what was expected.
    Differs(Option<Oid>),
    /// Another git program has held the lock for all of the time that it was tried for.
    Locked,
}

/// The reference files of one repository.
pub(crate) struct References<'a> {
    folder: &'a Path,
}

impl<'a> References<'a> {
    /// The references in `folder` (the one that holds `refs/`).
    pub(crate) fn new(folder: &'a Path) -> Self {
        Self { folder }
    }

    /// Moves `reference` from `expected` to `new`; `read` tells its present value, packed or not.
    pub(crate) fn swap(
        &self,
        reference: &str,
        new: Oid,
        expected: Option<Oid>,
        read: impl FnOnce() -> Result<Option<Oid>, GitError>,
    ) -> Result<Swap, GitError> {
        // Processes of ours take turns. The system frees this lock when its holder dies.
        let turn = self.folder.join("stepgate.lock");
        let held = File::options().create(true).append(true).open(&turn).map_err(storage("open", &turn))?;
        if !take(&held).map_err(storage("lock", &turn))? {
            return Ok(Swap::Locked);
        }
        let value = self.folder.join("stepgate.value");
        let target = self.folder.join(reference);
        let lock = self.folder.join(format!("{reference}.lock"));
        self.recover(&value)?;

        // The names of what the new value refers to have to be there as long as the value is.
        let packs = durable::packs(self.folder)?;
        let mut file = File::create_new(&value).map_err(storage("write", &value))?;
        let written = writeln!(file, "{new}").and_then(|()| {
            let mut note = File::create(self.note())?;
            write!(note, "{reference}.lock")?;
            let files: Vec<&File> = [&note, &file].into_iter().chain(&packs).collect();
            durable::together(&files)
        });
        let swapped = written.map_err(storage("write", &value)).and_then(|()| {
            if !tried(|| link(&value, &lock)).map_err(storage("lock", &lock))? {
                return Ok(Swap::Locked);
            }
            // Read under the lock: nobody can change it between here and the renaming.
            let actual = read()?;
            if actual != expected {
                return Ok(Swap::Differs(actual));
            }
            fs::rename(&lock, &target).map_err(storage("write", &target))?;
            synchronise_around(&target)?;
            Ok(Swap::Done)
        });
        self.recover(&value)?;
        swapped
    }

    /// Removes what a swap leaves: the value, the note, and the lock if it is the same file as the value.
    fn recover(&self, value: &Path) -> Result<(), GitError> {
        let remove = |path: &Path| match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(storage("remove", path)(error)),
            _ => Ok(()),
        };
        let note = self.note();
        if let (Some(ours), Ok(name)) = (identity(value), disk::read_text(&note, 4096)) {
            let lock = self.folder.join(name);
            if identity(&lock) == Some(ours) {
                remove(&lock)?;
                synchronise_around(&lock)?;
            }
        }
        // The note last but one: without the value it says nothing.
        remove(&note)?;
        remove(value)
    }

    fn note(&self) -> PathBuf {
        self.folder.join("stepgate.note")
    }
}

/// Waits for our turn; false when its holder keeps it for longer than any swap takes (it was stopped, not killed).
fn take(file: &File) -> io::Result<bool> {
    tried(|| match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    })
}

/// Makes the lock as another name of `value`; false when somebody holds it.
fn link(value: &Path, lock: &Path) -> io::Result<bool> {
    let made = lock.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::hard_link(value, lock));
    match made {
        Ok(()) => Ok(true),
        // A branch whose name is the beginning of this one is in the way for good.
        Err(error) if lock.ancestors().skip(1).any(Path::is_file) => Err(error),
        // Held by somebody; or, until the lock is in there, its folder was empty and gone with whoever packs references.
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tries until something is done, or somebody has held what it needs for longer than anybody does; false then.
fn tried(mut attempt: impl FnMut() -> io::Result<bool>) -> io::Result<bool> {
    for _ in 0..TRIES {
        if attempt()? {
            return Ok(true);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(false)
}

/// Makes the name of a reference durable. Where its folder has gone, somebody has packed it meanwhile, durably.
fn synchronise_around(reference: &Path) -> Result<(), GitError> {
    match reference.parent().map_or(Ok(()), synchronise) {
        Err(GitError::Storage { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
