//! Git, forge and cluster as values, and what must always be true of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::{ClusterName, CommitId, PlanDigest, TreeDigest};
use jiff::{SignedDuration, Timestamp};
use policy::{Approval, ApprovalRules, StagePolicy};
use rollout::{ClusterRole, DeployCommit, DeployHead, Landing, Ledger, Plan, StageCommit, StageName, StageTrailer};
use simulator::model::{ModelCluster, Parts, tree_digest};
use simulator::{ClusterShape, DeployedCommit, Etcd, MachineStrategy, SimulatedCluster};

use super::carry::Process;
use super::edits::Content;
use approvals::metadata::PullRequestMetadata;
use forge::{Comment, MetadataSigner, PullRequest, PullRequestState, Review};

/// What lies on a branch.
#[derive(Clone, Debug)]
pub struct Proposed {
    pub commit: StageCommit,
    /// The cluster's directory that it changes.
    pub on: Parts,
    pub content: Content,
    /// What people made of it above it, each with the version that they want.
    pub words: Vec<(String, u32)>,
}

/// A state of the deploy branch.
#[derive(Clone, Debug)]
pub struct Deployed {
    pub parts: Parts,
    pub ledger: Option<Ledger>,
}

pub struct Scene {
    pub cluster: ModelCluster,
    pub now: Timestamp,
    pub sources: Vec<(CommitId, Parts, Timestamp)>,
    pub head: DeployHead,
    pub states: Vec<Deployed>,
    pub simulated: SimulatedCluster,
    /// Proposed branches, by name.
    pub branches: BTreeMap<String, CommitId>,
    /// Every commit that was ever proposed.
    pub objects: BTreeMap<CommitId, Proposed>,
    pub pulls: Vec<PullRequest>,
    pub comments: Vec<(u64, Comment)>,
    pub reviews: Vec<(u64, Review)>,
    /// Whether calls to the forge fail.
    pub failing: bool,
    pub processes: [Process; 2],
    /// How many people have to approve.
    pub needed: u32,
    /// Who approved a stage of a plan, ever.
    pub approved: BTreeMap<(PlanDigest, String), BTreeSet<String>>,
    /// Comments that approve what is shown since, by pull request and plan.
    pub standing: BTreeMap<(u64, PlanDigest), BTreeSet<String>>,
    /// What each plan leads to, stage by stage: it never means anything else.
    pub trees: BTreeMap<PlanDigest, BTreeMap<StageName, TreeDigest>>,
    /// By which plan a version of a stage came last.
    pub landed_by: BTreeMap<(StageName, u32), PlanDigest>,
    pub told: Vec<String>,
    ids: u64,
}

impl Scene {
    pub fn new(seed: u64) -> Self {
        let needed = if seed.is_multiple_of(2) { 1 } else { 2 };
        // A minimum of one is no rule: anybody may merge.
        let approvers = if needed == 1 {
            ApprovalRules::default()
        } else {
            ApprovalRules { minimum: 2, author: true, ..ApprovalRules::default() }
        };
        let policy = StagePolicy {
            soak: Duration::from_secs(5),
            timeout: Duration::from_secs(1_000_000),
            approval: Approval::Stage,
            approvers,
            accept_edits: seed % 4 >= 2,
            ..StagePolicy::default()
        };
        let cluster = ModelCluster {
            shape: ClusterShape {
                name: "mgmt".parse().unwrap(),
                namespace: "eksa-system".to_owned(),
                kubernetes_version: "v1.34.0".to_owned(),
                control_plane_replicas: 1,
                worker_groups: Vec::new(),
                etcd: Etcd::Stacked,
                strategy: MachineStrategy::Rolling,
            },
            role: ClusterRole::Management,
            components: vec![StageName::CertManager, StageName::Cilium],
            policy,
            after: Vec::new(),
            flux_waits: false,
            rendered: None,
        };
        let parts: Parts = cluster.stages().into_iter().map(|stage| (stage, 40)).collect();
        let now: Timestamp = "2026-01-05T09:00:00Z".parse().unwrap();
        let mut simulated = SimulatedCluster::new(&cluster.shape, seed, now);
        let first: CommitId = format!("{:040x}", 1).parse().unwrap();
        let desired = cluster.desired(&parts);
        simulated.install(&DeployedCommit { id: first.clone(), stage: None, desired }, now);
        let commit = DeployCommit { id: first, committed_at: now, landing: Landing::Pushed, trailer: None };
        let mut scene = Self {
            cluster,
            now: now + SignedDuration::from_secs(60),
            sources: Vec::new(),
            head: vec![commit].into(),
            states: vec![Deployed { parts: parts.clone(), ledger: None }],
            simulated,
            branches: BTreeMap::new(),
            objects: BTreeMap::new(),
            pulls: Vec::new(),
            comments: Vec::new(),
            reviews: Vec::new(),
            failing: false,
            processes: [Process::default(), Process::default()],
            needed,
            approved: BTreeMap::new(),
            standing: BTreeMap::new(),
            trees: BTreeMap::new(),
            landed_by: BTreeMap::new(),
            told: Vec::new(),
            ids: 1,
        };
        scene.push_source(parts);
        scene
    }

