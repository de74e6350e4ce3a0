//! Clusters that take long to answer, or do not answer at all, beside others that answer at once.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{self, Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use cluster::kubernetes::{ChangeScope, Changes};
use cluster::{ApplyReport, ApplyRequest, BackupRequest, Cluster, ClusterError, DumpRequest, KeptDump, ObserveRequest};
use futures::FutureExt as _;
use futures::executor::block_on;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use overlays::ClusterSpec;
use rollout::{BackupReport, Observation, Reachability};
use rollout::{FluxReference, MarkChange};
use stepgate::reconcile::clusters::access::Clusters;
use stepgate::reconcile::main_loop::clock::{Clock, VirtualClock};
use stepgate::reconcile::{Controller, ReconcileLoop, ReconcileReport};
use stepgate::simulation::SimulatedFleet;

use crate::approvals::Git;
use crate::fleet::{CLUSTERS, Fleet, assert_no_stage_twice, is_done, outcome, told};
use crate::stopped::assert_same_end;

/// After this time a request to an API server that stands still has failed.
const TIMEOUT: SignedDuration = SignedDuration::from_secs(10);

/// What is said of such a cluster then.
const SILENT: &str = "no answer within 10 s";

/// What is said of a cluster before it has answered for the first time.
const NOT_YET: &str = "the cluster has not answered yet";

/// How long a pass may be held up by one cluster.
const PATIENCE: SignedDuration = SignedDuration::from_secs(1);

/// Clusters that answer late, or not at all.
#[derive(Clone)]
struct Slow {
    inner: Arc<SimulatedFleet>,
    clock: VirtualClock,
    changes: Arc<Changes>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// How long each takes to answer; the others answer at once.
    takes: BTreeMap<&'static str, SignedDuration>,
    /// The clusters that are being read.
    reading: BTreeSet<String>,
    /// How often each was read.
    read: BTreeMap<String, usize>,
    /// How long a dump of any of them takes.
    dump_takes: SignedDuration,
    /// How often a dump of each was begun, and how often each heard of a commit.
    dumped: BTreeMap<String, usize>,
    told: BTreeMap<String, usize>,
}

