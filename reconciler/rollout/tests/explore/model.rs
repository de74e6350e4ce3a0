//! Two clusters, three stages each, one deploy branch, and everything that can go wrong between them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use rollout::{
    BackupReport, ClusterRole, CommitId, ConditionStatus, DeployCommit, DeployHead, Effect, Expectation,
    FluxKustomization, ForeignChange, GateHistory, KubeletVersions, Landing, Ledger, LedgerState, Observation,
    OnFailure, Pause, Plan, PlanInput, PlanPolicy, Prerequisite, Reachability, RolloutId, SkewFacts, StageId,
    StageInput, StagePolicy, StageRecordKind, StageTrailer, TreeDigest, VerifiedExpectation, VersionStep, World,
    conditions, plan, record, step,
};

use super::pictures::{add_control_plane, add_deployment, add_workers, expectations};

/// A time that no path of ordinary actions reaches, and that every deadline and every age lies below.
const LATE: i64 = 2_000_000;
const MAXIMUM_AGE: u64 = 10_000;
pub const TIMEOUT: u64 = 1_000_000;

pub const NAMES: [&str; 2] = ["hub", "prod"];
const STAGES: [[&str; 3]; 2] = [["cert-manager", "capi", "eks-a"], ["cilium", "control-plane", "workers/md-0"]];
pub type Versions = [u8; 3];
type PlanKey = (usize, u8, Versions, Option<(RolloutId, bool)>, Vec<(StageId, bool)>, bool);

/// Which policy the model runs under.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub on_failure: OnFailure,
    pub retries: u32,
}

/// What can happen. The first group is the ordinary course of things, the second costs a fault each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    FluxApplies,
    RollsOut,
    Read,
    Decide,
    Push,
    Repair,
    Resume,
    PersonReverts,
    Unreachable,
    StaleRead,
    Unconfirmed,
    SkewedRead,
    Crash,
    Break,
    Late,
    Pause,
    PersonCommits,
    SomebodyElsewhereCommits,
    PushWithLostAnswer,
    NewTarget,
}

impl Action {
    pub const ALL: [Self; 20] = [
        Self::FluxApplies,
        Self::RollsOut,
        Self::Read,
        Self::Decide,
        Self::Push,
        Self::Repair,
        Self::Resume,
        Self::PersonReverts,
        Self::Unreachable,
        Self::StaleRead,
        Self::Unconfirmed,
        Self::SkewedRead,
        Self::Crash,
        Self::Break,
        Self::Late,
        Self::Pause,
        Self::PersonCommits,
        Self::SomebodyElsewhereCommits,
        Self::PushWithLostAnswer,
        Self::NewTarget,
    ];

    pub fn is_fault(self) -> bool {
        Self::ALL.iter().position(|action| *action == self)
            >= Self::ALL.iter().position(|action| *action == Self::Unreachable)
    }
}

#[derive(Debug, Clone)]
pub struct Cluster {
    /// Versions on the deploy branch.
    pub deployed: Versions,
    /// Version that every stage is to have.
    pub target: u8,
    pub ledger: Option<Ledger>,
    /// How many commits of the branch Flux has seen.
    pub applied: usize,
    /// Versions that really run.
    pub actual: Versions,
    /// What a reader sees whose API server lags behind.
    pub lagging: (usize, Versions),
    pub broken: bool,
    pub paused: bool,
    pub foreign: bool,
    pub observation: Option<Observation>,
    pub history: GateHistory,
    pub backup: Option<BackupReport>,
    /// What was decided and is not carried out yet.
    pub pending: Option<Effect>,
    /// Since when everything on the branch really runs; the oracle.
    pub settled_at: Option<i64>,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub rules: Rules,
    pub clusters: [Rc<Cluster>; 2],
    pub deploy: Rc<DeployHead>,
    /// For each commit, the versions of both clusters in it.
    pub trees: Rc<Vec<[Versions; 2]>>,
    pub now: i64,
    pub faults_left: u8,
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(10_000_000 + second).unwrap()
}

