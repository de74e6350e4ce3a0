//! `stepgate status`: where every cluster stands.

use clap::Args;
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use serde::Serialize;
use std::time::Duration;
use tokio::time::{sleep, timeout};

use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet::Opened;
use crate::cli::common::output;
use crate::cli::common::output::{Report, Table};
use crate::cli::common::when::Teller;
use crate::cli::common::wrap;
use crate::cli::terminal::screen::{self, Screen};
use crate::cli::terminal::tree::{self, Branch};
use crate::cli::{ClusterArguments, ReportArguments};
use crate::reconcile::clusters::access::Clusters;
use crate::reconcile::main_loop::clock::SystemClock;
use crate::reconcile::observe::explain::Explainer;
use crate::reconcile::people::facts::overridden;
use crate::reconcile::planner::{ClusterView, PlanError, Planner, VIEWS};
use crate::report::{ClusterStatus, MachineStatus, StageStatus, WaveReport};
use crate::watch::{Watch, WatchSettings};

/// How many clusters are read at once.
const AT_ONCE: usize = 8;

/// Arguments of `stepgate status`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    report: ReportArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// Exit with 3 when a cluster is blocked, 4 when one is running or waits, 5 when one is held.
    #[arg(long)]
    exit_code: bool,
    /// Show it again whenever something has changed, until it is stopped: in place on a terminal, else below.
    #[arg(long, conflicts_with = "output")]
    watch: bool,
    /// The longest time between two looks at the clusters with `--watch`, in seconds. A commit is seen at once.
    #[arg(long, default_value_t = 10, value_name = "SECONDS", requires = "watch")]
    interval: u64,
}

/// Where the clusters stand.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct StatusReport {
    /// One a cluster.
    pub clusters: Vec<ClusterStatus>,
    /// The waves, in their order; none where the policy has none, or one cluster was asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<WaveReport>,
}

impl Report for StatusReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let headers = vec!["CLUSTER", "STATE", "ROLLOUT", "COMMITTED", "NEXT", "MESSAGE"];
        let mut table = Table { headers, notes: self.notes(), ..Table::default() };
        let teller = Teller::here();
        for cluster in &self.clusters {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            table.rows.push(vec![
                cluster.cluster.clone(),
                cluster.state.clone(),
                text(&cluster.rollout),
                text(&cluster.committed),
                text(&cluster.next),
                teller.told(&cluster.message),
            ]);
        }
        vec![(None, table)]
    }

    fn prose(&self) -> Option<String> {
        let width = screen::width();
        let mut text = tree_of(self.clusters.iter(), width);
        for note in self.notes() {
            text.push_str(&width.map_or_else(|| note.clone(), |width| wrap::words(&note, width)));
            text.push('\n');
        }
        Some(text)
    }
}

impl StatusReport {
    /// What is to be known of a cluster besides where it stands.
    fn notes(&self) -> Vec<String> {
        let teller = Teller::here();
        let mut notes: Vec<String> = self.waves.iter().map(|wave| teller.told(&wave.line)).collect();
        for cluster in &self.clusters {
            let name = &cluster.cluster;
            notes.extend(cluster.chain.iter().map(|told| format!("chain ({name}): {told}")));
            notes.extend(cluster.way_back.iter().map(|told| format!("way back ({name}): {}", teller.told(told))));
            notes.extend(cluster.tanzu.iter().map(|tanzu| format!("tanzu ({name}): {}", tanzu.line)));
            notes.extend(cluster.rollback.iter().map(|told| format!("rollback ({name}): {told}")));
        }
        notes
    }
}

/// Clusters with their stages, and these with their machines, as a tree.
pub(in crate::cli) fn tree_of<'a>(clusters: impl Iterator<Item = &'a ClusterStatus>, width: Option<usize>) -> String {
    let teller = Teller::here();
    tree::drawn(&clusters.map(|cluster| branch(cluster, &teller)).collect::<Vec<_>>(), width)
}

fn branch(cluster: &ClusterStatus, teller: &Teller) -> Branch {
    let at = cluster.planned_stages.iter().find(|stage| stage.state == cluster.state);
    let at = at.map(|stage| &stage.stage).or(cluster.next.as_ref());
    let done =
        cluster.planned_stages.iter().filter(|stage| matches!(stage.state.as_str(), "passed" | "committed")).count();
    let next = cluster.next.as_ref().filter(|next| at != Some(*next)).map(|next| format!(", {next} is next"));
    let at = at.map(|stage| format!("at {stage}{}", next.unwrap_or_default())).unwrap_or_default();
    let rollout = cluster.rollout.as_ref().map(|rollout| {
        let of = if cluster.planned_stages.is_empty() {
            String::new()
        } else {
            format!(", {done} of {} stages", cluster.planned_stages.len())
        };
        format!("rollout {rollout}{of}")
    });
    let told = [Some(at).filter(|at| !at.is_empty()), rollout].into_iter().flatten().collect::<Vec<_>>().join(": ");
    Branch {
        name: cluster.cluster.clone(),
        state: cluster.state.clone(),
        told,
        why: Some(teller.told(&cluster.message)),
        below: cluster.planned_stages.iter().map(stage_branch).collect(),
    }
}