impl Slow {
    fn of(fleet: &Fleet, takes: &[(&'static str, SignedDuration)]) -> Self {
        let state = State { takes: takes.iter().copied().collect(), ..State::default() };
        Self {
            inner: Arc::clone(&fleet.simulated),
            clock: fleet.clock.clone(),
            changes: Arc::default(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn controller(&self, fleet: &Fleet) -> Controller {
        // One place: whoever is waited for holds up everybody else.
        Controller::new(fleet.planner(), Arc::new(self.clone()), Arc::new(fleet.clock.clone()), 1)
    }

    fn now_takes(&self, cluster: &'static str, takes: SignedDuration) {
        self.state.lock().unwrap().takes.insert(cluster, takes);
    }

    fn read(&self, cluster: &str) -> usize {
        self.state.lock().unwrap().read.get(cluster).copied().unwrap_or_default()
    }

    fn dumped(&self, cluster: &str) -> usize {
        self.state.lock().unwrap().dumped.get(cluster).copied().unwrap_or_default()
    }

    fn told(&self, cluster: &str) -> usize {
        self.state.lock().unwrap().told.get(cluster).copied().unwrap_or_default()
    }
}

impl Clusters for Slow {
    fn cluster(&self, cluster: &ClusterSpec) -> Arc<dyn Cluster> {
        Arc::new(SlowCluster { name: cluster.name.clone(), inner: self.inner.cluster(cluster), slow: self.clone() })
    }

    fn changes(&self) -> Option<&Changes> {
        Some(&self.changes)
    }
}

struct SlowCluster {
    name: String,
    inner: Arc<dyn Cluster>,
    slow: Slow,
}

impl SlowCluster {
    /// Whether it answers, once it has or nobody waits any longer.
    async fn answers(&self) -> bool {
        let takes = self.slow.state.lock().unwrap().takes.get(self.name.as_str()).copied().unwrap_or_default();
        self.answers_after(takes).await
    }

    async fn answers_after(&self, takes: SignedDuration) -> bool {
        let until = self.slow.clock.now() + takes.min(TIMEOUT);
        poll_fn(|context| {
            if self.slow.clock.now() >= until {
                return Poll::Ready(takes < TIMEOUT);
            }
            // The clock does not tell when it moves.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

/// A reading that is under way, until it is dropped.
struct Reading<'a>(&'a SlowCluster);

impl<'a> Reading<'a> {
    fn begin(cluster: &'a SlowCluster) -> Self {
        let is_first = cluster.slow.state.lock().unwrap().reading.insert(cluster.name.clone());
        assert!(is_first, "{} is read twice at once", cluster.name);
        Self(cluster)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.slow.state.lock().unwrap().reading.remove(&self.0.name);
    }
}

impl Cluster for SlowCluster {
    fn observe<'a>(&'a self, request: &'a ObserveRequest) -> BoxFuture<'a, Observation> {
        // It tells what was so when it was asked.
        let observation = self.inner.observe(request);
        Box::pin(async move {
            let reading = Reading::begin(self);
            let answers = self.answers().await;
            *self.slow.state.lock().unwrap().read.entry(self.name.clone()).or_default() += 1;
            drop(reading);
            if answers {
                return observation.await;
            }
            let reachable = Reachability::Unreachable { reason: SILENT.to_owned() };
            Observation { reachable, ..Observation::empty(self.slow.clock.now()) }
        })
    }

    fn keep_dump<'a>(&'a self, request: &'a DumpRequest<'a>) -> BoxFuture<'a, Result<KeptDump, ClusterError>> {
        Box::pin(async move {
            let takes = {
                let mut state = self.slow.state.lock().unwrap();
                *state.dumped.entry(self.name.clone()).or_default() += 1;
                state.dump_takes
            };
            self.answers_after(takes).await;
            self.inner.keep_dump(request).await
        })
    }

    fn back_up<'a>(&'a self, request: &'a BackupRequest) -> BoxFuture<'a, Result<BackupReport, ClusterError>> {
        Box::pin(async move {
            if !self.answers().await {
                return Err(ClusterError::Simulated(SILENT));
            }
            self.inner.back_up(request).await
        })
    }

    fn order_machines<'a>(
        &'a self,
        changes: &'a [MarkChange],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.inner.order_machines(changes, at)
    }

    fn nudge<'a>(
        &'a self,
        kustomizations: &'a [FluxReference],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            *self.slow.state.lock().unwrap().told.entry(self.name.clone()).or_default() += 1;
            if !self.answers().await {
                return Err(ClusterError::Simulated(SILENT));
            }
            self.inner.nudge(kustomizations, at).await
        })
    }

    fn apply<'a>(
        &'a self,
        request: &'a ApplyRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<ApplyReport, ClusterError>> {
        self.inner.apply(request, at)
    }
}

/// Makes a pass; the clusters hear of what it pushed.
fn next(fleet: &Fleet, passes: &mut ReconcileLoop<'_>) -> Arc<ReconcileReport> {
    let pass = block_on(passes.next()).unwrap();
    fleet.follow();
    pass
}

/// Passes until one of them is what is wanted.
#[track_caller]
fn run_until(
    fleet: &Fleet,
    passes: &mut ReconcileLoop<'_>,
    mut wanted: impl FnMut(&ReconcileReport) -> bool,
) -> Arc<ReconcileReport> {
    for _ in 0..20_000 {
        let pass = next(fleet, passes);
        if wanted(&pass) {
            return pass;
        }
        let head = fleet.head();
        fleet.wait(Some(&pass));
        // Whoever answers between two passes has done nothing more than that.
        let _ = passes.changed().now_or_never();
        assert_eq!(fleet.head(), head);
    }
    panic!("it goes on for ever: {}", told(&next(fleet, passes)));
}

/// When each stage of these clusters was committed, until they are done.
fn committed_at(
    fleet: &Fleet,
    passes: &mut ReconcileLoop<'_>,
    clusters: &[&str],
) -> BTreeMap<(String, String), SignedDuration> {
    let start = fleet.clock_now();
    let mut committed = BTreeMap::new();
    run_until(fleet, passes, |pass| {
        for cluster in &pass.clusters {
            for stage in &cluster.committed {
                let key = (cluster.cluster.clone(), stage.stage.to_string());
                committed.insert(key, fleet.clock_now().duration_since(start));
            }
        }
        clusters.iter().all(|cluster| outcome(pass, cluster).word() == "done")
    });
    committed
}

#[test]
fn a_cluster_that_does_not_answer_holds_up_no_other() {
    let others = ["mgmt", "team-b"];
    let undisturbed = {
        let fleet = Fleet::new();
        fleet.bump();
        let controller = Slow::of(&fleet, &[]).controller(&fleet);
        committed_at(&fleet, &mut controller.passes(), &others)
    };
    let fleet = Fleet::new();
    fleet.bump();
    let controller = Slow::of(&fleet, &[("team-a", SignedDuration::MAX)]).controller(&fleet);
    let mut passes = controller.passes();
    let committed = committed_at(&fleet, &mut passes, &others);
    assert!(committed.len() > 10, "{committed:?}");
    for (stage, at) in &committed {
        let late = *at - undisturbed[stage];
        assert!(late < TIMEOUT / 2, "{stage:?} is committed {late:?} later");
    }
    let said = |pass: &ReconcileReport| (outcome(pass, "team-a").word(), outcome(pass, "team-a").message());
    run_until(&fleet, &mut passes, |pass| {
        let (word, message) = said(pass);
        word == "waiting" && message.contains(SILENT)
    });
    assert!(fleet.stages("team-a").is_empty());
    assert_no_stage_twice(&fleet);
}

#[test]
fn clusters_that_take_longer_than_a_pass_waits_come_to_the_same_end() {
    let fleet = Fleet::new();
    fleet.bump();
    let takes = CLUSTERS.map(|cluster| (cluster, PATIENCE * 3));
    let controller = Slow::of(&fleet, &takes).controller(&fleet);
    run_until(&fleet, &mut controller.passes(), is_done);
    assert_same_end(&fleet);
}

#[test]
fn what_changes_while_a_cluster_is_read_is_decided_on_before_it_is_read_again() {
    let fleet = Fleet::new();
    fleet.bump();
    let slow = Slow::of(&fleet, &[("mgmt", PATIENCE * 3)]);
    let controller = slow.controller(&fleet);
    let mut passes = controller.passes();
    let said = |pass: &ReconcileReport| outcome(pass, "mgmt").message();
    assert_eq!(said(&next(&fleet, &mut passes)), NOT_YET);
    assert!(passes.changed().now_or_never().is_none());

    // It is not asked twice at once, and nothing wakes anybody meanwhile.
    slow.changes.note("mgmt", ChangeScope::More);
    assert!(passes.changed().now_or_never().is_some());
    assert_eq!(said(&next(&fleet, &mut passes)), NOT_YET);
    assert!(passes.changed().now_or_never().is_none());
    assert_eq!(slow.read("mgmt"), 0);

    fleet.clock.advance(PATIENCE * 3);
    assert!(passes.changed().now_or_never().is_some());
    assert_eq!(slow.read("mgmt"), 1);
    assert_ne!(said(&next(&fleet, &mut passes)), NOT_YET);

    // That counted; what has changed since it was begun to be read is told once more.
    assert!(passes.changed().now_or_never().is_some());
    next(&fleet, &mut passes);
    fleet.clock.advance(PATIENCE * 3);
    assert!(passes.changed().now_or_never().is_some());
    assert_eq!(slow.read("mgmt"), 2);
}

/// The pass has gone on by then: a later visit would begin behind everything else.
#[test]
fn flux_is_told_of_a_commit_by_the_work_that_made_it() {
    let fleet = Fleet::new();
    fleet.bump();
    let slow = Slow::of(&fleet, &[]);
    slow.state.lock().unwrap().dump_takes = PATIENCE * 3;
    let controller = slow.controller(&fleet);
    let mut passes = controller.passes();
    // The management cluster begins; before the first commit of its rollout a dump is taken.
    run_until(&fleet, &mut passes, |_| slow.dumped("mgmt") == 1);
    assert!(fleet.stages("mgmt").is_empty());
    let told = slow.told("mgmt");

    fleet.clock.advance(PATIENCE * 3);
    assert!(passes.changed().now_or_never().is_some());
    assert_eq!(fleet.stages("mgmt").len(), 1);
    assert_eq!(slow.told("mgmt"), told + 1);

    // The next visit has nothing to tell.
    next(&fleet, &mut passes);
    assert!(slow.read("mgmt") > 0);
    assert_eq!((fleet.stages("mgmt").len(), slow.told("mgmt")), (1, told + 1));
}

/// What a glance sees is for its own pass alone, which has gone on by then.
#[test]
fn a_glance_that_takes_too_long_is_followed_by_a_reading_of_everything() {
    let fleet = Fleet::new();
    fleet.bump();
    let slow = Slow::of(&fleet, &[]);
    let controller = slow.controller(&fleet);
    let mut passes = controller.passes();
    run_until(&fleet, &mut passes, |pass| {
        !fleet.stages("mgmt").is_empty() && outcome(pass, "mgmt").word() == "waiting"
    });
    slow.now_takes("mgmt", SignedDuration::MAX);
    slow.changes.note("mgmt", ChangeScope::Flux);
    let before = slow.read("mgmt");
    run_until(&fleet, &mut passes, |pass| outcome(pass, "mgmt").message().contains(SILENT));
    assert_eq!(slow.read("mgmt") - before, 2);
}

/// A clock that nobody's waiting moves.
struct Still(VirtualClock);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep_until(&self, time: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        if time <= self.now() { Box::pin(future::ready(())) } else { Box::pin(future::pending()) }
    }
}

