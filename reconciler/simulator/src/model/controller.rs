//! The controller's loop around [`rollout::step`], with nothing in memory that could not be lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ClusterName, CommitId};
use jiff::{SignedDuration, Timestamp};
use policy::ControlPlaneGate;
use rollout::{
    Decision, Effect, EtcdAct, GateHistory, LedgerState, Prerequisite, StageCommit, World, plan, record, step,
};

use super::{
    ModelCluster, crash::Crash, defect::Defect, invariant, simulation::Simulation, violation::Violation, waves,
    waves::Decided,
};

/// How often a cluster is looked at when nothing else asks for it.
const POLL: SignedDuration = SignedDuration::from_secs(60);
/// How long after a commit, or a refused one, the controller looks again.
const SOON: SignedDuration = SignedDuration::from_millis(200);

/// What a controller decided for one cluster, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The cluster.
    pub cluster: ClusterName,
    /// When it was decided.
    pub at: Timestamp,
    /// What is to be done, in order.
    pub effects: Vec<Effect>,
}

/// One process. Everything it holds can be lost: a new one looks at git and the cluster and goes on.
#[derive(Debug, Clone)]
pub struct Controller {
    memories: BTreeMap<ClusterName, Memory>,
    defect: Option<Defect>,
}

#[derive(Debug, Clone)]
struct Memory {
    /// What the last decision looked at. Plans are made again only for another source or deploy head.
    world: Option<Remembered>,
    /// The reading that the last decision asked for, and whether it has to be fresh.
    read: Option<(Timestamp, bool)>,
    wakes_at: Timestamp,
    /// What was decided last, for the others of its wave.
    decided: Option<Decided>,
}

#[derive(Debug, Clone)]
struct Remembered {
    source: CommitId,
    head: CommitId,
    world: World,
}

impl Controller {
    /// A process that has just started.
    #[must_use]
    pub fn start(simulation: &Simulation) -> Self {
        let memory = Memory { world: None, read: None, wakes_at: simulation.now(), decided: None };
        let names = simulation.fleet().iter().map(|cluster| cluster.name().clone());
        Self { memories: names.map(|name| (name, memory.clone())).collect(), defect: None }
    }

    /// A process that does something wrong.
    #[must_use]
    pub fn start_with(simulation: &Simulation, defect: Defect) -> Self {
        Self { defect: Some(defect), ..Self::start(simulation) }
    }

    /// The process that takes its place, with nothing in memory.
    fn start_again(&mut self, simulation: &Simulation) {
        *self = Self { defect: self.defect, ..Self::start(simulation) };
    }