fn digest(stage: &str, version: u8) -> TreeDigest {
    TreeDigest::of([stage.as_bytes(), &[version]])
}

fn tree(versions: Versions) -> TreeDigest {
    TreeDigest::of([versions.as_slice()])
}

impl Model {
    pub fn new(rules: Rules, faults_left: u8) -> Self {
        let cluster = Cluster {
            deployed: [1; 3],
            target: 2,
            ledger: None,
            applied: 1,
            actual: [1; 3],
            lagging: (1, [1; 3]),
            broken: false,
            paused: false,
            foreign: false,
            observation: None,
            history: GateHistory::default(),
            backup: None,
            pending: None,
            settled_at: Some(0),
        };
        let mut model = Self {
            rules,
            clusters: [Rc::new(cluster.clone()), Rc::new(cluster)],
            deploy: Rc::default(),
            trees: Rc::default(),
            now: 0,
            faults_left,
        };
        model.append(None);
        model
    }

    fn own(&mut self, cluster: usize) -> &mut Cluster {
        Rc::make_mut(&mut self.clusters[cluster])
    }

    fn append(&mut self, trailer: Option<StageTrailer>) {
        let id: CommitId = format!("{:040x}", self.deploy.commits.len() + 1).parse().unwrap();
        Rc::make_mut(&mut self.deploy).commits.push(DeployCommit {
            id,
            committed_at: time(self.now),
            landing: Landing::Pushed,
            trailer,
        });
        Rc::make_mut(&mut self.trees).push([self.clusters[0].deployed, self.clusters[1].deployed]);
    }

    pub fn head(&self) -> Option<CommitId> {
        self.deploy.commit().map(|commit| commit.id.clone())
    }

    /// The newest stage commit of a cluster's running rollout.
    pub fn last_stage_commit(&self, cluster: usize) -> Option<(usize, &DeployCommit)> {
        let rollout = &self.clusters[cluster].ledger.as_ref()?.rollout;
        let own = |commit: &&DeployCommit| commit.trailer.as_ref().is_some_and(|trailer| &trailer.rollout == rollout);
        let commit = self.deploy.commits.iter().rev().find(own)?;
        Some((self.deploy.commits.iter().position(|known| known.id == commit.id)?, commit))
    }

    /// The plan for a target, remembered: it depends on what is deployed and on the ledger alone.
    pub fn plan(&self, cluster: usize, target: u8) -> Plan {
        thread_local! {
            static KNOWN: RefCell<HashMap<PlanKey, Plan>> = RefCell::default();
        }
        let own = &self.clusters[cluster];
        let records = own.ledger.iter().flat_map(|ledger| &ledger.stages);
        let records = records.map(|record| (record.stage.clone(), record.kind == StageRecordKind::Revert)).collect();
        let ledger = own.ledger.as_ref().map(|ledger| (ledger.rollout.clone(), ledger.state == LedgerState::Running));
        let key = (cluster, target, own.deployed, ledger, records, self.rules.on_failure == OnFailure::Revert);
        KNOWN.with_borrow_mut(|known| known.entry(key).or_insert_with(|| self.make_plan(cluster, target)).clone())
    }

