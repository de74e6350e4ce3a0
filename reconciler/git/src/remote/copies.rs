//! Our bare copies of remote repositories.
//!
//! A process has its copy to itself for as long as it lives: git locks each reference that it writes, and two processes that fetch into one copy fall
//! over each other. So a verb beside a running controller has a second copy, which the next verb finds again.
//!
//! So processes share nothing that locks, and what two of them tell of the same is one event. What a process that was killed has left locked is
//! nobody's, and is freed by whoever has its copy next.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::location::RepositoryUrl;
use crate::durable::storage;
use crate::error::GitError;

/// So many processes have copies of their own. Those beyond share the last.
const MOST: usize = 32;

/// The file in a copy that is locked by whoever has it. The system frees it when they end, however that comes.
const CLAIM: &str = "stepgate.process";

/// Where locks lie, below a copy: of the whole, of references, and of what git keeps beside objects.
const LOCKED: [&str; 4] = ["", "refs", "objects/info", "objects/pack"];

/// How long a program that a process has left behind may still need for a reference.
const GRACE: Duration = Duration::from_secs(1);

/// A copy, for as long as the claim to it is kept; none where the disk knows no locks.
pub(crate) struct Claimed {
    pub(crate) library: git2::Repository,
    pub(crate) claim: Option<Claim>,
}

/// That a copy is ours, until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim(File);

impl Drop for Claim {
    fn drop(&mut self) {
        // A program that is being started has the file until it runs: closed here alone, it would keep the lock for that time.
        let _ = self.0.unlock();
    }
}

/// The first copy that nobody has, made empty on first use. Two URLs never share one.
pub(crate) fn open(url: &RepositoryUrl, cache: &Path) -> Result<Claimed, GitError> {
    let digest = ring::digest::digest(&ring::digest::SHA256, url.with_secrets().as_bytes());
    let name: String = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let mut number = 0;
    loop {
        let folder = match number {
            0 => cache.join(format!("{name}.git")),
            number => cache.join(format!("{name}-{number}.git")),
        };
        fs::create_dir_all(&folder).map_err(storage("create", &folder))?;
        let path = folder.join(CLAIM);
        let claim = File::options().create(true).append(true).open(&path).map_err(storage("open", &path))?;
        let claim = match claim.try_lock() {
            Ok(()) => Some(Claim(claim)),
            Err(TryLockError::WouldBlock) if number + 1 < MOST => {
                number += 1;
                continue;
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
        };
        if claim.is_some() {
            free(&folder)?;
        }
        return Ok(Claimed { library: init(&folder)?, claim });
    }
}

/// Removes the locks of a process that was killed before it could: git and the library would be refused by them for ever. Nobody else has the
/// copy, but for a program of that process that has not noticed yet.
fn free(copy: &Path) -> Result<(), GitError> {
    let found = locks(copy)?;
    if found.is_empty() {
        return Ok(());
    }
    // Nothing tells when such a program has ended.
    std::thread::sleep(GRACE);
    for lock in found {
        match fs::remove_file(&lock) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(storage("remove", &lock)(error)),
            _ => {}
        }
    }
    Ok(())
}

fn locks(copy: &Path) -> Result<Vec<PathBuf>, GitError> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = LOCKED.iter().map(|name| copy.join(name)).collect();
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(storage("read", &folder)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(storage("read", &folder))?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(storage("read", &folder))?);
            if kind.is_dir() && folder.starts_with(copy.join("refs")) {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "lock") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn init(folder: &Path) -> Result<git2::Repository, GitError> {
    let mut options = git2::RepositoryInitOptions::new();
    // A head that no branch of a team has, so that an absent branch is never taken for an unborn one.
    options.bare(true).external_template(false).initial_head("stepgate/none");
    git2::Repository::init_opts(folder, &options).map_err(|error| GitError::Unusable {
        location: folder.display().to_string(),
        message: error.message().to_owned(),
    })
}