    pub fn name(&self) -> ClusterName {
        self.cluster.name().clone()
    }

    pub fn id(&mut self) -> CommitId {
        self.ids += 1;
        format!("{:040x}", self.ids).parse().unwrap()
    }

    pub fn push_source(&mut self, wanted: Parts) {
        let id = self.id();
        self.sources.push((id, wanted, self.now));
    }

    pub fn wanted(&self) -> &Parts {
        &self.sources.last().unwrap().1
    }

    pub fn deployed(&self) -> &Deployed {
        self.states.last().unwrap()
    }

    /// The plan of a source commit on a state of the deploy branch.
    pub fn plan_of(&self, source: usize, state: &Deployed) -> Plan {
        self.edited_plan(source, state, &[])
    }

    /// Puts a state onto the deploy branch.
    pub fn land(&mut self, state: Deployed, landing: Landing, trailer: Option<StageTrailer>) -> CommitId {
        let id = self.id();
        let stage = trailer.as_ref().map(|trailer| trailer.stage.name.clone());
        let desired = self.cluster.desired(&state.parts);
        self.simulated.commit(&DeployedCommit { id: id.clone(), stage, desired }, self.now);
        self.head.push(DeployCommit {
            id: id.clone(),
            committed_at: self.now,
            landing,
            trailer: trailer.map(Arc::new),
        });
        self.states.push(state);
        id
    }

    /// Puts a proposed commit onto the deploy branch as it is, edits and all. Whether it goes there without a conflict.
    pub fn merge(&mut self, head: &CommitId, landing: Landing) -> bool {
        let Some(Proposed { commit, on, content, words }) = self.objects.get(head).cloned() else { return false };
        if self.deployed().parts != on || self.deployed().ledger.as_ref().is_some_and(|ledger| *ledger == commit.ledger)
        {
            return false;
        }
        let mut parts = on;
        parts.insert(commit.stage.name.clone(), content.recorded);
        let ledger = commit.ledger.clone().with_tree(tree_digest(&parts));
        let version = words.last().map_or(content.version, |(_, version)| *version);
        parts.insert(commit.stage.name.clone(), version);
        self.landed_by.insert((commit.stage.name.clone(), version), commit.plan.clone());
        let trailer =
            StageTrailer { cluster: commit.cluster.clone(), rollout: commit.rollout.clone(), stage: commit.stage };
        self.land(Deployed { parts, ledger: Some(ledger) }, landing, Some(trailer));
        true
    }

    /// The open pull request of a branch.
    pub fn open(&self, branch: &str) -> Option<usize> {
        self.pulls.iter().position(|pull| pull.branch == branch && pull.state == PullRequestState::Open)
    }

    /// The plan that a text shows.
    pub fn shown(&self, at: usize) -> Option<PlanDigest> {
        let (marks, name) = (PullRequestMetadata::read(&self.pulls[at].body), self.name());
        let plans: BTreeSet<&PlanDigest> = self.objects.values().map(|object| &object.commit.plan).collect();
        plans.into_iter().find(|plan| marks.of(&name, plan).is_some()).cloned()
    }

    /// The number of the pull request before this one of the same branch, 0 where there is none.
    pub fn before(&self, pull: &PullRequest) -> u64 {
        let earlier = self.pulls.iter().filter(|other| other.branch == pull.branch && other.number < pull.number);
        earlier.map(|other| other.number).max().unwrap_or_default()
    }