#[test]
fn passes_go_on_after_one_that_was_left_in_the_middle() {
    let fleet = Fleet::new();
    fleet.bump();
    let slow = Slow::of(&fleet, &[("mgmt", PATIENCE * 3)]);
    let clock = Arc::new(Still(fleet.clock.clone()));
    let controller = Controller::new(fleet.planner(), Arc::new(slow.clone()), clock, 1);
    let mut passes = controller.passes();
    assert!(passes.next().now_or_never().is_none());
    // What was under way is nobody's any more: the cluster is asked anew.
    slow.now_takes("mgmt", SignedDuration::ZERO);
    run_until(&fleet, &mut passes, is_done);
    assert_same_end(&fleet);
}

/// What is proposed for a cluster that does not answer stays where it is.
#[test]
fn a_cluster_that_does_not_answer_stays_on_the_branch_on_which_people_are_asked() {
    let fleet = Fleet::with_policy(|text| text + "approval: stage\nclusters: {mgmt: {approval: none}}\n");
    fleet.bump();
    let slow = Slow::of(&fleet, &[]);
    let controller = slow.controller(&fleet);
    let mut passes = controller.passes();
    let asks =
        |pass: &ReconcileReport, cluster: &str| outcome(pass, cluster).message().contains("waits for approval: branch");
    run_until(&fleet, &mut passes, |pass| asks(pass, "team-a") && asks(pass, "team-b"));
    let asked = || {
        let git = Git::of(&fleet);
        let clusters = |id| git.parts(id).into_iter().map(|(cluster, _)| cluster).collect::<Vec<_>>();
        git.proposed().into_iter().map(|(_, id)| clusters(id)).collect::<Vec<_>>()
    };
    assert_eq!(asked(), [["team-a", "team-b"]]);
    slow.now_takes("team-a", SignedDuration::MAX);
    slow.changes.note("team-a", ChangeScope::More);
    let before = slow.read("team-b");
    for _ in 0..3 {
        let pass = next(&fleet, &mut passes);
        assert!(asks(&pass, "team-a") && asks(&pass, "team-b"), "{}", told(&pass));
        assert_eq!(asked(), [["team-a", "team-b"]]);
        slow.changes.note("team-b", ChangeScope::More);
    }
    assert!(slow.read("team-b") > before);
}
