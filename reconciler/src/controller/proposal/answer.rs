//! Answering a proposal with Stepgate itself, where no forge does.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use overlays::{RenderedTree, RepoPath};
use rollout::{
    ApprovalScope, ClusterName, CommitId, GivenApproval, LedgerState, Means, Plan, StageId, approval_rules,
    approval_verdict,
};

use super::{Proposal, REJECTED_BY, asked, branch};
use crate::controller::commit::Signature;
use crate::controller::directory::{cluster_folder, flux_folder, path};
use crate::controller::people::facts::{self, Landed};
use crate::controller::people::roster;
use crate::controller::people::words::{Subject, paragraph};
use crate::controller::planner::{ClusterView, FleetReading, PlanError, Planner};
use crate::git::{
    BranchName, CommitDraft, CommitMessage, CommitOutcome, GitError, GitSnapshot, Identity, IdentityError, PushOutcome,
};

/// New files by path; none removes one.
type Edits = BTreeMap<RepoPath, Option<Arc<[u8]>>>;

/// What an answer came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The branch that proposed it.
    pub branch: BranchName,
    /// The stage.
    pub stage: StageId,
    /// The commit that says so; none for a dry run.
    pub commit: Option<CommitId>,
    /// What is missing still, a line each: then the answer is noted, and nothing is merged by it.
    pub missing: Vec<String>,
}

/// What an approval rests on.
#[derive(Clone, Copy, Debug)]
pub enum Consent<'a> {
    /// The word of whoever gives it, besides what others said on the branch.
    Word,
    /// What the forge knows: these people's approvals, which are enough.
    Forge(&'a [GivenApproval]),
    /// Nothing but this reason: the rules are set aside.
    Override(&'a str),
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
    /// No stage was reverted as often as its policy lets it be committed.
    #[error("no stage of cluster {0} waits for another attempt")]
    NothingReverted(ClusterName),
    /// Approvals are counted where people are known.
    #[error(
        "approvals of cluster {0} are counted on the forge, and a commit's word is not known to be anybody's there"
    )]
    OnForge(ClusterName),
    /// What the rules look at.
    #[error(transparent)]
    Plan(#[from] PlanError),
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
            Self::NothingProposed(cluster) | Self::NothingReverted(cluster) => {
                Some(format!("`stepgate why {cluster}` says what it waits for"))
            }
            Self::Void { .. } => {
                Some("let the controller (`stepgate run`) propose it anew, and look at that".to_owned())
            }
            Self::Edited(branch, _) => Some(format!(
                "put what is wanted into the source branch and delete {branch}: it is proposed again without the edit"
            )),
            Self::NotPushed { .. } => Some("try again; look at the branch first".to_owned()),
            Self::OnForge(cluster) => Some(format!(
                "review the pull request, or comment `/stepgate approve` there; `stepgate approve {cluster} --override --reason TEXT` sets the \
                 rules aside"
            )),
            Self::Git(error) | Self::Plan(PlanError::Git(error)) => error.hint(),
            Self::Plan(_) | Self::Identity(_) => None,
        }
    }
}

/// Merges what is proposed for a cluster into the deploy branch, as it was proposed, on the word of whoever approves it; see [`answer`].
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
    answer(planner, reading, view, by, &Consent::Word, now)
}

