//! What `step` is asked about: a cluster's plan, its branch, its reading and its people, as one value.

use std::sync::Arc;

use rollout::{ApprovalRecord, Effect, Pause, People, Prerequisite, World};

use super::access::Clusters;
use super::asking::request;
use super::planner::{ClusterView, FleetReading, PlanError, Planner};
use super::proposal::{self, Asking, Board, Mergers};
use super::report::ClusterOutcome;
use super::standing;
use super::told;
use super::{Controller, Memory};
use crate::cluster::Freshness;

impl Controller {
    pub(super) async fn world(
        &self,
        reading: &FleetReading,
        board: &Board,
        view: &ClusterView,
        askings: &[Asking],
        people: People,
        now: jiff::Timestamp,
    ) -> World {
        let prerequisite = standing::prerequisite(&reading.fleet, &view.cluster, &self.standings());
        let memory = self.memory(&view.name);
        let mut mergers = memory.mergers.clone();
        let approvals = askings.iter().filter_map(Asking::record).collect();
        let mut world = world(reading, view, memory, prerequisite.into_iter().collect(), approvals);
        world.people = people;
        proposal::name_mergers(&self.planner, board, reading, view, &mut world.deploy, &mut mergers).await;
        world.history = rollout::record(&world, now);
        self.remember(&view.name, |memory| {
            memory.history = world.history.clone();
            memory.mergers = mergers;
        });
        world
    }

    /// What the next pass would decide about a cluster, from one reading. Nothing is written anywhere.
    ///
    /// # Errors
    /// [`PlanError`] when proposed branches, or the commits that people are judged by, cannot be read.
    pub async fn explain(
        planner: &Planner,
        reading: &FleetReading,
        view: &ClusterView,
        clusters: &dyn Clusters,
        now: jiff::Timestamp,
    ) -> Result<ClusterOutcome, PlanError> {
        let cluster = clusters.referred(&view.cluster, &planner.reference(reading, &view.cluster));
        if let Some(reasons) = told::blocks(planner, reading, view, cluster.as_ref(), now).await {
            return Ok(ClusterOutcome::Blocked { reasons });
        }
        let board = Board::default();
        let considered = proposal::consider(planner, &board, reading, Arc::new(view.clone())).await?;
        let askings = proposal::askings(planner, &board, reading, &considered).await?;
        let view = considered.view.as_ref();
        let approvals = askings.iter().filter_map(Asking::record).collect();
        let mut world = world(reading, view, Memory::default(), Vec::new(), approvals);
        world.people = proposal::people(planner, &board, reading, view).await?;
        proposal::name_mergers(planner, &board, reading, view, &mut world.deploy, &mut Mergers::default()).await;
        world.observation = Some(Arc::new(
            clusters
                .referred(&view.cluster, &planner.reference(reading, &view.cluster))
                .observe(&request(view, &world, Freshness::Fresh, now))
                .await,
        ));
        world.history = rollout::record(&world, now);
        for effect in rollout::step(&world, now) {
            match effect {
                Effect::Wait { stage, reason, until } => return Ok(ClusterOutcome::Waiting { stage, reason, until }),
                Effect::Hold { stage, reasons, help } => return Ok(ClusterOutcome::Held { stage, reasons, help }),
                Effect::Blocked { reasons } => return Ok(ClusterOutcome::Blocked { reasons }),
                Effect::Done => return Ok(ClusterOutcome::Done),
                Effect::Commit(commit) => {
                    let reason =
                        rollout::Reason::new("its gate is open; the controller commits it next").help("stepgate run");
                    return Ok(ClusterOutcome::Waiting { stage: Some(commit.stage), reason, until: None });
                }
                Effect::Observe { .. }
                | Effect::Backup { .. }
                | Effect::RequestApproval(_)
                | Effect::Revert(_)
                | Effect::Close(_) => {}
            }
        }
        let reason = rollout::Reason::new("the controller has something to do").help("stepgate run");
        Ok(ClusterOutcome::Waiting { stage: None, reason, until: None })
    }
}

fn world(
    reading: &FleetReading,
    view: &ClusterView,
    memory: Memory,
    prerequisites: Vec<Prerequisite>,
    approvals: Vec<ApprovalRecord>,
) -> World {
    World {
        plan: view.plan.clone(),
        running: view.running.as_ref().map(|(plan, _)| plan.clone()),
        ledger: view.directory.shared_ledger().cloned(),
        deploy: view.head.clone(),
        observation: memory.readings.observation().cloned(),
        rest: memory.readings.rest().cloned(),
        history: memory.history,
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
