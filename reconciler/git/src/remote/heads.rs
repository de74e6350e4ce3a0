//! Remote repositories: asking for heads, fetching into our copy.

use std::collections::BTreeMap;

use domain::CommitId;
use git2::{ErrorCode, Oid};

use super::location::{RepositoryLocation, RepositoryUrl};
use super::program::refusal;
use crate::error::GitError;
use crate::limits::Limit;
use crate::refs::object_id::{commit_id, oid};
use crate::repository::Repository;
use crate::store::budget::Exceeded;
use crate::store::object::library;
use domain::BranchName;

/// What git calls the other side in a fetch. Our copy's own configuration does not know it.
const REMOTE: &str = "stepgate";

/// The commit that each branch holds; none where the branch is absent.
pub type Heads = BTreeMap<BranchName, Option<CommitId>>;

impl Repository {
    /// What the branches hold now: read from the references of a local repository, asked of a remote one
    /// (`git ls-remote`, one round trip, nothing is fetched).
    ///
    /// # Errors
    /// [`GitError`] when the repository cannot be read or reached.
    pub fn heads(&self, branches: &[BranchName]) -> Result<Heads, GitError> {
        match &self.inner.location {
            RepositoryLocation::Local(_) => {
                branches.iter().map(|branch| Ok((branch.clone(), self.head(branch)?))).collect()
            }
            RepositoryLocation::Remote(url) => self.remote_heads(url, branches),
        }
    }

    /// Brings our copy of a remote repository up to date with these branches, and drops those that are gone there.
    /// Fetches only when a head differs. Does nothing for a local repository.
    ///
    /// # Errors
    /// [`GitError`] when the repository cannot be reached or the copy cannot be written.
    pub fn refresh(&self, branches: &[BranchName]) -> Result<(), GitError> {
        self.refresh_to(&self.heads_of_remote(branches)?)
    }

    fn heads_of_remote(&self, branches: &[BranchName]) -> Result<Heads, GitError> {
        match &self.inner.location {
            RepositoryLocation::Local(_) => Ok(Heads::new()),
            RepositoryLocation::Remote(url) => self.remote_heads(url, branches),
        }
    }

    /// As [`Repository::refresh`], by heads that were just asked for: whoever knows them need not ask again.
    ///
    /// # Errors
    /// As [`Repository::refresh`].
    pub fn refresh_to(&self, heads: &Heads) -> Result<(), GitError> {
        match &self.inner.location {
            RepositoryLocation::Local(_) => Ok(()),
            RepositoryLocation::Remote(url) => self.bring(url, heads),
        }
    }

    /// As [`Repository::refresh`], for every branch whose name begins with `prefix`: those branches, as they are now.
    ///
    /// # Errors
    /// As [`Repository::refresh`].
    pub fn refresh_below(&self, prefix: &str) -> Result<Vec<BranchName>, GitError> {
        if let RepositoryLocation::Remote(url) = &self.inner.location {
            let mut heads: Heads = self.branches_below(prefix)?.into_iter().map(|branch| (branch, None)).collect();
            let output = self.list_remote(url, [format!("refs/heads/{prefix}*")])?;
            for (id, reference) in output.lines().filter_map(|line| line.split_once('\t')) {
                // Names that no branch may have are none of ours.
                let Some(branch) = reference.strip_prefix("refs/heads/").and_then(|name| name.parse().ok()) else {
                    continue;
                };
                heads.insert(branch, Some(remote_id(url, id)?));
            }
            self.affordable(prefix, heads.len())?;
            heads.retain(|branch, _| branch.as_str().starts_with(prefix));
            self.bring(url, &heads)?;
        }
        self.branches_below(prefix)
    }

    fn branches_below(&self, prefix: &str) -> Result<Vec<BranchName>, GitError> {
        let mut branches = self.branches()?;
        branches.retain(|branch| branch.as_str().starts_with(prefix));
        self.affordable(prefix, branches.len())?;
        Ok(branches)
    }

    /// Whether so many branches are looked at. To leave some out would be to say that they are not there.
    fn affordable(&self, prefix: &str, branches: usize) -> Result<(), GitError> {
        let allowed = self.inner.limits.get(Limit::Branches);
        if branches as u64 <= allowed {
            return Ok(());
        }
        let exceeded = Exceeded { limit: Limit::Branches, allowed };
        Err(exceeded.of(format!("{prefix} in {}", self.inner.location)))
    }

    /// Fetches what differs, and forgets what is gone.
    fn bring(&self, url: &RepositoryUrl, heads: &Heads) -> Result<(), GitError> {
        let wanted = self.differing(heads)?;
        match self.fetch_all(url, &wanted) {
            // A branch that is removed or rewritten after it was listed (a merged proposal) fails the fetch of all others.
            Err(error @ GitError::Program { .. }) => {
                let now = self.remote_heads(url, &wanted)?;
                if now.iter().all(|(branch, head)| heads.get(branch) == Some(head)) {
                    return Err(error);
                }
                let wanted = self.differing(&now)?;
                self.fetch_all(url, &wanted)
            }
            fetched => fetched,
        }
    }