    /// When it looks at a cluster next.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.memories.values().map(|memory| memory.wakes_at).min()
    }

    /// It looks at every cluster at once: somebody pushed.
    pub fn wake(&mut self, at: Timestamp) {
        for memory in self.memories.values_mut() {
            memory.wakes_at = memory.wakes_at.min(at);
        }
    }

    /// Lets time pass to the next cluster's turn, reads it where that is due, and decides. None when there is no cluster.
    pub fn decide(&mut self, simulation: &mut Simulation) -> Option<Turn> {
        let (cluster, _) = self.memories.iter().min_by_key(|(_, memory)| memory.wakes_at)?;
        let cluster = cluster.clone();
        let now = self.memories.get(&cluster)?.wakes_at.max(simulation.now());
        simulation.advance(now);
        let known = |name: &ClusterName| self.memories.get(name).and_then(|memory| memory.decided.as_ref());
        let wave = waves::hold(simulation, &cluster, self.defect, known);
        let memory = self.memories.get_mut(&cluster)?;
        let due = memory.read.filter(|(at, _)| *at <= now);
        let observation = due.and_then(|(_, fresh)| {
            memory.read = None;
            let simulated = simulation.simulated(&cluster)?;
            Some(if fresh { simulated.observe_afresh(now) } else { simulated.observe(now) })
        });
        let read = observation.is_some();
        let world = memory.look(simulation, &cluster, self.defect == Some(Defect::TrustsItsMemory))?;
        if read {
            world.observation = observation.map(Arc::new);
            world.history = record(world, now);
        }
        if let (Some(defect), Some(described)) = (self.defect, simulation.cluster(&cluster)) {
            defect.distort(world, described, now, read);
        }
        world.wave = wave;
        let mut effects = step(world, now);
        if let Some(defect) = self.defect {
            defect.distort_effects(&mut effects, simulation.earlier_source(), now);
        }
        let decision = Decision::of(world, &effects, &[]);
        let decided = simulation.source().map(|source| source.id.clone()).zip(decision);
        if let Some((_, decision)) = &decided {
            simulation.found(&cluster, matches!(decision, Decision::Held { .. }));
        }
        if let Some(memory) = self.memories.get_mut(&cluster) {
            memory.decided = decided.or(memory.decided.take());
        }
        self.check(simulation, &cluster, &effects);
        Some(Turn { cluster, at: now, effects })
    }

    fn check(&self, simulation: &mut Simulation, cluster: &ClusterName, effects: &[Effect]) {
        let mut violations = invariant::check_reasons(cluster, effects);
        for effect in effects {
            if let Effect::Close(commit) = effect
                && commit.ledger.state == LedgerState::Done
            {
                let unfinished = unfinished(simulation, cluster, ControlPlaneGate::Whole);
                violations.extend(invariant::check_closing(cluster, &unfinished));
            }
            if let Effect::Commit(commit) | Effect::Revert(commit) = effect {
                let gate = simulation.cluster(cluster).map(ModelCluster::control_plane_gate).unwrap_or_default();
                let unfinished = unfinished(simulation, cluster, gate);
                violations.extend(invariant::check_commit(simulation, commit, &unfinished));
                if matches!(effect, Effect::Commit(_)) {
                    violations.extend(waves::check_commit(simulation, cluster));
                    violations.extend(check_turn(simulation, commit));
                }
            }
        }
        let upgrades = simulation.simulated(cluster).map(|known| known.upgrade_violations().to_vec());
        violations.extend(upgrades.into_iter().flatten().map(|found| Violation::new("in-place", found)));
        for violation in violations {
            simulation.report(violation);
        }
    }

    /// Carries out what was decided. `crash` is asked at each effect; a process that ends goes on as a new one, and the rest
    /// of the turn is lost.
    pub fn perform(
        &mut self,
        simulation: &mut Simulation,
        turn: &Turn,
        mut crash: impl FnMut(&Effect) -> Option<Crash>,
    ) {
        let mut wakes_at = turn.at + POLL;
        let mut pushed = false;
        for effect in &turn.effects {
            let crash = crash(effect);
            if crash == Some(Crash::Before) {
                self.start_again(simulation);
                return;
            }
            if self.defect.is_some_and(|defect| defect.drops(effect)) {
                continue;
            }
            let soonest = simulation.now() + SOON;
            let left = crash.map(|crash| crash.left_of(effect));
            match left.as_ref().unwrap_or(effect) {
                Effect::Observe { confirm, at } => {
                    if let Some(memory) = self.memories.get_mut(&turn.cluster) {
                        // A reading that was asked for at this very moment is made at once, unless there is one already.
                        let again = memory.read_at().is_some_and(|read_at| read_at >= *at);
                        let at = if again { soonest.max(*at) } else { *at };
                        memory.read = Some((at, *confirm));
                        wakes_at = wakes_at.min(at);
                    }
                }
                Effect::Wait { until, .. } => {
                    wakes_at = wakes_at.min(until.map_or(wakes_at, |until| until.max(soonest)));
                }
                Effect::Backup { cluster, rollout } => {
                    let now = simulation.now();
                    if let Some(simulated) = simulation.simulated(cluster) {
                        simulated.back_up(rollout, now);
                    }
                }
                Effect::Etcd(act) => {
                    let (now, EtcdAct::TakeBack { cluster, .. } | EtcdAct::Resume { cluster, .. }) =
                        (simulation.now(), act);
                    if let Some(simulated) = simulation.simulated(cluster) {
                        simulated.act_on_etcd(act, now);
                    }
                }
                Effect::Cluster(act) => {
                    let now = simulation.now();
                    if let Some(simulated) = simulation.simulated(&turn.cluster) {
                        simulated.act(act, now);
                    }
                }
                Effect::OrderMachines { changes } => {
                    let now = simulation.now();
                    if let Some(simulated) = simulation.simulated(&turn.cluster) {
                        simulated.order_machines(changes, now);
                    }
                }
                Effect::RequestApproval(request) => simulation.request_approval(request),
                // A lost race is no error: the next turn decides on the new head.
                Effect::Commit(commit) | Effect::Revert(commit) => {
                    let mut commit = commit.clone();
                    if self.defect == Some(Defect::RebasesItsCommits) {
                        commit.parent = simulation.branch().head().map(|head| head.id.clone());
                    }
                    pushed |= simulation.commit_stage(&commit).is_ok();
                    wakes_at = soonest;
                }
                Effect::Close(commit) => {
                    pushed |= simulation.commit_ledger(commit).is_ok();
                    wakes_at = soonest;
                }
                Effect::Hold { .. } | Effect::Blocked { .. } | Effect::Done => {}
            }
            match crash {
                Some(Crash::After | Crash::Within(_)) => {
                    self.start_again(simulation);
                    return;
                }
                Some(Crash::AnswerLost | Crash::Failed(_)) => break,
                Some(Crash::Before) | None => {}
            }
        }
        if let Some(memory) = self.memories.get_mut(&turn.cluster) {
            memory.wakes_at = wakes_at.max(simulation.now() + SignedDuration::from_millis(1));
        }
        if pushed {
            self.wake(simulation.now() + SOON);
        }
    }

    /// One turn without a crash.
    pub fn turn(&mut self, simulation: &mut Simulation) -> Option<Turn> {
        let turn = self.decide(simulation)?;
        self.perform(simulation, &turn, |_| None);
        Some(turn)
    }

    /// Turn after turn until nothing is left to do and nothing more is going to happen, at most until `deadline`. Says what
    /// was decided last for each cluster.
    pub fn run(&mut self, simulation: &mut Simulation, deadline: Timestamp) -> BTreeMap<ClusterName, Vec<Effect>> {
        let mut last: BTreeMap<ClusterName, Vec<Effect>> = BTreeMap::new();
        loop {
            let Some(wakes_at) = self.wakes_at() else { return last };
            if simulation.next_happening().is_some_and(|at| at < wakes_at) {
                let at = simulation.next_happening().unwrap_or(wakes_at);
                simulation.advance(at);
                // A push wakes everybody, a cluster that is healed does not.
                self.wake(at);
                continue;
            }
            if wakes_at > deadline {
                return last;
            }
            let Some(turn) = self.turn(simulation) else { return last };
            last.insert(turn.cluster, turn.effects);
            let finished =
                last.len() == self.memories.len() && last.values().all(|effects| effects.as_slice() == [Effect::Done]);
            if finished && !simulation.expects_more() {
                return last;
            }
        }
    }
}

