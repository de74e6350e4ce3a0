//! Clusters that wait, and of which nothing is new: a pass says of them what the one before said, so that what a pass costs follows from what has
//! changed.
//!
//! Architecture Invariant: resting is forgotten whenever something happens that a decision follows from: a head, a word of the cluster, where another
//! cluster stands, the time that was waited for. Where people are asked anything, nobody rests, since they may answer at any time.

use std::sync::{Arc, PoisonError};

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use overlays::ClusterSpec;

use crate::reconcile::Controller;
use crate::reconcile::main_loop::report::ClusterOutcome;
use crate::reconcile::main_loop::single_pass::{Work, asks_people};
use crate::reconcile::observe::final_health::FinalHealth;
use crate::reconcile::planner::FleetReading;
use crate::reconcile::proposal::may_be_retried;

/// A decision to wait, and what it follows from.
#[derive(Debug)]
pub(in crate::reconcile) struct CachedDecision {
    source: CommitId,
    deploy: Option<CommitId>,
    /// How often clusters had come to stand elsewhere before it was decided.
    standings: u64,
    /// When time alone leads to another decision, if ever.
    until: Option<Timestamp>,
    work: Work,
}

impl Controller {
    /// What is to be said of a cluster that is done, or that rests: nothing is new of it.
    pub(in crate::reconcile) fn at_rest(&self, reading: &FleetReading, cluster: &ClusterSpec) -> Option<Work> {
        let name = cluster.name.parse::<ClusterName>().ok()?;
        let (done, final_health, resting) = {
            let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            let memory = memory.get(&name)?;
            (memory.done.clone(), memory.final_health.clone(), memory.resting.clone())
        };
        if done.is_some() && done == Self::state(reading, cluster) {
            return match final_health {
                Some(final_health) => self.at_the_end(cluster, &name, final_health),
                None => Some(Work::done(&cluster.name)),
            };
        }
        let resting = resting?;
        // What could not be read may be readable now, at the same commits.
        let same = reading.deployed.unreadable.is_empty()
            && resting.source == *reading.source_commit()
            && resting.deploy.as_ref() == reading.deploy_head()
            && resting.standings == self.standings().changes()
            && resting.until.is_none_or(|until| self.clock.now() < until);
        same.then(|| resting.work.clone())
    }

    /// What is known of the end of a cluster that is done.
    pub(in crate::reconcile) fn final_health(
        &self,
        reading: &FleetReading,
        cluster: &ClusterSpec,
        name: &ClusterName,
    ) -> Option<FinalHealth> {
        let memory = self.memory(name);
        memory.done.filter(|done| Some(done) == Self::state(reading, cluster).as_ref()).and(memory.final_health)
    }

    /// What is kept of a decision; nothing where it was not to wait, or may be another one for something that passes do not notice.
    pub(in crate::reconcile) fn rests(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        standings: u64,
        work: &Work,
    ) -> Option<Arc<CachedDecision>> {
        let view = &work.position.as_ref()?.view;
        let waits = matches!(work.pass.outcome, ClusterOutcome::Waiting { .. }) && work.pass.committed.is_empty();
        let is_alone = !asks_people(view)
            && !may_be_retried(view)
            && view.directory.ledger().is_none_or(|ledger| ledger.approvals.is_empty());
        let known = self.memory(cluster).view?;
        let decided_at = known.key;
        let is_from_here =
            decided_at.source == *reading.source_commit() && decided_at.deploy.as_ref() == reading.deploy_head();
        (waits && is_alone && is_from_here).then(|| {
            Arc::new(CachedDecision {
                source: decided_at.source,
                deploy: decided_at.deploy,
                standings,
                until: work.pass.next.into_iter().chain(known.until).min(),
                work: work.clone(),
            })
        })
    }
}
