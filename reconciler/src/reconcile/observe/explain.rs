//! What people are told of a cluster that they ask about: what the controller decides, and what is ahead. Nothing is written anywhere.
//!
//! Architecture Invariant: what people are told is what is decided. `why` and `status` ask `step`
//! on two readings of their own, and again as if the soak that has begun were over, so that people,
//! windows and other clusters behind a gate are seen by whoever asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use policy::Apply;
use rollout::{
    Block, Decision, Effect, LedgerState, Machine, Observation, Reachability, Reason, StageId, TanzuStanding, World,
};

use crate::reconcile::clusters::access::Clusters;
use crate::reconcile::clusters::recorded_commits;
use crate::reconcile::clusters::world::{Known, assemble};
use crate::reconcile::effects::forcing;
use crate::reconcile::main_loop::clock::Clock;
use crate::reconcile::observe::eks;
use crate::reconcile::observe::final_health::{Verdict, judge, supervised};
use crate::reconcile::observe::observe_request::request;
use crate::reconcile::planner::{ClusterView, FleetReading, PlanError, Planner, VIEWS};
use crate::reconcile::proposal::{self, Asking, Mergers, ProposalCache};
use cluster::{Cluster, Freshness, ObserveRequest};
use domain::ClusterName;
use planning::progress::{self, FleetProgress, Others, WaveProgress};

/// How long the second reading is waited for: as long as one of machines has to come after the first.
const BETWEEN_READINGS: SignedDuration = SignedDuration::from_secs(1);

/// Where a cluster stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Deploy equals target, the rollout is closed, and the cluster does not say otherwise.
    Done,
    /// A stage is on its way: nobody is asked anything.
    Running,
    /// It waits: for people, a time, another cluster, or a cluster that is not as it has to be before anything begins.
    Waiting,
    /// A gate has failed, or people have stopped it.
    Held,
    /// The plan is forbidden.
    Blocked,
}

impl State {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Blocked => "blocked",
        }
    }
}

/// Where a cluster stands, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In one word.
    pub state: State,
    /// The stage concerned.
    pub stage: Option<StageId>,
    /// Why, one reason each, the most telling first.
    pub reasons: Vec<Reason>,
    /// What helps, the most telling first.
    pub help: Vec<String>,
    /// When the wait ends by itself, where that is known.
    pub until: Option<Timestamp>,
    /// Where a cluster of Tanzu stands; none of others.
    pub tanzu: Option<TanzuStanding>,
    /// The machines that were read, where any were.
    pub machines: Vec<Machine>,
}

impl Explanation {
    fn new(state: State, stage: Option<StageId>, reason: Reason) -> Self {
        Self {
            state,
            stage,
            reasons: reason.into_lines(),
            help: Vec::new(),
            until: None,
            tanzu: None,
            machines: Vec::new(),
        }
    }

    /// With what its reasons say of what helps.
    #[must_use]
    pub fn with_help(mut self) -> Self {
        for help in self.reasons.iter().filter_map(|reason| reason.help.clone()) {
            if !self.help.contains(&help) {
                self.help.push(help);
            }
        }
        self
    }
}

/// Answers for the clusters of a fleet.
pub struct Explainer<'a> {
    planner: &'a Planner,
    reading: &'a FleetReading,
    clusters: &'a dyn Clusters,
    clock: &'a dyn Clock,
    /// Where clusters stand that others wait for.
    looked: Mutex<Looked>,
    /// Whether a cluster is looked at as if all others were done.
    is_alone: bool,
}

/// Where clusters stand that others wait for.
#[derive(Debug, Default)]
struct Looked {
    standings: FleetProgress,
    decisions: BTreeMap<ClusterName, Decision>,
    /// Whether all clusters of the fleet are among them.
    is_whole: bool,
}

