//! `stepgate run`: the controller.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::error::CommandError;
use super::exit::Exit;
use super::output::{self, Format, Report, Table};
use super::{ClusterArguments, FleetArguments, fleet};
use crate::controller::clock::{Clock as _, SystemClock};
use crate::controller::{ClusterOutcome, ClusterPass, Controller, Pass};
use crate::watch::{Watch, WatchSettings, WebhookSecret, WebhookSettings, webhook};

/// Arguments of `stepgate run`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// Make one pass over the fleet, print what came of it, and end.
    #[arg(long)]
    once: bool,
    /// How many clusters are worked on at once.
    #[arg(long, env = "STEPGATE_CONCURRENT", default_value_t = 8, value_name = "NUMBER")]
    concurrent: usize,
    /// The longest time between two passes, even if nothing moves, in seconds.
    #[arg(long, env = "STEPGATE_INTERVAL", default_value_t = 30, value_name = "SECONDS")]
    interval: u64,
    /// Address for push webhooks of GitHub, GitLab and Gitea, such as `127.0.0.1:9292`; none, when left out.
    #[arg(long, env = "STEPGATE_WEBHOOK_ADDRESS", value_name = "ADDRESS")]
    webhook_address: Option<SocketAddr>,
    /// File with the secret that webhooks are signed with.
    #[arg(long, env = "STEPGATE_WEBHOOK_SECRET_FILE", value_name = "FILE", requires = "webhook_address")]
    webhook_secret_file: Option<PathBuf>,
    /// The form of the output of `--once`.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What `run --once` came to.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassReport {
    /// One a cluster.
    pub clusters: Vec<PassedCluster>,
}

/// What the pass did for one cluster.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassedCluster {
    /// The cluster.
    pub cluster: String,
    /// `done`, `waiting`, `held`, `blocked` or `failed`.
    pub state: String,
    /// The stage concerned.
    pub stage: Option<String>,
    /// Stages that this pass committed.
    pub committed: Vec<String>,
    /// The branch on which people are asked for the next commit; null where nobody is asked.
    pub proposed: Option<String>,
    /// One line.
    pub message: String,
    /// What helps.
    pub help: Option<String>,
}

impl From<&Pass> for PassReport {
    fn from(pass: &Pass) -> Self {
        let cluster = |cluster: &ClusterPass| PassedCluster {
            cluster: cluster.cluster.clone(),
            state: cluster.outcome.word().to_owned(),
            stage: cluster.outcome.stage().map(ToString::to_string),
            committed: cluster.committed.iter().map(|stage| stage.stage.to_string()).collect(),
            proposed: cluster.proposed.as_ref().map(ToString::to_string),
            message: cluster.outcome.message(),
            help: cluster.outcome.help(),
        };
        Self { clusters: pass.clusters.iter().map(cluster).collect() }
    }
}

impl Report for PassReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table =
            Table { headers: vec!["CLUSTER", "STATE", "STAGE", "COMMITTED", "MESSAGE"], ..Table::default() };
        for cluster in &self.clusters {
            table.rows.push(vec![
                cluster.cluster.clone(),
                cluster.state.clone(),
                cluster.stage.clone().unwrap_or_else(|| "-".to_owned()),
                cluster.committed.join(", "),
                cluster.message.clone(),
            ]);
            table.notes.extend(cluster.help.iter().map(|help| format!("{}: what helps: {help}", cluster.cluster)));
        }
        vec![(None, table)]
    }
}

/// The runtime of the verbs that wait. There is one: a connection ends with the runtime that it was made in.
///
/// # Errors
/// When threads cannot be started.
pub fn runtime() -> Result<&'static Runtime, CommandError> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// Runs the controller until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let planner = fleet::planner(&arguments.fleet)?;
    let clusters = arguments.access.open()?;
    let controller = Controller::new(planner, clusters, Arc::new(SystemClock), arguments.concurrent);
    let runtime = runtime()?;
    if arguments.once {
        let pass = runtime.block_on(controller.pass()).map_err(fleet::explain)?;
        output::print(arguments.output, &PassReport::from(pass.as_ref()))?;
        return Ok(exit(&pass));
    }
    runtime.block_on(serve(arguments, &controller))
}

