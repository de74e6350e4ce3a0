//! Clusters that wait, and of which nothing is new: a pass says of them what the one before said, so that what a pass costs follows from what has
//! changed.
//!
//! Architecture Invariant: resting is forgotten whenever something happens that a decision follows from: a head, a word of the cluster, where another
//! cluster stands, the time that was waited for. Where people are asked anything, nobody rests, since they may answer at any time.
//!
//! A cluster that has not begun rests on while others of its wave commit: all that it follows from of theirs is what they say to it.

use std::sync::{Arc, PoisonError};

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use overlays::ClusterSpec;
use planning::progress::Others;
use rollout::{LedgerState, WaveHold};

use crate::reconcile::main_loop::report::ClusterOutcome;
use crate::reconcile::main_loop::single_pass::{Work, asks_people};
use crate::reconcile::observe::final_health::FinalHealth;
use crate::reconcile::planner::FleetReading;
use crate::reconcile::proposal::may_be_retried;
use crate::reconcile::{Controller, StateKey};

/// A decision to wait, and what it follows from.
#[derive(Debug)]
pub(in crate::reconcile) struct CachedDecision {
    source: CommitId,
    deploy: Option<CommitId>,
    /// How often clusters had come to stand elsewhere before it was decided.
    standings: u64,
    /// When time alone leads to another decision, if ever.
    until: Option<Timestamp>,
    /// What it follows from beside the source; none where it follows from the head of the deploy branch as well.
    ahead: Option<Ahead>,
    work: Work,
}

/// A cluster whose rollout has not begun.
#[derive(Debug)]
struct Ahead {
    state: StateKey,
    others: Others,
}

impl CachedDecision {
    /// Whether it is of no use without the view that it was made on.
    pub(in crate::reconcile) fn needs_view(&self) -> bool {
        self.ahead.is_none() || self.work.position.is_some()
    }

    /// Whether it waits for its turn, and what Flux says of it may be read when that has come.
    pub(in crate::reconcile) fn waits_for_turn(&self) -> bool {
        self.turn().is_some()
    }

    /// What keeps a cluster that waits for its turn.
    fn turn(&self) -> Option<&WaveHold> {
        let wave = self.ahead.as_ref()?.others.wave.as_ref()?;
        match &self.work.pass.outcome {
            ClusterOutcome::Waiting { reason, .. } => Some(wave).filter(|wave| wave.reason == *reason),
            _ => None,
        }
    }

    /// The same decision where others say this by now; none where it may be another one.
    fn among(&self, others: &Others) -> Option<Work> {
        let before = &self.ahead.as_ref()?.others;
        if others == before {
            return Some(self.work.clone());
        }
        // Its wave has no place for it as before: who has one is another.
        let (turn, wave) = self.turn().zip(others.wave.as_ref())?;
        let is_held_alike =
            turn.binds == wave.binds && turn.until == wave.until && others.prerequisite == before.prerequisite;
        if !is_held_alike {
            return None;
        }
        let mut work = self.work.clone();
        if let ClusterOutcome::Waiting { reason, .. } = &mut work.pass.outcome {
            reason.clone_from(&wave.reason);
        }
        Some(work)
    }
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
        self.resting(reading, cluster, resting?.as_ref())
    }

    fn resting(&self, reading: &FleetReading, cluster: &ClusterSpec, resting: &CachedDecision) -> Option<Work> {
        let now = self.clock.now();
        // What could not be read may be readable now, at the same commits.
        let may_rest = reading.deployed.unreadable.is_empty()
            && resting.source == *reading.source_commit()
            && resting.until.is_none_or(|until| now < until);
        if !may_rest {
            return None;
        }
        let head = reading.deploy_head();
        if resting.deploy.as_ref() == head && resting.standings == self.standings().changes() {
            return Some(resting.work.clone());
        }
        let ahead = resting.ahead.as_ref()?;
        // A branch that was written anew is read anew. What cannot be read is told by whoever decides.
        let follows = || Some(self.planner.follows(resting.deploy.as_ref()?, head?).unwrap_or_default());
        if Self::state(reading, cluster).as_ref() != Some(&ahead.state) || !follows()? {
            return None;
        }
        let (others, standings) = self.others(reading, cluster, now);
        Some(resting.among(&others)?.of_standings(standings))
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
        let has_begun = view.directory.ledger().is_some_and(|ledger| ledger.state == LedgerState::Running);
        let is_ahead = !has_begun && view.missing.is_none() && view.foreign.is_none();
        let others = work.position.as_ref().filter(|_| is_ahead).map(|position| position.others.clone());
        (waits && is_alone && is_from_here).then(|| {
            Arc::new(CachedDecision {
                source: decided_at.source,
                deploy: decided_at.deploy,
                standings,
                ahead: others.map(|others| Ahead { state: decided_at.state, others }),
                until: work.pass.next.into_iter().chain(known.until).min(),
                work: work.clone().without_position(reading),
            })
        })
    }
}
