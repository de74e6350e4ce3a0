//! Moving a branch by compare-and-swap.
//!
//! Architecture Invariant: this is the only file that moves a branch of a fleet repository. It never moves one away from
//! a commit that the caller has not seen, and, but for branches of proposals, never to a commit that does not follow from it.

use std::fs;
use std::path::{Path, PathBuf};

use domain::CommitId;
use git2::{ErrorCode, Oid};

use super::location::{RepositoryLocation, RepositoryUrl};
use super::program::{Output, refusal};
use crate::durable;
use crate::error::GitError;
use crate::history::deploy_history::lineage;
use crate::refs::object_id::{commit_id, oid};
use crate::refs::reference::{References, Swap};
use crate::repository::Repository;
use crate::store::object::library;
use domain::BranchName;
use host::disk;

/// What became of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The branch holds the new commit.
    Pushed,
    /// The branch held something else than expected; it was left alone. Plan again from there.
    Lost {
        /// What it holds; none when it is absent.
        actual: Option<CommitId>,
    },
    /// A hook or rule of the repository refused the commit.
    RejectedByHook {
        /// What it said, without secrets.
        message: String,
    },
}

/// Hooks of githooks(5) that decide about or follow a push.
const HOOKS: &[&str] =
    &["pre-receive", "update", "proc-receive", "reference-transaction", "post-receive", "post-update"];

/// Packs after which small ones are put together: each push adds one.
const PACKS: usize = 50;

/// Puts packs together so that each is at least twice as large as all smaller ones: what has been packed once is written anew
/// only as often as the repository doubles, where `git gc --auto` writes everything anew each time. Of git 2.32 and newer.
const REPACK: [&str; 5] = ["repack", "--geometric=2", "-d", "-l", "-q"];

/// As long as a push waits for the same locks (`References`), in milliseconds.
const PATIENT: [&str; 4] = ["-c", "core.filesRefLockTimeout=2000", "-c", "core.packedRefsTimeout=2000"];

impl Repository {
    /// Moves `branch` from `expected` (none: it must be absent) to `new`, if it still holds `expected`.
    ///
    /// A local repository without hooks is changed in place, by a locked reference. One with hooks, and a remote one, is
    /// pushed to by the `git` program with `--force-with-lease`, so that hooks run and rules of the server apply. When
    /// the answer of a server is lost, the branch is read again before anything is reported.
    ///
    /// # Errors
    /// [`GitError::NotAFollower`], [`GitError::CheckedOut`], [`GitError::Locked`], [`GitError::Storage`], or what the
    /// server said.
    pub fn push(
        &self,
        branch: &BranchName,
        new: &CommitId,
        expected: Option<&CommitId>,
    ) -> Result<PushOutcome, GitError> {
        let new = oid(new)?;
        let expected = expected.map(oid).transpose()?;
        if let Some(old) = expected {
            self.require_follower(branch, new, old)?;
        }
        let outcome = self.swap(branch, new, expected)?;
        if matches!(outcome, PushOutcome::Pushed) {
            self.remember_seen(branch, new);
        }
        Ok(outcome)
    }

    /// As [`Repository::push`], for a branch that proposes something: what it holds may be written anew on another base.
    ///
    /// # Errors
    /// As [`Repository::push`], but for [`GitError::NotAFollower`].
    pub fn propose(
        &self,
        branch: &BranchName,
        new: &CommitId,
        expected: Option<&CommitId>,
    ) -> Result<PushOutcome, GitError> {
        self.swap(branch, oid(new)?, expected.map(oid).transpose()?)
    }

