//! Answering a proposal with Stepgate itself, where no forge does.

mod error;

use domain::{CommitId, PlanDigest};
use jiff::Timestamp;
use policy::{ApprovalRules, GivenApproval, GivenTick, Means};
use rollout::{ApprovalScope, LedgerState, Plan, StageId, approval_rules, approval_verdict, outside_windows};

pub use error::AnswerError;

use super::edited::consider_now;
use super::merge::{Piece, merge, write};
use super::stack::{Proposal, Stack};
use super::{ANSWERED, REJECTED_BY, asked};
use crate::reconcile::effects::commit::Signature;
use crate::reconcile::people::facts::{self, Landed};
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use approvals::group::Group;
use approvals::words::{Subject, paragraph, said_on, tick_paragraph};
use domain::BranchName;
use git::{CommitDraft, GitError, Identity};

/// What an answer came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The branch that proposed it.
    pub branch: BranchName,
    /// The stage.
    pub stage: StageId,
    /// The plan that is answered.
    pub plan: PlanDigest,
    /// The commit that says so; none for a dry run.
    pub commit: Option<CommitId>,
    /// What is missing still, a line each: then the answer is noted, and nothing is merged by it.
    pub missing: Vec<String>,
    /// Why it waits although nothing is missing: no maintenance window is open. The answer is noted, and merged by the controller in its time.
    pub not_yet: Option<String>,
}

/// What an approval rests on.
#[derive(Clone, Copy, Debug)]
pub enum Consent<'a> {
    /// The word of whoever gives it, besides what others said on the branch.
    Word,
    /// That somebody has looked at what a box of the check list says; nothing is approved by it.
    Tick(&'a str),
    /// The same, given at a place other than a commit, and for the plan that was looked at there: for no other one.
    Bound {
        /// The plan.
        plan: &'a PlanDigest,
        /// Where it was given, and who knows them there.
        place: &'a str,
    },
    /// Nothing but this reason: the rules are set aside.
    Override(&'a str),
}

impl Consent<'_> {
    fn place(&self) -> Option<&str> {
        match self {
            Self::Bound { place, .. } => Some(place),
            Self::Word | Self::Tick(_) | Self::Override(_) => None,
        }
    }

    /// Refuses where something else was looked at than what is answered.
    fn is_for(&self, subject: &Subject) -> Result<(), AnswerError> {
        match self {
            Self::Bound { plan, .. } => bound(subject, plan),
            Self::Word | Self::Tick(_) | Self::Override(_) => Ok(()),
        }
    }
}

