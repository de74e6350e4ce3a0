//! What `step` is asked about: a cluster's plan, its branch, its reading and its people, as one value.

use jiff::Timestamp;
use overlays::ClusterSpec;
use policy::Paused;
use rollout::{ApprovalRecord, GateHistory, Pause, People, Reading, World};

use crate::reconcile::Controller;
use crate::reconcile::planner::{ClusterView, FleetReading};
use crate::reconcile::proposal::{self, Asking, ProposalCache};
use planning::progress::{self, Others};

impl Controller {
    pub(in crate::reconcile) async fn world(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        view: &ClusterView,
        askings: &[Asking],
        people: People,
        now: Timestamp,
    ) -> World {
        let (others, _) = self.others(reading, &view.cluster, now);
        let memory = self.memory(&view.name);
        let mut mergers = memory.mergers.clone();
        let approvals = askings.iter().filter_map(Asking::record).collect();
        let known = Known { reading: memory.fast_path.reading().clone(), history: memory.history };
        let mut world = assemble(reading, view, known, others, approvals, now);
        world.people = people;
        proposal::name_mergers(&self.planner, board, reading, view, &mut world.deploy, &mut mergers).await;
        world.history = rollout::record(&world, now);
        self.remember(&view.name, |memory| {
            memory.history = world.history.clone();
            memory.mergers = mergers;
        });
        world
    }

    /// What other clusters say to one now, and how often any has come to stand elsewhere by now.
    pub(in crate::reconcile) fn others(
        &self,
        reading: &FleetReading,
        cluster: &ClusterSpec,
        now: Timestamp,
    ) -> (Others, u64) {
        let mut standings = self.standings();
        if self.only.is_some() {
            return (Others::default(), standings.changes());
        }
        standings.hear(&reading.wave_words);
        let others = progress::others(&reading.fleet, cluster, &mut standings, reading.source_commit(), now);
        (others, standings.changes())
    }
}

/// What is remembered of a cluster, as far as decisions look at it.
#[derive(Clone, Debug, Default)]
pub(in crate::reconcile) struct Known {
    pub(in crate::reconcile) reading: Reading,
    pub(in crate::reconcile) history: GateHistory,
}

pub(in crate::reconcile) fn assemble(
    reading: &FleetReading,
    view: &ClusterView,
    known: Known,
    others: Others,
    approvals: Vec<ApprovalRecord>,
    now: Timestamp,
) -> World {
    World {
        plan: view.plan.clone(),
        running: view.running.as_ref().map(|(plan, _)| plan.clone()),
        ledger: view.directory.shared_ledger().cloned(),
        deploy: view.head.clone(),
        observation: known.reading.observation().cloned(),
        rest: known.reading.rest().cloned(),
        history: known.history,
        paused: paused(reading, view, now),
        unconfirmed: view.unconfirmed(reading),
        foreign_change: view.foreign.clone(),
        prerequisites: others.prerequisite.into_iter().collect(),
        wave: others.wave,
        approvals,
        people: People::default(),
    }
}

/// What stops the line: the policy, the specification, or the policy of before.
fn paused(reading: &FleetReading, view: &ClusterView, now: Timestamp) -> Option<Pause> {
    let (name, newest) = (view.name.as_str(), reading.source_commit());
    let pause = |place: String| Pause { place, reason: None, help: None, until: None };
    if let Some(paused) = reading.fleet.policy.pause(name, now) {
        return Some(leased(paused, pause("stepgate.yaml".to_owned())));
    }
    if view.cluster.paused {
        return Some(pause(format!("the specification of {name}")));
    }
    let before = view.befores.pausing(name, now)?;
    let kept = Pause {
        reason: Some("that is what the cluster is at, so a push alone does not end it".to_owned()),
        help: Some(format!("whoever runs Stepgate lets the newest policy count by `--trust-policy {newest}`")),
        ..pause(format!("stepgate.yaml of commit {}", before.commit))
    };
    Some(match before.policy.pause(name, now) {
        Some(paused) => leased(paused, kept),
        None => kept,
    })
}

/// With what the pause itself says of why and until when.
fn leased(paused: &Paused, pause: Pause) -> Pause {
    let Paused::Until(lease) = paused else { return pause };
    let reason = pause.reason.map_or_else(|| lease.to_string(), |reason| format!("{lease}; {reason}"));
    Pause { reason: Some(reason), until: Some(lease.until), ..pause }
}