impl<'a> Explainer<'a> {
    /// Whoever answers by these branches and these clusters.
    pub fn new(
        planner: &'a Planner,
        reading: &'a FleetReading,
        clusters: &'a dyn Clusters,
        clock: &'a dyn Clock,
    ) -> Self {
        Self { planner, reading, clusters, clock, looked: Mutex::default(), is_alone: false }
    }

    /// The same, as if all other clusters were done.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// What the controller decides about a cluster once it has read it as often as it takes, and what comes after that.
    ///
    /// # Errors
    /// [`PlanError`] when proposed branches, or the commits that people are judged by, cannot be read.
    pub async fn explain(&self, view: &ClusterView) -> Result<Explanation, PlanError> {
        let (planner, reading, board) = (self.planner, self.reading, ProposalCache::default());
        let cluster = self.cluster(view);
        if let Some(reasons) =
            recorded_commits::blocks(planner, reading, view, cluster.as_ref(), self.clock.now()).await
        {
            return Ok(described_blocks(&reasons).with_help());
        }
        let considered = proposal::consider(planner, &board, reading, Arc::new(view.clone())).await?;
        let askings = proposal::askings(planner, &board, reading, &considered).await?;
        let view = considered.view.as_ref();
        let now = self.clock.now();
        let others = if self.is_alone { Others::default() } else { Box::pin(self.others(view, now)).await };
        let approvals = askings.iter().filter_map(Asking::record).collect();
        let mut world = assemble(reading, view, Known::default(), others, approvals, now);
        world.people = proposal::people(planner, &board, reading, view).await?;
        proposal::name_mergers(planner, &board, reading, view, &mut world.deploy, &mut Mergers::default()).await;
        if rollout::step(&world, self.clock.now()) == [Effect::Done] {
            return Ok(self.at_the_end(view).await);
        }
        self.read(view, &mut world).await;
        if is_short_of_time(&world, self.clock.now()) {
            self.clock.sleep_until(self.clock.now().saturating_add(BETWEEN_READINGS).unwrap_or(Timestamp::MAX)).await;
            self.read(view, &mut world).await;
        }
        let tanzu = world.observation.as_deref().and_then(|read| standing(view, read));
        let now = self.clock.now();
        let mut explanation = explanation(&world, now);
        if let (Some(stage), Some(read)) = (&explanation.stage, world.observation.as_deref()) {
            let spent = forcing::spent(&self.reading.fleet.policy, view, stage, read, now);
            explanation.reasons.extend(spent);
        }
        let machines = world.observation.as_deref().map(|read| read.machines.clone()).unwrap_or_default();
        Ok(Explanation { tanzu, machines, ..explanation.with_help() })
    }

    /// The cluster as the controller reads it.
    fn cluster(&self, view: &ClusterView) -> Arc<dyn Cluster> {
        self.clusters.referred(&view.cluster, &self.planner.reference(self.reading, &view.cluster))
    }

    async fn read(&self, view: &ClusterView, world: &mut World) {
        let cluster = self.cluster(view);
        let request = request(view, world, Freshness::Fresh, self.clock.now());
        let (clusters, policy) = (self.clusters, &self.reading.fleet.policy);
        let observation = eks::observe(clusters, policy, cluster.as_ref(), view, &request).await;
        world.observation = Some(Arc::new(observation));
        world.history = rollout::record(world, self.clock.now());
    }

    /// What those say to a cluster that have to come first, or go together with it: as git tells, and as those that are under way show themselves.
    async fn others(&self, view: &ClusterView, now: Timestamp) -> Others {
        let (fleet, source) = (&self.reading.fleet, self.reading.source_commit());
        if !self.looked().is_whole {
            self.look_at(progress::concerning(fleet, &view.cluster)).await;
        }
        let mut looked = self.looked();
        let Looked { standings, decisions, .. } = &mut *looked;
        standings.hear(&self.reading.wave_words);
        standings.note(&view.name, view.progress());
        standings.forget_decision(&view.name);
        let others = progress::others(fleet, &view.cluster, standings, source, now);
        if let Some(decision) = decisions.get(&view.name) {
            standings.decide(&view.name, source, decision.clone());
        }
        others
    }