    /// Removes a branch that proposes something, if it still holds `expected`. One that holds something else, or is gone, is left alone.
    ///
    /// # Errors
    /// [`GitError`] when the branch cannot be removed.
    pub fn withdraw(&self, branch: &BranchName, expected: &CommitId) -> Result<(), GitError> {
        let (reference, expected) = (branch.reference(), oid(expected)?);
        if let RepositoryLocation::Remote(url) = &self.inner.location {
            let arguments = [
                "push".to_owned(),
                "--progress".to_owned(),
                "--porcelain".to_owned(),
                "--no-verify".to_owned(),
                format!("--force-with-lease={reference}:{expected}"),
                "--end-of-options".to_owned(),
                url.with_secrets().to_owned(),
                format!(":{reference}"),
            ];
            let output = self.inner.program.transfer(Some(&self.inner.folder), Some(url), &[], &arguments)?;
            if !output.status.success() && self.actual(branch, Some(url))? == Some(expected) {
                return Err(refusal(&self.inner.location.to_string(), "push", &output));
            }
        }
        let held = || match self.handle().refname_to_id(&reference) {
            Ok(id) => Ok(Some(id)),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(library(format!("remove `{branch}` of {}", self.inner.location), &error)),
        };
        if held()? != Some(expected) {
            return Ok(());
        }
        // The program compares once more under its locks, and waits for whoever packs references.
        let expected_text = expected.to_string();
        let arguments = [&PATIENT[..], &["update-ref", "-d", &reference, &expected_text]].concat();
        let output = self.inner.program.run(Some(&self.inner.folder), None, &arguments)?;
        if output.status.success() || held()? != Some(expected) {
            return Ok(());
        }
        Err(refusal(&self.inner.location.to_string(), "update-ref", &output))
    }

    fn swap(&self, branch: &BranchName, new: Oid, expected: Option<Oid>) -> Result<PushOutcome, GitError> {
        match &self.inner.location {
            RepositoryLocation::Local(_) => {
                self.require_not_checked_out(branch)?;
                if self.has_hooks() {
                    if let Some(packs) = durable::packs(&self.inner.folder)? {
                        packs.sync_all().map_err(durable::storage("synchronise", &self.inner.folder))?;
                    }
                    let folder = fs::canonicalize(&self.inner.folder).unwrap_or_else(|_| self.inner.folder.clone());
                    let target = folder.to_string_lossy().into_owned();
                    self.push_by_program(branch, new, expected, &target, None)
                } else {
                    self.push_in_place(branch, new, expected)
                }
            }
            RepositoryLocation::Remote(url) => {
                let outcome = self.push_by_program(branch, new, expected, url.with_secrets(), Some(url))?;
                if outcome == PushOutcome::Pushed {
                    self.note(branch, new)?;
                }
                Ok(outcome)
            }
        }
    }

    fn require_follower(&self, branch: &BranchName, new: Oid, old: Oid) -> Result<(), GitError> {
        let follows = new == old
            || self.with_objects(|objects| {
                // Almost always the parent; walking the history is for the rest.
                let parent = objects.commit(new)?.parents.contains(&old);
                Ok(parent || !lineage(objects, old, new)?.is_empty())
            })?;
        if follows {
            return Ok(());
        }
        Err(GitError::NotAFollower { branch: branch.clone(), new: commit_id(new)?, old: commit_id(old)? })
    }

    fn require_not_checked_out(&self, branch: &BranchName) -> Result<(), GitError> {
        let head = format!("ref: {}", branch.reference());
        let names = |file: &Path| disk::read_text(file, 4096).is_ok_and(|text| text.trim_end() == head);
        let bare = self.handle().is_bare();
        let own = !bare && names(&self.inner.folder.join("HEAD"));
        let linked = fs::read_dir(self.inner.folder.join("worktrees"))
            .is_ok_and(|folders| folders.flatten().any(|folder| names(&folder.path().join("HEAD"))));
        if own || linked {
            return Err(GitError::CheckedOut { branch: branch.clone(), repository: self.inner.location.to_string() });
        }
        Ok(())
    }

    fn has_hooks(&self) -> bool {
        let configured = self.handle().config().and_then(|config| config.get_path("core.hooksPath"));
        let folder = configured.unwrap_or_else(|_| PathBuf::from("hooks"));
        let folder = self.inner.folder.join(folder);
        HOOKS.iter().any(|name| is_executable(&folder.join(name)))
    }

    fn push_in_place(&self, branch: &BranchName, new: Oid, expected: Option<Oid>) -> Result<PushOutcome, GitError> {
        let reference = branch.reference();
        let swap = References::new(&self.inner.folder).swap(&reference, new, expected, || self.head_oid(branch))?;
        match swap {
            Swap::Done => {}
            Swap::Differs(actual) => return self.lost(actual, new),
            Swap::Locked => {
                return Err(GitError::Locked { reference, repository: self.inner.location.to_string() });
            }
        }
        self.tidy();
        Ok(PushOutcome::Pushed)
    }

