//! The course of a demonstration.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use rollout::StageName;
use simulator::{Break, Injection, Trigger};

use super::DemoSettings;
use super::fleet::{self, FleetFiles};
use super::report::{ClusterResult, DemoEvent, DemoReport, HeldResult, StageResult};
use crate::reconcile::cache::sources::FetchSources;
use crate::reconcile::effects::adopt::adopt;
use crate::reconcile::main_loop::clock::{Clock as _, VirtualClock};
use crate::reconcile::planner::{FleetReading, Planner};
use crate::reconcile::{ClusterOutcome, ClusterPass, Controller, ReconcileReport};
use crate::report::ClusterPlan;
use crate::simulation::SimulatedFleet;
use domain::BranchName;
use git::{Repository, RepositoryLocation};

/// How long the simulated fleet may take, in virtual time.
const PATIENCE: SignedDuration = SignedDuration::from_hours(48);

/// How long a broken cluster may only wait before the demonstration tells why and repairs it: longer than the ten minutes after which a
/// Deployment counts as stuck, and holds it.
const SHOWN_AFTER: SignedDuration = SignedDuration::from_mins(12);

/// Runs a demonstration.
///
/// # Errors
/// When the repository cannot be made or read, or the bundles cannot be used.
pub async fn run(
    settings: &DemoSettings,
    tell: &mut (dyn FnMut(Timestamp, DemoEvent<'_>) + Send),
) -> Result<DemoReport, anyhow::Error> {
    let started = Instant::now();
    std::fs::create_dir_all(&settings.folder)
        .with_context(|| format!("making the folder {}", settings.folder.display()))?;
    let files = FleetFiles::of(settings)?;
    let place = settings.folder.join("fleet.git");
    let main: BranchName = "main".parse()?;
    let fresh = !place.exists();
    let repository = if fresh {
        Repository::create(&place, &main)?
    } else {
        Repository::open(&RepositoryLocation::Local(place.clone()))?
    };
    let planner = Planner::new(repository.clone(), main.clone(), Arc::new(FetchSources::new(files.mirrors.clone())));
    let clock = VirtualClock::new(start(&repository)?);
    if fresh {
        fleet::push(&repository, &main, &files.before, "Describe the fleet", clock.now())?;
        let reading = planner.read()?;
        for cluster in &reading.fleet.clusters {
            adopt(&planner, &planner.read()?, &cluster.name, clock.now(), false)?;
        }
    }
    let reading = planner.read()?;
    let simulated = Arc::new(SimulatedFleet::settled(&reading, clock.now())?);
    let clusters: Vec<String> = reading.fleet.clusters.iter().map(|cluster| cluster.name.clone()).collect();
    tell(clock.now(), DemoEvent::Ready { repository: place.display().to_string(), clusters: clusters.clone() });
    clock.advance(SignedDuration::from_secs(60));
    let before = repository.head(&main)?;
    fleet::push(&repository, &main, &files.bump, &files.subject, clock.now())?;
    if repository.head(&main)? != before {
        tell(clock.now(), DemoEvent::Pushed { subject: &files.subject });
    }
    let reading = planner.read()?;
    let plan = |name: &String| {
        planner.view(&reading, name).map_or_else(
            |error| ClusterPlan::broken(name, &error),
            |view| ClusterPlan::of(&view.plan, &[], view.directory.ledger()),
        )
    };
    let plans: Vec<ClusterPlan> = clusters.iter().map(plan).collect();
    for plan in plans.iter().filter(|plan| plan.commits > 0) {
        tell(clock.now(), DemoEvent::Planned { plan });
    }
    let controller = Controller::new(planner, Arc::clone(&simulated) as Arc<_>, Arc::new(clock.clone()), 4);
    let mut course =
        Course { clock, simulated, controller, broken: None, last: Arc::default(), results: Vec::new(), held: None };
    if let Some(broken) = &settings.broken {
        course.break_it(broken, &clusters)?;
    }
    let begun = course.clock.now();
    let complete = course.finish(&repository, begun, tell).await?;
    let clusters = course.results();
    Ok(DemoReport {
        folder: settings.folder.display().to_string(),
        repository: place.display().to_string(),
        plans,
        commits: clusters.iter().map(|cluster| cluster.stages.len()).sum(),
        clusters,
        held: course.held,
        virtual_seconds: course.clock.now().duration_since(begun).as_secs(),
        seconds: started.elapsed().as_secs_f64(),
        complete,
    })
}

/// A moment after everything that is in the repository already.
fn start(repository: &Repository) -> Result<Timestamp, anyhow::Error> {
    let mut start: Timestamp = "2026-01-05T09:00:00Z".parse()?;
    for branch in repository.branches()? {
        if let Some(head) = repository.head(&branch)? {
            let committed = repository.committed_at(&head)?;
            start = start.max(committed.checked_add(SignedDuration::from_secs(60))?);
        }
    }
    Ok(start)
}

/// A demonstration under way.
struct Course {
    clock: VirtualClock,
    simulated: Arc<SimulatedFleet>,
    controller: Controller,
    broken: Option<(String, Break)>,
    last: Arc<ReconcileReport>,
    results: Vec<(String, StageResult)>,
    held: Option<HeldResult>,
}

impl Course {
    /// Breaks the first cluster that has the stage: the management cluster where it has it.
    fn break_it(&mut self, broken: &Break, clusters: &[String]) -> Result<(), anyhow::Error> {
        let reading = self.controller.planner().read()?;
        let has = |cluster: &&String| self.has_stage(&reading, cluster, &broken.stage);
        let cluster = clusters
            .iter()
            .find(has)
            .with_context(|| format!("no cluster of the demo changes at stage {}", broken.stage))?;
        let simulated = self.simulated.get(cluster).context("the cluster is simulated")?;
        let from = match broken.stage {
            // Nothing is committed at these: they are broken from the start.
            StageName::Preflight | StageName::Backup | StageName::Verify => Trigger::At(self.clock.now()),
            _ => Trigger::Stage(broken.stage.clone()),
        };
        simulated.cluster().inject(&Injection { fault: broken.fault, from, lasts: None });
        self.broken = Some((cluster.clone(), broken.clone()));
        Ok(())
    }

    fn has_stage(&self, reading: &FleetReading, cluster: &str, stage: &StageName) -> bool {
        let Ok(view) = self.controller.planner().view(reading, cluster) else { return false };
        view.plan
            .stages
            .iter()
            .any(|planned| planned.stage.name == *stage && planned.state != rollout::StageState::Skipped)
    }

    async fn finish(
        &mut self,
        repository: &Repository,
        begun: Timestamp,
        tell: &mut (dyn FnMut(Timestamp, DemoEvent<'_>) + Send),
    ) -> Result<bool, anyhow::Error> {
        loop {
            let now = self.clock.now();
            let pass = self.controller.pass().await?;
            let reading = self.controller.planner().read()?;
            self.simulated.follow(repository, &reading, now)?;
            self.tell(&pass, now, tell);
            let moved = pass.clusters.iter().any(|cluster| !cluster.committed.is_empty());
            let done = pass.clusters.iter().all(|cluster| cluster.outcome == ClusterOutcome::Done);
            let next = pass.clusters.iter().filter_map(|cluster| cluster.next).min();
            self.last = pass;
            self.repair(now, tell);
            if done && !moved {
                return Ok(true);
            }
            // Nobody answers what people are asked here.
            let stands = |cluster: &ClusterPass| cluster.next.is_none() || cluster.proposed.is_some();
            if now.duration_since(begun) > PATIENCE || (!moved && self.last.clusters.iter().all(stands)) {
                return Ok(false);
            }
            let soon = now.checked_add(SignedDuration::from_secs(1))?;
            self.clock.sleep_until(next.unwrap_or(soon).max(soon)).await;
        }
    }

    fn tell(
        &mut self,
        pass: &ReconcileReport,
        now: Timestamp,
        tell: &mut (dyn FnMut(Timestamp, DemoEvent<'_>) + Send),
    ) {
        for cluster in &pass.clusters {
            for stage in &cluster.committed {
                tell(now, DemoEvent::Committed { cluster: &cluster.cluster, stage });
                let result = StageResult {
                    stage: stage.stage.to_string(),
                    commit: stage.commit.to_string(),
                    reverted: stage.reverted,
                    committed_at: now.to_string(),
                    evidence: stage.evidence.clone(),
                };
                self.results.push((cluster.cluster.clone(), result));
            }
            let before = self.last.clusters.iter().find(|known| known.cluster == cluster.cluster);
            // A moment after a commit there is nothing to be said about it yet.
            if cluster.committed.is_empty()
                && before.is_none_or(|before| before.outcome.message() != cluster.outcome.message())
            {
                tell(now, DemoEvent::ClusterProgress { pass: cluster });
            }
        }
    }

    /// Once the broken stage is held (or has waited long enough to be seen), says why and puts it right.
    fn repair(&mut self, now: Timestamp, tell: &mut (dyn FnMut(Timestamp, DemoEvent<'_>) + Send)) {
        let Some((cluster, broken)) = self.broken.clone() else { return };
        let Some(simulated) = self.simulated.get(&cluster) else { return };
        let Some(pass) = self.last.clusters.iter().find(|pass| pass.cluster == cluster) else { return };
        let at_stage = pass.outcome.stage().is_some_and(|stage| stage.name == broken.stage);
        let since = self
            .results
            .iter()
            .rev()
            .find(|(name, _)| *name == cluster)
            .map(|(_, result)| result.committed_at.as_str());
        let waited = since
            .and_then(|since| since.parse::<Timestamp>().ok())
            .is_none_or(|since| now.duration_since(since) > SHOWN_AFTER);
        let shown = match pass.outcome {
            ClusterOutcome::Held { .. } => true,
            ClusterOutcome::Waiting { .. } => at_stage && waited && !simulated.cluster().faults().is_empty(),
            _ => false,
        };
        if !shown {
            return;
        }
        let reasons = match &pass.outcome {
            ClusterOutcome::Held { reasons, .. } => reasons.iter().map(ToString::to_string).collect(),
            other => vec![other.message()],
        };
        self.held = Some(HeldResult {
            cluster: cluster.clone(),
            stage: broken.stage.to_string(),
            fault: broken.fault.to_string(),
            state: pass.outcome.word().to_owned(),
            reasons,
            help: pass.outcome.help(),
        });
        simulated.cluster().heal(now);
        tell(now, DemoEvent::Repaired { cluster: &cluster, broken: &broken });
        self.broken = None;
    }

    fn results(&self) -> Vec<ClusterResult> {
        let result = |pass: &ClusterPass| ClusterResult {
            cluster: pass.cluster.clone(),
            state: pass.outcome.word().to_owned(),
            message: pass.outcome.message(),
            help: pass.outcome.help(),
            stages: self
                .results
                .iter()
                .filter(|(name, _)| *name == pass.cluster)
                .map(|(_, result)| result.clone())
                .collect(),
        };
        self.last.clusters.iter().map(result).collect()
    }
}
