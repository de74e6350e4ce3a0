//! The loop: assemble a `World` for each cluster, ask `rollout::step`, carry out the effects.
//!
//! Architecture Invariant: nothing here decides. What is next comes from `step`; this folder reads, commits, pushes and waits.

pub mod actions;
pub mod announce;
pub mod cache;
pub mod clusters;
pub mod effects;
pub mod main_loop;
pub mod observe;
pub mod people;
pub mod planner;
pub mod proposal;
pub mod updates;
pub mod waves;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use domain::Problem;
use domain::{ClusterName, CommitId, PlanDigest};
use jiff::Timestamp;
use overlays::ClusterSpec;
use rollout::{Decision, FastPath, GateHistory, Reachability};

pub use main_loop::reconcile_loop::ReconcileLoop;
pub use main_loop::report::{ClosedStage, ClusterOutcome, ClusterPass, CommittedStage, ReconcileReport};

use cache::cached_decision::CachedDecision;
use cache::inputs::Inputs;
use clusters::access::Clusters;
use main_loop::clock::Clock;
use observe::final_health::FinalHealth;
use observe::observation_cache::Weighed;
use planner::{ClusterView, FleetReading, Planner};
use planning::DirectoryIds;
use planning::progress::{self, ClusterProgress, FleetProgress, WaveProgress};
use proposal::{Mergers, OpenOnes, SaidBelow, Shown};

use cluster::ClusterReference;
use cluster::kubernetes::ChangeScope;
use domain::BranchName;
use git::{GitError, Heads};
use host::memory::{Account, Charge, Part};

/// What the controller remembers of a cluster between passes. Losing it costs time, never correctness.
#[derive(Clone, Debug, Default)]
struct Memory {
    /// Which cluster was looked at.
    reference: Option<ClusterReference>,
    history: GateHistory,
    /// What was read of it last, and whether prechecks may be enough.
    fast_path: FastPath,
    /// The directory as it was on the deploy branch then.
    read: Option<DirectoryIds>,
    /// What of them was found to take how much memory.
    weighed: Option<Weighed>,
    /// Whether the last pass has left the cluster held.
    held: bool,
    /// Whether it could be reached when it was read last.
    reachable: Option<Reachability>,
    view: Option<KnownView>,
    /// What the cluster was done at, with nothing left to do.
    done: Option<StateKey>,
    /// What Flux makes of it since then; none where Flux is not asked.
    final_health: Option<FinalHealth>,
    /// Where a cluster of Tanzu stood when it was read last.
    tanzu: Option<rollout::TanzuStanding>,
    /// What the last pass came to, where that was to wait.
    resting: Option<Arc<CachedDecision>>,
    /// The directory that was last applied without Flux.
    applied: Option<DirectoryIds>,
    /// The directory that Flux was last told of.
    told: Option<DirectoryIds>,
    /// Who merged what, as the forge said.
    mergers: Mergers,
    /// The proposed commit that was found to be the one that Stepgate makes for this plan.
    proposed: Option<(CommitId, PlanDigest)>,
    /// What went with a branch that was withdrawn, for whoever looks at the next proposal there.
    lost: Option<(BranchName, Vec<String>)>,
}

impl Memory {
    /// Another cluster is meant by now: nothing that was read of the one before, or done to it, says anything.
    fn forget_cluster(&mut self) {
        (self.history, self.applied, self.told) = (GateHistory::default(), None, None);
        self.forget_reading(None);
    }

    /// What was read says nothing any more. Prechecks may be enough until then.
    fn forget_reading(&mut self, until: Option<Timestamp>) {
        self.fast_path = FastPath::nothing(until);
        (self.read, self.weighed) = (None, None);
    }
}

/// A view that is remembered, with what it follows from and the memory that it takes.
#[derive(Clone, Debug)]
struct KnownView {
    key: ViewKey,
    view: Arc<ClusterView>,
    /// When time alone makes its plans others: EKS takes the control plane back no more.
    until: Option<Timestamp>,
    /// There is no room for it: it was made for the turn of its cluster alone.
    is_for_its_turn: bool,
    _charge: Arc<Charge>,
}

