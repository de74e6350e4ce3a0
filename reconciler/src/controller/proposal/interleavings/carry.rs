//! A process: it looks, decides and carries out, one call of git or of the forge after the other, and may die between any two.

use std::collections::{BTreeMap, VecDeque};

use jiff::SignedDuration;
use rollout::{
    ApprovalFacts, ApprovalRecord, ApprovalRequest, ApprovalScope, ApprovalState, CommitId, Effect, GateHistory,
    Landing, LedgerState, Observation, People, Plan, World, record, step,
};

use super::scene::{Deployed, Proposed, Scene, branch_of, comments_of};
use crate::controller::proposal::WITHDRAWN;
use crate::controller::proposal::marks::Marks;
use crate::controller::proposal::thread::Thread;
use crate::forge::{Permission, PullRequest, PullRequestState};

/// Whoever opens pull requests.
pub const ROBOT: &str = "stepgate";

#[derive(Default)]
pub struct Process {
    seen: Option<Seen>,
    calls: Option<VecDeque<Call>>,
    history: GateHistory,
    /// What was decided last, for people.
    pub said: String,
}

/// What a pass has read.
#[derive(Clone)]
struct Seen {
    source: usize,
    /// How long the deploy branch is.
    length: usize,
    branches: BTreeMap<String, CommitId>,
    /// What the forge said; none where it failed.
    pulls: Option<Vec<PullRequest>>,
    threads: BTreeMap<u64, Thread>,
    observation: Observation,
}

/// One call.
enum Call {
    Decided(Box<Effect>),
    Show(Box<ApprovalRequest>, CommitId),
    Merge(Box<ApprovalRequest>, CommitId, u64),
    CloseVoid(String, CommitId),
    Remove(String, CommitId),
}

impl Scene {
    /// A whole pass of the first process.
    pub fn pass(&mut self) {
        self.work(0);
        while self.processes[0].seen.is_some() {
            self.work(0);
        }
    }

    /// The next call of a process.
    pub fn work(&mut self, which: usize) {
        let mut process = std::mem::take(&mut self.processes[which]);
        match (process.seen.take(), process.calls.take()) {
            (Some(seen), Some(mut calls)) => {
                let carried = calls.pop_front().is_none_or(|call| self.carry_out(&seen, call, &mut calls));
                if carried && !calls.is_empty() {
                    (process.seen, process.calls) = (Some(seen), Some(calls));
                }
            }
            (Some(seen), None) => {
                process.calls = Some(self.decide(&seen, &mut process));
                process.seen = Some(seen);
            }
            (None, _) => process.seen = Some(self.look()),
        }
        self.processes[which] = process;
    }

    fn look(&mut self) -> Seen {
        self.now += SignedDuration::from_secs(6);
        let observation = self.simulated.observe_afresh(self.now);
        let pulls = (!self.failing).then(|| self.pulls.clone());
        let threads = pulls.iter().flatten().map(|pull| (pull.number, self.thread(pull))).collect();
        let (source, length) = (self.sources.len() - 1, self.states.len());
        Seen { source, length, branches: self.branches.clone(), pulls, threads, observation }
    }

    fn thread(&self, pull: &PullRequest) -> Thread {
        let comments: Vec<_> = comments_of(self, pull.number).cloned().collect();
        let reviews =
            self.reviews.iter().filter(|(of, _)| *of == pull.number).map(|(_, review)| review.clone()).collect();
        let may = |(name, permission): (&str, Permission)| (name.to_owned(), permission);
        let permissions =
            [("alice", Permission::Write), ("bob", Permission::Write), ("olga", Permission::Read)].map(may);
        Thread::of(pull.clone(), &comments, reviews, permissions.into(), &["mgmt"])
    }

    fn world(&self, seen: &Seen) -> World {
        let state = &self.states[seen.length - 1];
        let plan = self.plan_of(seen.source, state);
        let ledger = state.ledger.clone();
        let other = ledger.as_ref().filter(|ledger| ledger.state == LedgerState::Running && !plan.running);
        let running = other.and_then(|ledger| {
            let source = self.sources.iter().position(|(id, _, _)| *id == ledger.source)?;
            Some(self.plan_of(source, state))
        });
        let approvals =
            [Some(&plan), running.as_ref()].into_iter().flatten().filter_map(|plan| self.answer(seen, plan)).collect();
        let mut deploy = self.head.clone();
        deploy.commits.truncate(seen.length);
        let people = self.landed(seen, &plan, state);
        World {
            plan,
            running,
            ledger,
            deploy,
            observation: Some(seen.observation.clone()),
            history: GateHistory::default(),
            paused: None,
            foreign_change: None,
            prerequisites: Vec::new(),
            approvals,
            people,
        }
    }

