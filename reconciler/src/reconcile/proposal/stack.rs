//! What a proposed branch holds: one commit a cluster, in the order of names, and above them what people said.

use std::sync::Arc;

use domain::{ClusterName, CommitId};
use rollout::{ApprovalRecord, ApprovalScope, ApprovalState};

use super::{ANSWERED, REJECTED_BY};
use crate::reconcile::clusters::directory;
use crate::reconcile::planner::{ClusterView, FleetReading};
use approvals::words::Subject;
use domain::BranchName;
use git::{GitError, Limit, Repository, StageTrailers};

/// How many commits of a branch are looked at; one with more is not read.
const LONGEST: usize = 2000;

/// How long all messages of a branch may be, in bytes.
const MOST_SAID: usize = 8 << 20;

/// A proposed branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The branch.
    pub branch: BranchName,
    /// What it holds.
    pub head: CommitId,
    /// What is proposed on it, in the order of the commits. Empty once everything has landed as it was proposed.
    pub parts: Vec<StageTree>,
    /// Commits of people above them, newest first.
    pub words: Vec<Spoken>,
    /// What people changed.
    edits: Edits,
}

/// The proposed commit of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTree {
    /// The commit.
    pub commit: CommitId,
    /// What it is.
    pub trailers: StageTrailers,
}

/// A commit by which somebody says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// The commit.
    pub commit: CommitId,
    /// Its message.
    pub message: Arc<str>,
}

/// What people changed on a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Edits {
    /// Nothing: words change no file.
    Nothing,
    /// Files of these clusters.
    Of(Vec<ClusterName>),
    /// Files of no cluster that is proposed: whoever merges them merges them with everything.
    Beside,
}

/// A proposed commit as its cluster sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The branch.
    pub branch: BranchName,
    /// What the branch holds.
    pub head: CommitId,
    /// The commit that is proposed for this cluster.
    pub commit: CommitId,
    /// What it is.
    pub trailers: StageTrailers,
    /// Commits of people on the branch, newest first: what they say, or what they changed.
    pub followed_by: Vec<CommitId>,
    /// Who rejected it.
    pub rejected_by: Option<String>,
    /// Whether people changed it: what they merge then is not what was proposed.
    pub edited: bool,
    /// Whether nothing else is proposed on the branch.
    pub alone: bool,
}

impl Stack {
    /// Reads a branch; none where it is absent.
    ///
    /// # Errors
    /// [`GitError`] when the branch or its commits cannot be read.
    pub fn read(
        repository: &Repository,
        reading: &FleetReading,
        branch: &BranchName,
    ) -> Result<Option<Self>, GitError> {
        let Some(head) = repository.head(branch)? else { return Ok(None) };
        Self::at(repository, reading, branch, head).map(Some)
    }

    /// What a branch proposes that holds this commit.
    ///
    /// # Errors
    /// As [`Stack::read`].
    pub fn at(
        repository: &Repository,
        reading: &FleetReading,
        branch: &BranchName,
        head: CommitId,
    ) -> Result<Self, GitError> {
        let (mut words, mut parts, mut said) = (Vec::new(), Vec::new(), 0);
        let own = repository.beyond(&head, reading.deploy_head(), LONGEST).map_err(|error| match error {
            GitError::OverBudget { limit: Limit::Commits, .. } => GitError::Library {
                action: format!("read branch {branch}"),
                message: format!(
                    "it has more than {LONGEST} commits of its own; delete it, so that it is proposed anew"
                ),
            },
            error => error,
        })?;
        for commit in own {
            let message = repository.message(&commit)?;
            said += message.len();
            if said > MOST_SAID {
                return Err(GitError::Library {
                    action: format!("read branch {branch}"),
                    message: format!(
                        "the messages of its commits have more than {MOST_SAID} bytes; delete the branch, so that it is proposed anew"
                    ),
                });
            }
            match StageTrailers::parse(&message) {
                Some(trailers) => parts.push(StageTree { commit, trailers }),
                None if parts.is_empty() => words.push(Spoken { commit, message: message.into() }),
                None => break,
            }
        }
        if parts.is_empty() {
            // What was said of others is merged with what has landed, and holds all the same as long as the branch is there.
            let mut next =
                words.last().map_or_else(|| Ok(Some(head.clone())), |word: &Spoken| repository.parent(&word.commit))?;
            while let Some(commit) = next.filter(|_| words.len() < LONGEST) {
                let message = repository.message(&commit)?;
                if answered(&message).next().is_none() || StageTrailers::parse(&message).is_some() {
                    break;
                }
                next = repository.parent(&commit)?;
                words.push(Spoken { commit, message: message.into() });
            }
        }
        parts.reverse();
        let mut stack = Self { branch: branch.clone(), head, parts, words, edits: Edits::Nothing };
        stack.edits = stack.find_edits(repository, reading)?;
        Ok(stack)
    }

    /// What is proposed for the cluster of a subject, whose plan may be another one.
    pub fn proposal(&self, subject: &Subject) -> Option<Proposal> {
        let part = self.part(&subject.cluster)?;
        Some(Proposal {
            branch: self.branch.clone(),
            head: self.head.clone(),
            commit: part.commit.clone(),
            trailers: part.trailers.clone(),
            followed_by: self.words.iter().map(|word| word.commit.clone()).collect(),
            rejected_by: self.rejected_by(subject),
            edited: self.is_edited_for(&subject.cluster),
            alone: self.parts.len() == 1,
        })
    }

