//! A glance at Flux: while it has not applied what a gate waits for, reading everything else decides nothing.
//!
//! Architecture Invariant: a glance lets no gate pass or fail. Where Flux is done, where something else has changed, where a gate has failed, and
//! after a while in any case, everything is read. What was read of everything else a short while before, with what the glance sees, counts
//! as the first of the reads in which a gate holds. The last one, on which it passes, reads everything anew that this gate looks at; the
//! stages before it, which have passed, are judged by what was read of them that short while before.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rollout::{Observation, World};

use super::Controller;
use super::planner::ClusterView;
use super::readings::Readings;
use super::report::ClusterOutcome;
use crate::cluster::kubernetes::Extent;
use crate::cluster::{Cluster, Freshness, ObserveRequest};

/// How long glances may stand in for whole readings.
const LONGEST: SignedDuration = SignedDuration::from_secs(30);

/// When everything is read at the latest after a glance, where that may become a gate's first read: while Flux is at work.
const FIRST: SignedDuration = SignedDuration::from_millis(500);

/// Until when glances may be enough, from now on.
pub(super) fn until(now: Timestamp) -> Option<Timestamp> {
    now.checked_add(LONGEST).ok()
}

/// What a glance at Flux comes to.
pub(super) enum Glance {
    /// There is nothing to decide yet; when to look again.
    Waits(ClusterOutcome, Timestamp),
    /// With what was read of everything else before, the running gate holds.
    First(Readings),
    /// Everything is to be read.
    Nothing,
}

impl Controller {
    /// After our own commit nothing can have happened yet. Where clusters do not tell of changes, nothing would say when to look again.
    pub(super) fn may_glance_after_commit(&self) -> Option<Timestamp> {
        self.clusters.changes().and_then(|_| until(self.clock.now()))
    }

    /// What Flux alone tells of the running gate.
    pub(super) async fn glance(
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
        let observation = match cluster.told_of_flux(&request) {
            Some(flux) => Observation { flux, ..Observation::empty(request.at) },
            None => cluster.observe(&request).await,
        };
        let now = self.clock.now();
        if let Some((stage, reason, deadline)) = rollout::waits_for_flux(world, &observation, now) {
            let early = memory.readings.as_before_flux().is_none() && rollout::may_read_first(world);
            let until = if early { until.min(now.checked_add(FIRST).unwrap_or(until)) } else { until };
            self.remember(&view.name, |memory| memory.glances = Some(until));
            let next = deadline.map_or(until, |deadline| deadline.min(until));
            return Glance::Waits(ClusterOutcome::Waiting { stage: Some(stage), reason, until: deadline }, next);
        }
        let Readings::BeforeFlux(whole) = memory.readings else { return Glance::Nothing };
        let read = rollout::first_read(world, &whole, &observation.flux, now);
        read.map_or(Glance::Nothing, |read| Glance::First(Readings::First { read: Arc::new(read), whole }))
    }

    /// What the running gate expects, read anew after a reading in which it held; none where everything is to be read.
    pub(super) async fn confirm(
        &self,
        view: &ClusterView,
        world: &World,
        cluster: &dyn Cluster,
        request: &ObserveRequest,
    ) -> Option<Readings> {
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
        (changed != Some(Extent::More)).then_some(Readings::Confirming { read, rest })
    }
}