    /// Where each wave of the fleet stands.
    pub async fn waves(&self) -> Vec<WaveProgress> {
        let (fleet, source) = (&self.reading.fleet, self.reading.source_commit());
        self.look_at_fleet().await;
        let mut looked = self.looked();
        looked.standings.hear(&self.reading.wave_words);
        progress::waves(fleet, &looked.standings, source, self.clock.now())
    }

    /// Looks at every cluster of a fleet that has waves. Whoever explains all of them begins with this.
    pub async fn look_at_fleet(&self) {
        let fleet = &self.reading.fleet;
        if !fleet.policy.waves.is_empty() && !self.looked().is_whole {
            self.look_at(fleet.clusters.iter().map(|cluster| cluster.name.as_str()).collect()).await;
            self.looked().is_whole = true;
        }
    }

    /// Looks at those of these clusters that were not looked at before. There is no progress where the files of one cannot be read.
    async fn look_at(&self, names: Vec<&str>) {
        let names = names.into_iter().filter_map(|name| name.parse().ok());
        let unknown: Vec<ClusterName> = names.filter(|name| !self.looked().decisions.contains_key(name)).collect();
        for names in unknown.chunks(VIEWS) {
            let asked: Vec<&str> = names.iter().map(ClusterName::as_str).collect();
            for (name, view) in names.iter().zip(self.planner.views(self.reading, &asked)) {
                let decision = match &view {
                    Err(_) => Decision::GoesOn,
                    Ok(view) => self.decision(view).await,
                };
                let mut looked = self.looked();
                looked.standings.decide(name, self.reading.source_commit(), decision.clone());
                if let Ok(view) = view {
                    looked.standings.note(name, view.progress());
                }
                looked.decisions.insert(name.clone(), decision);
            }
        }
    }

    fn looked(&self) -> MutexGuard<'_, Looked> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one that is under way is held, whatever its wave says. The others are not read for it.
    async fn decision(&self, view: &ClusterView) -> Decision {
        let runs = view.directory.ledger().is_some_and(|ledger| ledger.state == LedgerState::Running);
        if !runs || self.reading.fleet.policy.waves.is_empty() || !self.clusters.can_be_asked() {
            return Decision::GoesOn;
        }
        let now = self.clock.now();
        let mut world = assemble(self.reading, view, Known::default(), Others::default(), Vec::new(), now);
        self.read(view, &mut world).await;
        let effects = rollout::step(&world, self.clock.now());
        Decision::of(&world, &effects, &[]).unwrap_or(Decision::GoesOn)
    }

    /// Nothing is left to be committed. Whether the cluster is at it, Flux says.
    async fn at_the_end(&self, view: &ClusterView) -> Explanation {
        let is_at_target = || Reason::new("deploy equals target");
        let by_flux = self.reading.fleet.policy.apply == Apply::Flux;
        let supervised = supervised(view);
        if !by_flux && supervised.is_empty() {
            return Explanation::new(State::Done, None, is_at_target());
        }
        let request = ObserveRequest {
            expectations: supervised,
            kustomizations: if by_flux { view.flux_references() } else { Vec::new() },
            deployed: Arc::clone(&view.deployed),
            freshness: Freshness::Fresh,
            at: self.clock.now(),
        };
        let read = self.cluster(view).observe(&request).await;
        if let Reachability::Unreachable { reason } = &read.reachable {
            // Who names no cluster asks about git.
            if !self.clusters.can_be_asked() {
                let told = Reason::new(format!("deploy equals target; the cluster was not looked at: {reason}"));
                return Explanation::new(State::Done, None, told);
            }
            let unknown = Reason::new(format!("whether Flux has applied it is not known: {reason}"));
            return Explanation::new(State::Waiting, None, unknown.and(is_at_target()));
        }
        let unasked = rollout::unasked_rollout(&read);
        let expected = view
            .kustomizations
            .values()
            .filter(|_| by_flux)
            .map(|known| (known.namespace.as_str(), known.name.as_str()));
        let tanzu = standing(view, &read);
        let explanation = match judge(&view.name, expected, &read) {
            Verdict::Applied => match unasked {
                None => Explanation::new(State::Done, None, is_at_target()),
                Some(unasked) => {
                    let state = if unasked.has_failed { State::Held } else { State::Running };
                    Explanation::new(state, None, unasked.reason).with_help()
                }
            },
            Verdict::Behind(reason) => Explanation::new(State::Running, None, reason).with_help(),
            Verdict::Failed(reason) => Explanation::new(State::Held, None, reason).with_help(),
        };
        Explanation { tanzu, machines: read.machines, ..explanation }
    }
}