fn stage_branch(stage: &StageStatus) -> Branch {
    let told = match (stage.machines, stage.read.len()) {
        (0, 0) => String::new(),
        (0 | 1, 1) | (1, 0) => "1 machine".to_owned(),
        (planned, read) => format!("{} machines", usize::try_from(planned).unwrap_or(usize::MAX).max(read)),
    };
    // Machines that nothing happens to are counted alone.
    let is_under_way = !matches!(stage.state.as_str(), "passed" | "pending");
    let below = stage.read.iter().filter(|_| is_under_way).map(machine_branch).collect();
    Branch { name: stage.stage.clone(), state: stage.state.clone(), told, why: None, below }
}

fn machine_branch(machine: &MachineStatus) -> Branch {
    let parts = [machine.version.as_deref(), machine.node.as_deref().filter(|node| *node != machine.machine)];
    Branch {
        name: machine.machine.clone(),
        state: machine.phase.clone().unwrap_or_else(|| "unknown".to_owned()),
        told: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
        ..Branch::default()
    }
}

/// Prints where the clusters stand.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let (opened, names) = arguments.report.open()?;
    opened.remark();
    let access = arguments.access.open()?;
    let runtime = crate::cli::run::verb::runtime()?;
    if arguments.watch {
        return runtime.block_on(follow(arguments, opened.planner, access.as_ref()));
    }
    let report = runtime.block_on(read(&opened, access.as_ref(), names, arguments.report.cluster.is_none()));
    output::print(arguments.report.output, &report)?;
    let any = |state: &str| report.clusters.iter().any(|cluster| cluster.state == state);
    Ok(match () {
        () if any("failed") => Exit::Error,
        () if !arguments.exit_code => Exit::Success,
        () if any("held") => Exit::Stopped,
        () if any("blocked") => Exit::Blocked,
        () if any("running") || any("waiting") => Exit::Waiting,
        () => Exit::Success,
    })
}

/// Where these clusters stand, and the waves where they are all of them.
async fn read(opened: &Opened, access: &dyn Clusters, names: Vec<String>, whole: bool) -> StatusReport {
    let explainer = &Explainer::new(&opened.planner, &opened.reading, access, &SystemClock);
    if whole {
        Box::pin(explainer.look_at_fleet()).await;
    }
    let mut clusters = Vec::new();
    for names in names.chunks(VIEWS) {
        let told = stream::iter(names.iter().zip(opened.views(names))).map(|(name, view)| async move {
            let told = match view {
                Ok(view) => Box::pin(status(opened, explainer, &view)).await,
                Err(error) => Err(error),
            };
            told.unwrap_or_else(|error| ClusterStatus::failed(name.clone(), error.to_string()))
        });
        clusters.extend(told.buffered(AT_ONCE).collect::<Vec<_>>().await);
    }
    let waves = if whole { Box::pin(explainer.waves()).await } else { Vec::new() };
    let now = Timestamp::now();
    StatusReport { clusters, waves: waves.iter().map(|wave| WaveReport::of(wave, now)).collect() }
}

/// Shows it again whenever something has changed.
async fn follow(arguments: &Arguments, planner: Planner, access: &dyn Clusters) -> Result<Exit, CommandError> {
    let interval = Duration::from_secs(arguments.interval.max(1));
    let mut screen = Screen::default();
    let mut watch: Option<Watch> = None;
    loop {
        match planner.read() {
            Ok(reading) => {
                let opened = Opened { planner: planner.clone(), reading };
                let names = opened.clusters(arguments.report.cluster.as_deref())?;
                let report = Box::pin(read(&opened, access, names, arguments.report.cluster.is_none())).await;
                screen.show(&output::text(&report))?;
                let branches = vec![planner.source_branch().clone(), opened.reading.layout.branch.clone()];
                watch.get_or_insert_with(|| Watch::start(planner.repository().clone(), WatchSettings::new(branches)));
            }
            Err(error) => screen.show(&format!("the fleet cannot be read now: {error}\n"))?,
        }
        let looked = async {
            match &mut watch {
                Some(watch) => drop(timeout(interval, watch.changed()).await),
                None => sleep(interval).await,
            }
        };
        tokio::select! {
            () = looked => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Success),
        }
    }
}

async fn status(opened: &Opened, explainer: &Explainer<'_>, view: &ClusterView) -> Result<ClusterStatus, PlanError> {
    let explanation = explainer.explain(view).await?;
    let aside = overridden(&opened.planner, &opened.reading, view)?;
    let outlook = opened.planner.outlook(&opened.reading, view, Timestamp::now())?;
    let rollback = outlook.told(&view.name);
    let status = ClusterStatus { rollback, ..ClusterStatus::of(view, &explanation, aside.as_ref()) };
    Ok(status.with_stages(view, &explanation))
}