    fn push_by_program(
        &self,
        branch: &BranchName,
        new: Oid,
        expected: Option<Oid>,
        target: &str,
        url: Option<&RepositoryUrl>,
    ) -> Result<PushOutcome, GitError> {
        let reference = branch.reference();
        let lease = expected.map(|id| id.to_string()).unwrap_or_default();
        let arguments = [
            "push".to_owned(),
            "--progress".to_owned(),
            "--porcelain".to_owned(),
            "--no-verify".to_owned(),
            "--recurse-submodules=no".to_owned(),
            format!("--force-with-lease={reference}:{lease}"),
            "--end-of-options".to_owned(),
            target.to_owned(),
            format!("{new}:{reference}"),
        ];
        let ran = self.inner.program.transfer(Some(&self.inner.folder), url, &[], &arguments);
        let output = match ran {
            Ok(output) if output.status.success() => return Ok(PushOutcome::Pushed),
            Ok(output) => output,
            Err(error) => {
                // The server may have moved the branch before the connection broke.
                return match self.actual(branch, url) {
                    Ok(actual) if actual == Some(new) => Ok(PushOutcome::Pushed),
                    _ => Err(error),
                };
            }
        };
        let actual = self.actual(branch, url);
        match actual {
            Ok(actual) if actual == Some(new) || actual != expected => return self.lost(actual, new),
            Ok(_) | Err(_) => {}
        }
        match rejection(&output, &reference) {
            Some(message) => Ok(PushOutcome::RejectedByHook { message }),
            None => Err(refusal(&self.inner.location.to_string(), "push", &output)),
        }
    }

    fn actual(&self, branch: &BranchName, url: Option<&RepositoryUrl>) -> Result<Option<Oid>, GitError> {
        match url {
            None => self.head_oid(branch),
            Some(url) => {
                let heads = self.remote_heads(url, std::slice::from_ref(branch))?;
                heads.into_values().next().flatten().map(|id| oid(&id)).transpose()
            }
        }
    }

    fn lost(&self, actual: Option<Oid>, new: Oid) -> Result<PushOutcome, GitError> {
        if actual == Some(new) {
            // Another process of ours made the very same commit: that is what was asked for.
            return Ok(PushOutcome::Pushed);
        }
        Ok(PushOutcome::Lost { actual: actual.map(commit_id).transpose()? })
    }

    /// Keeps the number of packs small. A failed clean-up is no failure of the push; the next one tries again.
    fn tidy(&self) {
        let packs = fs::read_dir(self.inner.folder.join("objects").join("pack")).map_or(0, Iterator::count) / 2;
        if packs <= PACKS {
            return;
        }
        let run = |arguments: &[&str]| self.inner.program.run(Some(&self.inner.folder), None, arguments);
        // Which objects a partial clone may fetch later is said by its packs, and old versions of git lose that here.
        let is_partial = self.handle().config().and_then(|config| config.get_string("extensions.partialclone")).is_ok();
        let repacked = !is_partial && run(&REPACK).is_ok_and(|output| output.status.success());
        if !repacked {
            let _ = run(&["gc", "--auto", "--quiet"]);
        }
    }
}

/// What a hook or rule of the receiving side said, when `--porcelain` output shows that one refused.
fn rejection(output: &Output, reference: &str) -> Option<String> {
    let text = output.text();
    let line = text.lines().find(|line| line.starts_with('!') && line.contains(&format!(":{reference}\t")))?;
    let summary = line.rsplit('\t').next()?.trim();
    let reason = summary.strip_prefix("[remote rejected]")?.trim().trim_matches(['(', ')']);
    // These are the storage of the server and not its rules.
    if ["unpacker error", "failed to update ref", "failed to write", "cannot lock"].iter().any(|e| reason.contains(e)) {
        return None;
    }
    let said: Vec<&str> = output
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("remote:"))
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    Some(if said.is_empty() { reason.to_owned() } else { format!("{reason}: {}", said.join("; ")) })
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}
