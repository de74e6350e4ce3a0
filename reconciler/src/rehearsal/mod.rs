//! `stepgate rehearse`: the plan of one cluster is carried through a simulation of it, before it is carried out.
//!
//! Architecture Invariant: nothing is written outside of a temporary folder. The repository is borrowed from, the cluster is read once, no
//! forge, registry or person is asked. What decides is the real controller; only the cluster and the time are not real.

mod course;
mod error;
mod found;
mod ground;
mod machines;
mod pace;
mod report;
mod spread;
mod stages;
mod unknown;
mod way_back;

pub use error::RehearsalError;
pub use found::{FoundReport, GroupFound};
pub use machines::MachineReport;
pub use pace::{PaceReport, PaceSource};
pub use report::{FaultRehearsed, RehearsalReport, StageRehearsed};
pub use spread::Spread;
pub use stages::WaitReport;
pub use way_back::WayBackReport;

use std::num::NonZero;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use overlays::RenderedTree;
use policy::Approval;
use rollout::dump::Dump;
use rollout::{ApprovalScope, PastDurations, StagePlan};
use simulator::Break;

use self::course::{Detail, Run, run};
use self::ground::{Ground, SharedGround, changing, last_commit};
use crate::reconcile::ClusterOutcome;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use crate::report::ClusterPlan;
use planning::progress;

/// What is rehearsed.
#[derive(Clone, Debug)]
pub struct RehearsalSettings {
    /// When the rollout begins.
    pub begins: Timestamp,
    /// What everything random follows from: of the first rehearsal, and of the next ones as many more.
    pub seed: u64,
    /// How many rehearsals there are, besides those of faults.
    pub rehearsals: usize,
    /// How many of them go at once.
    pub at_once: NonZero<usize>,
    /// What goes wrong, each in a rehearsal of its own.
    pub faults: Vec<Break>,
    /// What the cluster is like; without it, what the deploy branch says.
    pub dump: Option<Dump>,
}

/// Rehearses the plan of one cluster.
///
/// # Errors
/// [`RehearsalError`] when it cannot be simulated, a fault has no stage, or something fails on our side.
pub async fn rehearse(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    settings: &RehearsalSettings,
) -> Result<RehearsalReport, RehearsalError> {
    let plan = ClusterPlan::of(&view.plan, &view.unconfirmed(reading), view.directory.ledger());
    let mut report = untold(view, settings);
    if !plan.blocked.is_empty() {
        "blocked".clone_into(&mut report.state);
        return Ok(RehearsalReport { blocked: plan.blocked, ..report });
    }
    if view.plan.next_stage().is_none() && !view.plan.running {
        return Ok(report);
    }
    let cluster = ground::simulated(reading, view)?;
    let dump = settings.dump.as_ref();
    let counts = dump.map(|dump| found::counts(&cluster, dump)).unwrap_or_default();
    let ledger = view.directory.ledger();
    let (paces, told) = pace::of_plan(&view.plan, ledger, &cluster, &counts);
    let found = found::told(&cluster, &counts, dump, &target(view));
    let others = progress::concerning(&reading.fleet, &view.cluster);
    let others: Vec<String> = others.into_iter().map(str::to_owned).collect();
    report.unknown = unknown::told(&found, &told, &others);
    (report.found, report.paces) = (Some(found), told);
    report.rollout = Some(view.plan.rollout_id.to_string());
    check(view, &settings.faults)?;
    let ground = Arc::new(Ground::new(planner, reading, view, settings.begins, (counts, paces))?);
    let first = run(&ground, 0, settings.seed, None, Detail::Everything).await?;
    let more = repeated(&ground, settings).await?;
    for (number, broken) in settings.faults.iter().enumerate() {
        let number = settings.rehearsals + number;
        let broken_run = run(&ground, number, settings.seed, Some((broken, last_commit(view))), Detail::Stops).await?;
        report.faults.push(broken_by(broken, broken_run, &first));
    }
    Ok(filled(report, view, first, &more))
}

/// A report of which nothing is told yet.
fn untold(view: &ClusterView, settings: &RehearsalSettings) -> RehearsalReport {
    RehearsalReport {
        cluster: view.name.to_string(),
        state: "nothing-to-do".to_owned(),
        message: None,
        help: None,
        blocked: Vec::new(),
        rollout: None,
        begins: settings.begins.to_string(),
        seed: settings.seed,
        found: None,
        paces: Vec::new(),
        seconds: 0,
        estimate: None,
        unfinished: 0,
        stages: Vec::new(),
        machines: Vec::new(),
        ways_back: Vec::new(),
        faults: Vec::new(),
        unknown: Vec::new(),
    }
}

/// All files that the rollout brings.
fn target(view: &ClusterView) -> RenderedTree {
    let mut target = RenderedTree::new();
    view.parts.iter().for_each(|part| target.extend(&part.after));
    target
}

