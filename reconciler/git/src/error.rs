//! What can go wrong with a repository.

use std::io;
use std::path::PathBuf;

use domain::CommitId;

use super::limits::Limit;
use crate::store::measure::LONGEST_LINK;
use domain::BranchName;

/// An error of the git module. The message says what was attempted on what; [`GitError::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no repository at this place.
    #[error("cannot open {location}: no git repository there")]
    NotARepository {
        /// Where it was looked for, without secrets.
        location: String,
    },
    /// There is one, and it cannot be used.
    #[error("cannot open {location}: {message}")]
    Unusable {
        /// Where it is, without secrets.
        location: String,
        /// The cause.
        message: String,
    },
    /// The policy names no branch that can be deployed from.
    #[error("there is no deploy branch: {message}")]
    DeployBranch {
        /// What is wrong with it, and where.
        message: String,
    },
    /// `HEAD` names a branch that has no commit yet.
    #[error("branch `{branch}` of {repository} has no commit yet")]
    UnbornBranch {
        /// The branch.
        branch: BranchName,
        /// The repository, without secrets.
        repository: String,
    },
    /// No such branch.
    #[error("{repository} has no branch `{branch}`")]
    MissingBranch {
        /// The branch asked for.
        branch: BranchName,
        /// The repository, without secrets.
        repository: String,
        /// The branches that are there (at most ten).
        present: Vec<String>,
    },
    /// `HEAD` holds a commit and names no branch, so "the current branch" means nothing.
    #[error("{repository} has a detached HEAD, so it has no current branch")]
    DetachedHead {
        /// The repository, without secrets.
        repository: String,
    },
    /// Nothing has that name, or it is not clear which commit has.
    #[error("{repository} has no commit `{revision}`")]
    UnknownRevision {
        /// The name.
        revision: String,
        /// The repository, without secrets.
        repository: String,
    },
    /// An object is not in the object store (shallow clone, lost pack, unknown commit).
    #[error("object {id} is missing while reading {what}")]
    MissingObject {
        /// The object id.
        id: String,
        /// What was read.
        what: String,
    },
    /// An object is there and does not hold what its id says, or is malformed.
    #[error("object {id} is corrupt while reading {what}: {message}")]
    CorruptObject {
        /// The object id.
        id: String,
        /// What was read.
        what: String,
        /// What is wrong with it.
        message: String,
    },
    /// No such path in the commit.
    #[error("commit {commit} has no {path}")]
    MissingPath {
        /// The commit.
        commit: CommitId,
        /// The path asked for.
        path: String,
    },
    /// The path is not a regular file.
    #[error("{path} in commit {commit} is a {kind}, not a file")]
    NotAFile {
        /// The commit.
        commit: CommitId,
        /// The path asked for.
        path: String,
        /// `folder`, `symbolic link` or `submodule`.
        kind: &'static str,
    },
    /// The file is larger than what is read.
    #[error("{path} in commit {commit} has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The commit.
        commit: CommitId,
        /// The path.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The largest size that is read.
        limit: u64,
    },
    /// Reading it would cost more than it may.
    #[error("{what} has more than {allowed} {}, the limit that --repo-limit {limit}=NUMBER raises", .limit.counted())]
    OverBudget {
        /// What costs too much.
        what: String,
        /// Which limit it is above.
        limit: Limit,
        /// That limit.
        allowed: u64,
    },
    /// A commit would hold a name that git refuses.
    #[error("cannot commit {path}: {reason}")]
    RefusedPath {
        /// The path.
        path: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// The new commit does not follow from the old one: pushing it would drop commits.
    #[error("commit {new} does not follow from {old}, so pushing it to `{branch}` would drop commits")]
    NotAFollower {
        /// The branch.
        branch: BranchName,
        /// The commit that was to be pushed.
        new: CommitId,
        /// The commit that the branch holds.
        old: CommitId,
    },
    /// The branch is checked out in a work tree, whose files would silently fall behind.
    #[error("branch `{branch}` of {repository} is checked out in a work tree")]
    CheckedOut {
        /// The branch.
        branch: BranchName,
        /// The repository.
        repository: String,
    },
    /// Another writer holds the lock of the reference.
    #[error("reference {reference} of {repository} is locked by another process")]
    Locked {
        /// The reference.
        reference: String,
        /// The repository.
        repository: String,
    },
    /// Writing or reading a file of the repository failed (full disk, permissions).
    #[error("cannot {action} {path}", path = path.display())]
    Storage {
        /// What was attempted.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The program is not installed.
    #[error("cannot run the program `{program}`")]
    ProgramMissing {
        /// Its name or path.
        program: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The program did not end in time and was stopped.
    #[error("{command} did not finish within {seconds} s and was stopped")]
    TimedOut {
        /// What was run, without secrets.
        command: String,
        /// The limit.
        seconds: u64,
    },
    /// A transfer did not get on and was stopped.
    #[error(
        "{command} was stopped: for {seconds} s it was slower than {bytes_per_second} bytes a second, or said nothing new"
    )]
    Stalled {
        /// What was run, without secrets.
        command: String,
        /// How long it was waited for.
        seconds: u64,
        /// What would have been enough.
        bytes_per_second: u64,
    },
    /// A program printed more than is read, so what it printed is not all there is.
    #[error("{command} printed more than {limit} bytes; a list that is cut says nothing")]
    OutputCut {
        /// What was run, without secrets.
        command: String,
        /// How much is read.
        limit: u64,
    },
    /// The remote side asked for credentials that are absent or refused.
    #[error("{repository} refuses our credentials: {message}")]
    Authentication {
        /// The repository, without secrets.
        repository: String,
        /// What the `git` program said.
        message: String,
    },
    /// The host key of the server is unknown or has changed.
    #[error("the host key of {repository} is not trusted: {message}")]
    HostKey {
        /// The repository, without secrets.
        repository: String,
        /// What the `ssh` program said.
        message: String,
    },
    /// The server cannot be reached (name, network, certificate, HTTP status).
    #[error("cannot reach {repository}: {message}")]
    Unreachable {
        /// The repository, without secrets.
        repository: String,
        /// What the `git` program said.
        message: String,
    },
    /// The server has no such repository, or does not show it to us.
    #[error("{repository} is not there, or not for us: {message}")]
    RemoteNotFound {
        /// The repository, without secrets.
        repository: String,
        /// What the `git` program said.
        message: String,
    },
    /// A program ended with an error that none of the above describes.
    #[error("{command} failed: {message}")]
    Program {
        /// What was run, without secrets.
        command: String,
        /// What it said.
        message: String,
    },
    /// A commit could not be signed.
    #[error("cannot sign the commit with {program}: {message}")]
    Signing {
        /// `ssh-keygen` or `gpg`.
        program: String,
        /// What it said.
        message: String,
    },
    /// The git library reported something that none of the above describes.
    #[error("cannot {action}: {message}")]
    Library {
        /// What was attempted.
        action: String,
        /// What the library said.
        message: String,
    },
}