fn exit(pass: &Pass) -> Exit {
    let any = |word: &str| pass.clusters.iter().any(|cluster| cluster.outcome.word() == word);
    match () {
        () if any("failed") => Exit::Error,
        () if any("blocked") => Exit::Blocked,
        () if any("held") => Exit::Stopped,
        () if any("waiting") => Exit::Waiting,
        () => Exit::Success,
    }
}

async fn serve(arguments: &Arguments, controller: &Controller) -> Result<Exit, CommandError> {
    let planner = controller.planner();
    // People move the deploy branch too: by merging what is proposed.
    let deploy = planner.read().ok().map(|reading| reading.layout.branch);
    let branches = deploy.into_iter().chain([planner.source_branch().clone()]);
    let mut watch = Watch::start(planner.repository().clone(), WatchSettings::new(branches));
    let webhooks = start_webhooks(arguments, &watch).await?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tracing::info!(git.branch = %planner.source_branch(), "watching {:?}", planner.repository());
    let mut last = Arc::new(Pass::default());
    loop {
        // A pass may be left at any point: the next process goes on from what is in git.
        let pass = tokio::select! {
            pass = controller.pass() => pass,
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        };
        let wake = match pass {
            Ok(pass) => {
                if !Arc::ptr_eq(&last, &pass) {
                    report_changes(&last, &pass);
                }
                let wake = next_wake(&pass, arguments.interval);
                last = pass;
                wake
            }
            Err(error) => {
                // The repository may be away for a while: nothing is lost by waiting for it.
                tracing::error!(%error, hint = error.hint(), "the fleet could not be read");
                later(arguments.interval)
            }
        };
        tokio::select! {
            () = SystemClock.sleep_until(wake) => {}
            _ = watch.changed() => {}
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    // A commit is pushed or not: there is nothing to be finished.
    tracing::info!("stopped");
    if let Some(webhooks) = webhooks {
        webhooks.abort();
    }
    Ok(Exit::Success)
}

fn later(interval: u64) -> Timestamp {
    let seconds = i64::try_from(interval).unwrap_or(i64::MAX).max(1);
    let now = SystemClock.now();
    now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now)
}

fn next_wake(pass: &Pass, interval: u64) -> Timestamp {
    let soon = SystemClock.now().checked_add(SignedDuration::from_secs(1)).unwrap_or_else(|_| SystemClock.now());
    let next = pass.clusters.iter().filter_map(|cluster| cluster.next).min();
    next.map_or_else(|| later(interval), |next| next.max(soon).min(later(interval)))
}

/// Transitions only: a wait that goes on is not told again.
fn report_changes(last: &Pass, pass: &Pass) {
    let known: HashMap<&str, &ClusterPass> =
        last.clusters.iter().map(|cluster| (cluster.cluster.as_str(), cluster)).collect();
    for cluster in &pass.clusters {
        let before = known.get(cluster.cluster.as_str());
        let told = before.is_some_and(|known| {
            known.outcome.word() == cluster.outcome.word() && known.outcome.stage() == cluster.outcome.stage()
        });
        if told {
            continue;
        }
        let (name, state) = (&cluster.cluster, cluster.outcome.word());
        let message = cluster.outcome.message();
        match cluster.outcome {
            ClusterOutcome::Held { .. } | ClusterOutcome::Blocked { .. } | ClusterOutcome::Failed { .. } => {
                tracing::warn!(cluster.name = %name, cluster.state = state, reason = %message, "cluster `{name}` is {state}");
            }
            ClusterOutcome::Done | ClusterOutcome::Waiting { .. } => {
                tracing::info!(cluster.name = %name, cluster.state = state, reason = %message, "cluster `{name}` is {state}");
            }
        }
    }
}

async fn start_webhooks(
    arguments: &Arguments,
    watch: &Watch,
) -> Result<Option<tokio::task::JoinHandle<()>>, CommandError> {
    let Some(address) = arguments.webhook_address else { return Ok(None) };
    let Some(file) = &arguments.webhook_secret_file else {
        return Err(CommandError::new("webhooks need a secret").hint("name its file with --webhook-secret-file"));
    };
    let secret = std::fs::read_to_string(file)
        .map_err(|error| CommandError::from(error).context(format!("reading {}", file.display())))?;
    let settings = WebhookSettings::new(WebhookSecret::new(secret.trim())?);
    let router = webhook(&settings, watch.nudge())?;
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .map_err(|error| CommandError::from(error).context(format!("listening on {address}")))?;
    Ok(Some(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the webhook endpoint ended; polling goes on");
        }
    })))
}