    fn make_plan(&self, cluster: usize, target: u8) -> Plan {
        let own = &self.clusters[cluster];
        let policy = StagePolicy {
            soak: Duration::ZERO,
            timeout: Duration::from_secs(TIMEOUT),
            maximum_age: Duration::from_secs(MAXIMUM_AGE),
            on_failure: self.rules.on_failure,
            retries: self.rules.retries,
            ..StagePolicy::default()
        };
        let stages = STAGES[cluster].iter().zip(own.deployed).map(|(name, deployed)| StageInput {
            stage: name.parse().unwrap(),
            deployed: digest(name, deployed),
            target: digest(name, target),
            changes: Vec::new(),
            reasons: Vec::new(),
            risks: Vec::new(),
            one_way: Vec::new(),
            expectations: expectations(name, target),
            deployed_expectations: expectations(name, deployed),
            policy: policy.clone(),
            machines: 0,
            render_error: None,
        });
        let without_commit = |name: &str, expectations: Vec<Expectation>| StageInput {
            stage: name.parse().unwrap(),
            deployed: digest(name, 0),
            target: digest(name, 0),
            changes: Vec::new(),
            reasons: Vec::new(),
            risks: Vec::new(),
            one_way: Vec::new(),
            expectations,
            deployed_expectations: Vec::new(),
            policy: policy.clone(),
            machines: 0,
            render_error: None,
        };
        let mut all = vec![
            without_commit("preflight", vec![Expectation::ClusterHealthy { cluster: None }]),
            without_commit("backup", vec![Expectation::BackupTaken]),
        ];
        all.extend(stages);
        let verified = VerifiedExpectation {
            before: None,
            cluster: None,
            version: None,
            kubelet_versions: KubeletVersions::WhenReported,
            leftovers: Vec::new(),
        };
        all.push(without_commit("verify", vec![Expectation::Verified(verified)]));
        plan(PlanInput {
            cluster: NAMES[cluster].parse().unwrap(),
            role: if cluster == 0 { ClusterRole::Management } else { ClusterRole::Workload },
            source: format!("{target:040x}").parse().unwrap(),
            deployed: tree(own.deployed),
            target: tree([target; 3]),
            stages: all,
            skew: SkewFacts {
                control_plane: Some(VersionStep { deployed: Some("1.30".into()), target: "1.30".into() }),
                ..SkewFacts::default()
            },
            policy: PlanPolicy::default(),
            blocked: Vec::new(),
            warnings: Vec::new(),
            ledger: own.ledger.clone(),
        })
    }

    fn is_running(&self, cluster: usize) -> bool {
        self.clusters[cluster].ledger.as_ref().is_some_and(|ledger| ledger.state == LedgerState::Running)
    }

    pub fn world(&self, cluster: usize) -> World {
        let own = &self.clusters[cluster];
        let plan = self.plan(cluster, own.target);
        let running = own.ledger.as_ref().filter(|_| self.is_running(cluster) && !plan.running);
        let running = running.map(|ledger| self.plan(cluster, if ledger.target == tree([2; 3]) { 2 } else { 3 }));
        let prerequisites = (cluster == 1).then(|| Prerequisite {
            cluster: NAMES[0].parse().unwrap(),
            met: self.clusters[0].deployed == [self.clusters[0].target; 3] && !self.is_running(0),
            state: "not finished".into(),
        });
        World {
            plan,
            running,
            ledger: own.ledger.clone(),
            deploy: DeployHead::clone(&self.deploy),
            observation: own.observation.clone(),
            history: own.history.clone(),
            paused: own.paused.then(|| Pause { place: "stepgate.yaml".into(), reason: None }),
            foreign_change: own.foreign.then(|| ForeignChange { commit: None, author: None, paths: Vec::new() }),
            prerequisites: prerequisites.into_iter().collect(),
            approvals: Vec::new(),
            people: rollout::People::default(),
        }
    }

    pub fn step(&self, cluster: usize) -> Vec<Effect> {
        step(&self.world(cluster), time(self.now))
    }

    /// What a reader sees of a cluster whose Flux has applied so many commits and in which these versions run.
    fn content(&self, cluster: usize, applied: usize, actual: Versions) -> Observation {
        let mut seen = Observation::empty(time(self.now));
        let revision =
            applied.checked_sub(1).and_then(|index| self.deploy.commits.get(index)).map(|commit| commit.id.clone());
        let declared = applied.checked_sub(1).map_or([1; 3], |index| self.trees[index][cluster]);
        seen.flux.kustomizations.push(FluxKustomization {
            namespace: "flux-system".into(),
            name: "cluster".into(),
            source: None,
            source_namespace: None,
            generation: 1,
            observed_generation: Some(1),
            suspended: false,
            reconcile_disabled: false,
            suspended_by: None,
            ready: conditions([("Ready", ConditionStatus::True)]).remove("Ready"),
            last_applied_revision: revision.clone(),
            last_attempted_revision: revision,
            ready_since: None,
        });
        for ((name, declared), actual) in STAGES[cluster].iter().zip(declared).zip(actual) {
            match *name {
                "control-plane" => add_control_plane(&mut seen, declared, actual),
                "workers/md-0" => add_workers(&mut seen, declared, actual),
                name => add_deployment(&mut seen, name, declared, actual),
            }
        }
        seen.backup.clone_from(&self.clusters[cluster].backup);
        seen
    }

