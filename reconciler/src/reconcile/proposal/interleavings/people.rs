//! What people and the forge do, in any order.

use std::sync::Arc;

use domain::CommitId;
use rollout::{AcceptedEdit, Landing, LedgerState, StageName};
use simulator::Random;
use simulator::model::{Parts, part_digest, tree_digest};

use super::carry::Process;
use super::edits::{BY_HAND, EDITED, file, text};
use super::scene::{Deployed, Proposed, Scene, branch_of};
use forge::{Comment, PullRequest, PullRequestState, Review};
use planning::edits::file_digest;

impl Scene {
    /// One thing happens.
    pub fn happen(&mut self, random: &mut Random) {
        let who = if random.chance(1, 2) { "alice" } else { "bob" };
        let branches: Vec<String> = self.branches.keys().cloned().collect();
        let branch = random.choose(&branches).cloned();
        let open: Vec<usize> = self
            .pulls
            .iter()
            .enumerate()
            .filter(|(_, pull)| pull.state == PullRequestState::Open)
            .map(|(at, _)| at)
            .collect();
        let open = random.choose(&open).copied();
        match (random.below(60), branch, open) {
            (0, ..) => {
                let mut wanted = self.wanted().clone();
                for stage in [StageName::CertManager, StageName::Cilium] {
                    if random.chance(2, 3) {
                        wanted.insert(stage, 40 + u32::try_from(random.below(3)).unwrap());
                    }
                }
                if &wanted == self.wanted() {
                    return;
                }
                self.told.push(format!("push {wanted:?}"));
                self.push_source(wanted);
            }
            (1, Some(branch), _) => self.edit(&branch, who, random),
            (13, _, Some(at)) => self.edit_marks(at, random),
            (14, ..) if !self.pulls.is_empty() => {
                let all: Vec<usize> = (0..self.pulls.len()).collect();
                let at = random.choose(&all).copied().unwrap_or_default();
                self.edit_marks(at, random);
            }
            (12, Some(branch), _) if random.chance(1, 4) => self.forge(&branch, random),
            (2..=4, _, Some(at)) => self.comment(at, who),
            (5, _, Some(at)) => self.review(at, who, random),
            (6, Some(branch), _) => {
                let head = self.branches[&branch].clone();
                self.merge_by(&branch, &head, who, "");
            }
            (7, ..) => {
                let heads: Vec<CommitId> = self.objects.keys().cloned().collect();
                if let Some(head) = random.choose(&heads).cloned() {
                    let branch = branch_of(&self.objects[&head].commit.stage.name);
                    if self.branches.get(&branch) != Some(&head) {
                        self.merge_by(&branch, &head, who, ", a stale one");
                    }
                }
            }
            (8, _, Some(at)) if random.chance(1, 3) => {
                self.pulls[at].state = PullRequestState::Closed { by: Some(who.to_owned()) };
                self.told.push(format!("{who} closes #{}", self.pulls[at].number));
            }
            (9, ..) => self.open_again(who),
            (10, ..) => {
                let which = usize::from(random.chance(1, 2));
                self.processes[which] = Process::default();
                self.told.push(format!("process {which} dies"));
            }
            (11, ..) => {
                self.failing = random.chance(1, 2);
                self.told.push(if self.failing { "the forge fails" } else { "the forge answers" }.to_owned());
            }
            _ => self.work(usize::from(random.chance(1, 2))),
        }
    }

    /// Somebody writes another version onto a branch, or takes what was written back.
    fn edit(&mut self, branch: &str, who: &str, random: &mut Random) {
        let proposed = self.objects[&self.branches[branch]].clone();
        let rendered = self.wanted()[&proposed.commit.stage.name];
        let wanted = EDITED + u32::try_from(random.below(3)).unwrap();
        let version = match random.below(6) {
            0 => BY_HAND,
            1 => rendered,
            2 => proposed.content.version,
            _ => wanted,
        };
        self.write_above(branch, who, version);
    }

    /// A commit of somebody's above what is proposed.
    fn write_above(&mut self, branch: &str, who: &str, version: u32) {
        let mut proposed = self.objects[&self.branches[branch]].clone();
        proposed.words.push((who.to_owned(), version));
        let head = self.put(branch, proposed);
        self.told.push(format!("{who} edits {branch}, version {version}: {head}"));
    }

