//! Commits that are proposed to people instead of pushed: each on a branch of its own, `stepgate/<rollout>/<stage>`.
//!
//! Merging the branch into the deploy branch is the approval, whoever does it and by whichever kind of merge: the ledger in the proposed
//! commit records it, bound to the plan. A rejection is a commit on the proposed branch. So git is all there is to read, and a process
//! that was killed has lost nothing.

mod answer;
mod body;
mod command;
mod given;
mod landed;
mod open;
mod pull_request;
mod retry;

use rollout::{ApprovalFacts, ApprovalRecord, ApprovalScope, ApprovalState, CommitId, Plan, RolloutId, approval_scope};

pub use answer::{AnswerError, Approval, Consent, answer, approve, reject};
pub use landed::people;
pub use pull_request::{Asking, Mergers, Shown, Told, askings, name_mergers};
pub use retry::{Retried, retry};

use super::directory::path;
use super::planner::ClusterView;
use crate::git::{BranchName, GitError, Repository, StageTrailers};

/// What all proposed branches begin with.
pub const PREFIX: &str = "stepgate/";

/// Name of the file, in a cluster's directory, that tells people what they are asked.
pub const BODY: &str = "proposal.md";

/// By whom a proposal was rejected, as a trailer of the commit that says so.
const REJECTED_BY: &str = "Stepgate-Rejected-By";

/// How many commits of people are looked behind for the one that was proposed.
const LONGEST: usize = 100;

/// A proposed commit, as its branch tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The branch.
    pub branch: BranchName,
    /// What the branch holds.
    pub head: CommitId,
    /// The commit that was proposed: the head, or what people's commits on the branch follow from.
    pub commit: CommitId,
    /// What it is.
    pub trailers: StageTrailers,
    /// Commits of people on the branch, newest first: what they say, or what they changed.
    pub followed_by: Vec<CommitId>,
    /// Who rejected it.
    pub rejected_by: Option<String>,
    /// Whether people changed it: what they merge then is not what was proposed.
    pub edited: bool,
}

impl Proposal {
    /// Reads a branch; none where it is absent or proposes nothing.
    ///
    /// # Errors
    /// [`GitError`] when the branch or its commits cannot be read.
    pub fn read(repository: &Repository, branch: &BranchName) -> Result<Option<Self>, GitError> {
        let Some(head) = repository.head(branch)? else { return Ok(None) };
        let (mut commit, mut rejected_by, mut followed_by) = (head.clone(), None, Vec::new());
        for _ in 0..LONGEST {
            let message = repository.message(&commit)?;
            if let Some(trailers) = StageTrailers::parse(&message) {
                // Words change nothing; whatever else was done to the files since is an edit, whoever says what of it.
                let edited = repository.snapshot_of(&head)?.tree() != repository.snapshot_of(&commit)?.tree();
                let branch = branch.clone();
                return Ok(Some(Self { branch, head, commit, trailers, followed_by, rejected_by, edited }));
            }
            // Only the last word counts: what people commit after a rejection takes it back.
            if commit == head {
                rejected_by = trailer(&message, REJECTED_BY);
            }
            match repository.parent(&commit)? {
                Some(parent) => {
                    followed_by.push(std::mem::replace(&mut commit, parent));
                }
                None => break,
            }
        }
        Ok(None)
    }

    /// What its branch alone answers.
    fn record(&self, scope: ApprovalScope) -> ApprovalRecord {
        let edited = if self.edited { " (changed by people)" } else { "" };
        ApprovalRecord {
            scope,
            plan: self.trailers.plan.clone(),
            state: if self.rejected_by.is_some() { ApprovalState::Rejected } else { ApprovalState::Pending },
            by: self.rejected_by.clone(),
            place: Some(format!("branch {}{edited}", self.branch)),
            facts: ApprovalFacts::default(),
        }
    }
}

/// The branch on which this is proposed.
///
/// # Errors
/// [`GitError`] when the stage's name is no part of a branch's name.
pub fn branch(rollout: &RolloutId, scope: &ApprovalScope) -> Result<BranchName, GitError> {
    let name = match scope {
        ApprovalScope::Rollout => format!("{PREFIX}{rollout}/rollout"),
        ApprovalScope::Stage(stage) => format!("{PREFIX}{rollout}/{stage}"),
    };
    name.parse().map_err(|error: crate::git::BranchNameError| GitError::Library {
        action: "name the branch of a proposal".to_owned(),
        message: error.to_string(),
    })
}

/// The plans of a cluster, each with what its policy wants to be asked before its next stage.
fn asked(view: &ClusterView) -> impl Iterator<Item = (&Plan, ApprovalScope)> {
    let plans = [Some(&view.plan), view.running.as_ref().map(|(plan, _)| plan)];
    plans.into_iter().flatten().filter_map(|plan| Some((plan, approval_scope(plan.next_stage()?)?)))
}

/// The value of a trailer in the last paragraph of a message.
fn trailer(message: &str, key: &str) -> Option<String> {
    let paragraph = message.trim_end().rsplit("\n\n").next()?;
    let value = paragraph.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// `clusters/<name>/proposal.md`.
///
/// # Errors
/// As [`path`].
pub fn body_path(cluster: &rollout::ClusterName) -> Result<overlays::RepoPath, GitError> {
    path(&format!("{}/{BODY}", super::directory::cluster_folder(cluster)))
}