impl KnownView {
    /// Whether its plans are still what they were when it was made.
    fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// What git says of a cluster, by digests: while it stays, a cluster that is done is done, and its plan is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StateKey {
    inputs: Inputs,
    directory: DirectoryIds,
    /// EKS Anywhere versions that the rules on skew look at: all for a management cluster, else its manager's.
    eksa: Eksa,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Eksa {
    Fleet(Arc<BTreeMap<ClusterName, String>>),
    Manager(Option<String>),
}

/// What a view follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ViewKey {
    state: StateKey,
    source: CommitId,
    deploy: Option<CommitId>,
}

/// Carries the rollouts of a fleet through. Two of them may run at once: the deploy branch moves by compare-and-swap only.
pub struct Controller {
    planner: Planner,
    clusters: Arc<dyn Clusters>,
    clock: Arc<dyn Clock>,
    concurrency: usize,
    /// The one cluster that it works on, as if all others were done; none where it works on every one.
    only: Option<ClusterName>,
    memory: Mutex<BTreeMap<ClusterName, Memory>>,
    /// What views take.
    views: Arc<Account>,
    /// What readings take.
    readings: Arc<Account>,
    standings: Mutex<FleetProgress>,
    /// The fleet as it was read last, and the memory that it takes beside what is remembered of commits: of what views may take.
    reading: Mutex<Option<(FleetReading, Charge)>>,
    settled: Mutex<Option<Settled>>,
    /// The head of the deploy branch before the first pass, once announcements were asked for.
    first_head: OnceLock<Option<CommitId>>,
    /// What people were last shown on the forge of each proposed branch, or why they could not be.
    shown: Mutex<BTreeMap<BranchName, Shown>>,
    /// What was last said below pull requests that people have merged.
    said_below: Mutex<SaidBelow>,
    open_pulls: Mutex<OpenOnes>,
    /// One writer at a time in this process. Whoever has the turn decides at the newest head, so that nobody's commit is in
    /// vain, and no two clusters take one place of a wave.
    writing: tokio::sync::Mutex<()>,
}

/// The fleet as the last pass saw it, for whoever tells of it.
#[derive(Clone)]
pub struct FleetView {
    /// Both branches.
    pub reading: FleetReading,
    /// The views that are at hand, by cluster.
    pub views: BTreeMap<String, Arc<ClusterView>>,
}

/// The heads at which every cluster was done: while they stay, a pass reads two refs and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settled {
    heads: Heads,
    /// When clusters are looked at again although nothing was pushed.
    until: Option<Timestamp>,
    pass: Arc<ReconcileReport>,
}

impl Controller {
    /// A controller for the planner's fleet, that works on at most `concurrency` clusters at once.
    pub fn new(planner: Planner, clusters: Arc<dyn Clusters>, clock: Arc<dyn Clock>, concurrency: usize) -> Self {
        Self {
            planner: planner.with_clock(Arc::clone(&clock)),
            clusters,
            clock,
            concurrency: concurrency.max(1),
            only: None,
            memory: Mutex::default(),
            views: Account::new(Part::Views),
            readings: Account::new(Part::Readings),
            standings: Mutex::default(),
            reading: Mutex::default(),
            settled: Mutex::default(),
            first_head: OnceLock::new(),
            shown: Mutex::default(),
            said_below: Mutex::default(),
            open_pulls: Mutex::default(),
            writing: tokio::sync::Mutex::new(()),
        }
    }

    /// The same, with room for so many bytes of views and of readings each, instead of their parts of the limit.
    #[must_use]
    pub fn with_room_for(self, bytes: usize) -> Self {
        Self { views: Account::of(bytes), readings: Account::of(bytes), ..self }
    }

    /// The same for one cluster alone, as if all others were done.
    #[must_use]
    pub fn only(self, cluster: ClusterName) -> Self {
        Self { only: Some(cluster), ..self }
    }

    fn works_on(&self, cluster: &ClusterSpec) -> bool {
        self.only.as_ref().is_none_or(|only| only.as_str() == cluster.name)
    }

    /// How many bytes views count with, and what was read of clusters.
    pub fn remembered_bytes(&self) -> [usize; 2] {
        [self.views.taken(), self.readings.taken()]
    }

    /// Returns when a cluster has changed, as far as clusters tell; else never.
    pub async fn changed(&self) {
        match self.clusters.changes() {
            Some(changes) => changes.changed().await,
            None => std::future::pending().await,
        }
    }

