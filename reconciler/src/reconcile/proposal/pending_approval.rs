//! What a cluster's plans ask people, and what they answered.

use std::sync::Arc;

use domain::{CommitId, PlanDigest};
use rollout::{
    ApprovalFacts, ApprovalRecord, ApprovalRequest, ApprovalScope, ApprovalState, LedgerState, approval_verdict,
};

use super::edited::{Considered, Edited, is_taken_up_from};
use super::proposal_cache::ProposalCache;
use super::stack::Proposal;
use super::thread::Thread;
use super::{WITHDRAWN, asked};
use crate::reconcile::people::facts;
use crate::reconcile::planner::{ClusterView, FleetReading, PlanError, Planner};
use approvals::comments::conversation::Said;
use approvals::group::Group;
use approvals::metadata::PullRequestMetadata;
use approvals::words::Subject;
use domain::BranchName;
use forge::{Forge, ForgeError, PullRequest, PullRequestState};
use git::GitError;

/// Something that people are, or are to be, asked about a cluster: what git and the forge say of it.
#[derive(Clone, Debug)]
pub struct Asking {
    /// Its branch.
    pub branch: BranchName,
    /// With what it is asked together.
    pub(super) group: Group,
    pub(super) scope: ApprovalScope,
    pub(super) plan: PlanDigest,
    /// The part of the branch that is this cluster's, where it is of this very plan.
    pub(super) proposal: Option<Proposal>,
    /// Who rejected it on the branch.
    rejected_by: Option<String>,
    /// What the rules for approvals look at.
    pub(super) facts: ApprovalFacts,
    /// Its pull request and what was said below it, as far as there is a forge.
    pub(super) thread: Result<Option<Arc<Thread>>, ForgeError>,
    /// What was said there about this plan of this cluster.
    pub(super) said: Said,
    /// Whether the branch has edits of people that are part of this plan, and is not made anew with them yet.
    pub(super) takes_up: bool,
    /// Why it could not be opened or renewed.
    pub(in crate::reconcile) problem: Option<ForgeError>,
}

impl Asking {
    /// What was answered; none while nothing is asked yet.
    pub fn record(&self) -> Option<ApprovalRecord> {
        let record = self.proposal.as_ref().map(|proposal| proposal.record(self.scope.clone()));
        let nowhere = || ApprovalRecord {
            scope: self.scope.clone(),
            plan: self.plan.clone(),
            state: if self.rejected_by.is_some() { ApprovalState::Rejected } else { ApprovalState::Pending },
            by: self.rejected_by.clone(),
            place: self.rejected_by.is_some().then(|| format!("branch {}", self.branch)),
            facts: ApprovalFacts::default(),
        };
        let thread = self.thread.as_ref().ok().and_then(Option::as_ref);
        let error = self.thread.as_ref().err().or(self.problem.as_ref());
        let silent = thread.is_none() && error.is_none() && self.rejected_by.is_none();
        if silent {
            return record.map(|record| ApprovalRecord { facts: self.facts.clone(), ..record });
        }
        let mut record = ApprovalRecord { facts: self.facts.clone(), ..record.unwrap_or_else(nowhere) };
        if let Some(thread) = thread {
            if let Some(by) = self.rejected_on_forge() {
                (record.state, record.by) = (ApprovalState::Rejected, Some(by.to_owned()));
            }
            let edited = self.proposal.as_ref().is_some_and(|proposal| proposal.edited);
            let edited = if edited { " (changed by people)" } else { "" };
            let held = self.said.held_by.as_ref().map(|by| format!(" (held by {by})")).unwrap_or_default();
            if thread.pull.state == PullRequestState::Open || record.state == ApprovalState::Rejected {
                record.place = Some(format!("{}{edited}{held}", thread.pull.url));
            }
        }
        if let Some(error) = error {
            let place = record.place.map(|place| format!("{place}; ")).unwrap_or_default();
            record.place = Some(format!("{place}{error}; {}", error.hint()));
        }
        Some(record)
    }

    /// Whether people said no, on the branch or on the forge.
    pub fn is_rejected(&self) -> bool {
        self.rejected_by.is_some() || self.rejected_on_forge().is_some()
    }

    /// Who closed the pull request, unless that was Stepgate. A forge closes it too when the branch goes, as by whoever removed that: it
    /// then is of another head than what is proposed now.
    pub(super) fn rejected_on_forge(&self) -> Option<&str> {
        let pull = &self.thread.as_ref().ok()?.as_ref()?.pull;
        rejected_by(pull, self.proposal.as_ref().map(|proposal| &proposal.head))
    }