/// Approves what is proposed for a cluster, or what was merged already and is held: it is merged into the deploy branch, as it was proposed,
/// once that is enough, and noted on its branch before. Without `by` it only says what would be done.
///
/// # Errors
/// [`AnswerError`]; nothing has changed then.
pub fn answer(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    by: Option<&Identity>,
    consent: &Consent<'_>,
    now: Timestamp,
) -> Result<Approval, AnswerError> {
    let (proposal, plan, scope) = match open(planner, view) {
        Ok(open) => open,
        Err(AnswerError::NothingProposed(name)) => {
            let landed = Landed::of(view).filter(Landed::matters).ok_or(AnswerError::NothingProposed(name))?;
            return late(planner, reading, view, &landed, by, consent, now);
        }
        Err(error) => return Err(error),
    };
    let changes = changes(planner, reading, view, &proposal)?;
    let stage = proposal.trailers.stage.clone();
    let subject = Subject { cluster: view.name.clone(), scope: scope.clone(), plan: plan.digest.clone() };
    let rules = approval_rules(plan, &scope);
    let running = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
    let mut approvers: Vec<String> = by.iter().map(ToString::to_string).collect();
    let mut missing = Vec::new();
    match consent {
        Consent::Forge(given) => approvers.extend(given.iter().map(|given| given.who.to_string())),
        Consent::Word if rules.take_anybody() => {}
        Consent::Word if reading.fleet.policy.forge.is_some() => return Err(AnswerError::OnForge(view.name.clone())),
        Consent::Word | Consent::Override(_) => {
            let mut facts = facts::asked(planner, reading, view, plan, &scope, Some(&proposal))?;
            facts.given.extend(by.and_then(|by| own_word(by, &subject, now)));
            missing = approval_verdict(plan, &scope, running, &roster(&reading.fleet.policy), &facts).lines();
        }
    }
    let done = |commit, missing| Approval { branch: proposal.branch.clone(), stage: stage.clone(), commit, missing };
    let overriding = matches!(consent, Consent::Override(_));
    let Some(by) = by else { return Ok(done(None, missing)) };
    let signature = Signature::of(&reading.fleet.policy)?;
    if !missing.is_empty() && !overriding {
        let draft = word(Some(proposal.head.clone()), view, &stage, &subject, by, None, now);
        let commit = write(planner, &proposal.branch, &draft, &signature)?;
        return Ok(done(Some(commit), missing));
    }
    let name = by.to_string();
    let reason = match consent {
        Consent::Override(reason) => Some((name.as_str(), *reason, missing.as_slice())),
        Consent::Word | Consent::Forge(_) => None,
    };
    let verb = if overriding { "override approval of" } else { "approve" };
    // What others said on the branch stays in history with it.
    let merges = if proposal.followed_by.is_empty() { &proposal.commit } else { &proposal.head };
    let draft = CommitDraft {
        parent: reading.deploy_head().cloned(),
        merges: Some(merges.clone()),
        prefix: signature.prefix.clone(),
        edits: changes,
        message: CommitMessage {
            subject: format!("{}: {verb} {stage}", view.name),
            body: format!("Approved for plan {}.\n\n{}", plan.digest, paragraph(&subject, &approvers, reason)),
            trailers: None,
        },
        author: by.clone(),
        time: now,
        allow_empty: true,
    };
    let commit = write(planner, &reading.layout.branch, &draft, &signature)?;
    // The merge holds it; a branch that stays behind is withdrawn by the controller.
    if let Err(error) = planner.repository().withdraw(&proposal.branch, &proposal.head) {
        tracing::warn!(git.branch = %proposal.branch, %error, "the merged branch could not be removed");
    }
    Ok(done(Some(commit), Vec::new()))
}

/// Says something of what is on the deploy branch already.
fn late(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    landed: &Landed<'_>,
    by: Option<&Identity>,
    consent: &Consent<'_>,
    now: Timestamp,
) -> Result<Approval, AnswerError> {
    let subject = landed.subject(view);
    let mut facts = landed.record(planner, reading, view)?.facts;
    let overriding = match consent {
        Consent::Override(reason) => Some(*reason),
        Consent::Word if landed.rules.take_anybody() => return Err(AnswerError::NothingProposed(view.name.clone())),
        Consent::Word | Consent::Forge(_) if reading.fleet.policy.forge.is_some() => {
            return Err(AnswerError::OnForge(view.name.clone()));
        }
        Consent::Word | Consent::Forge(_) => None,
    };
    let stage = landed.commit.trailer.as_ref().map(|trailer| trailer.stage.clone());
    let stage = stage.ok_or_else(|| AnswerError::NothingProposed(view.name.clone()))?;
    facts.given.extend(by.and_then(|by| own_word(by, &subject, now)));
    let plan = Plan { digest: subject.plan.clone(), ..landed.plan.unwrap_or(&view.plan).clone() };
    let verdict =
        approval_verdict(&plan, &subject.scope, view.directory.ledger(), &roster(&reading.fleet.policy), &facts);
    let missing = if landed.rules.take_anybody() { Vec::new() } else { verdict.lines() };
    let branch = reading.layout.branch.clone();
    let Some(by) = by else { return Ok(Approval { branch, stage, commit: None, missing }) };
    let signature = Signature::of(&reading.fleet.policy)?;
    let reason = overriding.map(|reason| (reason, missing.as_slice()));
    let draft = word(reading.deploy_head().cloned(), view, &stage, &subject, by, reason, now);
    let commit = write(planner, &branch, &draft, &signature)?;
    let missing = if overriding.is_some() { Vec::new() } else { missing };
    Ok(Approval { branch, stage, commit: Some(commit), missing })
}