    fn observe(&mut self, cluster: usize, observation: Observation) {
        self.own(cluster).observation = Some(observation);
        self.own(cluster).history = record(&self.world(cluster), time(self.now));
    }

    fn settle(&mut self, cluster: usize) {
        let own = &self.clusters[cluster];
        let complete = own.applied >= self.last_stage_commit(cluster).map_or(0, |(index, _)| index + 1)
            && own.actual == own.deployed;
        let now = self.now;
        let own = self.own(cluster);
        own.settled_at = if complete { own.settled_at.or(Some(now)) } else { None };
    }

    /// The state after an action; none where it is not possible. `decided` is what the cluster's step says in this state.
    pub fn after(&self, cluster: usize, action: Action, decided: &[Effect]) -> Option<Self> {
        if action.is_fault() && self.faults_left == 0 {
            return None;
        }
        let own = &self.clusters[cluster];
        let commits = self.deploy.commits.len();
        let is_possible = match action {
            Action::FluxApplies => own.applied < commits,
            Action::RollsOut => !own.broken,
            Action::Decide => own.pending.is_none(),
            Action::Push | Action::PushWithLostAnswer => own.pending.is_some(),
            Action::Repair => own.broken,
            Action::Break => !own.broken,
            Action::Resume => own.paused,
            Action::Pause => !own.paused,
            Action::PersonReverts => own.foreign,
            Action::PersonCommits => !own.foreign,
            Action::StaleRead => own.lagging != (own.applied, own.actual),
            Action::Crash => own.observation.is_some() || own.pending.is_some(),
            Action::NewTarget => own.target == 2,
            Action::Read | Action::Unreachable | Action::Unconfirmed | Action::SkewedRead => true,
            Action::Late | Action::SomebodyElsewhereCommits => true,
        };
        if !is_possible {
            return None;
        }
        let mut next = self.clone();
        next.faults_left -= u8::from(action.is_fault());
        next.now += 1;
        match action {
            Action::FluxApplies => {
                next.own(cluster).lagging = (own.applied, own.actual);
                next.own(cluster).applied = self.deploy.commits.len();
            }
            Action::RollsOut => {
                let declared = own.applied.checked_sub(1).map_or([1; 3], |index| self.trees[index][cluster]);
                let stage = (0..3).find(|stage| declared[*stage] != own.actual[*stage])?;
                next.own(cluster).lagging = (own.applied, own.actual);
                next.own(cluster).actual[stage] = declared[stage];
            }
            Action::Read => next.observe(cluster, next.content(cluster, own.applied, own.actual)),
            Action::Unconfirmed => {
                next.observe(
                    cluster,
                    Observation { confirmed: false, ..next.content(cluster, own.applied, own.actual) },
                );
            }
            Action::StaleRead => {
                let (applied, actual) = own.lagging;
                next.observe(cluster, next.content(cluster, applied, actual));
            }
            Action::SkewedRead => {
                let read_at = time(next.now + 100);
                next.observe(cluster, Observation { read_at, ..next.content(cluster, own.applied, own.actual) });
            }
            Action::Unreachable => {
                let reachable = Reachability::Unreachable { reason: "connection refused".into() };
                next.observe(cluster, Observation { reachable, ..Observation::empty(time(next.now)) });
            }
            Action::Decide => next.decide(cluster, decided)?,
            Action::Push => next.push(cluster, false)?,
            Action::PushWithLostAnswer => next.push(cluster, true)?,
            Action::Crash => {
                next.own(cluster).observation = None;
                next.own(cluster).history = GateHistory::default();
                next.own(cluster).pending = None;
            }
            Action::Break => next.own(cluster).broken = true,
            Action::Repair => next.own(cluster).broken = false,
            Action::Pause => next.own(cluster).paused = true,
            Action::Resume => next.own(cluster).paused = false,
            Action::PersonCommits => next.own(cluster).foreign = true,
            Action::PersonReverts => next.own(cluster).foreign = false,
            Action::Late => next.now += LATE,
            Action::SomebodyElsewhereCommits => next.append(None),
            Action::NewTarget => next.own(cluster).target = 3,
        }
        next.settle(cluster);
        Some(next)
    }

