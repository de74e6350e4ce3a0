//! What a process sees, and what it decides upon that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use domain::CommitId;
use jiff::SignedDuration;
use rollout::{
    ApprovalFacts, ApprovalRecord, ApprovalScope, ApprovalState, DeployHead, Effect, GateHistory, LedgerState,
    Observation, People, Plan, World, record, step,
};

use super::carry::{Call, Process, ROBOT};
use super::edits::Considered;
use super::scene::{Deployed, Proposed, Scene, branch_of, comments_of, seal};
use crate::reconcile::proposal::WITHDRAWN;
use crate::reconcile::proposal::edited::Edited;
use crate::reconcile::proposal::thread::Thread;
use approvals::metadata::PullRequestMetadata;
use forge::{Permission, PullRequest, PullRequestState};

/// What a pass has read.
#[derive(Clone)]
pub struct Seen {
    pub source: usize,
    /// How long the deploy branch is.
    pub length: usize,
    pub branches: BTreeMap<String, CommitId>,
    /// What the forge said; none where it failed.
    pulls: Option<Vec<PullRequest>>,
    pub threads: BTreeMap<u64, Thread>,
    observation: Observation,
}

impl Scene {
    pub fn look(&mut self) -> Seen {
        self.now += SignedDuration::from_secs(6);
        let observation = self.simulated.observe_afresh(self.now);
        let pulls = (!self.failing).then(|| self.pulls.clone());
        let threads = pulls.iter().flatten().map(|pull| (pull.number, self.thread(pull))).collect();
        let (source, length) = (self.sources.len() - 1, self.states.len());
        Seen { source, length, branches: self.branches.clone(), pulls, threads, observation }
    }

    /// What a pull request is known to show.
    pub fn marks(&self, pull: &PullRequest) -> PullRequestMetadata {
        PullRequestMetadata::sealed_in(pull, self.before(pull), &seal())
    }

    pub fn thread(&self, pull: &PullRequest) -> Thread {
        let comments: Vec<_> = comments_of(self, pull.number).cloned().collect();
        let reviews =
            self.reviews.iter().filter(|(of, _)| *of == pull.number).map(|(_, review)| review.clone()).collect();
        let may = |(name, permission): (&str, Permission)| (name.to_owned(), permission);
        let permissions =
            [("alice", Permission::Write), ("bob", Permission::Write), ("olga", Permission::Read)].map(may);
        Thread::of(pull.clone(), self.marks(pull), &comments, reviews, permissions.into(), &["mgmt"])
    }

    fn world(&self, seen: &Seen, considered: &Considered) -> World {
        let state = &self.states[seen.length - 1];
        let plan = considered.plan.clone();
        let ledger = state.ledger.clone();
        let other = ledger.as_ref().filter(|ledger| ledger.state == LedgerState::Running && !plan.running);
        let running = other.and_then(|ledger| {
            let source = self.sources.iter().position(|(id, _, _)| *id == ledger.source)?;
            // An edit that makes the plan another one leaves what is running as it was planned.
            Some(self.plan_of(source, state))
        });
        let refused = match &considered.edited {
            Some(Edited::Refused(why)) => Some(why.as_str()),
            Some(Edited::TakenUp) | None => None,
        };
        let answered = [(Some(&plan), refused), (running.as_ref(), None)];
        let approvals = answered.into_iter().filter_map(|(plan, refused)| self.answer(seen, plan?, refused)).collect();
        let deploy: DeployHead = self.head.commits().into_iter().take(seen.length).collect();
        let people = self.landed(seen, &plan, state);
        World {
            plan: Arc::new(plan),
            running: running.map(Arc::new),
            ledger: ledger.map(Arc::new),
            deploy: Arc::new(deploy),
            observation: Some(Arc::new(seen.observation.clone())),
            rest: None,
            history: GateHistory::default(),
            paused: None,
            unconfirmed: Vec::new(),
            foreign_change: None,
            prerequisites: Vec::new(),
            wave: None,
            approvals,
            people,
        }
    }