/// Every fault has a stage to begin with.
fn check(view: &ClusterView, faults: &[Break]) -> Result<(), RehearsalError> {
    let has = |broken: &&Break| changing(view).any(|stage| stage.stage.name == broken.stage);
    match faults.iter().find(|broken| !has(broken)) {
        None => Ok(()),
        Some(broken) => Err(RehearsalError::NoSuchStage {
            cluster: view.name.to_string(),
            stage: broken.stage.clone(),
            stages: changing(view).map(|stage| stage.stage.to_string()).collect(),
        }),
    }
}

/// The rehearsals after the first one, in the order of their seeds.
async fn repeated(ground: &SharedGround, settings: &RehearsalSettings) -> Result<Vec<Run>, RehearsalError> {
    let one = |number: usize| {
        let seed = settings.seed.wrapping_add(u64::try_from(number).unwrap_or_default());
        let ground = Arc::clone(ground);
        let rehearsed = async move { run(&ground, number, seed, None, Detail::Durations).await };
        async move {
            // One after the other, they stay where whoever asks has put them.
            if settings.at_once == NonZero::<usize>::MIN { rehearsed.await } else { tokio::spawn(rehearsed).await? }
        }
    };
    let runs: Vec<_> = stream::iter(1..settings.rehearsals).map(one).buffered(settings.at_once.get()).collect().await;
    runs.into_iter().collect()
}

/// What a fault came to, beside the rehearsal without it.
fn broken_by(broken: &Break, run: Run, first: &Run) -> FaultRehearsed {
    let longer = (run.is_done() && first.is_done()).then(|| run.took.saturating_sub(first.took).as_secs());
    let state = run.end.outcome.word().to_owned();
    let stop = run.stop;
    let (why, advice) = match &stop {
        Some(stop) => (stop.why.reasons.clone(), stop.why.advice.clone()),
        None if run.end.outcome == ClusterOutcome::Done => (Vec::new(), Vec::new()),
        None => (vec![run.end.outcome.message()], run.end.outcome.help().into_iter().collect()),
    };
    FaultRehearsed {
        stage: broken.stage.to_string(),
        fault: broken.fault.to_string(),
        summary: broken.fault.summary().to_owned(),
        state,
        held_at: stop.as_ref().and_then(|stop| stop.why.stage.clone()),
        after: stop.as_ref().map(|stop| stop.after.as_secs()),
        after_commit: stop.as_ref().and_then(|stop| stop.since_commit).map(|since| since.as_secs()),
        longer,
        why,
        advice,
        way_back: stop.and_then(|stop| stop.way_back),
    }
}

fn filled(report: RehearsalReport, view: &ClusterView, first: Run, more: &[Run]) -> RehearsalReport {
    let runs = || std::iter::once(&first).chain(more);
    let estimate = Spread::of(runs().filter(|run| run.is_done()).map(|run| run.took));
    let unfinished = runs().filter(|run| !run.is_done()).count();
    let past = view.directory.ledger().map(PastDurations::after).unwrap_or_default();
    let stage = |told: &stages::StageRun| {
        let planned = view.plan.stages.iter().find(|planned| planned.stage.to_string() == told.stage);
        let of_run = |run: &Run| run.stages.stages().iter().find(|other| other.stage == told.stage).map(|it| it.took);
        StageRehearsed {
            stage: told.stage.clone(),
            asks: planned.and_then(|planned| asks(view, planned)),
            begun: told.begun.as_secs(),
            committed: told.committed.map(|committed| committed.as_secs()),
            reverted: told.reverted,
            seconds: told.took.as_secs(),
            estimate: Spread::of(runs().filter(|run| run.is_done()).filter_map(of_run)),
            past: planned.map(|planned| past.of(&planned.stage.name)).unwrap_or_default(),
            machines: planned.map_or(0, |planned| planned.machines),
            facts: told.facts,
            waits: told.waits(),
        }
    };
    let stages = first.stages.stages().iter().map(stage).collect();
    let (message, help) = match &first.end.outcome {
        ClusterOutcome::Done => (None, None),
        other => (Some(other.message()), other.help()),
    };
    RehearsalReport {
        state: first.end.outcome.word().to_owned(),
        message,
        help,
        seconds: first.took.max(SignedDuration::ZERO).as_secs(),
        estimate,
        unfinished,
        stages,
        machines: first.machines,
        ways_back: first.ways_back,
        ..report
    }
}

/// Who would be asked before a stage is committed; none where nobody is.
fn asks(view: &ClusterView, stage: &StagePlan) -> Option<String> {
    if stage.stage.is_without_commit() {
        return None;
    }
    let (scope, what) = match stage.policy.approval {
        Approval::None => return None,
        Approval::Stage => (ApprovalScope::Stage(stage.stage.clone()), "for this stage"),
        Approval::Rollout => {
            let first = view.plan.next_stage()?;
            if first.stage != stage.stage {
                return None;
            }
            (ApprovalScope::Rollout, "for the whole rollout")
        }
    };
    if view.directory.ledger().is_some_and(|ledger| ledger.is_approved(&scope, &view.plan.digest)) {
        return Some(format!("approved already, {what}"));
    }
    let who = if stage.policy.approvers.take_anybody() {
        "anybody who may merge".to_owned()
    } else {
        stage.policy.approvers.to_string()
    };
    Some(format!("{who}, {what}"))
}
