//! An open repository.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use domain::CommitId;
use git2::{ErrorCode, Oid};

use super::error::GitError;
use super::limits::Limits;
use crate::history::snapshot::GitSnapshot;
use crate::refs::name::Identity;
use crate::refs::object_id::{commit_id, oid};
use crate::remote::copies;
use crate::remote::copies::{Claim, Claimed};
use crate::remote::location::RepositoryLocation;
use crate::remote::program::GitProgram;
use crate::remote::progress::Pace;
use crate::store::directories::Store;
use crate::store::object::{KnownObjects, Objects, library};
use domain::BranchName;

/// How repositories are opened.
#[derive(Clone, Debug)]
pub struct GitSettings {
    /// Folder for our bare copies of remote repositories; made when absent.
    pub cache: PathBuf,
    /// Name or path of the `git` program (2.30 or newer).
    pub program: PathBuf,
    /// How long one run of the `git` program may take that transfers nothing.
    pub timeout: Duration,
    /// How slow a transfer may be.
    pub pace: Pace,
    /// Mounted secret: a folder with `username` and `password` (kubernetes.io/basic-auth) or `identity` and
    /// `known_hosts` (as Flux names them). None: credential helpers, agents and keys of the user.
    pub secret: Option<PathBuf>,
    /// What may be read of a repository, and what the `git` program may take.
    pub limits: Limits,
}

impl Default for GitSettings {
    fn default() -> Self {
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
            .unwrap_or_else(std::env::temp_dir);
        Self {
            cache: cache.join("stepgate").join("git"),
            program: PathBuf::from("git"),
            timeout: Duration::from_secs(120),
            pace: Pace::default(),
            secret: None,
            limits: Limits::default(),
        }
    }
}

/// A fleet repository, open. Cheap to clone; clones share one handle and may be used from several threads.
///
/// A local repository is read and written in place. A remote one is mirrored into a bare copy of ours: call
/// [`Repository::refresh`] to bring it up to date; everything else reads the copy.
#[derive(Clone)]
pub struct Repository {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) location: RepositoryLocation,
    /// The folder that holds `objects/` and `refs/`.
    pub(super) folder: PathBuf,
    pub(super) handle: Mutex<Handle>,
    pub(super) program: GitProgram,
    pub(super) limits: Limits,
    /// What keeps other processes away from our copy of a remote repository.
    _claim: Option<Claim>,
    /// Where branches were when this process saw them last: of use once one is gone.
    pub(super) seen: Mutex<BTreeMap<BranchName, Oid>>,
}

/// The library's handle, and our own knowledge of the same store.
pub(super) struct Handle {
    pub(super) library: git2::Repository,
    store: Store,
    known: KnownObjects,
}

impl Deref for Handle {
    type Target = git2::Repository;

    fn deref(&self) -> &git2::Repository {
        &self.library
    }
}

impl fmt::Debug for Repository {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Repository").field(&self.inner.location).finish()
    }
}

impl Repository {
    /// Opens a repository with the default settings.
    ///
    /// # Errors
    /// [`GitError`] when there is none or it cannot be used.
    pub fn open(location: &RepositoryLocation) -> Result<Self, GitError> {
        Self::open_with(location, &GitSettings::default())
    }

    /// Opens a repository. A remote one is not contacted before the first [`Repository::refresh`].
    ///
    /// # Errors
    /// [`GitError`] when there is none, it cannot be used, or the folder for copies cannot be written.
    pub fn open_with(location: &RepositoryLocation, settings: &GitSettings) -> Result<Self, GitError> {
        // Once: it is a setting of the whole library. Packs carry checksums, and loose objects are verified by our own code.
        static PACKS_ARE_CHECKED: Once = Once::new();
        // What was read is remembered by our own code, within its part of the limit of memory.
        PACKS_ARE_CHECKED.call_once(|| {
            git2::opts::strict_hash_verification(false);
            git2::opts::enable_caching(false);
        });
        let (handle, claim) = match location {
            RepositoryLocation::Local(path) => (open_local(path, location)?, None),
            RepositoryLocation::Remote(url) => {
                let Claimed { library, claim } = copies::open(url, &settings.cache)?;
                (library, claim)
            }
        };
        let program = GitProgram {
            program: settings.program.clone(),
            timeout: settings.timeout,
            pace: settings.pace,
            limits: settings.limits.clone(),
            secret: settings.secret.clone(),
        };
        let folder = handle.commondir().to_owned();
        let objects = folder.join("objects");
        Ok(Self {
            inner: Arc::new(Inner {
                location: location.clone(),
                folder,
                handle: Mutex::new(Handle {
                    library: handle,
                    store: Store::new(&objects),
                    known: KnownObjects::default(),
                }),
                program,
                limits: settings.limits.clone(),
                _claim: claim,
                seen: Mutex::default(),
            }),
        })
    }

    /// Makes an empty bare repository whose `HEAD` names `head`, and opens it.
    ///
    /// # Errors
    /// [`GitError`] when the folder cannot be written or already holds a repository.
    pub fn create(path: &Path, head: &BranchName) -> Result<Self, GitError> {
        let mut options = git2::RepositoryInitOptions::new();
        options.bare(true).no_reinit(true).mkpath(true).external_template(false).initial_head(head.as_str());
        git2::Repository::init_opts(path, &options).map_err(|error| GitError::Unusable {
            location: path.display().to_string(),
            message: error.message().to_owned(),
        })?;
        Self::open(&RepositoryLocation::Local(path.to_owned()))
    }

