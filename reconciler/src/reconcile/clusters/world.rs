//! What `step` is asked about: a cluster's plan, its branch, its reading and its people, as one value.

use rollout::{ApprovalRecord, GateHistory, Pause, People, Prerequisite, Reading, World};

use crate::reconcile::Controller;
use crate::reconcile::planner::{ClusterView, FleetReading};
use crate::reconcile::proposal::{self, Asking, ProposalCache};
use planning::progress;

impl Controller {
    pub(in crate::reconcile) async fn world(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        view: &ClusterView,
        askings: &[Asking],
        people: People,
        now: jiff::Timestamp,
    ) -> World {
        let prerequisite = progress::prerequisite(&reading.fleet, &view.cluster, &self.standings());
        let memory = self.memory(&view.name);
        let mut mergers = memory.mergers.clone();
        let approvals = askings.iter().filter_map(Asking::record).collect();
        let known = Known { reading: memory.fast_path.reading().clone(), history: memory.history };
        let mut world = assemble(reading, view, known, prerequisite.into_iter().collect(), approvals);
        world.people = people;
        proposal::name_mergers(&self.planner, board, reading, view, &mut world.deploy, &mut mergers).await;
        world.history = rollout::record(&world, now);
        self.remember(&view.name, |memory| {
            memory.history = world.history.clone();
            memory.mergers = mergers;
        });
        world
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
    prerequisites: Vec<Prerequisite>,
    approvals: Vec<ApprovalRecord>,
) -> World {
    World {
        plan: view.plan.clone(),
        running: view.running.as_ref().map(|(plan, _)| plan.clone()),
        ledger: view.directory.shared_ledger().cloned(),
        deploy: view.head.clone(),
        observation: known.reading.observation().cloned(),
        rest: known.reading.rest().cloned(),
        history: known.history,
        paused: paused(reading, view),
        unconfirmed: view.unconfirmed(reading),
        foreign_change: view.foreign.clone(),
        prerequisites,
        approvals,
        people: People::default(),
    }
}

/// What stops the line: the policy, the specification, or the policy of before.
fn paused(reading: &FleetReading, view: &ClusterView) -> Option<Pause> {
    let (name, newest) = (view.name.as_str(), reading.source_commit());
    let pause = |place: String| Pause { place, reason: None, help: None };
    if reading.fleet.policy.is_paused(name) {
        return Some(pause("stepgate.yaml".to_owned()));
    }
    if view.cluster.paused {
        return Some(pause(format!("the specification of {name}")));
    }
    let before = view.befores.pausing(name)?;
    Some(Pause {
        reason: Some("that is what the cluster is at, so a push alone does not end it".to_owned()),
        help: Some(format!("whoever runs Stepgate lets the newest policy count by `--trust-policy {newest}`")),
        ..pause(format!("stepgate.yaml of commit {}", before.commit))
    })
}
