//! A branch that is not there: what the repository still knows of where it was.
//!
//! Architecture Invariant: a record that was lost is not made anew. To adopt a cluster in
//! mid-rollout would put every stage that is left onto the deploy branch at once. So a cluster
//! without a ledger counts as one that nobody has recorded only where nothing speaks against it:
//! git's logs, remote-tracking branches, our copy, the branch's history, Flux's revisions and the
//! `Rollout`.

use std::fmt;
use std::sync::PoisonError;

use domain::CommitId;
use git2::Oid;

use super::object_id::{commit_id, oid};
use crate::error::GitError;
use crate::remote::location::{RepositoryLocation, redact};
use crate::repository::Repository;
use domain::BranchName;

/// Branches that people are asked on: what lies there has not been agreed to.
const PROPOSED: &str = "stepgate/";
/// How many other branches are looked into.
const LOOKED_INTO: usize = 32;

/// A commit that a branch held, as far as somebody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSeen {
    /// The commit.
    pub commit: CommitId,
    /// Who knows it.
    pub by: SeenBy,
}

/// Who knows where a branch was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenBy {
    /// A remote-tracking branch: the repository is somebody's clone.
    Clone {
        /// Such as `origin/deploy`.
        reference: String,
        /// Where the clone is from, without a password; none where git's configuration does not say.
        url: Option<String>,
    },
    /// Git's log of a reference.
    Log(String),
    /// Another branch, by its name: the policy may have named that one before.
    Branch(String),
    /// Our copy of a remote repository, as it was before the branch went there.
    Copy,
    /// This process, which has read the branch before.
    Process,
    /// Something else, by its name: an object in a cluster.
    Other(String),
}

impl fmt::Display for SeenBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clone { reference, .. } => formatter.write_str(reference),
            Self::Log(reference) => write!(formatter, "git's log of {reference}"),
            Self::Branch(name) => write!(formatter, "branch {name}"),
            Self::Copy => formatter.write_str("Stepgate's copy of the repository"),
            Self::Process => formatter.write_str("this process"),
            Self::Other(name) => formatter.write_str(name),
        }
    }
}

