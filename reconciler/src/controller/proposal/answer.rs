//! Answering a proposal with Stepgate itself, where no forge does.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use overlays::{RenderedTree, RepoPath};
use rollout::{ClusterName, CommitId, StageId};

use super::{APPROVED_BY, Proposal, REJECTED_BY, asked, branch};
use crate::controller::commit::Signature;
use crate::controller::directory::{cluster_folder, flux_folder, path};
use crate::controller::planner::{ClusterView, FleetReading, Planner};
use crate::git::{
    BranchName, CommitDraft, CommitMessage, CommitOutcome, GitError, GitSnapshot, Identity, IdentityError, PushOutcome,
};

/// What an answer came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The branch that proposed it.
    pub branch: BranchName,
    /// The stage.
    pub stage: StageId,
    /// The commit that says so; none for a dry run.
    pub commit: Option<CommitId>,
}

/// Why there is nothing to answer, or the answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Nothing is proposed.
    #[error("nothing is proposed for cluster {0}")]
    NothingProposed(ClusterName),
    /// What is proposed is not what would be committed now.
    #[error("what {branch} proposes is not what would be committed now: {reason}")]
    Void {
        /// The branch.
        branch: BranchName,
        /// What moved.
        reason: &'static str,
    },
    /// People changed the proposed branch.
    #[error("{0} was changed by people: it holds {1}, which does not come from Stepgate")]
    Edited(BranchName, CommitId),
    /// A branch moved meanwhile, or a rule of the repository refused the push.
    #[error("{branch} could not be moved: {reason}")]
    NotPushed {
        /// The branch.
        branch: BranchName,
        /// Why.
        reason: String,
    },
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Name or address cannot be written into a commit.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl AnswerError {
    /// What helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NothingProposed(cluster) => Some(format!("`stepgate why {cluster}` says what it waits for")),
            Self::Void { .. } => {
                Some("let the controller (`stepgate run`) propose it anew, and look at that".to_owned())
            }
            Self::Edited(branch, _) => Some(format!(
                "put what is wanted into the source branch and delete {branch}: it is proposed again without the edit"
            )),
            Self::NotPushed { .. } => Some("try again; look at the branch first".to_owned()),
            Self::Git(error) => error.hint(),
            Self::Identity(_) => None,
        }
    }
}

/// Merges what is proposed for a cluster into the deploy branch, as it was proposed; without `by` only says what would be merged.
///
/// # Errors
/// [`AnswerError`]; nothing has changed then.
pub fn approve(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    by: Option<&Identity>,
    now: Timestamp,
) -> Result<Approval, AnswerError> {
    let proposal = open(planner, view)?;
    if proposal.edited {
        return Err(AnswerError::Edited(proposal.branch, proposal.head));
    }
    let repository = planner.repository();
    let before = match repository.parent(&proposal.commit)? {
        Some(parent) => files(&repository.deploy_snapshot(&reading.layout, &parent)?, &view.name)?,
        None => RenderedTree::new(),
    };
    let now_there = match &reading.deploy {
        Some(deploy) => files(deploy, &view.name)?,
        None => RenderedTree::new(),
    };
    if before != now_there {
        let reason = "the cluster's directory on the deploy branch has changed since";
        return Err(AnswerError::Void { branch: proposal.branch, reason });
    }
    let after = files(&repository.deploy_snapshot(&reading.layout, &proposal.commit)?, &view.name)?;
    let stage = proposal.trailers.stage.clone();
    let Some(by) = by else { return Ok(Approval { branch: proposal.branch, stage, commit: None }) };
    let signature = Signature::of(&reading.fleet.policy)?;
    let body = format!("Approved for plan {}.\n\n{APPROVED_BY}: {by}", proposal.trailers.plan);
    let edits: BTreeMap<RepoPath, Option<Arc<[u8]>>> = before
        .diff(&after)
        .files
        .into_keys()
        .map(|path| {
            let bytes = after.get(path.as_str()).cloned();
            (path, bytes)
        })
        .collect();
    let draft = CommitDraft {
        parent: reading.deploy_head().cloned(),
        merges: Some(proposal.commit.clone()),
        prefix: signature.prefix.clone(),
        edits,
        message: CommitMessage { subject: format!("{}: approve {stage}", view.name), body, trailers: None },
        author: by.clone(),
        time: now,
        allow_empty: true,
    };
    let commit = write(planner, &reading.layout.branch, &draft, &signature)?;
    // The merge holds it; a branch that stays behind is withdrawn by the controller.
    if let Err(error) = repository.withdraw(&proposal.branch, &proposal.head) {
        tracing::warn!(git.branch = %proposal.branch, %error, "the merged branch could not be removed");
    }
    Ok(Approval { branch: proposal.branch, stage, commit: Some(commit) })
}