/// A commit that changes nothing and says something.
fn word(
    parent: Option<CommitId>,
    view: &ClusterView,
    stage: &StageId,
    subject: &Subject,
    by: &Identity,
    overriding: Option<(&str, &[String])>,
    now: Timestamp,
) -> CommitDraft {
    let name = by.to_string();
    let reason = overriding.map(|(reason, missing)| (name.as_str(), reason, missing));
    let verb = if overriding.is_some() { "override approval of" } else { "approve" };
    CommitDraft {
        parent,
        merges: None,
        prefix: None,
        edits: BTreeMap::new(),
        message: CommitMessage {
            subject: format!("{}: {verb} {stage}", view.name),
            body: format!(
                "Said of plan {}.\n\n{}",
                subject.plan,
                paragraph(subject, std::slice::from_ref(&name), reason)
            ),
            trailers: None,
        },
        author: by.clone(),
        time: now,
        allow_empty: true,
    }
}

fn own_word(by: &Identity, subject: &Subject, now: Timestamp) -> Option<GivenApproval> {
    let who = by.to_string().parse().ok()?;
    Some(GivenApproval { who, plan: subject.plan.clone(), at: Some(now), means: Means::Command })
}

/// What a proposal changes of the cluster's folders, which are as they were when it was made.
fn changes(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    proposal: &Proposal,
) -> Result<Edits, AnswerError> {
    if proposal.edited {
        return Err(AnswerError::Edited(proposal.branch.clone(), proposal.head.clone()));
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
        return Err(AnswerError::Void { branch: proposal.branch.clone(), reason });
    }
    let after = files(&repository.deploy_snapshot(&reading.layout, &proposal.commit)?, &view.name)?;
    let changed = before.diff(&after).files.into_keys();
    Ok(changed
        .map(|path| {
            let bytes = after.get(path.as_str()).cloned();
            (path, bytes)
        })
        .collect())
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
    let (proposal, _, _) = open(planner, view)?;
    let stage = proposal.trailers.stage.clone();
    let done = |commit| Approval { branch: proposal.branch.clone(), stage: stage.clone(), commit, missing: Vec::new() };
    let Some(by) = by else { return Ok(done(None)) };
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
    Ok(done(Some(commit)))
}

/// What is proposed now and not void, with the plan and the scope that it is of.
fn open<'a>(planner: &Planner, view: &'a ClusterView) -> Result<(Proposal, &'a Plan, ApprovalScope), AnswerError> {
    let repository = planner.repository();
    let mut void = None;
    for (plan, scope) in asked(view) {
        let branch = branch(&plan.rollout_id, &scope)?;
        repository.refresh(std::slice::from_ref(&branch))?;
        let Some(proposal) = Proposal::read(repository, &branch)? else { continue };
        if proposal.trailers.plan == plan.digest {
            return Ok((proposal, plan, scope));
        }
        void = Some(branch);
    }
    Err(match void {
        Some(branch) => AnswerError::Void { branch, reason: "it is of another plan" },
        None => AnswerError::NothingProposed(view.name.clone()),
    })
}

pub(super) fn write(
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