    /// Somebody puts a commit there that says it is Stepgate's, for the same plan: with other files, whatever its ledger says of them, with an
    /// edit that was never looked at, or with approvals that nobody gave.
    fn forge(&mut self, branch: &str, random: &mut Random) {
        let mut proposed = self.objects[&self.branches[branch]].clone();
        let (name, version) = (proposed.commit.stage.name.clone(), EDITED + u32::try_from(random.below(3)).unwrap());
        let how = random.below(4);
        if how < 3 {
            proposed.content.version = version;
        }
        if how > 0 && how < 3 {
            let after = part_digest(&Parts::from([(name.clone(), version)]), &name);
            proposed.content.recorded = version;
            if let Some(record) = proposed.commit.ledger.stages.last_mut() {
                record.after = after.clone();
            }
            proposed.commit.after = after;
        }
        if how == 2 {
            let rendered = self.wanted()[&name];
            let digest = |version| file_digest(&file(&name), &Arc::from(text(version).into_bytes())).unwrap();
            proposed.commit.ledger.edits = vec![AcceptedEdit {
                path: file(&name),
                stage: proposed.commit.stage.clone(),
                rendered: digest(rendered),
                edited: digest(version),
                by: vec!["alice".to_owned()],
            }];
        }
        if how == 3
            && let Some(approved) = proposed.commit.ledger.approvals.last_mut()
        {
            approved.by = Some("alice".to_owned());
        }
        proposed.words.clear();
        let head = self.put(branch, proposed);
        self.told.push(format!("somebody forges {head} on {branch}, version {version}, {how}"));
    }

    fn put(&mut self, branch: &str, proposed: Proposed) -> CommitId {
        let head = self.id();
        self.objects.insert(head.clone(), proposed);
        self.branches.insert(branch.to_owned(), head.clone());
        if let Some(at) = self.open(branch) {
            self.pulls[at].head = head.to_string();
        }
        head
    }

    fn comment(&mut self, at: usize, who: &str) {
        let (number, branch) = (self.pulls[at].number, self.pulls[at].branch.clone());
        let id = self.comments.len() as u64 + 1;
        let comment = Comment { id, by: who.to_owned(), body: "/stepgate approve".to_owned(), edited: false };
        self.comments.push((number, comment));
        if let Some(plan) = self.shown(at) {
            self.told.push(format!("{who} approves #{number}, {plan}"));
            if self.is_sealed(at) {
                self.standing.entry((number, plan.clone())).or_default().insert(who.to_owned());
            }
            self.approve(plan, &branch, who);
        }
    }

    /// Somebody writes into a text that a plan has been shown from the beginning: the one that is shown, or another one. Or puts the text of
    /// another pull request there.
    fn edit_marks(&mut self, at: usize, random: &mut Random) {
        let body = if random.chance(1, 3) {
            let others = self.pulls.iter().filter(|other| other.branch == self.pulls[at].branch);
            let others: Vec<&PullRequest> = others.collect();
            random.choose(&others).map(|other| other.body.clone()).unwrap_or_default()
        } else {
            let heads: Vec<&Proposed> = self.objects.values().collect();
            let newest = heads.last().filter(|_| random.chance(1, 2)).map(|proposed| proposed.commit.plan.clone());
            let Some(plan) = newest.or_else(|| self.shown(at)) else { return };
            let digits: String = plan.as_str().trim_start_matches("sha256:").chars().take(32).collect();
            let claim = format!("part {} {digits} 0 0", self.name());
            let lines = self.pulls[at].body.lines();
            lines.map(|line| if line.starts_with("part ") { &claim } else { line }).collect::<Vec<_>>().join("\n")
        };
        self.write(at, body);
        self.told.push(format!("somebody edits what is noted in #{}", self.pulls[at].number));
    }

    /// A review of what the branch holds, or has held.
    fn review(&mut self, at: usize, who: &str, random: &mut Random) {
        let (number, branch) = (self.pulls[at].number, self.pulls[at].branch.clone());
        let of_branch = |object: &Proposed| branch_of(&object.commit.stage.name) == branch;
        let heads: Vec<CommitId> =
            self.objects.iter().filter(|(_, object)| of_branch(object)).map(|(id, _)| id.clone()).collect();
        let Some(head) = random.choose(&heads) else { return };
        self.reviews.push((number, Review { by: who.to_owned(), commit: Some(head.to_string()) }));
        self.told.push(format!("{who} reviews {head} in #{number}"));
        let plan = self.objects[head].commit.plan.clone();
        self.approve(plan, &branch, who);
    }

