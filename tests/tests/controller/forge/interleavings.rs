//! Whatever people, processes and the forge do in whatever order: nothing lands that was not approved as it is, nothing that was approved is
//! lost, and there is at most one open pull request for a stage. Pushes raise and lower how many
//! people have to approve.
//!
//! The whole controller, real git, and a strict server that speaks as GitHub documents it. `STEPGATE_INTERLEAVINGS` says how many are tried,
//! `STEPGATE_SEED` tries one alone; a failing one prints its seed and everything that was done. The 50,000 are tried on the part that decides:
//! `reconciler/src/reconcile/proposal/interleavings.rs`.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Method;
use domain::{CommitId, RepoPath};
use fastrand::Rng;
use forge::{ForgeAccess, ForgeCredential};
use git::{HistoryEntry, Repository, StageTrailers};
use git2::Oid;
use jiff::Timestamp;
use stepgate::reconcile::Controller;

use super::OVERLAY;
use super::hub::{Fate, Server};
use crate::approvals::{Git, Merge};
use crate::fleet::{Fleet, is_done, outcome, told};

const BRANCH: &str = "stepgate/fleet/cert-manager";
const FILE: &str = "clusters/mgmt/cert-manager/cert-manager.yaml";

const POLICY: &str = "stepgate.yaml";

/// The rules that ask for two people.
const TWO: &str = "approvers: {minimum: 2, author: true}\n";

/// How many are tried unless somebody says otherwise.
const FEW: u64 = 12;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

struct Scene {
    server: Server,
    fleet: Fleet,
    controllers: [Controller; 2],
    random: Rng,
    /// How many people have to approve by the policy that the fleet began with.
    first: usize,
    /// Who approved each plan, as they saw it.
    approved: BTreeMap<String, BTreeSet<&'static str>>,
    /// What the branch has held.
    heads: Vec<Oid>,
    told: Vec<String>,
}

