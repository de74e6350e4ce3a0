//! A glance at Flux, and then at the running gate: while that waits for something, reading everything else decides nothing.
//!
//! Architecture Invariant: a glance lets no gate pass or fail. Where the gate holds, where something else has changed, where a gate has failed, and
//! after a while in any case, more is read. What was read of everything else a short while before, with what the glance sees, counts
//! as the first of the reads in which a gate holds. The last one, on which it passes, reads everything anew that this gate looks at; the
//! stages before it, which have passed, are judged by what was read of them that short while before.
//!
//! Where only what Flux says of its work has changed, that alone is looked at: as long as it is not
//! done, nothing need be read. Where nothing soaks and no machines are concerned, and only what the
//! running gate looks at has changed besides, that is looked at alone: as long as watches tell that
//! its workloads are at work, or a reading of it waits, nothing else need be read.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rollout::{GateHistory, Observation, Reason, StageId, WatchEvidence, World};

use crate::reconcile::Controller;
use crate::reconcile::main_loop::report::ClusterOutcome;
use crate::reconcile::observe::observation_cache::ObservationCache;
use crate::reconcile::planner::ClusterView;
use cluster::kubernetes::ChangeScope;
use cluster::{Cluster, Freshness, ObserveRequest};

/// How long glances may stand in for whole readings.
const LONGEST: SignedDuration = SignedDuration::from_secs(30);

/// When everything is read at the latest after a glance, where that may become a gate's first read: while Flux is at work.
const FIRST: SignedDuration = SignedDuration::from_millis(500);

/// Until when glances may be enough, from now on.
pub(in crate::reconcile) fn until(now: Timestamp) -> Option<Timestamp> {
    now.checked_add(LONGEST).ok()
}

/// What a glance comes to.
pub(in crate::reconcile) enum Glance {
    /// There is nothing to decide yet; when to look again.
    Waits(ClusterOutcome, Timestamp),
    /// With what was read of everything else before, the running gate may hold.
    First(ObservationCache),
    /// Everything is to be read.
    Nothing,
}

impl Controller {
    /// After our own commit nothing can have happened yet. Where clusters do not tell of changes, nothing would say when to look again.
    pub(in crate::reconcile) fn may_glance_after_commit(&self) -> Option<Timestamp> {
        self.clusters.changes().and_then(|_| until(self.clock.now()))
    }

    /// What Flux alone tells of the running gate, and then what that gate expects.
    pub(in crate::reconcile) async fn glance(
        &self,
        view: &ClusterView,
        world: &World,
        cluster: &dyn Cluster,
        request: &ObserveRequest,
    ) -> Glance {
        let memory = self.memory(&view.name);
        let Some(until) = memory.glances.filter(|until| !memory.held && request.at < *until) else {
            return Glance::Nothing;
        };
        let expectations = rollout::expected_of_flux(world);
        if expectations.is_empty() {
            return Glance::Nothing;
        }
        let request = ObserveRequest { expectations, kustomizations: Vec::new(), ..request.clone() };
        let told = cluster.told_of_flux(&request).and_then(|flux| rollout::told_of_flux(world, flux, request.at));
        let observation = match told {
            Some(told) => told,
            None => cluster.observe(&request).await,
        };
        let now = self.clock.now();
        if let Some(waiting) = rollout::waits_for_flux(world, &observation, now) {
            let early = !memory.readings.is_from_before() && rollout::may_read_first(world);
            let until = if early { until.min(now.checked_add(FIRST).unwrap_or(until)) } else { until };
            return self.waits(view, world, waiting, until);
        }
        match memory.readings {
            ObservationCache::BeforeFlux(whole) => match rollout::first_read(world, &whole, &observation.flux, now) {
                Some(read) => Glance::First(ObservationCache::First { read: Arc::new(read), rest: None, whole }),
                None => Glance::Nothing,
            },
            ObservationCache::BeforeGate(whole) if request.at.duration_since(whole.read_at) <= LONGEST => {
                let Some((expectations, rest)) = rollout::running_gate(world, &whole, &observation.flux, now) else {
                    return Glance::Nothing;
                };
                let request = ObserveRequest { expectations, ..request };
                match self.look_at_gate(world, cluster, &request, &rest).await {
                    WatchEvidence::Waits(stage, reason, deadline) => {
                        self.waits(view, world, (stage, reason, deadline), until)
                    }
                    WatchEvidence::Holds(read) => {
                        let (read, rest) = (Arc::from(read), Some(Arc::new(rest)));
                        Glance::First(ObservationCache::First { read, rest, whole })
                    }
                }
            }
            ObservationCache::BeforeGate(_)
            | ObservationCache::Nothing
            | ObservationCache::Whole(_)
            | ObservationCache::First { .. }
            | ObservationCache::Confirming { .. } => Glance::Nothing,
        }
    }

    /// The running gate, as watches tell of it where they do, else as it is read. It may have failed where it is said to hold.
    async fn look_at_gate(
        &self,
        world: &World,
        cluster: &dyn Cluster,
        request: &ObserveRequest,
        rest: &Observation,
    ) -> WatchEvidence {
        let now = self.clock.now();
        let told = cluster.told_of_workloads(request);
        if let Some(told) = told.and_then(|told| rollout::told_of_gate(world, rest, &told, now)) {
            return told;
        }
        let read = cluster.observe(request).await;
        match rollout::waits_for_gate(world, &read, self.clock.now()) {
            Some((stage, reason, deadline)) => WatchEvidence::Waits(stage, reason, deadline),
            None => WatchEvidence::Holds(Box::new(read)),
        }
    }

    /// There is nothing to decide yet.
    fn waits(
        &self,
        view: &ClusterView,
        world: &World,
        (stage, reason, deadline): (StageId, Reason, Option<Timestamp>),
        until: Timestamp,
    ) -> Glance {
        self.remember(&view.name, |memory| {
            memory.glances = Some(until);
            // A read in which the gate held does not count any more, now that it was seen to wait. A soak is broken by whole readings alone: Flux says
            // that it is at work whenever it looks whether there is any.
            if rollout::may_read_first(world) {
                memory.history = GateHistory::default();
            }
        });
        let next = deadline.map_or(until, |deadline| deadline.min(until));
        Glance::Waits(ClusterOutcome::Waiting { stage: Some(stage), reason, until: deadline }, next)
    }

    /// What the running gate expects, read anew after a reading in which it held; none where everything is to be read.
    pub(in crate::reconcile) async fn confirm(
        &self,
        view: &ClusterView,
        world: &World,
        cluster: &dyn Cluster,
        request: &ObserveRequest,
    ) -> Option<ObservationCache> {
        let rest = self.memory(&view.name).readings.before_confirming()?;
        if request.at.duration_since(rest.read_at) > LONGEST {
            return None;
        }
        let expectations = rollout::confirming(world, request.at)?;
        let (kustomizations, freshness) = (Vec::new(), Freshness::Again);
        let request = ObserveRequest { expectations, kustomizations, freshness, ..request.clone() };
        let read = Arc::new(cluster.observe(&request).await);
        // What has changed meanwhile may be the rest.
        let changed = self.clusters.changes().and_then(|changes| changes.of(view.name.as_str()));
        (changed != Some(ChangeScope::More)).then_some(ObservationCache::Confirming { read, rest })
    }
}
