//! Merging what is proposed, for one cluster of a branch or for all of them, as it was proposed.

use domain::CommitId;
use jiff::Timestamp;

use super::AnswerError;
use super::asked;
use super::build::{Edits, Layer, build, changes};
use super::provenance::is_ours;
use super::stack::{Proposal, Stack};
use crate::reconcile::effects::commit::Signature;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use approvals::words::{Subject, paragraph, said_on};
use domain::BranchName;
use git::{CommitDraft, CommitMessage, CommitOutcome, Identity, PushOutcome};

/// What is merged of one cluster.
pub(super) struct Piece {
    subject: Subject,
    proposal: Proposal,
    edits: Edits,
    /// Whose approvals it rests on, besides the word of who merges.
    approvers: Vec<String>,
}

impl Piece {
    /// A proposal that people have not changed, of a cluster whose folders are as they were when it was made.
    pub fn new(
        planner: &Planner,
        reading: &FleetReading,
        view: &ClusterView,
        proposal: &Proposal,
        subject: Subject,
        approvers: Vec<String>,
    ) -> Result<Self, AnswerError> {
        if proposal.edited {
            return Err(AnswerError::Edited {
                branch: proposal.branch.clone(),
                head: proposal.head.clone(),
                why: None,
            });
        }
        let repository = planner.repository();
        if !proposal.is_on(repository, reading, view)? {
            let reason = "the cluster's directory on the deploy branch has changed since";
            return Err(AnswerError::Void { branch: proposal.branch.clone(), reason });
        }
        let plan = asked(view).map(|(plan, _)| plan).find(|plan| plan.digest == subject.plan);
        let ours = plan.map(|plan| is_ours(repository, reading, view, (plan, &subject.scope), proposal)).transpose()?;
        if ours != Some(true) {
            let reason = "its commit is not the one that Stepgate would make";
            return Err(AnswerError::Void { branch: proposal.branch.clone(), reason });
        }
        let edits = changes(repository, reading, &view.name, &proposal.commit)?;
        Ok(Self { subject, proposal: proposal.clone(), edits, approvers })
    }
}

/// Merges these pieces of a branch into the deploy branch, in the name of `by`, who may have said so at a place of its own. Where that is all of the branch it is gone afterwards; else it
/// stays, and the controller proposes the rest anew.
pub(super) fn merge(
    planner: &Planner,
    reading: &FleetReading,
    stack: &Stack,
    pieces: &[Piece],
    (by, place): (&Identity, Option<&str>),
    overriding: Option<(&str, &[String])>,
    now: Timestamp,
) -> Result<CommitId, AnswerError> {
    let repository = planner.repository();
    let signature = Signature::of(&reading.fleet.policy, planner.signing())?;
    let is_whole = stack.parts.len() == pieces.len();
    let merges = if is_whole {
        stack.head.clone()
    } else {
        // What is proposed for others must not come along, so these lie on the deploy branch by themselves, with what was said of them.
        let layer = |piece: &Piece| Layer::Known(piece.subject.cluster.clone(), piece.proposal.commit.clone());
        let about = |word: &&super::stack::Spoken| pieces.iter().any(|piece| word.names(&piece.subject));
        let words: Vec<CommitId> = stack.words.iter().rev().filter(about).map(|word| word.commit.clone()).collect();
        let layers = pieces.iter().map(layer).collect();
        let alone = build(repository, reading, &signature, reading.deploy_head(), layers, &words)?;
        alone.ok_or_else(|| AnswerError::NotPushed {
            branch: reading.layout.branch.clone(),
            reason: "there is nothing to commit".to_owned(),
        })?
    };
    let mut approvers = vec![by.to_string()];
    for approver in pieces.iter().flat_map(|piece| &piece.approvers) {
        if !approvers.contains(approver) {
            approvers.push(approver.clone());
        }
    }
    let name = by.to_string();
    let reason = overriding.map(|(reason, missing)| (name.as_str(), reason, missing));
    let subjects: Vec<&Subject> = pieces.iter().map(|piece| &piece.subject).collect();
    let draft = CommitDraft {
        parent: reading.deploy_head().cloned(),
        merges: Some(merges),
        prefix: signature.prefix.clone(),
        edits: pieces.iter().flat_map(|piece| piece.edits.clone()).collect(),
        message: CommitMessage {
            subject: title(pieces, if overriding.is_some() { "override approval of" } else { "approve" }),
            body: format!("{}\n{}{}", plans(pieces), paragraph(&subjects, &approvers, reason), said_on(place)),
            trailers: Vec::new(),
        },
        author: by.clone(),
        time: now,
        allow_empty: true,
    };
    let commit = write(planner, &reading.layout.branch, &draft, &signature)?;
    // The merge holds it; a branch that stays behind is withdrawn by the controller. What was rejected before is told by its branch alone.
    let about_others = |word: &super::stack::Spoken| !pieces.iter().any(|piece| word.is_about(&piece.subject));
    if is_whole
        && !stack.words.iter().any(about_others)
        && let Err(error) = repository.withdraw(&stack.branch, &stack.head)
    {
        tracing::warn!(git.branch = %stack.branch, %error, "the merged branch could not be removed");
    }
    Ok(commit)
}

fn title(pieces: &[Piece], verb: &str) -> String {
    let stage = |piece: &Piece| piece.proposal.trailers.stage.to_string();
    match pieces {
        [piece] => format!("{}: {verb} {}", piece.subject.cluster, stage(piece)),
        pieces => {
            let mut stages: Vec<String> = pieces.iter().map(stage).collect();
            stages.dedup();
            format!("{verb} {} of {} clusters", stages.join(", "), pieces.len())
        }
    }
}

fn plans(pieces: &[Piece]) -> String {
    match pieces {
        [piece] => format!("Approved for plan {}.\n", piece.subject.plan),
        pieces => pieces.iter().fold("Approved for these plans:\n".to_owned(), |text, piece| {
            format!("{text}- {}: {}\n", piece.subject.cluster, piece.subject.plan)
        }),
    }
}

/// Commits to a branch, unless somebody was faster.
pub(in crate::reconcile) fn write(
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
        PushOutcome::Lost { .. } => Err(AnswerError::Lost(branch.clone())),
        PushOutcome::RejectedByHook { message } => Err(failed(format!("a hook or rule refused it: {message}"))),
    }
}