impl Scene {
    async fn start(seed: u64) -> Self {
        let random = Rng::with_seed(seed);
        let first = if seed.is_multiple_of(2) { 1 } else { 2 };
        let folder = tempfile::tempdir().unwrap();
        let bare = folder.path().join("fleet.git");
        let repository = Repository::create(&bare, &"main".parse().unwrap()).unwrap();
        let server = Server::start(&bare).await;
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "CANARY-token\n").unwrap();
        let access =
            ForgeAccess { credential: Some(ForgeCredential::Token(token_file)), hosts: vec!["127.0.0.1".to_owned()] };
        let url = server.url.clone();
        let rules = if first == 2 { TWO } else { "" };
        let start: Timestamp = "2026-01-05T09:00:00Z".parse().unwrap();
        let fleet = Fleet::on(folder, repository, start, access, |policy| {
            let policy = policy.replace("timeout: 30m", "timeout: 9000h").replace("timeout: 2h", "timeout: 9000h");
            format!(
                "{policy}approval: stage\n{rules}forge: {{kind: github, url: '{url}', repository: platform/fleet}}\n"
            )
        });
        let controllers = [fleet.controller(), fleet.controller()];
        let (approved, heads, told) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { server, fleet, controllers, random, first, approved, heads, told }
    }

    fn git(&self) -> Git {
        Git::of(&self.fleet)
    }

    /// The open pull request of the stage.
    fn open(&self) -> Option<usize> {
        let hub = self.server.hub();
        hub.pulls.iter().position(|pull| pull["state"] == "open").map(|at| at + 1)
    }

    /// The plan that people read in the text of a pull request.
    fn read(&self, number: usize) -> Option<String> {
        let hub = self.server.hub();
        let body = hub.pulls[number - 1]["body"].as_str()?;
        let mark = body.lines().find_map(|line| line.strip_prefix("part mgmt "))?;
        mark.split_whitespace().next().map(str::to_owned)
    }

    /// The plan that a commit proposes.
    fn plan_of(&self, head: Oid) -> Option<String> {
        let git = self.git();
        let mut commit = git.0.find_commit(head).ok()?;
        for _ in 0..5 {
            if let Some(trailers) = StageTrailers::parse(commit.message().ok()?) {
                return Some(short(trailers.plan.as_str()));
            }
            commit = commit.parent(0).ok()?;
        }
        None
    }

    fn approves(&mut self, plan: Option<String>, who: &'static str) {
        if let Some(plan) = plan {
            self.approved.entry(plan).or_default().insert(who);
        }
    }

    fn branch(&self) -> Option<Oid> {
        self.git().0.find_reference(&format!("refs/heads/{BRANCH}")).ok()?.target()
    }

    async fn act(&mut self) {
        let who = if self.random.bool() { "alice" } else { "bob" };
        let action = self.random.u8(..20);
        let note = match action {
            0 | 1 => {
                let class = format!("class-{}", self.random.u8(..3));
                let before = self.fleet.read(&"main".parse().unwrap(), OVERLAY).unwrap();
                let line = before.lines().last().unwrap().to_owned();
                let old = line.split_whitespace().last().unwrap();
                let mut files = BTreeMap::from([(OVERLAY.to_owned(), before.replace(old, &class).into_bytes())]);
                let lowers = self.random.u8(..3) == 0;
                if lowers {
                    // What it is to let through comes with the policy that is to let it through, or
                    // asks for more.
                    let policy = self.fleet.read(&"main".parse().unwrap(), POLICY).unwrap();
                    let other = if policy.contains(TWO) { policy.replace(TWO, "") } else { policy + TWO };
                    files.insert(POLICY.to_owned(), other.into_bytes());
                }
                if old != class || lowers {
                    self.fleet.push(&files);
                }
                format!("push {class}{}", if lowers { " and another policy" } else { "" })
            }
            2 => match self.branch() {
                Some(_) => {
                    self.git().follow(BRANCH, "A person's edit", Some(FILE));
                    "edit".to_owned()
                }
                None => return,
            },
            3..=5 => match self.open() {
                Some(number) => {
                    let plan = self.read(number);
                    self.server.say(number, who, "/stepgate approve");
                    self.approves(plan, who);
                    format!("{who} approves #{number}")
                }
                None => return,
            },
            6 | 7 => match (self.open(), self.heads.is_empty()) {
                (Some(number), false) => {
                    // Of what the branch holds, or has held.
                    let at = self.random.usize(..self.heads.len().min(3));
                    let head = self.heads[self.heads.len() - 1 - at];
                    self.server.review(number, who, &head.to_string());
                    let plan = self.plan_of(head);
                    self.approves(plan, who);
                    format!("{who} reviews {head} in #{number}")
                }
                _ => return,
            },
            8 | 9 => {
                // The newest head as a rule, and now and then one that the branch has held.
                let stale = self.random.u8(..3) == 0;
                let head = if stale { self.heads.iter().rev().nth(1).copied() } else { self.branch() };
                let Some(head) = head else { return };
                if !self.merge(head, who) {
                    return;
                }
                format!("{who} merges {head}{}", if stale { ", a stale one" } else { "" })
            }
            10 => match self.open() {
                Some(number) => {
                    self.server.set_open(number, "bob", false);
                    format!("bob closes #{number}")
                }
                None => return,
            },
            11 => {
                let last = self.server.hub().pulls.len();
                if last == 0 || self.open().is_some() {
                    return;
                }
                self.server.set_open(last, "bob", true);
                format!("bob opens #{last} again")
            }
            12 => {
                self.server.kill_after(self.random.usize(..6), self.random.bool());
                "a death is near".to_owned()
            }
            13 => {
                let which = self.random.usize(..2);
                self.controllers[which] = self.fleet.controller();
                format!("restart {which}")
            }
            14 => {
                let (status, every) = (self.random.u8(..3), self.random.bool());
                self.server.fates(move |method, _| match status {
                    _ if !every && method == Method::GET => Fate::Answered,
                    0 => Fate::Refused(502, "bad gateway"),
                    1 => Fate::Page,
                    _ => Fate::Refused(500, "no"),
                });
                "the forge fails".to_owned()
            }
            15 => {
                self.server.fates(|_, _| Fate::Answered);
                "the forge is itself again".to_owned()
            }
            16 => {
                // Of a death both would hang.
                self.server.spare();
                let (one, two) = tokio::join!(self.controllers[0].pass(), self.controllers[1].pass());
                let pass = one.unwrap();
                two.unwrap();
                self.follow();
                self.fleet.wait(Some(&pass));
                "both work at once".to_owned()
            }
            _ => {
                self.work().await;
                "work".to_owned()
            }
        };
        self.told.push(note);
        if let Some(head) = self.branch().filter(|head| self.heads.last() != Some(head)) {
            self.heads.push(head);
        }
    }

    /// Somebody merges a commit, unless that conflicts. Whether there was anything to merge.
    fn merge(&mut self, head: Oid, who: &'static str) -> bool {
        let git = self.git();
        let deploy = git.deploy();
        let commit = git.0.find_commit(head).unwrap();
        let conflicts = git.0.merge_commits(&deploy, &commit, None).is_ok_and(|index| index.has_conflicts());
        let landed = deploy.id() == head || git.0.graph_descendant_of(deploy.id(), head).unwrap();
        if conflicts || landed {
            return false;
        }
        let how = if self.random.bool() { Merge::Commit } else { Merge::Squash };
        git.merge(head, how, self.fleet.clock_now());
        let open = self.server.hub().pulls.iter().any(|pull| pull["head"]["ref"] == BRANCH && pull["state"] == "open");
        if open && self.branch() == Some(head) {
            self.server.merged(BRANCH, who, self.fleet.clock_now());
        }
        let plan = self.plan_of(head);
        // Without a forge's word nobody knows who merged it.
        self.approves(plan, if open { who } else { "somebody" });
        true
    }

    fn follow(&self) {
        let reading = self.fleet.planner().read().unwrap();
        self.fleet.simulated.follow(&self.fleet.repository, &reading, self.fleet.clock_now()).unwrap();
    }

    /// One pass of one process, which may die of it.
    async fn work(&mut self) {
        let which = self.random.usize(..2);
        let pass = tokio::select! {
            pass = self.controllers[which].pass() => Some(pass.unwrap()),
            () = self.server.died() => None,
        };
        self.follow();
        match pass {
            Some(pass) => self.fleet.wait(Some(&pass)),
            None => self.controllers[which] = self.fleet.controller(),
        }
    }

    #[track_caller]
    fn check(&self, seed: u64) {
        let context = || format!("STEPGATE_SEED={seed}\n{}", self.told.join("\n"));
        let open = {
            let hub = self.server.hub();
            assert_eq!(hub.wrong, [""; 0], "{}", context());
            hub.pulls.iter().filter(|pull| pull["state"] == "open").count()
        };
        assert!(open <= 1, "{open} open pull requests\n{}", context());
        // Twice the same is only what somebody took back meanwhile.
        let stage = |entry: &HistoryEntry| {
            let trailers = entry.stage.as_ref()?;
            Some((trailers.rollout.to_string(), trailers.stage.to_string()))
        };
        for pair in self.fleet.history("mgmt").windows(2) {
            let (one, two) = (stage(&pair[0]), stage(&pair[1]));
            assert!(one.is_none() || one != two, "{one:?} was committed twice\n{}", context());
        }
        // What Stepgate itself ends was approved by as many people as its own policy says, and as
        // the one before it said.
        let mut before = self.first;
        for entry in self.fleet.history("mgmt") {
            let Some(trailers) = entry.stage.filter(|trailers| trailers.stage.to_string() == "verify") else {
                continue;
            };
            let plan = short(trailers.plan.as_str());
            let known = self.approved.get(&plan).map_or(0, BTreeSet::len);
            let own = self.asked_for(&trailers.source);
            let needed = own.max(before);
            assert!(known >= needed, "plan {plan} was ended, {known} of {needed} people approved it\n{}", context());
            before = own;
        }
    }

    /// How many people the policy of a source commit asks for.
    fn asked_for(&self, source: &CommitId) -> usize {
        let policy = self.fleet.repository.snapshot_of(source).unwrap().read(&RepoPath::new(POLICY).unwrap()).unwrap();
        if std::str::from_utf8(&policy).unwrap().contains(TWO) { 2 } else { 1 }
    }

    /// Everybody does what is right from now on: what is asked is merged, and everything comes to its end.
    async fn settle(&mut self, seed: u64) {
        self.server.fates(|_, _| Fate::Answered);
        self.server.spare();
        self.told.push("everything is right again".to_owned());
        let file = |fleet: &Fleet| fleet.deployed(FILE).unwrap();
        let mut pass = None;
        for round in 0..400 {
            let done = self.controllers[0].pass().await.unwrap();
            self.follow();
            self.fleet.wait(Some(&done));
            self.check(seed);
            if let Some(head) = self.branch().filter(|head| self.heads.last() != Some(head)) {
                self.heads.push(head);
            }
            if is_done(&done) {
                let wanted = self.fleet.read(&"main".parse().unwrap(), OVERLAY).unwrap();
                let class = wanted.lines().last().unwrap().split_whitespace().last().unwrap();
                assert!(
                    file(&self.fleet).contains(class),
                    "{class} is not deployed\nSTEPGATE_SEED={seed}\n{}",
                    self.told.join("\n")
                );
                return;
            }
            let message = outcome(&done, "mgmt").message();
            if round % 4 == 3 {
                self.help(&message);
            }
            pass = Some(done);
        }
        panic!("it goes on for ever: {}\nSTEPGATE_SEED={seed}\n{}", told(&pass.unwrap()), self.told.join("\n"));
    }

    /// What the message says that helps.
    fn help(&mut self, message: &str) {
        let git = self.git();
        if message.contains("Stepgate did not make that commit") {
            // Taken back, as `git revert` does: the directory is what Stepgate committed last.
            self.take_back();
        } else if message.contains("was rejected")
            || message.contains("(changed by people)")
            || message.contains("somebody else")
        {
            // Deleted, a branch is proposed anew; what was rejected is another plan's.
            if message.contains("was rejected") {
                let last = self.server.hub().pulls.len();
                self.server.set_open(last, "bob", true);
                if self.open().is_none() {
                    self.push_new();
                }
            } else if let Ok(mut branch) = git.0.find_reference(&format!("refs/heads/{BRANCH}")) {
                branch.delete().unwrap();
            }
        } else if message.contains("was merged") {
            // Too early, or too late: it is taken off the branch.
            self.take_back();
        } else if message.contains("waits for approval: http")
            && let Some(number) = self.open()
        {
            for who in ["alice", "bob"] {
                let plan = self.read(number);
                self.server.say(number, who, "/stepgate approve");
                self.approves(plan, who);
            }
        }
        let message: String = message.chars().take(300).collect();
        self.told.push(format!("help: {message}"));
        self.told.dedup();
    }

    fn push_new(&mut self) {
        let before = self.fleet.read(&"main".parse().unwrap(), OVERLAY).unwrap();
        let old = before.lines().last().unwrap().split_whitespace().last().unwrap().to_owned();
        let class = format!("class-{}", self.random.u32(100..));
        self.fleet.push(&[(OVERLAY.to_owned(), before.replace(&old, &class).into_bytes())].into());
    }

    /// The cluster's directory is what it was when Stepgate ended a rollout last, or before the first.
    fn take_back(&mut self) {
        let git = self.git();
        let mut good = git.deploy();
        loop {
            let message = good.message().unwrap_or_default().to_owned();
            let verified = StageTrailers::parse(&message).is_some_and(|it| it.stage.to_string() == "verify");
            let adopted = message.contains("adopt") || good.parent_count() == 0;
            if verified || adopted {
                break;
            }
            good = good.parent(0).unwrap();
        }
        let (deploy, tree) = (git.deploy(), good.tree().unwrap());
        let time = git2::Time::new(self.fleet.clock_now().as_second(), 0);
        let person = git2::Signature::new("A Person", "person@example.com", &time).unwrap();
        git.0.commit(Some("refs/heads/deploy"), &person, &person, "Revert what was merged", &tree, &[&deploy]).unwrap();
    }
}

fn short(plan: &str) -> String {
    plan.trim_start_matches("sha256:").chars().take(32).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_lands_that_was_not_approved_and_nothing_approved_is_lost() {
    let seeds = match setting("STEPGATE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("STEPGATE_INTERLEAVINGS").unwrap_or(FEW),
    };
    let count = seeds.end - seeds.start;
    let (mut actions, mut policies) = (0, 0);
    for seed in seeds {
        let mut scene = Scene::start(seed).await;
        for _ in 0..scene.random.usize(10..60) {
            Box::pin(scene.act()).await;
            scene.check(seed);
        }
        actions += scene.told.len();
        policies += scene.told.iter().filter(|told| told.contains("another policy")).count();
        scene.settle(seed).await;
    }
    println!(
        "{count} interleavings of the whole controller, {actions} actions, {policies} of them pushes of another policy"
    );
    assert!(count < FEW || policies > 0);
}
