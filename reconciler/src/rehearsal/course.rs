//! One rehearsal from its beginning to its end: the real controller on a copy of the repository, a simulated cluster, a virtual clock.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rollout::StageName;
use simulator::{Break, Injection, Trigger};

use super::error::RehearsalError;
use super::ground::Ground;
use super::machines::{MachineReport, MachineWatch};
use super::stages::StageWatch;
use super::way_back::{self, WayBackReport};
use crate::reconcile::main_loop::clock::{Clock, VirtualClock};
use crate::reconcile::observe::explain::Explainer;
use crate::reconcile::planner::FleetReading;
use crate::reconcile::{ClusterOutcome, ClusterPass, Controller};
use crate::report::WhyReport;
use crate::simulation::SimulatedFleet;

/// How long a rollout may take, in virtual time: longer than any wait for a window.
const PATIENCE: SignedDuration = SignedDuration::from_hours(24 * 120);

/// How often the controller may look, at most.
const PASSES: usize = 20_000;

/// How long a cluster that is held may go on by itself.
const HELD: SignedDuration = SignedDuration::from_mins(30);

/// What a rehearsal is told of, besides how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Nothing.
    Durations,
    /// What would be said where it stops.
    Stops,
    /// That, every machine, and the way back from each point.
    Everything,
}

/// What a rehearsal came to.
#[derive(Debug)]
pub(super) struct Run {
    /// Its stages.
    pub(super) stages: StageWatch,
    /// Machines that were made.
    pub(super) machines: Vec<MachineReport>,
    /// The way back from each point.
    pub(super) ways_back: Vec<WayBackReport>,
    /// From the beginning to the end.
    pub(super) took: SignedDuration,
    /// Where it stands in the end.
    pub(super) end: ClusterPass,
    /// Where it was held first.
    pub(super) stop: Option<Stop>,
}

impl Run {
    /// Whether the rollout came to its end.
    pub(super) fn is_done(&self) -> bool {
        self.end.outcome == ClusterOutcome::Done
    }
}

/// A gate that holds.
#[derive(Debug)]
pub(super) struct Stop {
    /// From the beginning.
    pub(super) after: SignedDuration,
    /// From the commit of the stage that is held; none where nothing was committed.
    pub(super) since_commit: Option<SignedDuration>,
    /// What `why` says there.
    pub(super) why: WhyReport,
    /// The way back from there; none where nothing was committed.
    pub(super) way_back: Option<WayBackReport>,
}

/// Carries the plan through once.
///
/// # Errors
/// [`RehearsalError`] when the copy cannot be made, or something fails on our side.
pub(super) async fn run(
    ground: &Ground,
    number: usize,
    seed: u64,
    broken: Option<(&Break, Option<StageName>)>,
    detail: Detail,
) -> Result<Run, RehearsalError> {
    let planner = ground.copy(number)?;
    let clock = VirtualClock::new(ground.begins);
    let reading = planner.read()?;
    let simulated = Arc::new(SimulatedFleet::settled_as(&reading, clock.now(), ground.simulation(seed))?);
    if let (Some((broken, last)), Some(cluster)) = (broken, simulated.get(ground.name.as_str())) {
        let from = match (&broken.stage, last) {
            (StageName::Preflight | StageName::Backup, _) | (StageName::Verify, None) => Trigger::At(clock.now()),
            (StageName::Verify, Some(last)) => Trigger::Stage(last),
            (stage, _) => Trigger::Stage(stage.clone()),
        };
        cluster.cluster().inject(&Injection { fault: broken.fault, from, lasts: None });
    }
    let controller = Controller::new(planner, Arc::clone(&simulated) as Arc<_>, Arc::new(clock.clone()), 1);
    let controller = controller.only(ground.name.clone());
    let course = Course { ground, clock, simulated, controller, reading, detail };
    course.finish().await
}

struct Course<'a> {
    ground: &'a Ground,
    clock: VirtualClock,
    simulated: Arc<SimulatedFleet>,
    controller: Controller,
    reading: FleetReading,
    detail: Detail,
}