    /// Decides and carries out at once what cannot conflict; a commit is kept to be pushed later, when the branch may have moved.
    fn decide(&mut self, cluster: usize, decided: &[Effect]) -> Option<()> {
        let mut changed = false;
        for effect in decided {
            match effect {
                Effect::Backup { rollout, .. } => {
                    let report = BackupReport {
                        rollout: rollout.clone(),
                        taken_at: time(self.now),
                        objects: 1,
                        read_back: true,
                        location: "backups/1".into(),
                    };
                    self.own(cluster).backup = Some(report);
                    changed = true;
                }
                effect @ (Effect::Commit(_) | Effect::Revert(_) | Effect::Close(_)) => {
                    self.own(cluster).pending = Some(effect.clone());
                    changed = true;
                }
                Effect::Observe { .. }
                | Effect::RequestApproval(_)
                | Effect::Wait { .. }
                | Effect::Hold { .. }
                | Effect::Blocked { .. }
                | Effect::Done => {}
            }
        }
        changed.then_some(())
    }

    /// Compare and swap: a commit whose parent is no longer the head is dropped.
    fn push(&mut self, cluster: usize, answer_is_lost: bool) -> Option<()> {
        let pending = self.clusters[cluster].pending.clone()?;
        if !answer_is_lost {
            self.own(cluster).pending = None;
        }
        match &pending {
            Effect::Commit(commit) | Effect::Revert(commit) if commit.parent == self.head() => {
                let name = commit.stage.to_string();
                let stage = STAGES[cluster].iter().position(|stage| *stage == name).unwrap();
                let version = (1..=3).find(|version| digest(&name, *version) == commit.after).unwrap();
                self.own(cluster).deployed[stage] = version;
                let trailer = StageTrailer {
                    cluster: commit.cluster.clone(),
                    rollout: commit.rollout.clone(),
                    stage: commit.stage.clone(),
                };
                self.append(Some(trailer));
                let deployed = tree(self.clusters[cluster].deployed);
                self.own(cluster).ledger = Some(commit.ledger.clone().with_tree(deployed));
                self.own(cluster).settled_at = None;
            }
            Effect::Close(close) if close.parent == self.head() => {
                self.append(None);
                self.own(cluster).ledger = Some(close.ledger.clone());
            }
            _ => {}
        }
        Some(())
    }

    /// The commit that [`Action::Push`] would make now, with what the oracle knows about it.
    pub fn about_to_commit(&self, cluster: usize) -> Option<(&Effect, Option<i64>)> {
        let own = &self.clusters[cluster];
        let pending = own.pending.as_ref()?;
        let parent = match pending {
            Effect::Commit(commit) | Effect::Revert(commit) => &commit.parent,
            Effect::Close(close) => &close.parent,
            _ => return None,
        };
        (parent == &self.head()).then_some((pending, own.settled_at))
    }

    pub fn seconds(at: Timestamp) -> i64 {
        at.as_second() - 10_000_000
    }

    pub fn stage_position(cluster: usize, stage: &StageId) -> usize {
        STAGES[cluster].iter().position(|name| *name == stage.to_string()).unwrap()
    }

    pub fn is_finished(&self, decisions: &[Vec<Effect>; 2]) -> bool {
        self.clusters
            .iter()
            .all(|own| own.deployed == [own.target; 3] && own.actual == own.deployed && own.pending.is_none())
            && decisions.iter().all(|effects| effects == &[Effect::Done])
    }
}