/// Says no to what is proposed for a cluster; without `by` only says to what.
///
/// # Errors
/// [`AnswerError`]; nothing has changed then.
pub fn reject(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    by: Option<&Identity>,
    reason: &str,
    now: Timestamp,
) -> Result<Approval, AnswerError> {
    let proposal = open(planner, view)?;
    let stage = proposal.trailers.stage.clone();
    let Some(by) = by else { return Ok(Approval { branch: proposal.branch, stage, commit: None }) };
    let signature = Signature::of(&reading.fleet.policy)?;
    let draft = CommitDraft {
        parent: Some(proposal.head.clone()),
        merges: None,
        prefix: None,
        edits: BTreeMap::new(),
        message: CommitMessage {
            subject: format!("{}: reject {stage}", view.name),
            body: format!("{reason}\n\n{REJECTED_BY}: {by} ({})", reason.replace('\n', " ")),
            trailers: None,
        },
        author: by.clone(),
        time: now,
        allow_empty: true,
    };
    let commit = write(planner, &proposal.branch, &draft, &signature)?;
    Ok(Approval { branch: proposal.branch, stage, commit: Some(commit) })
}

/// What is proposed now and not void.
fn open(planner: &Planner, view: &ClusterView) -> Result<Proposal, AnswerError> {
    let repository = planner.repository();
    let mut void = None;
    for (plan, scope) in asked(view) {
        let branch = branch(&plan.rollout_id, &scope)?;
        repository.refresh(std::slice::from_ref(&branch))?;
        let Some(proposal) = Proposal::read(repository, &branch)? else { continue };
        if proposal.trailers.plan == plan.digest {
            return Ok(proposal);
        }
        void = Some(branch);
    }
    Err(match void {
        Some(branch) => AnswerError::Void { branch, reason: "it is of another plan" },
        None => AnswerError::NothingProposed(view.name.clone()),
    })
}

fn write(
    planner: &Planner,
    branch: &BranchName,
    draft: &CommitDraft,
    signature: &Signature,
) -> Result<CommitId, AnswerError> {
    let failed = |reason: String| AnswerError::NotPushed { branch: branch.clone(), reason };
    let repository = planner.repository();
    let commit = match repository.commit(draft, &signature.signing)? {
        CommitOutcome::Created(commit) => commit,
        CommitOutcome::Unchanged => return Err(failed("there is nothing to commit".to_owned())),
    };
    match repository.push(branch, &commit, draft.parent.as_ref())? {
        PushOutcome::Pushed => Ok(commit),
        PushOutcome::Lost { .. } => Err(failed("somebody else moved it meanwhile".to_owned())),
        PushOutcome::RejectedByHook { message } => Err(failed(format!("a hook or rule refused it: {message}"))),
    }
}

/// Every file of the cluster's two folders, ledger and all.
fn files(deploy: &GitSnapshot, cluster: &ClusterName) -> Result<RenderedTree, GitError> {
    let mut tree = RenderedTree::new();
    for folder in [cluster_folder(cluster), flux_folder(cluster)] {
        for (name, bytes) in deploy.below(&path(&folder)?)?.files()?.files {
            tree.insert(path(&format!("{folder}/{name}"))?, bytes);
        }
    }
    Ok(tree)
}