impl Course<'_> {
    async fn finish(mut self) -> Result<Run, RehearsalError> {
        let begun = self.clock.now();
        let mut machines = MachineWatch::new(begun, &self.machines(begun));
        let (mut stages, mut ways_back, mut stop) = (StageWatch::new(begun), Vec::new(), None);
        let mut held_since: Option<Timestamp> = None;
        for _ in 0..PASSES {
            let began = self.clock.now();
            let pass = self.controller.pass().await?;
            let own = pass.clusters.iter().find(|own| own.cluster == self.ground.name.as_str());
            let own = own.cloned().ok_or_else(|| failed("the cluster is not part of the fleet"))?;
            let now = self.clock.now();
            if let ClusterOutcome::Failed { message, .. } = &own.outcome {
                return Err(failed(message));
            }
            if !own.committed.is_empty() {
                let planner = self.controller.planner();
                self.reading = planner.read()?;
                self.simulated.follow(planner.repository(), &self.reading, now)?;
                held_since = None;
                if self.detail == Detail::Everything {
                    ways_back.extend(self.ways_back(&own, now)?);
                }
            }
            if self.detail == Detail::Everything {
                machines.look(now, &self.machines(now));
            }
            let is_done = own.outcome == ClusterOutcome::Done && own.committed.is_empty();
            if matches!(own.outcome, ClusterOutcome::Held { .. }) {
                held_since.get_or_insert(now);
                if stop.is_none() && self.detail != Detail::Durations {
                    stop = Some(self.stop(&stages, begun, now).await?);
                }
            }
            let stays_held = held_since.is_some_and(|since| now.duration_since(since) > HELD);
            let stands = own.next.is_none() && own.committed.is_empty();
            let soon = now.saturating_add(SignedDuration::from_secs(1)).unwrap_or(now);
            let next = if own.committed.is_empty() { own.next.unwrap_or(soon).max(soon) } else { soon };
            let ends = is_done || stands || stays_held || now.duration_since(begun) > PATIENCE;
            stages.note(&own, began, if ends { now } else { next });
            if ends {
                let (machines, took) = (machines.made(), now.duration_since(begun));
                return Ok(Run { stages, machines, ways_back, took, end: own, stop });
            }
            self.clock.sleep_until(next).await;
        }
        Err(failed("it does not come to an end"))
    }

    fn machines(&self, now: Timestamp) -> Vec<rollout::Machine> {
        let cluster = self.simulated.get(self.ground.name.as_str());
        cluster.map(|cluster| cluster.cluster().observe_afresh(now).machines).unwrap_or_default()
    }

    /// The way back from what was just committed.
    fn ways_back(&self, own: &ClusterPass, now: Timestamp) -> Result<Option<WayBackReport>, RehearsalError> {
        let Some(last) = own.committed.last().filter(|last| last.stage.name != StageName::Verify) else {
            return Ok(None);
        };
        let planner = self.controller.planner();
        let view = planner.view(&self.reading, self.ground.name.as_str())?;
        way_back::from(planner, &self.reading, &view, last.stage.to_string(), now).map(Some)
    }

    /// What is said where a gate holds, and what could be done.
    async fn stop(&self, stages: &StageWatch, begun: Timestamp, now: Timestamp) -> Result<Stop, RehearsalError> {
        let planner = self.controller.planner();
        let view = planner.view(&self.reading, self.ground.name.as_str())?;
        let clusters = self.simulated.as_ref();
        let explainer = Explainer::new(planner, &self.reading, clusters, &self.clock).alone();
        let explanation = explainer.explain(&view).await?;
        let why = WhyReport::of(&view, &explanation, None, &[]);
        let way_back = match stages.last_commit() {
            None => None,
            Some((stage, _)) => Some(way_back::from(planner, &self.reading, &view, stage.to_string(), now)?),
        };
        let since_commit = stages.last_commit().map(|(_, at)| now.duration_since(at));
        Ok(Stop { after: now.duration_since(begun), since_commit, why, way_back })
    }
}

fn failed(message: &str) -> RehearsalError {
    RehearsalError::Failed(message.to_owned())
}