    /// Whether what a text shows is known to be what it says.
    pub fn is_sealed(&self, at: usize) -> bool {
        !self.marks(&self.pulls[at]).is_not_known()
    }

    /// A text takes the place of another: what was said of other plans is said of nothing now.
    pub fn write(&mut self, at: usize, body: String) {
        let number = self.pulls[at].number;
        self.pulls[at].body = body;
        let shown = self.shown(at).filter(|_| self.is_sealed(at));
        self.standing.retain(|(of, plan), _| *of != number || Some(plan as &PlanDigest) == shown.as_ref());
    }

    pub fn approve(&mut self, plan: PlanDigest, branch: &str, who: &str) {
        self.approved.entry((plan, branch.to_owned())).or_default().insert(who.to_owned());
    }

    pub fn approvers(&self, plan: &PlanDigest, branch: &str) -> usize {
        self.approved.get(&(plan.clone(), branch.to_owned())).map_or(0, BTreeSet::len)
    }

    #[track_caller]
    pub fn check(&self, seed: u64) {
        let mut open = BTreeSet::new();
        for pull in self.pulls.iter().filter(|pull| pull.state == PullRequestState::Open) {
            assert!(open.insert(&pull.branch), "two pull requests of {}\n{}", pull.branch, self.context(seed));
        }
    }

    pub fn context(&self, seed: u64) -> String {
        format!("STEPGATE_SEED={seed}\n{}", self.told.join("\n"))
    }

    /// Everything goes right from now on, and people do what is theirs: it comes to its end.
    #[track_caller]
    pub fn settle(&mut self, seed: u64) {
        self.failing = false;
        self.told.push("everything is right again".to_owned());
        for process in &mut self.processes {
            *process = Process::default();
        }
        // Without anybody's doing what was approved lands.
        let mut owed = self.owed();
        for round in 0..400 {
            self.pass();
            self.check(seed);
            if owed.is_some() && round == 30 {
                assert_eq!(self.owed(), None, "what was approved has not landed\n{}", self.context(seed));
            }
            if round < 30 {
                owed = owed.or_else(|| self.owed());
                continue;
            }
            let done =
                self.deployed().ledger.as_ref().is_none_or(|ledger| ledger.state != rollout::LedgerState::Running);
            // What people changed and had approved stays, as long as the same is rendered.
            let plan = self.edited_plan(self.sources.len() - 1, self.deployed(), &[]);
            if done && plan.next_stage().is_none() {
                self.assert_edits_approved();
                return;
            }
            if round % 5 == 4 {
                self.help();
            }
        }
        panic!("it goes on for ever; last: {}\n{}", self.processes[0].said, self.context(seed));
    }

    /// A plan that was approved by comments on what is shown, which is what is asked.
    fn owed(&self) -> Option<(u64, PlanDigest)> {
        let plan = self.considered(self.sources.len() - 1, self.deployed(), &self.branches).plan;
        let next = plan.next_stage()?;
        let at = self.open(&branch_of(&next.stage.name))?;
        let number = self.pulls[at].number;
        let key = (number, plan.digest);
        let edited = self
            .branches
            .get(&self.pulls[at].branch)
            .and_then(|head| self.objects.get(head))
            .is_none_or(Proposed::is_edited);
        let enough = self.standing.get(&key).is_some_and(|who| who.len() >= usize::try_from(self.needed).unwrap());
        let held =
            self.deployed().ledger.as_ref().is_some_and(|ledger| ledger.tree != tree_digest(&self.deployed().parts));
        (enough && !edited && !held && !self.stands_still()).then_some(key)
    }

    /// Whether something that was merged and should not have been is in the way.
    fn stands_still(&self) -> bool {
        self.processes[0].said.contains("was merged")
    }
}

/// What both processes seal with.
pub fn seal() -> MetadataSigner {
    MetadataSigner::new(&"secret".into(), "a/b")
}

/// The branch on which a stage is asked for.
pub fn branch_of(stage: &StageName) -> String {
    format!("stepgate/fleet/{stage}")
}

/// Who may write, and so command.
pub fn comments_of(scene: &Scene, number: u64) -> impl Iterator<Item = &Comment> {
    scene.comments.iter().filter(move |(of, _)| *of == number).map(|(_, comment)| comment)
}