    /// What people answered to a plan: of the newest pull request that shows it, unless that was merged or withdrawn.
    fn answer(&self, seen: &Seen, plan: &Plan, refused: Option<&str>) -> Option<ApprovalRecord> {
        let stage = plan.next_stage()?;
        let (name, branch) = (self.name(), branch_of(&stage.stage.name));
        let shows = |pull: &&PullRequest| {
            let withdrawn = pull.state != PullRequestState::Open && pull.body.starts_with(WITHDRAWN);
            pull.branch == branch
                && !withdrawn
                && PullRequestMetadata::read(&pull.body).of(&name, &plan.digest).is_some()
        };
        let merged = |pull: &&PullRequest| !matches!(pull.state, PullRequestState::Merged { .. });
        let pull = seen.pulls.as_ref()?.iter().rev().find(shows).filter(merged)?;
        let thread = &seen.threads[&pull.number];
        let closed = match &pull.state {
            PullRequestState::Closed { by } => by.clone().filter(|by| by != ROBOT),
            PullRequestState::Open | PullRequestState::Merged { .. } => None,
        };
        let given = thread.given(&policy::Roster::default(), &name, &plan.digest);
        Some(ApprovalRecord {
            scope: ApprovalScope::Stage(stage.stage.clone()),
            plan: plan.digest.clone(),
            state: if closed.is_some() { ApprovalState::Rejected } else { ApprovalState::Pending },
            by: closed,
            place: Some(pull.url.clone()),
            facts: ApprovalFacts { given, edited: refused.map(str::to_owned), ..ApprovalFacts::default() },
        })
    }

    /// What is known of what landed last, and since when the source branch asks for something else.
    fn landed(&self, seen: &Seen, plan: &Plan, state: &Deployed) -> People {
        let mut people = People::default();
        let Some(ledger) = state.ledger.as_ref().filter(|ledger| ledger.state == LedgerState::Running) else {
            return people;
        };
        if let Some(approved) = ledger.approvals.last() {
            let name = self.name();
            let brought = |pull: &&PullRequest| {
                matches!(pull.state, PullRequestState::Merged { .. })
                    && self.marks(pull).of(&name, &approved.plan).is_some()
            };
            let stage = ledger.brought(approved).map(|stage| branch_of(&stage.name));
            let mut pulls = seen.pulls.iter().flatten().rev().filter(|pull| Some(&pull.branch) == stage.as_ref());
            let given = pulls
                .find(brought)
                .map(|pull| seen.threads[&pull.number].given(&policy::Roster::default(), &name, &approved.plan));
            people.landed.push(ApprovalRecord {
                scope: approved.scope.clone(),
                plan: approved.plan.clone(),
                state: ApprovalState::Approved,
                by: None,
                place: None,
                facts: ApprovalFacts { given: given.unwrap_or_default(), ..ApprovalFacts::default() },
            });
        }
        if plan.digest != ledger.plan {
            let wanted = self.sources.iter().find(|(id, _, _)| *id == ledger.source).map(|(_, wanted, _)| wanted);
            let moved = self.sources[..=seen.source].iter().rev().take_while(|(_, other, _)| Some(other) != wanted);
            people.source_moved_at = moved.last().map(|(_, _, at)| *at);
        }
        people
    }

    pub fn decide(&mut self, seen: &Seen, process: &mut Process) -> VecDeque<Call> {
        let considered = self.considered(seen.source, &self.states[seen.length - 1], &seen.branches);
        let mut world = self.world(seen, &considered);
        self.fix_trees([Some(world.plan.as_ref()), world.running.as_deref()].into_iter().flatten());
        world.history = std::mem::take(&mut process.history);
        process.history = record(&world, self.now);
        world.history = process.history.clone();
        let effects = step(&world, self.now);
        process.said = effects
            .iter()
            .map(|effect| match effect {
                Effect::Wait { reason, .. } => reason.to_string(),
                Effect::Hold { reasons, .. } => reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
                other => format!("{other:?}").chars().take(60).collect(),
            })
            .collect::<Vec<_>>()
            .join(" | ");
        // What is proposed and could not be committed any more goes.
        let parts = &self.states[seen.length - 1].parts;
        let plans = [Some(world.plan.as_ref()), world.running.as_deref()];
        let void = seen.branches.iter().filter(|(branch, head)| {
            let Some(Proposed { commit, on, .. }) = self.objects.get(*head) else { return true };
            let asked = plans.iter().flatten().any(|plan| {
                let next = plan.next_stage().map(|stage| branch_of(&stage.stage.name));
                plan.digest == commit.plan && next.as_ref() == Some(*branch)
            });
            let rewritten = effects.iter().any(|effect| matches!(effect, Effect::RequestApproval(request) if branch_of(&request.commit.stage.name) == **branch));
            // What people changed there is on the branch alone until it can be taken up.
            let waits = considered.takes_up_from.as_ref() == Some(*branch);
            !rewritten && !waits && (!asked || on != parts)
        });
        let void: Vec<Call> = void.map(|(branch, head)| Call::CloseVoid(branch.clone(), head.clone())).collect();
        effects.into_iter().map(|effect| Call::Decided(Box::new(effect))).chain(void).collect()
    }
}