    /// What people answered to a plan: of the newest pull request that shows it, unless that was merged or withdrawn.
    fn answer(&self, seen: &Seen, plan: &Plan) -> Option<ApprovalRecord> {
        let stage = plan.next_stage()?;
        let (name, branch) = (self.name(), branch_of(&stage.stage.name));
        let shows = |pull: &&PullRequest| {
            let withdrawn = pull.state != PullRequestState::Open && pull.body.starts_with(WITHDRAWN);
            pull.branch == branch && !withdrawn && Marks::read(&pull.body).of(&name, &plan.digest).is_some()
        };
        let merged = |pull: &&PullRequest| !matches!(pull.state, PullRequestState::Merged { .. });
        let pull = seen.pulls.as_ref()?.iter().rev().find(shows).filter(merged)?;
        let thread = &seen.threads[&pull.number];
        let closed = match &pull.state {
            PullRequestState::Closed { by } => by.clone().filter(|by| by != ROBOT),
            PullRequestState::Open | PullRequestState::Merged { .. } => None,
        };
        let given = thread.given(&rollout::Roster::default(), &name, &plan.digest);
        Some(ApprovalRecord {
            scope: ApprovalScope::Stage(stage.stage.clone()),
            plan: plan.digest.clone(),
            state: if closed.is_some() { ApprovalState::Rejected } else { ApprovalState::Pending },
            by: closed,
            place: Some(pull.url.clone()),
            facts: ApprovalFacts { given, ..ApprovalFacts::default() },
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
                    && Marks::read(&pull.body).of(&name, &approved.plan).is_some()
            };
            let stage = ledger.brought(approved).map(|stage| branch_of(&stage.name));
            let mut pulls = seen.pulls.iter().flatten().rev().filter(|pull| Some(&pull.branch) == stage.as_ref());
            let given = pulls
                .find(brought)
                .map(|pull| seen.threads[&pull.number].given(&rollout::Roster::default(), &name, &approved.plan));
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

    fn decide(&mut self, seen: &Seen, process: &mut Process) -> VecDeque<Call> {
        let mut world = self.world(seen);
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
        let plans = [Some(&world.plan), world.running.as_ref()];
        let void = seen.branches.iter().filter(|(branch, head)| {
            let Some(Proposed { commit, on, .. }) = self.objects.get(*head) else { return true };
            let asked = plans.iter().flatten().any(|plan| {
                let next = plan.next_stage().map(|stage| branch_of(&stage.stage.name));
                plan.digest == commit.plan && next.as_ref() == Some(*branch)
            });
            let rewritten = effects.iter().any(|effect| matches!(effect, Effect::RequestApproval(request) if branch_of(&request.commit.stage.name) == **branch));
            !rewritten && (!asked || on != parts)
        });
        let void: Vec<Call> = void.map(|(branch, head)| Call::CloseVoid(branch.clone(), head.clone())).collect();
        effects.into_iter().map(|effect| Call::Decided(Box::new(effect))).chain(void).collect()
    }

    /// Whether the pass goes on.
    fn carry_out(&mut self, seen: &Seen, call: Call, calls: &mut VecDeque<Call>) -> bool {
        match call {
            Call::Decided(effect) => self.perform(seen, *effect, calls),
            Call::Show(request, head) => self.show(&request, head, calls),
            Call::Merge(request, head, number) => {
                self.merge_approved(seen, &request, &head, number);
                true
            }
            Call::CloseVoid(branch, head) => {
                // A forge that is away keeps no branch.
                if let Some(at) = self.open(&branch).filter(|_| !self.failing) {
                    let body = format!("{WITHDRAWN} void\n\n{}", self.pulls[at].body);
                    self.write(at, body);
                    self.pulls[at].state = PullRequestState::Closed { by: Some(ROBOT.to_owned()) };
                    let number = self.pulls[at].number;
                    self.standing.retain(|(of, _), _| *of != number);
                }
                calls.push_back(Call::Remove(branch, head));
                true
            }
            Call::Remove(branch, head) => {
                if self.branches.get(&branch) == Some(&head) {
                    self.remove(&branch);
                }
                true
            }
        }
    }

    /// A branch goes, and the forge closes what asks for it.
    fn remove(&mut self, branch: &str) {
        self.branches.remove(branch);
        if let Some(at) = self.open(branch) {
            self.pulls[at].state = PullRequestState::Closed { by: Some(ROBOT.to_owned()) };
        }
    }

    fn perform(&mut self, seen: &Seen, effect: Effect, calls: &mut VecDeque<Call>) -> bool {
        let is_head = |scene: &Self| scene.states.len() == seen.length;
        match effect {
            Effect::Commit(commit) => panic!("{} is committed without a proposal\n{}", commit.stage, self.context(0)),
            Effect::Revert(commit) => {
                panic!("{} is reverted, and no policy says so\n{}", commit.stage, self.context(0))
            }
            Effect::Close(close) if is_head(self) => {
                for approved in &close.ledger.approvals {
                    let stage = close.ledger.brought(approved).unwrap();
                    let known = self.approvers(&approved.plan, &branch_of(&stage.name));
                    assert!(
                        known >= self.needed as usize,
                        "{stage} was ended, {known} approved it\n{}",
                        self.context(0)
                    );
                }
                let parts = self.deployed().parts.clone();
                self.land(Deployed { parts, ledger: Some(close.ledger) }, Landing::Pushed, None);
                self.told.push("closed the rollout".to_owned());
            }
            Effect::Close(_) => self.told.push("somebody was faster".to_owned()),
            Effect::Backup { rollout, .. } => self.simulated.back_up(&rollout, self.now),
            Effect::RequestApproval(request) => {
                // What is asked next says that what landed before it was approved.
                for approved in request.commit.ledger.approvals.iter().rev().skip(1) {
                    let stage = request.commit.ledger.brought(approved).unwrap();
                    let known = self.approvers(&approved.plan, &branch_of(&stage.name));
                    assert!(
                        known >= self.needed as usize,
                        "more than {stage} is asked, {known} approved that\n{}",
                        self.context(0)
                    );
                }
                return self.propose(seen, request, calls);
            }
            Effect::Observe { .. }
            | Effect::Wait { .. }
            | Effect::Hold { .. }
            | Effect::Blocked { .. }
            | Effect::Done => {}
        }
        true
    }

    /// The branch, by compare-and-swap.
    fn propose(&mut self, seen: &Seen, request: Box<ApprovalRequest>, calls: &mut VecDeque<Call>) -> bool {
        let branch = branch_of(&request.commit.stage.name);
        let before = seen.branches.get(&branch);
        if self.branches.get(&branch) != before {
            self.told.push("somebody was faster".to_owned());
            return false;
        }
        let parts = self.states[seen.length - 1].parts.clone();
        let known = before.filter(|head| {
            self.objects.get(*head).is_some_and(|known| known.commit.plan == request.commit.plan && known.on == parts)
        });
        let head = match known {
            Some(head) => head.clone(),
            None => {
                let head = self.id();
                self.objects
                    .insert(head.clone(), Proposed { commit: request.commit.clone(), on: parts, edited: false });
                self.branches.insert(branch.clone(), head.clone());
                self.told.push(format!("proposes {head} on {branch}"));
                if let Some(at) = self.open(&branch) {
                    self.pulls[at].head = head.to_string();
                }
                head
            }
        };
        calls.push_back(Call::Show(request, head));
        true
    }

    /// The pull request: opened, or brought up to what is asked.
    fn show(&mut self, request: &ApprovalRequest, head: CommitId, calls: &mut VecDeque<Call>) -> bool {
        if self.failing {
            return false;
        }
        let (branch, name) = (branch_of(&request.commit.stage.name), self.name());
        let at = self.open(&branch).unwrap_or_else(|| {
            let number = self.pulls.len() as u64 + 1;
            self.pulls.push(PullRequest {
                number,
                branch: branch.clone(),
                url: format!("https://forge.example.com/{number}"),
                title: String::new(),
                body: String::new(),
                head: head.to_string(),
                author: ROBOT.to_owned(),
                comments: None,
                state: PullRequestState::Open,
            });
            self.told.push(format!("opens #{number}"));
            self.pulls.len() - 1
        });
        let pull = self.pulls[at].clone();
        let thread = self.thread(&pull);
        let marks = thread.marks.shown(&head, [(&name, &request.commit.plan)], thread.conversation.last);
        if marks != thread.marks {
            self.write(at, format!("text\n\n{marks}"));
        }
        calls.push_back(Call::Merge(Box::new(request.clone()), head, pull.number));
        true
    }

    /// What comments approve is merged, once the rules are met.
    fn merge_approved(&mut self, seen: &Seen, request: &ApprovalRequest, head: &CommitId, number: u64) {
        let (name, plan) = (self.name(), &request.commit.plan);
        let Some(thread) = seen.threads.get(&number) else { return };
        let said = thread.said(&name, plan);
        let branch = branch_of(&request.commit.stage.name);
        let edited = self.objects.get(head).is_none_or(|object| object.edited);
        let Some((by, _)) = said.approved_by else { return };
        if edited || said.held_by.is_some() || !request.missing.is_empty() {
            return;
        }
        if self.states.len() != seen.length || self.failing {
            self.told.push("somebody was faster".to_owned());
            return;
        }
        let known = self.approvers(plan, &branch);
        assert!(known >= self.needed as usize, "{branch} is merged, {known} approved it\n{}", self.context(0));
        if self.merge(head, Landing::Merged(by.clone())) {
            self.told.push(format!("lands {head} for {by}"));
            if let Some(pull) = self.pulls.iter_mut().find(|pull| pull.number == number) {
                pull.state = PullRequestState::Merged { by: Some(ROBOT.to_owned()), at: Some(self.now) };
            }
            self.branches.remove(&branch);
        }
    }
}