/// Where a cluster of Tanzu stands by what was read of it.
pub(in crate::reconcile) fn standing(view: &ClusterView, read: &Observation) -> Option<TanzuStanding> {
    rollout::tanzu_standing(view.plan.stages.iter().flat_map(|stage| &stage.expectations), read)
}

/// Whether everything that is judged holds, and only has to for longer, or to be seen once more.
fn is_short_of_time(world: &World, now: Timestamp) -> bool {
    rollout::step(world, now) != rollout::after_soak(world, now)
}

fn explanation(world: &World, now: Timestamp) -> Explanation {
    let mut explanation = decided(world, now);
    explanation.reasons.extend(rollout::merged_outside_window(world));
    explanation
}

fn decided(world: &World, now: Timestamp) -> Explanation {
    let effects = rollout::step(world, now);
    let ahead = rollout::after_soak(world, now);
    if effects != ahead {
        return after_soak(world, &effects, &ahead);
    }
    let mut explanation = described(world, &effects);
    if is_at_gate(&effects) {
        add_behind(world, now, &mut explanation);
    }
    explanation
}

/// Whether a gate is being judged: what comes behind it is not decided about yet.
fn is_at_gate(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Observe { .. }))
        && !effects.iter().any(|effect| matches!(effect, Effect::RequestApproval(_)))
}

/// Everything holds, and has to for a while: what comes then is told first.
fn after_soak(world: &World, effects: &[Effect], ahead: &[Effect]) -> Explanation {
    let now = described(world, effects);
    let plans = [Some(&world.plan), world.running.as_ref()].into_iter().flatten();
    let soak = now.stage.as_ref().and_then(|stage| plans.filter_map(|plan| plan.stage(stage)).next());
    let soak = soak.map(|stage| stage.policy.soak.as_secs());
    let mut explanation = described(world, ahead);
    explanation.reasons.push(Reason::new(match (&now.stage, soak) {
        (Some(stage), Some(soak)) => format!("everything holds at {stage}, and has to for {soak} s without a break"),
        _ => "everything holds, and has to for a while".to_owned(),
    }));
    // People may take longer than that.
    if ahead.iter().any(|effect| matches!(effect, Effect::Commit(_) | Effect::Close(_))) {
        explanation.until = now.until;
    }
    explanation
}

/// What stands behind a gate that is not open.
fn add_behind(world: &World, now: Timestamp, explanation: &mut Explanation) {
    let behind = rollout::behind_gate(world, now);
    let is_proposed = world.approvals.iter().any(|record| record.place.is_some());
    let told = described(world, &behind);
    let asks = behind.iter().any(|effect| matches!(effect, Effect::RequestApproval(_)));
    let is_rejected = behind.iter().any(|effect| matches!(effect, Effect::Hold { .. }));
    let waits = behind.iter().any(|effect| matches!(effect, Effect::Wait { .. }));
    match (asks, is_rejected) {
        // Somebody can act on it now.
        (true, _) if is_proposed && explanation.state != State::Held => {
            explanation.state = told.state;
            explanation.reasons.splice(0..0, told.reasons);
        }
        (_, true) => {
            explanation.state = State::Held;
            explanation.help.splice(0..0, told.help);
            explanation.reasons.splice(0..0, told.reasons);
        }
        (true, _) | (_, false) if waits => {
            let later = told.reasons.into_iter().map(|reason| {
                let message = format!("once its gate is open: {}", reason.message);
                Reason { message, help: None, ..reason }
            });
            explanation.reasons.extend(later);
        }
        _ => {}
    }
}

