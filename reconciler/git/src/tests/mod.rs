//! Tests on real repositories, made and checked by the real `git` program.

mod borrowing;
mod changes;
mod committing;
mod costs;
mod history;
mod pushing;
mod reading;
mod remote;
mod revisions;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use domain::{CommitId, RepoPath};
use tempfile::TempDir;

use domain::BranchName;

use super::{
    CommitDraft, CommitMessage, CommitOutcome, GitSettings, PushOutcome, Repository, RepositoryLocation, Signing,
    StageTrailers,
};

/// A temporary folder with a bare repository `fleet.git`.
pub(super) struct Sandbox {
    pub(super) folder: TempDir,
}

impl Sandbox {
    /// An empty repository whose `HEAD` names `main`.
    pub(super) fn empty() -> Self {
        let sandbox = Self { folder: TempDir::new().unwrap() };
        sandbox.git_in(sandbox.folder.path(), &["init", "-q", "--bare", "-b", "main", "fleet.git"]);
        sandbox
    }

    /// A repository whose branch `main` holds these files.
    pub(super) fn with_files(files: &[(&str, &str)]) -> Self {
        let sandbox = Self::empty();
        sandbox.import("main", None, files, "Add files");
        sandbox
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("fleet.git")
    }

    pub(super) fn open(&self) -> Repository {
        Repository::open(&RepositoryLocation::Local(self.path())).unwrap()
    }

    /// The same repository through the `git` program, as if it were on a server; `copy` names the cache folder.
    pub(super) fn open_remote(&self, copy: &str) -> Repository {
        let location = format!("file://{}", self.path().display()).parse().unwrap();
        Repository::open_with(&location, &self.settings(copy)).unwrap()
    }

    pub(super) fn settings(&self, copy: &str) -> GitSettings {
        GitSettings { cache: self.folder.path().join(copy), ..GitSettings::default() }
    }

    /// Runs the git program in the repository and returns what it prints.
    pub(super) fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.path(), arguments)
    }

    pub(super) fn git_in(&self, folder: &Path, arguments: &[&str]) -> String {
        let (success, out) = self.try_git(folder, arguments, "");
        assert!(success, "git {arguments:?}: {out}");
        out
    }

    fn try_git(&self, folder: &Path, arguments: &[&str], input: &str) -> (bool, String) {
        use std::io::Write as _;
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=A Person", "-c", "user.email=person@example.com"])
            .args(arguments)
            .current_dir(folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.trim_end().to_owned())
    }

    /// Commits files on top of a branch as a person would, and returns the commit.
    pub(super) fn import(&self, branch: &str, parent: Option<&str>, files: &[(&str, &str)], message: &str) -> CommitId {
        let mut stream = format!("commit refs/heads/{branch}\n");
        stream += &format!("committer A Person <person@example.com> {} +0000\n", next_second());
        stream += &format!("data {}\n{message}\n", message.len());
        if let Some(parent) = parent {
            stream += &format!("from {parent}\n");
        }
        for (path, text) in files {
            stream += &format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len());
        }
        let (success, out) = self.try_git(&self.path(), &["fast-import", "--quiet", "--force"], &stream);
        assert!(success, "{out}");
        self.head(branch).unwrap()
    }

    pub(super) fn head(&self, branch: &str) -> Option<CommitId> {
        let reference = format!("refs/heads/{branch}");
        let (success, out) = self.try_git(&self.path(), &["rev-parse", "--verify", "--quiet", &reference], "");
        success.then(|| out.parse().unwrap())
    }

    /// Every object is well-formed by git's strictest rules.
    pub(super) fn check(&self) {
        let (success, out) =
            self.try_git(&self.path(), &["fsck", "--strict", "--full", "--no-dangling", "--no-progress"], "");
        // That HEAD names a branch without commits says nothing against the objects.
        let faults: Vec<&str> = out.lines().filter(|line| !line.starts_with("notice: ")).collect();
        assert!(success && faults.is_empty(), "git fsck: {out}");
    }

    /// Installs a hook.
    #[cfg(unix)]
    pub(super) fn hook(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let file = self.path().join("hooks").join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Distinct commit times, so that orders by time are the orders of making.
fn next_second() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static SECOND: AtomicU64 = AtomicU64::new(1_700_000_000);
    SECOND.fetch_add(1, Ordering::Relaxed)
}

/// Text that does not compress.
pub(super) fn noise(length: usize) -> String {
    let mut state = 1_u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + ((state >> 33) % 90) as u8)
    })
    .take(length)
    .collect()
}

pub(super) fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

pub(super) fn path(text: &str) -> RepoPath {
    RepoPath::new(text).unwrap()
}

pub(super) fn draft(parent: Option<&CommitId>, edits: &[(&str, Option<&str>)]) -> CommitDraft {
    CommitDraft {
        parent: parent.cloned(),
        prefix: None,
        edits: edits.iter().map(|(at, text)| (path(at), text.map(|text| Arc::from(text.as_bytes())))).collect(),
        message: CommitMessage { subject: "Stage".to_owned(), ..CommitMessage::default() },
        author: "Stepgate <stepgate@example.com>".parse().unwrap(),
        time: jiff::Timestamp::from_second(i64::try_from(next_second()).unwrap()).unwrap(),
        merges: None,
        allow_empty: false,
    }
}

pub(super) fn trailers(cluster: &str, stage: &str) -> StageTrailers {
    StageTrailers {
        rollout: "a".repeat(12).parse().unwrap(),
        cluster: cluster.parse().unwrap(),
        stage: stage.parse().unwrap(),
        plan: "a".repeat(64).parse().unwrap(),
        source: "1".repeat(40).parse().unwrap(),
    }
}

pub(super) fn commit(repository: &Repository, draft: &CommitDraft) -> CommitId {
    match repository.commit(draft, &Signing::None).unwrap() {
        CommitOutcome::Created(id) => id,
        CommitOutcome::Unchanged => panic!("nothing to commit"),
    }
}

/// Commits edits on top of a branch and pushes them.
pub(super) fn advance(repository: &Repository, name: &str, edits: &[(&str, Option<&str>)]) -> CommitId {
    let parent = repository.head(&branch(name)).unwrap();
    let new = commit(repository, &draft(parent.as_ref(), edits));
    assert_eq!(repository.push(&branch(name), &new, parent.as_ref()).unwrap(), PushOutcome::Pushed);
    new
}

/// All files of a branch as the git program sees them: path to content.
pub(super) fn files(sandbox: &Sandbox, name: &str) -> BTreeMap<String, String> {
    let listing = sandbox.git(&["-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", name]);
    listing.lines().map(|file| (file.to_owned(), sandbox.git(&["show", &format!("{name}:{file}")]))).collect()
}