    /// Whether this is what is asked.
    pub(in crate::reconcile) fn is_for(&self, request: &ApprovalRequest) -> bool {
        self.scope == request.scope && self.plan == request.commit.plan
    }

    /// What its rules miss, a line each.
    pub(super) fn missing(&self, view: &ClusterView) -> Vec<String> {
        if self.group.rules.take_anybody() {
            return Vec::new();
        }
        let Some((plan, scope)) = asked(view).find(|(plan, _)| plan.digest == self.plan) else { return Vec::new() };
        let running = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
        approval_verdict(plan, &scope, running, &view.roster, &self.facts).lines()
    }

    /// What it is about.
    pub(super) fn subject(&self, view: &ClusterView) -> Subject {
        Subject { cluster: view.name.clone(), scope: self.scope.clone(), plan: self.plan.clone() }
    }
}

/// Who rejected what a pull request shows, by closing it; `head` is what is proposed now.
pub(super) fn rejected_by<'a>(pull: &'a PullRequest, head: Option<&CommitId>) -> Option<&'a str> {
    let PullRequestState::Closed { by } = &pull.state else { return None };
    let by = by.as_deref().unwrap_or("somebody");
    let same_head = head.is_some_and(|head| head.as_str() == pull.head);
    (!pull.body.starts_with(WITHDRAWN) && (by != pull.author || same_head)).then_some(by)
}

/// What the plans of a cluster ask people next, and what they said.
///
/// # Errors
/// [`PlanError`] when branches cannot be read. What goes wrong with the forge is part of the answer.
pub async fn askings(
    planner: &Planner,
    board: &ProposalCache,
    reading: &FleetReading,
    considered: &Considered,
) -> Result<Vec<Asking>, PlanError> {
    let (view, edited) = (considered.view.as_ref(), considered.edited.as_ref());
    let mut askings = Vec::new();
    for (plan, scope) in asked(view) {
        let group = Group::of(&reading.fleet.policy, &view.name, plan, &scope);
        let branch = group.branch().map_err(GitError::from)?;
        let subject = Subject { cluster: view.name.clone(), scope: scope.clone(), plan: plan.digest.clone() };
        let stack = board.stack(planner, reading, &branch).await?;
        let proposal = stack.as_ref().and_then(|stack| stack.proposal(&subject));
        let proposal = proposal.filter(|proposal| proposal.trailers.plan == plan.digest);
        let rejected_by = stack.as_ref().and_then(|stack| stack.rejected_by(&subject));
        let mut facts = facts::asked(planner, reading, view, plan, &scope, stack.as_deref())?;
        let reviews = !group.rules.take_anybody();
        if let (Some(Edited::Refused(why)), true) = (edited, plan.digest == view.plan.digest) {
            facts.edited = Some(format!("people have changed the branch: {why}"));
        }
        let takes_up = plan.digest == view.plan.digest && is_taken_up_from(edited, stack.as_deref(), &subject);
        let thread = match planner.forge(reading) {
            Ok(Some(forge)) => find(board, &forge, reading, &branch, &subject, reviews).await,
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        let mut said = Said::default();
        if let Ok(Some(thread)) = &thread {
            said = thread.said(&view.name, &plan.digest);
            if reviews {
                facts.given = thread.given(&view.roster, &view.name, &plan.digest);
                facts.ticks = thread.ticks(&view.name, &plan.digest);
            }
        }
        let plan = plan.digest.clone();
        askings.push(Asking {
            branch,
            group,
            scope,
            plan,
            proposal,
            rejected_by,
            facts,
            thread,
            said,
            takes_up,
            problem: None,
        });
    }
    Ok(askings)
}

/// The pull request that is about this: the newest that shows it, unless that was merged or withdrawn, else the open one of the branch.
async fn find(
    board: &ProposalCache,
    forge: &Forge,
    reading: &FleetReading,
    branch: &BranchName,
    subject: &Subject,
    reviews: bool,
) -> Result<Option<Arc<Thread>>, ForgeError> {
    let pulls = board.pulls(forge, reading, branch).await?;
    let is_open = |pull: &&PullRequest| pull.state == PullRequestState::Open;
    let shows = |pull: &&PullRequest| {
        let withdrawn = !is_open(pull) && pull.body.starts_with(WITHDRAWN);
        !withdrawn && PullRequestMetadata::read(&pull.body).of(&subject.cluster, &subject.plan).is_some()
    };
    let merged = |pull: &PullRequest| matches!(pull.state, PullRequestState::Merged { .. });
    let shown = pulls.iter().find(shows).filter(|pull| !merged(pull));
    match shown.or_else(|| pulls.iter().find(is_open)) {
        Some(pull) => board.thread(forge, reading, pull, reviews).await.map(Some),
        None => Ok(None),
    }
}
