//! A precheck: a look at Flux, and then at the running gate. While that waits for something, reading everything else
//! decides nothing. [`rollout::FastPath`] says what is asked and what follows; here it is asked.

use jiff::Timestamp;
use rollout::{FastPath, GateHistory, Observation, Precheck, Waiting, WatchEvidence, World};

use crate::reconcile::Controller;
use crate::reconcile::main_loop::report::ClusterOutcome;
use crate::reconcile::observe::{eks, images};
use crate::reconcile::planner::{ClusterView, FleetReading};
use cluster::kubernetes::ChangeScope;
use cluster::{Cluster, Freshness, ObserveRequest};

/// What a precheck comes to.
pub(in crate::reconcile) enum PrecheckOutcome {
    /// There is nothing to decide yet; when to look again.
    Waits(ClusterOutcome, Timestamp),
    /// With what was read of everything else before, the running gate may hold.
    First(FastPath),
    /// Everything is to be read.
    ReadEverything,
}

impl Controller {
    /// After our own commit nothing can have happened yet. Where clusters do not tell of changes, nothing would say when to look again.
    pub(in crate::reconcile) fn precheck_after_commit(&self) -> Option<Timestamp> {
        self.clusters.changes().and_then(|_| FastPath::until(self.clock.now()))
    }

    /// What Flux alone tells of the running gate, and then what that gate expects.
    pub(in crate::reconcile) async fn precheck(
        &self,
        view: &ClusterView,
        world: &World,
        cluster: &dyn Cluster,
        request: &ObserveRequest,
    ) -> PrecheckOutcome {
        let memory = self.memory(&view.name);
        let fast_path = memory.fast_path;
        let asked = fast_path.precheck(world, request.at).filter(|_| !memory.held);
        let Some(expectations) = asked else { return PrecheckOutcome::ReadEverything };
        let request = ObserveRequest { expectations, kustomizations: Vec::new(), ..request.clone() };
        let told = cluster.told_of_flux(&request).and_then(|flux| FastPath::told_of_flux(world, flux, request.at));
        let flux = match told {
            Some(told) => told,
            None => cluster.observe(&request).await,
        };
        match fast_path.after_flux(world, &flux, request.at, self.clock.now()) {
            Precheck::Waits(waiting, until) => self.waits(view, world, waiting, until),
            Precheck::First(first) => PrecheckOutcome::First(first),
            Precheck::ReadEverything => PrecheckOutcome::ReadEverything,
            Precheck::Gate(expectations, rest) => {
                let request = ObserveRequest { expectations, ..request };
                match self.look_at_gate(view, world, cluster, &request, &rest).await {
                    WatchEvidence::Waits(stage, reason, deadline) => match fast_path.deadline() {
                        Some(until) => self.waits(view, world, (stage, reason, deadline), until),
                        None => PrecheckOutcome::ReadEverything,
                    },
                    WatchEvidence::Holds(read) => PrecheckOutcome::First(fast_path.first(*read, *rest)),
                }
            }
        }
    }

    /// The running gate, as watches tell of it where they do, else as it is read. It may have failed where it is said to hold.
    async fn look_at_gate(
        &self,
        view: &ClusterView,
        world: &World,
        cluster: &dyn Cluster,
        request: &ObserveRequest,
        rest: &Observation,
    ) -> WatchEvidence {
        let now = self.clock.now();
        let told = cluster.told_of_workloads(request);
        if let Some(told) = told.and_then(|told| FastPath::told_of_gate(world, rest, &told, now)) {
            return told;
        }
        let read = images::observe(cluster, view, request).await;
        FastPath::read_of_gate(world, read, self.clock.now())
    }

    /// There is nothing to decide yet.
    fn waits(
        &self,
        view: &ClusterView,
        world: &World,
        (stage, reason, deadline): Waiting,
        until: Timestamp,
    ) -> PrecheckOutcome {
        self.remember(&view.name, |memory| {
            memory.fast_path.wait(until);
            // A read in which the gate held does not count any more, now that it was seen to wait. A soak is broken by whole readings alone: Flux says
            // that it is at work whenever it looks whether there is any.
            if FastPath::may_read_first(world) {
                memory.history = GateHistory::default();
            }
        });
        let next = deadline.map_or(until, |deadline| deadline.min(until));
        PrecheckOutcome::Waits(ClusterOutcome::Waiting { stage: Some(stage), reason, until: deadline }, next)
    }

    /// What the running gate expects, read anew after a reading in which it held; none where everything is to be read.
    pub(in crate::reconcile) async fn confirm(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        world: &World,
        cluster: &dyn Cluster,
        request: &ObserveRequest,
    ) -> Option<FastPath> {
        let (expectations, rest) = self.memory(&view.name).fast_path.confirming(world, request.at)?;
        let (kustomizations, freshness) = (Vec::new(), Freshness::Again);
        let request = ObserveRequest { expectations, kustomizations, freshness, ..request.clone() };
        let (clusters, policy) = (self.clusters.as_ref(), &reading.fleet.policy);
        let read = eks::observe(clusters, policy, cluster, view, &request).await;
        // What has changed meanwhile may be the rest.
        let changed = self.clusters.changes().and_then(|changes| changes.of(view.name.as_str()));
        (changed != Some(ChangeScope::More)).then(|| FastPath::confirmed(read, rest))
    }
}