    fn merge_by(&mut self, branch: &str, head: &CommitId, who: &str, how: &str) {
        let plan = self.objects[head].commit.plan.clone();
        if !self.merge(head, Landing::Merged(who.to_owned())) {
            return;
        }
        self.told.push(format!("{who} merges {head} of {branch}{how}"));
        self.approve(plan, branch, who);
        if self.branches.get(branch) == Some(head)
            && let Some(at) = self.open(branch)
        {
            self.pulls[at].state = PullRequestState::Merged { by: Some(who.to_owned()), at: Some(self.now) };
        }
    }

    /// The newest that was closed, where its branch is there and nothing else is open.
    fn open_again(&mut self, who: &str) {
        let closed = |state: &PullRequestState| matches!(state, PullRequestState::Closed { .. });
        let Some(at) = self.pulls.iter().rposition(|pull| closed(&pull.state)) else { return };
        let branch = self.pulls[at].branch.clone();
        if self.branches.contains_key(&branch) && self.open(&branch).is_none() {
            self.pulls[at].state = PullRequestState::Open;
            self.told.push(format!("{who} opens again #{}", self.pulls[at].number));
        }
    }

    /// The one that was rejected, by its address. Of a branch one alone can be open, so that another one is closed first.
    fn open_what_is_named(&mut self, said: &str, who: &str) -> bool {
        let is_named = |url: &str| said.split_whitespace().any(|word| word.trim_end_matches([';', '.']) == url);
        let Some(at) = self.pulls.iter().position(|pull| is_named(&pull.url)) else { return false };
        let branch = self.pulls[at].branch.clone();
        if !self.branches.contains_key(&branch) || !matches!(self.pulls[at].state, PullRequestState::Closed { .. }) {
            return false;
        }
        if let Some(other) = self.open(&branch) {
            self.pulls[other].state = PullRequestState::Closed { by: Some(who.to_owned()) };
            self.told.push(format!("{who} closes #{}", self.pulls[other].number));
        }
        self.pulls[at].state = PullRequestState::Open;
        self.told.push(format!("{who} opens again #{}", self.pulls[at].number));
        true
    }

    /// What a person does who reads what is waited for.
    pub fn help(&mut self) {
        let said = self.processes[0].said.clone();
        self.told.push(format!("help: {said}"));
        let state = self.deployed().clone();
        let by_hand = state.ledger.as_ref().is_some_and(|ledger| ledger.tree != tree_digest(&state.parts));
        if by_hand || said.contains("was merged") {
            // `git revert`, as far as to where nothing was running.
            let ended = |state: &&Deployed| state.ledger.as_ref().is_none_or(|it| it.state != LedgerState::Running);
            let before = self.states.iter().rev().find(ended).unwrap().clone();
            self.land(before, Landing::Pushed, None);
            return;
        }
        if said.contains("was rejected") {
            if !self.open_what_is_named(&said, "bob") {
                let mut wanted = self.wanted().clone();
                let next = 43 + u32::try_from(self.sources.len() % 6).unwrap();
                wanted.insert(StageName::CertManager, next);
                self.push_source(wanted);
            }
            return;
        }
        let branches: Vec<String> = self.branches.keys().cloned().collect();
        for branch in branches {
            let proposed = &self.objects[&self.branches[&branch]];
            if proposed.is_edited() && self.sources.len().is_multiple_of(2) {
                let version = proposed.content.version;
                self.write_above(&branch, "bob", version);
            } else if proposed.is_edited() {
                // Without its edits it is proposed anew.
                self.branches.remove(&branch);
                if let Some(at) = self.open(&branch) {
                    self.pulls[at].state = PullRequestState::Closed { by: Some(super::carry::ROBOT.to_owned()) };
                }
            } else if let Some(at) = self.open(&branch) {
                self.comment(at, "alice");
                self.comment(at, "bob");
            }
        }
    }
}