fn bound(subject: &Subject, seen: &PlanDigest) -> Result<(), AnswerError> {
    if subject.plan == *seen {
        return Ok(());
    }
    Err(AnswerError::OtherPlan { cluster: subject.cluster.clone(), plan: subject.plan.clone() })
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
/// once that is enough and a maintenance window is open, and noted on its branch before. What is proposed beside it for other clusters stays proposed. Without `by` it only
/// says what would be done.
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
    confirmed(reading, view)?;
    let considered = consider_now(planner, reading, view)?;
    let view = considered.view.as_ref();
    let open = match Open::find(planner, reading, view) {
        Ok(open) => open,
        Err(AnswerError::NothingProposed(name)) => {
            let landed = Landed::of(view).filter(Landed::matters).ok_or(AnswerError::NothingProposed(name))?;
            return late(planner, reading, view, &landed, by, consent, now);
        }
        Err(error) => return Err(error),
    };
    let Open { stack, proposal, plan, scope } = &open;
    let stage = open.stage();
    let done = |commit, missing, not_yet| Approval {
        branch: stack.branch.clone(),
        stage: stage.clone(),
        plan: plan.digest.clone(),
        commit,
        missing,
        not_yet,
    };
    let subject = Subject { cluster: view.name.clone(), scope: scope.clone(), plan: plan.digest.clone() };
    consent.is_for(&subject)?;
    let rules = approval_rules(plan, scope);
    let running = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
    let mut missing = Vec::new();
    match consent {
        Consent::Word | Consent::Bound { .. } if rules.take_anybody() => {}
        Consent::Word | Consent::Bound { .. } | Consent::Tick(_) if view.has_forge(reading) => {
            return Err(AnswerError::OnForge(view.name.clone()));
        }
        Consent::Word | Consent::Bound { .. } | Consent::Tick(_) | Consent::Override(_) => {
            let mut facts = facts::asked(planner, reading, view, plan, scope, Some(stack))?;
            match consent {
                Consent::Tick(name) => {
                    named(name, &rules, view)?;
                    facts.ticks.extend(by.and_then(|by| own_tick(name, by, &subject, now)));
                }
                Consent::Word | Consent::Bound { .. } | Consent::Override(_) => {
                    facts.given.extend(by.and_then(|by| own_word(by, &subject, now)));
                }
            }
            missing = approval_verdict(plan, scope, running, &view.roster, &facts).lines();
        }
    }
    let overriding = matches!(consent, Consent::Override(_));
    if proposal.is_none() {
        // Taken back, a rejection lets the controller propose it again, and what was proposed is what lands.
        missing.push("it was rejected: it is proposed once more first".to_owned());
    }
    let not_yet = plan.next_stage().and_then(|next| outside_windows(plan, next, view.directory.ledger(), now));
    if let Some(not_yet) = not_yet.as_ref().filter(|_| overriding) {
        missing.push(format!("a maintenance window: {not_yet}"));
    }
    let not_yet = not_yet.filter(|_| !overriding);
    let piece = match proposal {
        Some(proposal) => {
            let piece = Piece::new(planner, reading, view, proposal, subject.clone(), Vec::new());
            Some(piece.map_err(|error| error.because(considered.edited.as_ref()))?)
        }
        None => None,
    };
    let Some(by) = by else { return Ok(done(None, missing, not_yet)) };
    let signature = Signature::of(&reading.fleet.policy, planner.signing())?;
    let is_due = missing.is_empty() && not_yet.is_none() && !matches!(consent, Consent::Tick(_));
    let Some(piece) = piece.filter(|_| is_due || overriding) else {
        let parent = Some(stack.head.clone());
        let draft = match consent {
            Consent::Tick(name) => tick_word(parent, view, name, &subject, by, now),
            Consent::Word | Consent::Bound { .. } | Consent::Override(_) => {
                word(parent, (view, &stage), &subject, (by, consent.place()), None, now)
            }
        };
        let commit = write(planner, &stack.branch, &draft, &signature)?;
        return Ok(done(Some(commit), missing, not_yet));
    };
    let reason = match consent {
        Consent::Override(reason) => Some((*reason, missing.as_slice())),
        Consent::Word | Consent::Bound { .. } | Consent::Tick(_) => None,
    };
    let commit = merge(planner, reading, stack, &[piece], (by, consent.place()), reason, now)?;
    Ok(done(Some(commit), Vec::new(), None))
}

