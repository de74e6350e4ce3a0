//! A glance at Flux: while it has not applied what a gate waits for, reading everything else decides nothing.
//!
//! Architecture Invariant: a glance only ever makes a gate wait. Where Flux is done, where something else has changed, where a gate has failed, and
//! after a while in any case, everything is read.

use jiff::{SignedDuration, Timestamp};
use rollout::World;

use super::Controller;
use super::planner::ClusterView;
use super::report::ClusterOutcome;
use crate::cluster::{Cluster, ObserveRequest};

/// How long glances may stand in for whole readings.
const LONGEST: SignedDuration = SignedDuration::from_secs(30);

/// Until when glances may be enough, from now on.
pub(super) fn until(now: Timestamp) -> Option<Timestamp> {
    now.checked_add(LONGEST).ok()
}

impl Controller {
    /// After our own commit nothing can have happened yet. Where clusters do not tell of changes, nothing would say when to look again.
    pub(super) fn may_glance_after_commit(&self) -> Option<Timestamp> {
        self.clusters.changes().and_then(|_| until(self.clock.now()))
    }

    /// What the running gate waits for, where Flux alone shows it, and when everything is to be read at the latest.
    pub(super) async fn glance(
        &self,
        view: &ClusterView,
        world: &World,
        cluster: &dyn Cluster,
        request: &ObserveRequest,
    ) -> Option<(ClusterOutcome, Timestamp)> {
        let memory = self.memory(&view.name);
        let until = memory.glances.filter(|until| !memory.held && request.at < *until)?;
        let expectations = rollout::expected_of_flux(world);
        if expectations.is_empty() {
            return None;
        }
        let request = ObserveRequest { expectations, kustomizations: Vec::new(), ..request.clone() };
        let observation = cluster.observe(&request).await;
        let (stage, reason, deadline) = rollout::waits_for_flux(world, &observation, self.clock.now())?;
        let next = deadline.map_or(until, |deadline| deadline.min(until));
        Some((ClusterOutcome::Waiting { stage: Some(stage), reason, until: deadline }, next))
    }
}
