//! A process: it looks, decides and carries out, one call of git or of the forge after the other, and may die between any two.

use std::collections::VecDeque;

use domain::CommitId;
use rollout::{ApprovalRequest, Effect, GateHistory, Landing};

use super::edits::Content;
use super::look::Seen;
use super::scene::{Deployed, Proposed, Scene, branch_of, seal};
use crate::reconcile::proposal::WITHDRAWN;
use approvals::metadata::{Place, PullRequestMetadata};
use forge::{PullRequest, PullRequestState};

/// Whoever opens pull requests.
pub const ROBOT: &str = "stepgate";

#[derive(Default)]
pub struct Process {
    seen: Option<Seen>,
    calls: Option<VecDeque<Call>>,
    pub history: GateHistory,
    /// What was decided last, for people.
    pub said: String,
}

/// One call.
pub enum Call {
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
            Effect::Cluster(act) => self.simulated.act(&act, self.now),
            Effect::OrderMachines { changes } => self.simulated.order_machines(&changes, self.now),
            Effect::Observe { .. }
            | Effect::Etcd(_)
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
        let considered = self.considered(seen.source, &self.states[seen.length - 1], &seen.branches);
        let deployed = self.states[seen.length - 1].ledger.clone();
        let known = before.filter(|head| {
            let is_known = |known: &Proposed| {
                known.commit.plan == request.commit.plan
                    && known.on == parts
                    && known.is_ours(&request, deployed.as_ref(), &considered.plan)
            };
            self.objects.get(*head).is_some_and(is_known)
        });
        let head = match known {
            Some(head) => head.clone(),
            None => {
                let version = self.version_of(&request.commit);
                self.assert_kept(&considered, &branch, &request, version);
                if let Some(Proposed { words, .. }) = before.and_then(|head| self.objects.get(head))
                    && words.last().is_some_and(|(_, wanted)| *wanted != version)
                {
                    self.told.push(format!("what people changed of {branch} is left out"));
                }
                if !request.commit.ledger.edits.is_empty() {
                    self.told.push(format!("takes up version {version} of {branch}"));
                }
                let head = self.id();
                let content = Content { recorded: version, version };
                let proposed = Proposed { commit: request.commit.clone(), on: parts, content, words: Vec::new() };
                self.objects.insert(head.clone(), proposed);
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
        let open = self.open(&branch);
        let is_new = open.is_none();
        let at = open.unwrap_or_else(|| {
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
        let (known, place) = if is_new {
            (PullRequestMetadata::default(), Place::After(self.before(&pull)))
        } else {
            (thread.marks.clone(), Place::Number(pull.number))
        };
        let marks = known.shown(place, &head, [(&name, &request.commit.plan)], thread.conversation.last);
        if marks != known {
            self.write(at, format!("text\n\n{}", marks.sealed(&branch, &seal())));
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
        let edited = self.objects.get(head).is_none_or(Proposed::is_edited);
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
        self.assert_is_of_plan(head);
        if self.merge(head, Landing::Merged(by.clone())) {
            self.told.push(format!("lands {head} for {by}"));
            if let Some(pull) = self.pulls.iter_mut().find(|pull| pull.number == number) {
                pull.state = PullRequestState::Merged { by: Some(ROBOT.to_owned()), at: Some(self.now) };
            }
            self.branches.remove(&branch);
        }
    }
}