/// What forbids a plan.
fn described_blocks(blocks: &[Block]) -> Explanation {
    let reasons = blocks.iter().map(|block| Reason::new(&*block.message).help(&*block.help)).collect();
    Explanation {
        state: State::Blocked,
        stage: None,
        reasons,
        help: Vec::new(),
        until: None,
        tanzu: None,
        machines: Vec::new(),
    }
}

/// What these effects come to.
fn described(world: &World, effects: &[Effect]) -> Explanation {
    let runs = world.ledger.as_deref().is_some_and(|ledger| ledger.state == LedgerState::Running);
    let on_its_way = if runs { State::Running } else { State::Waiting };
    let observes = effects.iter().any(|effect| matches!(effect, Effect::Observe { .. }));
    let asks = effects.iter().any(|effect| matches!(effect, Effect::RequestApproval(_)));
    let next = |stage: Option<&StageId>, what: String| {
        let reason = Reason::new(what).help("where no controller runs, `stepgate run` is one");
        Explanation::new(on_its_way, stage.cloned(), reason)
    };
    for effect in effects {
        match effect {
            Effect::Wait { stage, reason, until } => {
                let read = world.observation.as_deref();
                let is_reached = read.is_none_or(|read| read.reachable == Reachability::Reachable);
                let state = match read.and_then(Observation::hold) {
                    Some(_) => State::Held,
                    None if world.paused.is_some() => State::Held,
                    None if observes && !asks && is_reached => on_its_way,
                    None => State::Waiting,
                };
                return Explanation { until: *until, ..Explanation::new(state, stage.clone(), reason.clone()) };
            }
            Effect::Hold { stage, reasons, help } => {
                let reasons = reasons.iter().cloned().flat_map(Reason::into_lines).collect();
                let stage = Some(stage.clone());
                return Explanation {
                    state: State::Held,
                    stage,
                    reasons,
                    help: vec![help.clone()],
                    until: None,
                    tanzu: None,
                    machines: Vec::new(),
                };
            }
            Effect::Blocked { reasons } => return described_blocks(reasons),
            Effect::Done => return Explanation::new(State::Done, None, Reason::new("nothing to do")),
            Effect::Commit(commit) => {
                let stage = &commit.stage;
                let repaired = commit.ledger.last_record(stage).filter(|record| record.opened_by.is_none());
                let what = match repaired {
                    Some(_) => format!("a repair is pushed, it takes over now: {stage} is committed next"),
                    None => format!("its gate is open; the controller commits {stage} next"),
                };
                let mut told = next(Some(stage), what);
                let why = repaired.into_iter().flat_map(|record| record.reasons.iter().cloned());
                told.reasons.extend(why.flat_map(Reason::into_lines));
                return told;
            }
            Effect::Revert(commit) => {
                return next(
                    Some(&commit.stage),
                    format!("its gate has failed; the controller takes {} back next", commit.stage),
                );
            }
            Effect::Close(_) => {
                return next(None, "everything holds; the controller closes the rollout next".to_owned());
            }
            Effect::Observe { .. }
            | Effect::Backup { .. }
            | Effect::OrderMachines { .. }
            | Effect::Etcd(_)
            | Effect::Cluster(_)
            | Effect::RequestApproval(_) => {}
        }
    }
    next(None, "the controller has something to do".to_owned())
}