impl Repository {
    /// Where an absent branch was, likeliest knowledge first: of this process, of whoever this repository is a clone of, of git's logs, of our copy, and what
    /// other branches hold. What cannot be read is not known: this is for advice.
    pub fn last_seen(&self, branch: &BranchName) -> Vec<LastSeen> {
        let mut found: Vec<LastSeen> = match &self.inner.location {
            RepositoryLocation::Local(_) => {
                let known = self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner).get(branch).copied();
                let known = known.and_then(|id| seen(id, SeenBy::Process));
                known.into_iter().chain(self.tracked(branch)).chain(self.logged(branch)).collect()
            }
            RepositoryLocation::Remote(_) => {
                let id = self.handle().refname_to_id(&kept(branch)).ok();
                id.and_then(|id| seen(id, SeenBy::Copy)).into_iter().collect()
            }
        };
        let others = self.branches().unwrap_or_default().into_iter();
        let others = others.filter(|other| other != branch && !other.as_str().starts_with(PROPOSED)).take(LOOKED_INTO);
        found.extend(others.filter_map(|other| {
            Some(LastSeen { commit: self.head(&other).ok()??, by: SeenBy::Branch(other.to_string()) })
        }));
        found
    }

    /// Remembers where a branch is.
    pub(crate) fn remember_seen(&self, branch: &BranchName, id: Oid) {
        if branch.as_str().starts_with(PROPOSED) {
            return;
        }
        let mut seen = self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.get(branch) != Some(&id) {
            seen.insert(branch.clone(), id);
        }
    }

    /// Notes in our copy where a branch was that the remote repository has no longer.
    pub(crate) fn keep_last_seen(&self, branch: &BranchName, id: Oid) {
        if branch.as_str().starts_with(PROPOSED) {
            return;
        }
        if let Err(error) = self.handle().reference(&kept(branch), id, true, "stepgate: gone from the remote") {
            tracing::warn!(%branch, error = error.message(), "could not note where the branch was");
        }
    }

    /// Whether the object is in this repository (or in our copy of a remote one).
    pub fn holds(&self, commit: &CommitId) -> bool {
        oid(commit).is_ok_and(|id| self.with_objects(|objects| objects.commit(id)).is_ok())
    }

    /// Whether the first commit comes after the second one; what this repository does not hold comes after nothing.
    pub fn descends(&self, commit: &CommitId, from: &CommitId) -> bool {
        commit != from && self.lineage(from, commit).is_ok_and(|lineage| !lineage.is_empty())
    }

    /// The names of remotes that git's configuration has, `origin` first, with their addresses without passwords.
    pub fn remotes(&self) -> Vec<(String, Option<String>)> {
        let handle = self.handle();
        let Ok(names) = handle.remotes() else { return Vec::new() };
        let mut names: Vec<String> = names.iter().filter_map(|name| name.ok().flatten().map(str::to_owned)).collect();
        names.sort_by_key(|name| name != "origin");
        let url = |name: &str| Some(redact(handle.find_remote(name).ok()?.url().ok()?));
        names.into_iter().map(|name| (name.clone(), url(&name))).collect()
    }

    /// What the first remote of a local clone holds as this branch, asked of it; none where it has no such branch, or there is no remote.
    pub fn upstream(&self, branch: &BranchName) -> Option<Result<LastSeen, GitError>> {
        let RepositoryLocation::Local(_) = &self.inner.location else { return None };
        let (remote, shown) = self.remotes().into_iter().next()?;
        let (url, folder) = {
            let handle = self.handle();
            let url = handle.find_remote(&remote).ok()?.url().ok()?.to_owned();
            (url, handle.workdir().unwrap_or_else(|| handle.path()).to_owned())
        };
        let head = match url.parse::<RepositoryLocation>().ok()? {
            RepositoryLocation::Local(path) => {
                Self::open(&RepositoryLocation::Local(folder.join(path))).and_then(|upstream| upstream.head(branch))
            }
            RepositoryLocation::Remote(url) => {
                self.remote_heads(&url, std::slice::from_ref(branch)).map(|heads| heads.into_values().flatten().next())
            }
        };
        let by = SeenBy::Clone { reference: format!("{remote}/{branch}"), url: shown };
        head.map(|head| head.map(|commit| LastSeen { commit, by })).transpose()
    }

    /// Where the remotes that this repository is a clone of had the branch when they were asked last.
    pub fn tracked(&self, branch: &BranchName) -> Vec<LastSeen> {
        let RepositoryLocation::Local(_) = &self.inner.location else { return Vec::new() };
        let remotes = self.remotes();
        let handle = self.handle();
        let found = |(remote, url): (String, Option<String>)| {
            let reference = format!("{remote}/{branch}");
            let id = handle.refname_to_id(&format!("refs/remotes/{reference}")).ok()?;
            seen(id, SeenBy::Clone { reference, url })
        };
        remotes.into_iter().filter_map(found).collect()
    }

    /// The branch's own log where git has kept it, then that of `HEAD`, which tells of branches that were left.
    fn logged(&self, branch: &BranchName) -> Option<LastSeen> {
        let handle = self.handle();
        let log = |name: &str| {
            // Reading a log that is not there would make it.
            handle.reference_has_log(name).is_ok_and(|has| has).then(|| handle.reflog(name).ok()).flatten()
        };
        let own = branch.reference();
        let of_branch = log(&own).and_then(|log| log.get(0).map(|entry| newest(entry.id_new(), entry.id_old())));
        if let Some(id) = of_branch {
            return seen(id, SeenBy::Log(own));
        }
        let (left, entered) = (format!("checkout: moving from {branch} to "), format!(" to {branch}"));
        let log = log("HEAD")?;
        let id = log.iter().find_map(|entry| {
            let message = entry.message().ok().flatten()?;
            match message {
                _ if message.starts_with(&left) => Some(entry.id_old()),
                _ if message.starts_with("checkout: ") && message.ends_with(&entered) => Some(entry.id_new()),
                _ => None,
            }
        })?;
        seen(id, SeenBy::Log("HEAD".to_owned()))
    }
}

/// The entry of a deletion names no new commit.
fn newest(new: Oid, old: Oid) -> Oid {
    if new.is_zero() { old } else { new }
}

fn seen(id: Oid, by: SeenBy) -> Option<LastSeen> {
    Some(LastSeen { commit: commit_id(id).ok()?, by })
}

/// Where our copy keeps what a branch held that is gone.
fn kept(branch: &BranchName) -> String {
    format!("refs/stepgate/last-seen/{branch}")
}