impl From<domain::BranchNameError> for GitError {
    fn from(error: domain::BranchNameError) -> Self {
        Self::Library { action: "name a branch".to_owned(), message: error.to_string() }
    }
}

impl GitError {
    /// Whether the same call may succeed later with nobody's help: the caller retries with backoff.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::TimedOut { .. }
            | Self::Stalled { .. }
            | Self::Unreachable { .. }
            | Self::Locked { .. }
            | Self::Storage { .. } => true,
            Self::NotARepository { .. }
            | Self::DeployBranch { .. }
            | Self::Unusable { .. }
            | Self::UnbornBranch { .. }
            | Self::MissingBranch { .. }
            | Self::DetachedHead { .. }
            | Self::UnknownRevision { .. }
            | Self::MissingObject { .. }
            | Self::CorruptObject { .. }
            | Self::MissingPath { .. }
            | Self::NotAFile { .. }
            | Self::TooLarge { .. }
            | Self::OverBudget { .. }
            | Self::OutputCut { .. }
            | Self::RefusedPath { .. }
            | Self::NotAFollower { .. }
            | Self::CheckedOut { .. }
            | Self::ProgramMissing { .. }
            | Self::Authentication { .. }
            | Self::HostKey { .. }
            | Self::RemoteNotFound { .. }
            | Self::Program { .. }
            | Self::Signing { .. }
            | Self::Library { .. } => false,
        }
    }

    /// A short stable word for metrics and documentation.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotARepository { .. } => "not-a-repository",
            Self::DeployBranch { .. } => "deploy-branch",
            Self::Unusable { .. } => "unusable-repository",
            Self::UnbornBranch { .. } => "unborn-branch",
            Self::MissingBranch { .. } => "missing-branch",
            Self::DetachedHead { .. } => "detached-head",
            Self::UnknownRevision { .. } => "unknown-revision",
            Self::MissingObject { .. } => "missing-object",
            Self::CorruptObject { .. } => "corrupt-object",
            Self::MissingPath { .. } => "missing-path",
            Self::NotAFile { .. } => "not-a-file",
            Self::TooLarge { .. } => "too-large",
            Self::OverBudget { .. } => "over-budget",
            Self::Stalled { .. } => "stalled",
            Self::OutputCut { .. } => "output-cut",
            Self::RefusedPath { .. } => "refused-path",
            Self::NotAFollower { .. } => "not-a-follower",
            Self::CheckedOut { .. } => "checked-out",
            Self::Locked { .. } => "locked",
            Self::Storage { .. } => "storage",
            Self::ProgramMissing { .. } => "program-missing",
            Self::TimedOut { .. } => "timed-out",
            Self::Authentication { .. } => "authentication",
            Self::HostKey { .. } => "host-key",
            Self::Unreachable { .. } => "unreachable",
            Self::RemoteNotFound { .. } => "remote-not-found",
            Self::Program { .. } => "program",
            Self::Signing { .. } => "signing",
            Self::Library { .. } => "library",
        }
    }

    /// Whether it is about what stands in the repository, and no failure on our side: whose that is has to mend it.
    pub fn is_of_content(&self) -> bool {
        matches!(
            self,
            Self::OverBudget { .. } | Self::TooLarge { .. } | Self::CorruptObject { .. } | Self::MissingObject { .. }
        )
    }

    /// The same error once more, for another one who depends on what could not be done.
    pub fn again(&self, action: impl Into<String>) -> Self {
        match self {
            Self::OverBudget { what, limit, allowed } => {
                Self::OverBudget { what: what.clone(), limit: *limit, allowed: *allowed }
            }
            other => Self::Library { action: action.into(), message: other.to_string() },
        }
    }

    /// What is wrong, for a place that names the file already: without it and without the commit.
    pub fn detail(&self) -> String {
        match self {
            Self::MissingObject { id, .. } => format!("object {id} is missing from the repository"),
            Self::CorruptObject { id, message, .. } => format!("object {id} of the repository is corrupt: {message}"),
            Self::NotAFile { kind, .. } => format!("it is a {kind}, not a file"),
            Self::TooLarge { size, limit, .. } => format!("it has {size} bytes, more than the limit of {limit}"),
            other => other.to_string(),
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::DeployBranch { .. } => "`stepgate check` lists what is wrong with stepgate.yaml".to_owned(),
            Self::NotARepository { .. } => "give the folder of a bare repository or of a clone, or a URL".to_owned(),
            Self::Unusable { message, .. } if message.contains("owned by") => {
                "the folder belongs to another user: `git config --global --add safe.directory FOLDER`".to_owned()
            }
            Self::UnbornBranch { branch, .. } => {
                format!("commit something on `{branch}`: `stepgate init` writes a stepgate.yaml to begin with")
            }
            Self::MissingBranch { present, .. } if !present.is_empty() => {
                format!("branches there: {}", present.join(", "))
            }
            Self::MissingBranch { branch, .. } => {
                format!(
                    "the repository is empty: push something to `{branch}`: `stepgate init` writes a stepgate.yaml to begin with"
                )
            }
            Self::DetachedHead { .. } => "name the branch with --source-branch, or check one out".to_owned(),
            Self::UnknownRevision { .. } => {
                "name a branch, a tag, or a commit by at least four characters of its id; `~2` behind it goes two commits back"
                    .to_owned()
            }
            Self::MissingObject { .. } => {
                "fetch the whole history (`git fetch --unshallow`; of a clone that was made with --filter, `git fetch --refetch --no-filter`) and run \
                 `git fsck`; of a remote repository no files above `--repo-limit file-bytes` are fetched: raise it and remove our copy"
                    .to_owned()
            }
            Self::CorruptObject { .. } => {
                "run `git fsck --full` there and restore the object from another clone".to_owned()
            }
            Self::TooLarge { limit, .. } if *limit > LONGEST_LINK => Limit::FileBytes.hint(),
            Self::OverBudget { limit, .. } => limit.hint(),
            Self::Stalled { .. } => {
                "where the connection is as slow as that, raise --git-patience SECONDS (STEPGATE_GIT_PATIENCE)"
                    .to_owned()
            }
            Self::OutputCut { .. } => "remove branches there that nobody needs".to_owned(),
            Self::CheckedOut { .. } => "check out another branch there, or use a bare repository".to_owned(),
            Self::NotAFollower { .. } => "someone rewrote the branch; plan again from its present head".to_owned(),
            Self::Locked { .. } => {
                "if no git process runs there, a crashed one left the .lock file: remove it".to_owned()
            }
            Self::Storage { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "the disk is full; nothing was committed".to_owned()
            }
            Self::Storage { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "let this user write into the repository's folder".to_owned()
            }
            Self::Storage { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "the repository was moved or removed meanwhile, or something takes what is being written: give `git gc` \
                 and `git prune` no `--prune=now` there, and no `gc.pruneExpire` of `now`"
                    .to_owned()
            }
            Self::ProgramMissing { program, .. } => format!("install `{program}` and put it on PATH"),
            Self::Authentication { .. } => {
                "give --git-secret FOLDER with `username` and `password`, or `identity` and `known_hosts`".to_owned()
            }
            Self::HostKey { .. } => {
                "compare the key with the server's owner and put it into `known_hosts` of the git secret".to_owned()
            }
            _ => return None,
        })
    }
}