    /// What was read of a cluster that has changed since is not worth keeping: it is read again now.
    fn forget(&self, cluster: &str, extent: ChangeScope) {
        let Ok(name) = cluster.parse::<ClusterName>() else { return };
        let now = self.clock.now();
        let mut is_done = false;
        self.remember(&name, |memory| {
            if let Some(final_health) = &mut memory.final_health {
                final_health.look_again(now);
                is_done = true;
            }
            // Flux tells of every cluster after each commit. Whoever waits for its turn is read when that has come.
            let rests_on = match extent {
                ChangeScope::Failure => true,
                ChangeScope::Flux => memory.resting.as_ref().is_some_and(|resting| resting.waits_for_turn()),
                ChangeScope::Gate | ChangeScope::More => false,
            };
            if !rests_on {
                memory.resting = None;
            }
            match extent {
                ChangeScope::Failure => {}
                ChangeScope::Flux => memory.fast_path.flux_changed(now),
                ChangeScope::Gate => memory.fast_path.gate_changed(now),
                ChangeScope::More => memory.forget_reading(None),
            }
        });
        if is_done {
            *self.settled.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Why none of the clusters that are at work can be reached; none where one can, or nothing is to be read of any.
    pub fn unreachable(&self) -> Option<String> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut why = None;
        for reachable in memory.values().filter_map(|memory| memory.reachable.as_ref()) {
            match reachable {
                Reachability::Unreachable { reason } => why = why.or_else(|| Some(reason.clone())),
                Reachability::Reachable => return None,
            }
        }
        why
    }

    /// The planner that it reads the fleet with.
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    fn memory(&self, cluster: &ClusterName) -> Memory {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).get(cluster).cloned().unwrap_or_default()
    }

    fn remember(&self, cluster: &ClusterName, change: impl FnOnce(&mut Memory)) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        change(memory.entry(cluster.clone()).or_default());
    }

    fn standings(&self) -> MutexGuard<'_, FleetProgress> {
        self.standings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fleet as the last pass saw it; none before the first one.
    pub fn fleet_view(&self) -> Option<FleetView> {
        let reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.0.clone();
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let views = memory
            .iter()
            .filter_map(|(name, memory)| Some((name.to_string(), Arc::clone(&memory.view.as_ref()?.view))));
        Some(FleetView { reading, views: views.collect() })
    }

    /// What keeps every cluster from being planned, as the source branch was read last: nothing new begins before it is repaired.
    pub fn errors(&self) -> Vec<Problem> {
        let reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        reading.iter().flat_map(|(reading, _)| reading.fleet.errors_of_everybody()).cloned().collect()
    }

    fn stands(&self, cluster: &ClusterName, standing: ClusterProgress) {
        self.standings().note(cluster, standing);
    }

    /// What was decided of a cluster, for the others of its wave; none where it could not be decided about.
    fn decided(&self, reading: &FleetReading, cluster: &ClusterName, decision: Option<Decision>) {
        if reading.fleet.policy.waves.is_empty() {
            return;
        }
        match decision {
            Some(decision) => self.standings().decide(cluster, reading.source_commit(), decision),
            None => self.standings().give_up(cluster, reading.source_commit()),
        }
    }

    /// Where each wave stands.
    fn waves(&self, reading: &FleetReading) -> Vec<WaveProgress> {
        let mut standings = self.standings();
        standings.hear(&reading.wave_words);
        progress::waves(&reading.fleet, &standings, reading.source_commit(), self.clock.now())
    }

    /// The clusters whose rollout is on the way, and takes a place of its wave.
    fn underway(&self, reading: &FleetReading) -> BTreeSet<ClusterName> {
        progress::underway(&reading.fleet, &self.standings(), reading.source_commit(), self.clock.now())
    }

    /// Both branches at these heads. The source commit is parsed only when it moved.
    fn read(&self, heads: &Heads) -> Result<FleetReading, GitError> {
        let last = {
            let last = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            last.as_ref().map(|(reading, _)| reading.clone())
        };
        let head = heads.get(self.planner.source_branch()).cloned().flatten();
        let reading = match last {
            Some(last) if head.as_ref() == Some(last.source_commit()) => {
                self.planner.read_deploy_at(last.source, heads)?
            }
            _ => self.planner.read_at(heads)?,
        };
        let kept = (reading.clone(), self.views.claim(reading.uncounted_bytes() + self.planner.uncounted_bytes()));
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        Ok(reading)
    }
}
