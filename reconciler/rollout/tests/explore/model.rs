//! Two clusters, three stages each, one deploy branch, and everything that can go wrong between them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use domain::{CommitId, RolloutId, TreeDigest};
use jiff::Timestamp;
use policy::{OnFailure, PlanPolicy, StagePolicy};
use rollout::{
    BackupReport, ChecksExpectation, ClusterRole, DeployCommit, DeployHead, Effect, Expectation, ForeignChange,
    GateHistory, KubeletVersions, Landed, Landing, Ledger, LedgerState, Observation, Pause, Plan, PlanInput,
    Prerequisite, SkewFacts, StageId, StageInput, StageRecordKind, StageTrailer, VerifiedExpectation, VersionStep,
    World, plan, step,
};

use super::pictures::expectations;

/// A time that no path of ordinary actions reaches, and that every deadline and every age lies below.
pub const LATE: i64 = 2_000_000;
const MAXIMUM_AGE: u64 = 10_000;
pub const TIMEOUT: u64 = 1_000_000;
/// How old a backup may be, in seconds.
pub const BACKUP_AGE: i64 = 24 * 60 * 60;

pub const NAMES: [&str; 2] = ["hub", "prod"];
pub const STAGES: [[&str; 3]; 2] = [["cert-manager", "capi", "eks-a"], ["cilium", "control-plane", "workers/md-0"]];
pub type Versions = [u8; 3];
pub type SettledAt = [Option<i64>; 3];
type PlanKey = (usize, u8, Versions, Option<(RolloutId, bool)>, Vec<(StageId, bool)>, bool);

/// Which policy the model runs under.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub on_failure: OnFailure,
    pub retries: u32,
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
    pub observation: Option<Arc<Observation>>,
    pub rest: Option<Arc<Observation>>,
    pub history: GateHistory,
    pub backup: Option<BackupReport>,
    /// What was decided and is not carried out yet.
    pub pending: Option<Effect>,
    /// Since when the first stage really runs as on the branch, the first two, and all three; the oracle.
    pub settled_at: SettledAt,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub rules: Rules,
    pub clusters: [Rc<Cluster>; 2],
    pub deploy: Arc<DeployHead>,
    /// For each commit, the versions of both clusters in it.
    pub trees: Rc<Vec<[Versions; 2]>>,
    pub now: i64,
    pub faults_left: u8,
}

pub fn time(second: i64) -> Timestamp {
    Timestamp::from_second(10_000_000 + second).unwrap()
}

pub fn digest(stage: &str, version: u8) -> TreeDigest {
    TreeDigest::of([stage.as_bytes(), &[version]])
}

pub fn tree(versions: Versions) -> TreeDigest {
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
            rest: None,
            history: GateHistory::default(),
            backup: None,
            pending: None,
            settled_at: [Some(0); 3],
        };
        let mut model = Self {
            rules,
            clusters: [Rc::new(cluster.clone()), Rc::new(cluster)],
            deploy: Arc::default(),
            trees: Rc::default(),
            now: 0,
            faults_left,
        };
        model.append(None);
        model
    }

    pub fn own(&mut self, cluster: usize) -> &mut Cluster {
        Rc::make_mut(&mut self.clusters[cluster])
    }

    pub fn append(&mut self, trailer: Option<StageTrailer>) {
        let id: CommitId = format!("{:040x}", self.deploy.lineage().len() + 1).parse().unwrap();
        Arc::make_mut(&mut self.deploy).push(DeployCommit {
            id,
            committed_at: time(self.now),
            landing: Landing::Pushed,
            trailer: trailer.map(Arc::new),
        });
        Rc::make_mut(&mut self.trees).push([self.clusters[0].deployed, self.clusters[1].deployed]);
    }

    pub fn head(&self) -> Option<CommitId> {
        self.deploy.commit().cloned()
    }

    /// The newest stage commit of a cluster's running rollout.
    pub fn last_stage_commit(&self, cluster: usize) -> Option<Landed<'_>> {
        let rollout = &self.clusters[cluster].ledger.as_ref()?.rollout;
        self.deploy.newest(|trailer| &trailer.rollout == rollout)
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
            uncounted_machines: false,
            render_error: None,
            carried_by: None,
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
            uncounted_machines: false,
            render_error: None,
            carried_by: None,
        };
        let mut all = vec![
            without_commit("preflight", vec![Expectation::ClusterHealthy { cluster: None }]),
            without_commit(
                "backup",
                vec![Expectation::BackupTaken { maximum_age: Duration::from_secs(BACKUP_AGE.unsigned_abs()) }],
            ),
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
            checks: ChecksExpectation::default(),
            blocked: Vec::new(),
            warnings: Vec::new(),
            ledger: own.ledger.clone(),
            rollback: None,
            eksctl: None,
            tanzu: None,
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
            plan: Arc::new(plan),
            running: running.map(Arc::new),
            ledger: own.ledger.clone().map(Arc::new),
            deploy: Arc::clone(&self.deploy),
            observation: own.observation.clone(),
            rest: own.rest.clone(),
            history: own.history.clone(),
            paused: own.paused.then(|| Pause { place: "stepgate.yaml".into(), reason: None, help: None, until: None }),
            unconfirmed: Vec::new(),
            foreign_change: own.foreign.then(|| ForeignChange { commit: None, author: None, paths: Vec::new() }),
            prerequisites: prerequisites.into_iter().collect(),
            wave: None,
            approvals: Vec::new(),
            people: rollout::People::default(),
        }
    }

    pub fn step(&self, cluster: usize) -> Vec<Effect> {
        step(&self.world(cluster), time(self.now))
    }

    /// The commit that [`Action::Push`](super::action::Action::Push) would make now, with what the oracle knows about it.
    pub fn about_to_commit(&self, cluster: usize) -> Option<(&Effect, &SettledAt)> {
        let own = &self.clusters[cluster];
        let pending = own.pending.as_ref()?;
        let parent = match pending {
            Effect::Commit(commit) | Effect::Revert(commit) => &commit.parent,
            Effect::Close(close) => &close.parent,
            _ => return None,
        };
        (parent == &self.head()).then_some((pending, &own.settled_at))
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