impl Memory {
    /// When the last observation was made.
    fn read_at(&self) -> Option<Timestamp> {
        self.world.as_ref()?.world.observation.as_deref().map(|observation| observation.read_at)
    }

    /// The world as it is now, with the last observation and what is remembered of the ones before.
    fn look(&mut self, simulation: &Simulation, name: &ClusterName, blindly: bool) -> Option<&mut World> {
        let cluster = simulation.cluster(name)?;
        let source = simulation.source()?;
        let head = simulation.branch().head()?;
        let known = self.world.take();
        let current =
            known.as_ref().is_some_and(|known| blindly || (known.source == source.id && known.head == head.id));
        let mut remembered = match known {
            Some(known) if current => known,
            known => {
                let (observation, history) = known.map_or_else(
                    || (None, GateHistory::default()),
                    |known| (known.world.observation, known.world.history),
                );
                let deployed = head.tree.get(name)?;
                let made = |source: &super::SourceCommit| {
                    let wanted = source.wanted.get(name)?;
                    Some(plan(cluster.plan_input(&source.id, &deployed.parts, wanted, deployed.ledger.clone())))
                };
                let plan = made(source)?;
                let ledger =
                    deployed.ledger.as_ref().filter(|ledger| ledger.state == LedgerState::Running && !plan.running);
                let running = ledger.and_then(|ledger| simulation.source_commit(&ledger.source)).and_then(made);
                let world = World {
                    plan: Arc::new(plan),
                    running: running.map(Arc::new),
                    ledger: deployed.ledger.clone().map(Arc::new),
                    deploy: Arc::new(simulation.branch().as_deploy_head()),
                    observation,
                    rest: None,
                    history,
                    paused: source.paused.clone(),
                    unconfirmed: Vec::new(),
                    foreign_change: None,
                    prerequisites: Vec::new(),
                    wave: None,
                    approvals: Vec::new(),
                    people: rollout::People::default(),
                };
                Remembered { source: source.id.clone(), head: head.id.clone(), world }
            }
        };
        remembered.world.prerequisites = cluster.after.iter().map(|other| prerequisite(simulation, other)).collect();
        remembered.world.approvals = simulation.approvals(name).to_vec();
        Some(&mut self.world.insert(remembered).world)
    }
}

/// What the deploy branch says of a cluster and the cluster is not, as it is now.
fn unfinished(simulation: &mut Simulation, cluster: &ClusterName, gate: ControlPlaneGate) -> Vec<String> {
    let now = simulation.now();
    let simulated = simulation.simulated(cluster).map(|simulated| {
        simulated.advance(now);
        simulated.unfinished_for(gate)
    });
    simulated.unwrap_or_default()
}

/// I13: a cluster begins when those that come first are done.
fn check_turn(simulation: &Simulation, commit: &StageCommit) -> Option<Violation> {
    let begins = commit.ledger.stages.len() == 1;
    let after = simulation.cluster(&commit.cluster).filter(|_| begins).map(|cluster| cluster.after.as_slice());
    let unmet =
        after.unwrap_or_default().iter().map(|other| prerequisite(simulation, other)).find(|known| !known.met)?;
    let message = format!("{} begins before {}, which is not done: {}", commit.cluster, unmet.cluster, unmet.state);
    Some(Violation::new("I13", message))
}

/// Another cluster has come first when it is at its target and its ledger is closed.
fn prerequisite(simulation: &Simulation, name: &ClusterName) -> Prerequisite {
    let deployed = simulation.deployed(name);
    let running =
        deployed.and_then(|tree| tree.ledger.as_ref()).is_some_and(|ledger| ledger.state == LedgerState::Running);
    let at_target = simulation.source().and_then(|source| source.wanted.get(name)) == deployed.map(|tree| &tree.parts);
    let state = if running {
        "a rollout is running"
    } else if at_target {
        "at its target"
    } else {
        "a rollout is to come"
    };
    Prerequisite { cluster: name.clone(), met: at_target && !running, state: state.to_owned() }
}