/// Refuses while something of the policy is unconfirmed that decides where commits land, under whose name or whose word counts.
pub(super) fn confirmed(reading: &FleetReading, view: &ClusterView) -> Result<(), AnswerError> {
    let blocks = view.unconfirmed(reading);
    if blocks.is_empty() { Ok(()) } else { Err(AnswerError::Unconfirmed { cluster: view.name.clone(), blocks }) }
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
    consent.is_for(&subject)?;
    let mut facts = landed.record(planner, reading, view)?.facts;
    let overriding = match consent {
        Consent::Override(reason) => Some(*reason),
        Consent::Word | Consent::Bound { .. } if landed.rules.take_anybody() => {
            return Err(AnswerError::NothingProposed(view.name.clone()));
        }
        Consent::Word | Consent::Bound { .. } | Consent::Tick(_) if view.has_forge(reading) => {
            return Err(AnswerError::OnForge(view.name.clone()));
        }
        Consent::Word | Consent::Bound { .. } | Consent::Tick(_) => None,
    };
    let stage = landed.commit.trailer.map(|trailer| trailer.stage.clone());
    let stage = stage.ok_or_else(|| AnswerError::NothingProposed(view.name.clone()))?;
    match consent {
        Consent::Tick(name) => {
            named(name, &landed.rules, view)?;
            facts.ticks.extend(by.and_then(|by| own_tick(name, by, &subject, now)));
        }
        Consent::Word | Consent::Bound { .. } | Consent::Override(_) => {
            facts.given.extend(by.and_then(|by| own_word(by, &subject, now)));
        }
    }
    let plan = Plan { digest: subject.plan.clone(), ..landed.plan.unwrap_or(&view.plan).clone() };
    let verdict = approval_verdict(&plan, &subject.scope, view.directory.ledger(), &view.roster, &facts);
    let missing = if landed.rules.take_anybody() { Vec::new() } else { verdict.lines() };
    let branch = reading.layout.branch.clone();
    let digest = subject.plan.clone();
    let Some(by) = by else {
        return Ok(Approval { branch, stage, plan: digest, commit: None, missing, not_yet: None });
    };
    let signature = Signature::of(&reading.fleet.policy, planner.signing())?;
    let reason = overriding.map(|reason| (reason, missing.as_slice()));
    let parent = reading.deploy_head().cloned();
    let draft = match consent {
        Consent::Tick(name) => tick_word(parent, view, name, &subject, by, now),
        Consent::Word | Consent::Bound { .. } | Consent::Override(_) => {
            word(parent, (view, &stage), &subject, (by, consent.place()), reason, now)
        }
    };
    let commit = write(planner, &branch, &draft, &signature)?;
    let missing = if overriding.is_some() { Vec::new() } else { missing };
    Ok(Approval { branch, stage, plan: digest, commit: Some(commit), missing, not_yet: None })
}

/// A commit that changes nothing and says something.
fn word(
    parent: Option<CommitId>,
    (view, stage): (&ClusterView, &StageId),
    subject: &Subject,
    (by, place): (&Identity, Option<&str>),
    overriding: Option<(&str, &[String])>,
    now: Timestamp,
) -> CommitDraft {
    let name = by.to_string();
    let reason = overriding.map(|(reason, missing)| (name.as_str(), reason, missing));
    let verb = if overriding.is_some() { "override approval of" } else { "approve" };
    let said = paragraph(&[subject], std::slice::from_ref(&name), reason);
    let body = format!("Said of plan {}.\n\n{said}{}", subject.plan, said_on(place));
    CommitDraft::of_words(parent, format!("{}: {verb} {stage}", view.name), body, by.clone(), now)
}

/// A commit that changes nothing and ticks a box.
fn tick_word(
    parent: Option<CommitId>,
    view: &ClusterView,
    name: &str,
    subject: &Subject,
    by: &Identity,
    now: Timestamp,
) -> CommitDraft {
    let said = tick_paragraph(subject, name, &by.to_string());
    let body = format!("Said of plan {}.\n\n{said}", subject.plan);
    CommitDraft::of_words(parent, format!("{}: tick {name}", view.name), body, by.clone(), now)
}

/// Refuses a box that the check list does not have.
fn named(name: &str, rules: &ApprovalRules, view: &ClusterView) -> Result<(), AnswerError> {
    if rules.check_list.iter().any(|known| known.name == name) {
        return Ok(());
    }
    let known = rules.check_list.iter().map(|known| known.name.clone()).collect();
    Err(AnswerError::NoSuchBox { cluster: view.name.clone(), name: name.to_owned(), known })
}