    /// Forgets the branches that are gone, and gives those that our copy has to fetch.
    fn differing(&self, heads: &Heads) -> Result<Vec<BranchName>, GitError> {
        let mut wanted = Vec::new();
        for (branch, head) in heads {
            match (head, self.head(branch)?) {
                (Some(remote), Some(ours)) if *remote == ours => {}
                (Some(_), _) => wanted.push(branch.clone()),
                (None, Some(ours)) => {
                    self.keep_last_seen(branch, oid(&ours)?);
                    self.forget(branch)?;
                }
                (None, None) => {}
            }
        }
        Ok(wanted)
    }

    fn fetch_all(&self, url: &RepositoryUrl, branches: &[BranchName]) -> Result<(), GitError> {
        if branches.is_empty() {
            return Ok(());
        }
        match self.fetch(url, branches) {
            // What came by then is lost; one by one, what has come of a branch stays.
            Err(GitError::Stalled { .. }) if branches.len() > 1 => {
                branches.iter().try_for_each(|branch| self.fetch(url, std::slice::from_ref(branch)))
            }
            fetched => fetched,
        }
    }

    fn fetch(&self, url: &RepositoryUrl, branches: &[BranchName]) -> Result<(), GitError> {
        let mut arguments: Vec<String> = ["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--force"]
            .into_iter()
            .chain(["--no-recurse-submodules", "--end-of-options", REMOTE])
            .map(str::to_owned)
            .collect();
        arguments.extend(branches.iter().map(|branch| {
            let reference = branch.reference();
            format!("+{reference}:{reference}")
        }));
        // What would not be read is not fetched, by servers that can leave it out: nobody's large files stop the others.
        let largest = self.inner.limits.get(Limit::FileBytes).saturating_add(1);
        let settings = [
            format!("remote.{REMOTE}.url={}", url.with_secrets()),
            format!("remote.{REMOTE}.promisor=true"),
            format!("remote.{REMOTE}.partialCloneFilter=blob:limit={largest}"),
        ];
        let output = self.inner.program.transfer(Some(&self.inner.folder), Some(url), &settings, &arguments)?;
        if !output.status.success() {
            return Err(refusal(&url.to_string(), "fetch", &output));
        }
        self.with_objects(|objects| {
            objects.forget_packs();
            Ok(())
        })
    }

    pub(crate) fn remote_heads(&self, url: &RepositoryUrl, branches: &[BranchName]) -> Result<Heads, GitError> {
        let text = self.list_remote(url, branches.iter().map(BranchName::reference))?;
        let mut heads: Heads = branches.iter().map(|branch| (branch.clone(), None)).collect();
        for line in text.lines() {
            // A pattern also matches longer names that end in it, hence the exact comparison.
            let Some((id, reference)) = line.split_once('\t') else { continue };
            if let Some((_, head)) = heads.iter_mut().find(|(branch, _)| branch.reference() == reference) {
                *head = Some(remote_id(url, id)?);
            }
        }
        Ok(heads)
    }

    fn list_remote(&self, url: &RepositoryUrl, patterns: impl IntoIterator<Item = String>) -> Result<String, GitError> {
        let mut arguments = vec!["ls-remote".to_owned(), "--end-of-options".to_owned(), url.with_secrets().to_owned()];
        arguments.extend(patterns);
        let output = self.inner.program.run(None, Some(url), &arguments)?;
        if output.status.success() { Ok(output.text()) } else { Err(refusal(&url.to_string(), "ls-remote", &output)) }
    }

    /// Removes a branch of our copy that the remote repository no longer has.
    fn forget(&self, branch: &BranchName) -> Result<(), GitError> {
        let handle = self.handle();
        let action = || format!("drop `{branch}` from our copy of {}", self.inner.location);
        match handle.find_reference(&branch.reference()) {
            Ok(mut reference) => reference.delete().map_err(|error| library(action(), &error)),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(()),
            Err(error) => Err(library(action(), &error)),
        }
    }

    /// Notes in our copy what a push has put on the remote repository.
    pub(crate) fn note(&self, branch: &BranchName, id: Oid) -> Result<(), GitError> {
        let handle = self.handle();
        handle.reference(&branch.reference(), id, true, "stepgate: pushed").map(drop).map_err(|error| {
            library(
                format!("note `{branch}` at {}", commit_id(id).map_or_else(|_| String::new(), |id| id.to_string())),
                &error,
            )
        })
    }
}

/// An id as `git ls-remote` prints it.
fn remote_id(url: &RepositoryUrl, id: &str) -> Result<CommitId, GitError> {
    id.parse()
        .map_err(|error| GitError::Program { command: format!("git ls-remote of {url}"), message: format!("{error}") })
}