    /// The newest commit of a cluster.
    pub fn part(&self, cluster: &ClusterName) -> Option<&StageTree> {
        self.parts.iter().rev().find(|part| &part.trailers.cluster == cluster)
    }

    /// Who rejected this. Only the last word about it counts: what people commit after a rejection takes it back.
    pub fn rejected_by(&self, subject: &Subject) -> Option<String> {
        let last = self.words.iter().find(|word| word.is_about(subject))?;
        trailer(&last.message, REJECTED_BY)
    }

    /// Whether anything is proposed for a cluster, or was said about it.
    pub fn concerns(&self, cluster: &ClusterName) -> bool {
        self.part(cluster).is_some() || self.words.iter().any(|word| word.concerns(cluster))
    }

    /// Whether people changed any file.
    pub fn is_edited(&self) -> bool {
        self.edits != Edits::Nothing
    }

    /// Whether people changed what is proposed for a cluster, or something beside all of them.
    pub fn is_edited_for(&self, cluster: &ClusterName) -> bool {
        match &self.edits {
            Edits::Nothing => false,
            Edits::Of(clusters) => clusters.contains(cluster),
            Edits::Beside => true,
        }
    }

    /// Whether it holds commits, and nothing that was said to Stepgate.
    pub fn is_somebody_elses(&self) -> bool {
        !self.words.is_empty() && self.words.iter().all(|word| answered(&word.message).next().is_none())
    }

    /// Words change nothing; whatever else was done to the files since is an edit, whoever says what of it.
    fn find_edits(&self, repository: &Repository, reading: &FleetReading) -> Result<Edits, GitError> {
        let Some(top) = self.parts.last().filter(|top| top.commit != self.head) else { return Ok(Edits::Nothing) };
        if repository.snapshot_of(&self.head)?.tree() == repository.snapshot_of(&top.commit)?.tree() {
            return Ok(Edits::Nothing);
        }
        let before = repository.deploy_snapshot(&reading.layout, &top.commit)?;
        let after = repository.deploy_snapshot(&reading.layout, &self.head)?;
        let mut clusters = Vec::new();
        for part in &self.parts {
            let cluster = &part.trailers.cluster;
            if directory::ids(&before, cluster)? != directory::ids(&after, cluster)? {
                clusters.push(cluster.clone());
            }
        }
        Ok(if clusters.is_empty() { Edits::Beside } else { Edits::Of(clusters) })
    }
}

impl Spoken {
    /// Whether it is about this. Who names nothing speaks of everything.
    pub fn is_about(&self, subject: &Subject) -> bool {
        let text = subject.to_string();
        let mut named = answered(&self.message).peekable();
        named.peek().is_none() || named.any(|value| value == text)
    }

    /// Whether it says no.
    pub fn rejects(&self) -> bool {
        trailer(&self.message, REJECTED_BY).is_some()
    }

    /// Whether it names something of this cluster.
    pub fn concerns(&self, cluster: &ClusterName) -> bool {
        answered(&self.message).any(|value| value.split(' ').next() == Some(cluster.as_str()))
    }

    /// Whether it names this.
    pub fn names(&self, subject: &Subject) -> bool {
        let text = subject.to_string();
        answered(&self.message).any(|value| value == text)
    }
}

impl Proposal {
    /// What its branch alone answers.
    pub(super) fn record(&self, scope: ApprovalScope) -> ApprovalRecord {
        let edited = if self.edited { " (changed by people)" } else { "" };
        ApprovalRecord {
            scope,
            plan: self.trailers.plan.clone(),
            state: if self.rejected_by.is_some() { ApprovalState::Rejected } else { ApprovalState::Pending },
            by: self.rejected_by.clone(),
            place: Some(format!("branch {}{edited}", self.branch)),
            facts: rollout::ApprovalFacts::default(),
        }
    }

    /// Whether it changes the cluster's directory as it is now.
    ///
    /// # Errors
    /// [`GitError`] when commits cannot be read.
    pub(super) fn is_on(
        &self,
        repository: &Repository,
        reading: &FleetReading,
        view: &ClusterView,
    ) -> Result<bool, GitError> {
        let Some(parent) = repository.parent(&self.commit)? else { return Ok(view.directory.ids == (None, None)) };
        let snapshot = repository.deploy_snapshot(&reading.layout, &parent)?;
        Ok(directory::ids(&snapshot, &view.name)? == view.directory.ids)
    }
}

/// What a message says that it answers.
fn answered(message: &str) -> impl Iterator<Item = &str> {
    let paragraph = message.trim_end().rsplit("\n\n").next().unwrap_or_default();
    paragraph.lines().filter_map(|line| line.strip_prefix(ANSWERED)?.strip_prefix(':').map(str::trim))
}

/// The value of a trailer in the last paragraph of a message.
fn trailer(message: &str, key: &str) -> Option<String> {
    let paragraph = message.trim_end().rsplit("\n\n").next()?;
    let value = paragraph.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}