    /// Where the repository is.
    pub fn location(&self) -> &RepositoryLocation {
        &self.inner.location
    }

    /// What may be read of it.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// The folder that holds `objects/` and `refs/`: of the repository itself, or of our copy of a remote one.
    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// The commit that a branch holds, or none when the branch is absent. Reads one reference and nothing else.
    ///
    /// # Errors
    /// [`GitError`] when the reference cannot be read.
    pub fn head(&self, branch: &BranchName) -> Result<Option<CommitId>, GitError> {
        self.head_oid(branch)?.map(commit_id).transpose()
    }

    pub(super) fn head_oid(&self, branch: &BranchName) -> Result<Option<Oid>, GitError> {
        let found = self.handle().refname_to_id(&branch.reference());
        match found {
            Ok(id) => {
                self.remember_seen(branch, id);
                Ok(Some(id))
            }
            Err(error) if error.code() == ErrorCode::NotFound => {
                // A repository that is being replaced has no branches, and that is not the same as deleted ones.
                if self.inner.folder.join("HEAD").exists() {
                    Ok(None)
                } else {
                    Err(GitError::NotARepository { location: self.inner.location.to_string() })
                }
            }
            Err(error) => Err(library(format!("read branch `{branch}` of {}", self.inner.location), &error)),
        }
    }

    /// The branch that `HEAD` names, whether it has a commit or not.
    ///
    /// # Errors
    /// [`GitError::DetachedHead`] when `HEAD` holds a commit instead.
    pub fn current_branch(&self) -> Result<BranchName, GitError> {
        let handle = self.handle();
        let detached = || GitError::DetachedHead { repository: self.inner.location.to_string() };
        let head = handle
            .find_reference("HEAD")
            .map_err(|error| library(format!("read HEAD of {}", self.inner.location), &error))?;
        let target = head.symbolic_target().ok().flatten().ok_or_else(detached)?;
        target.strip_prefix("refs/heads/").and_then(|name| name.parse().ok()).ok_or_else(detached)
    }

    /// Who git's own configuration says is at work here; none where it does not say, or in no usable form.
    pub fn identity(&self) -> Option<Identity> {
        let handle = self.handle();
        let signature = handle.signature().ok()?;
        format!("{} <{}>", signature.name().ok()?, signature.email().ok()?).parse().ok()
    }

    /// The names of all branches, sorted; names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// [`GitError`] when the references cannot be read.
    pub fn branches(&self) -> Result<Vec<BranchName>, GitError> {
        let handle = self.handle();
        let action = || format!("list the branches of {}", self.inner.location);
        let references = handle.references_glob("refs/heads/*").map_err(|error| library(action(), &error))?;
        let mut branches: Vec<BranchName> = references
            .filter_map(|reference| {
                let reference = reference.ok()?;
                reference.name().ok()?.strip_prefix("refs/heads/")?.parse().ok()
            })
            .collect();
        branches.sort();
        Ok(branches)
    }

    /// The tree of the head of a branch.
    ///
    /// # Errors
    /// [`GitError::UnbornBranch`], [`GitError::MissingBranch`], or what the commit suffers from.
    pub fn snapshot(&self, branch: &BranchName) -> Result<GitSnapshot, GitError> {
        match self.head_oid(branch)? {
            Some(id) => GitSnapshot::of(self.clone(), id),
            None => Err(self.absent(branch)),
        }
    }

    /// The tree of a commit.
    ///
    /// # Errors
    /// [`GitError::MissingObject`] or what else the commit suffers from.
    pub fn snapshot_of(&self, commit: &CommitId) -> Result<GitSnapshot, GitError> {
        GitSnapshot::of(self.clone(), oid(commit)?)
    }

    /// Why a branch that is not there is not there.
    pub(super) fn absent(&self, branch: &BranchName) -> GitError {
        let repository = self.inner.location.to_string();
        if self.current_branch().is_ok_and(|current| current == *branch) {
            return GitError::UnbornBranch { branch: branch.clone(), repository };
        }
        let present = self.branches().unwrap_or_default().iter().take(10).map(ToString::to_string).collect();
        GitError::MissingBranch { branch: branch.clone(), repository, present }
    }

    pub(super) fn handle(&self) -> MutexGuard<'_, Handle> {
        // The handle holds no state of ours that a panic elsewhere could leave half-changed.
        self.inner.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `read` on the object store. The handle is held meanwhile: do not call back into the repository.
    pub(super) fn with_objects<T>(
        &self,
        read: impl FnOnce(&Objects<'_>) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let handle = self.handle();
        read(&Objects::new(&handle.library, &handle.store, &handle.known, &self.inner.limits)?)
    }
}

fn open_local(path: &Path, location: &RepositoryLocation) -> Result<git2::Repository, GitError> {
    let location = location.to_string();
    git2::Repository::open(path).map_err(|error| match error.code() {
        ErrorCode::NotFound => GitError::NotARepository { location },
        ErrorCode::Owner => GitError::Unusable { location, message: "it is owned by another user".to_owned() },
        _ => GitError::Unusable { location, message: error.message().to_owned() },
    })
}