fn own_tick(name: &str, by: &Identity, subject: &Subject, now: Timestamp) -> Option<GivenTick> {
    let who = by.to_string().parse().ok()?;
    Some(GivenTick { name: name.to_owned(), who, plan: subject.plan.clone(), at: Some(now), means: Means::Command })
}

fn own_word(by: &Identity, subject: &Subject, now: Timestamp) -> Option<GivenApproval> {
    let who = by.to_string().parse().ok()?;
    Some(GivenApproval { who, plan: subject.plan.clone(), at: Some(now), means: Means::Command })
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
    reject_plan(planner, reading, view, by, (reason, None), now)
}

/// The same, where somebody said it at a place other than a commit, of the plan that they looked at there: of no other one.
///
/// # Errors
/// As [`reject`].
pub fn reject_plan(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    by: Option<&Identity>,
    (reason, seen): (&str, Option<(&PlanDigest, &str)>),
    now: Timestamp,
) -> Result<Approval, AnswerError> {
    let considered = consider_now(planner, reading, view)?;
    let view = considered.view.as_ref();
    let open = Open::find(planner, reading, view)?;
    let (stack, stage) = (&open.stack, open.stage());
    let done = |commit| Approval {
        branch: stack.branch.clone(),
        stage: stage.clone(),
        plan: open.plan.digest.clone(),
        commit,
        missing: Vec::new(),
        not_yet: None,
    };
    let subject = Subject { cluster: view.name.clone(), scope: open.scope.clone(), plan: open.plan.digest.clone() };
    let place = seen.map(|(plan, place)| bound(&subject, plan).map(|()| place)).transpose()?;
    let Some(by) = by else { return Ok(done(None)) };
    let signature = Signature::of(&reading.fleet.policy, planner.signing())?;
    let said = reason.replace('\n', " ");
    let title = format!("{}: reject {stage}", view.name);
    let body = format!("{reason}\n\n{ANSWERED}: {subject}\n{REJECTED_BY}: {by} ({said})\n{}", said_on(place));
    let draft = CommitDraft::of_words(Some(stack.head.clone()), title, body, by.clone(), now);
    let commit = write(planner, &stack.branch, &draft, &signature)?;
    Ok(done(Some(commit)))
}

/// What is proposed now and not void, with the plan and the scope that it is of.
struct Open<'a> {
    stack: Stack,
    /// The cluster's part; none where it was rejected and has left what others are asked.
    proposal: Option<Proposal>,
    plan: &'a Plan,
    scope: ApprovalScope,
}

impl<'a> Open<'a> {
    fn find(planner: &Planner, reading: &FleetReading, view: &'a ClusterView) -> Result<Self, AnswerError> {
        let repository = planner.repository();
        let mut void = None;
        for (plan, scope) in asked(view) {
            let branch = Group::of(&reading.fleet.policy, &view.name, plan, &scope).branch().map_err(GitError::from)?;
            repository.refresh(std::slice::from_ref(&branch))?;
            let Some(stack) = Stack::read(repository, reading, &branch)? else { continue };
            let subject = Subject { cluster: view.name.clone(), scope: scope.clone(), plan: plan.digest.clone() };
            let proposal = stack.proposal(&subject);
            let is_void = proposal.as_ref().is_some_and(|proposal| proposal.trailers.plan != plan.digest);
            if is_void {
                void = Some(branch);
            } else if proposal.is_some() || stack.rejected_by(&subject).is_some() {
                return Ok(Self { stack, proposal, plan, scope });
            }
        }
        Err(match void {
            Some(branch) => AnswerError::Void { branch, reason: "it is of another plan" },
            None => AnswerError::NothingProposed(view.name.clone()),
        })
    }

    fn stage(&self) -> StageId {
        let next = || self.plan.next_stage().map(|stage| stage.stage.clone());
        let proposed = self.proposal.as_ref().map(|proposal| proposal.trailers.stage.clone());
        proposed.or_else(next).unwrap_or_else(|| rollout::StageName::Verify.into())
    }
}
