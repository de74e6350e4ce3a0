//! The controller's loop: passes over the fleet, woken by git, by clusters and by time, in the process that leads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch::{Receiver, Sender};
use tokio::task::JoinHandle;

use super::error::CommandError;
use super::exit::Exit;
use super::pace::{Pace, processor_time};
use super::run::Arguments;
use crate::cluster::kubernetes::{Connection, Holder, Lease, Projection, RolloutView, end_expired};
use crate::controller::clock::{Clock as _, SystemClock};
use crate::controller::{ClusterOutcome, ClusterPass, Controller, Pass};
use crate::disk;
use crate::telemetry::{Health, Metrics, router};
use crate::watch::{Watch, WatchSettings, WebhookSecret, WebhookSettings, webhook};

/// The longest time between two looks at pauses of Flux.
const LOOK_AT_PAUSES: SignedDuration = SignedDuration::from_secs(10);

/// How long a pass may take, beyond the interval, before the process counts as dead.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// How soon after a pass the next one may come that no change asks for, whatever the pass says.
const SOONEST: SignedDuration = SignedDuration::from_millis(250);

/// Runs until a signal comes.
pub async fn serve(
    arguments: &Arguments,
    controller: &Controller,
    lease: Option<Lease>,
    projection: Option<Projection>,
    pauses: Option<Connection>,
) -> Result<Exit, CommandError> {
    let planner = controller.planner();
    let mut watch = Watch::start(planner.repository().clone(), WatchSettings::new(controller.branches()));
    let webhooks = start_webhooks(arguments, &watch).await?;
    let told = watch.told();
    let metrics = Arc::new(Metrics::default());
    let health = Arc::new(Health::new(Duration::from_secs(arguments.interval).saturating_add(PATIENCE)));
    let telemetry = start_telemetry(arguments, &metrics, &health).await?;
    let (election, mut turn) = elect(lease);
    let (shown, showing) = show(projection);
    let pausing = pauses.map(|connection| tokio::spawn(end_pauses(connection)));
    let mut stop = Stop { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? };
    tracing::info!(git.branch = %planner.source_branch(), "watching {:?}", planner.repository());
    let mut last = Arc::new(Pass::default());
    let mut pace = Pace::default();
    let mut passes = controller.passes();
    loop {
        health.alive();
        let now = *turn.borrow_and_update();
        metrics.leads(now == Turn::Ours);
        if now != Turn::Ours {
            // What is under way is another's now.
            passes = controller.passes();
            // Whoever stands by is as ready as can be.
            if now == Turn::Theirs {
                health.ready();
            }
            tokio::select! {
                () = passed_on(&mut turn) => {}
                () = tokio::time::sleep(Duration::from_secs(arguments.interval)) => {}
                () = stop.requested() => break,
            }
            continue;
        }
        let (started, spent) = (Instant::now(), processor_time());
        // A pass may be left at any point: the next process goes on from what is in git.
        let pass = tokio::select! {
            pass = passes.next() => pass,
            () = lost(&mut turn) => continue,
            () = stop.requested() => break,
        };
        let ended = SystemClock.now();
        let (took, spent) = (started.elapsed(), processor_time().saturating_sub(spent));
        let has_committed = |pass: &Arc<Pass>| pass.clusters.iter().any(|cluster| !cluster.committed.is_empty());
        let rest = pace.rest(started, took, spent, pass.as_ref().is_ok_and(has_committed));
        metrics.passed(pass.as_deref().ok(), took, ended.as_duration().as_secs_f64());
        let wake = match pass {
            Ok(pass) => {
                // People move the deploy branch too, by merging what is proposed; and the policy may name another one.
                watch.follow(controller.branches());
                health.ready();
                if !Arc::ptr_eq(&last, &pass) {
                    metrics.committed(&pass);
                    report_changes(&last, &pass);
                    // Nobody looks, where there is no management cluster.
                    let _ = shown.send(Arc::clone(&pass));
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
            () = told.notified() => {}
            () = passes.changed() => {
                let rest = rest.saturating_sub(started.elapsed().saturating_sub(took));
                if !rest.is_zero() {
                    tokio::select! {
                        () = tokio::time::sleep(rest) => {}
                        () = stop.requested() => break,
                    }
                }
            }
            () = lost(&mut turn) => {}
            () = stop.requested() => break,
        }
    }
    // A commit is pushed or not: there is nothing to be finished.
    tracing::info!("stopped");
    for task in webhooks.into_iter().chain(telemetry).chain(showing).chain(pausing) {
        task.abort();
    }
    if let Some(election) = election {
        election.end().await;
    }
    Ok(Exit::Success)
}

/// The signals that end the process.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    async fn requested(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The competition for the Lease.
struct Election {
    lease: Arc<Lease>,
    task: JoinHandle<()>,
}

impl Election {
    /// Lets go of the Lease, if this process holds it.
    async fn end(self) {
        self.task.abort();
        if let Err(error) = self.lease.release().await {
            tracing::warn!(%error, "the Lease was not released; the next process waits until it has expired");
        }
    }
}

/// Whose turn it is to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nobody's that is known of: the Lease could not be read or taken yet.
    Unknown,
    Ours,
    Theirs,
}

/// Whether this process leads; without a Lease it always does.
fn elect(lease: Option<Lease>) -> (Option<Election>, Receiver<Turn>) {
    let (sender, receiver) = tokio::sync::watch::channel(if lease.is_none() { Turn::Ours } else { Turn::Unknown });
    let election = lease.map(|lease| {
        let lease = Arc::new(lease);
        Election { task: tokio::spawn(compete(Arc::clone(&lease), sender)), lease }
    });
    (election, receiver)
}

/// Ends when this process leads no more. Where nobody competes it never does: whoever sends has gone then.
async fn lost(turn: &mut Receiver<Turn>) {
    if turn.wait_for(|turn| *turn != Turn::Ours).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Ends when it is the turn of somebody else than it was.
async fn passed_on(turn: &mut Receiver<Turn>) {
    if turn.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn compete(lease: Arc<Lease>, turn: Sender<Turn>) {
    // Only what is new wakes anybody.
    let pass_on = |next: Turn| turn.send_if_modified(|turn| std::mem::replace(turn, next) != next);
    let mut renewed = Instant::now();
    let mut standing = None;
    loop {
        match lease.hold(SystemClock.now()).await {
            Ok(Holder::Us) => {
                renewed = Instant::now();
                if pass_on(Turn::Ours) {
                    tracing::info!("this process leads");
                }
                standing = None;
            }
            Ok(Holder::Other(other)) => {
                if standing.as_ref() != Some(&other) {
                    tracing::info!(lease.holder = %other, "`{other}` leads; standing by");
                }
                standing = Some(other);
                pass_on(Turn::Theirs);
            }
            Err(error) => {
                tracing::warn!(%error, "the Lease could not be read or renewed");
                if renewed.elapsed() >= lease.duration() {
                    pass_on(Turn::Unknown);
                }
            }
        }
        tokio::time::sleep(lease.pace()).await;
    }
}

/// Shows the newest pass as `Rollout` objects, beside the passes: a slow server holds up nothing, and passes in between are left out.
fn show(projection: Option<Projection>) -> (Sender<Arc<Pass>>, Option<JoinHandle<()>>) {
    let (sender, mut passes) = tokio::sync::watch::channel(Arc::new(Pass::default()));
    let task = projection.map(|projection| {
        tokio::spawn(async move {
            while passes.changed().await.is_ok() {
                let pass = Arc::clone(&passes.borrow_and_update());
                let views: Vec<RolloutView> = pass.clusters.iter().map(view).collect();
                if let Err(error) = projection.show(&views, SystemClock.now()).await {
                    tracing::warn!(%error, "Rollouts could not be shown in the management cluster");
                }
            }
        })
    });
    (sender, task)
}

/// Ends pauses when their time is over, whoever made them, and whether this process leads or not: a pause must not outlive its end because
/// of an election.
async fn end_pauses(connection: Connection) {
    let mut told = false;
    loop {
        let now = SystemClock.now();
        let next = match end_expired(&connection, now).await {
            Ok(next) => {
                told = false;
                next
            }
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(%error, "pauses of Flux could not be looked at; those whose time is over last until it works again");
                }
                None
            }
        };
        // A pause that is made meanwhile lasts longer than this, or is ended a little late.
        let latest = now.checked_add(LOOK_AT_PAUSES).unwrap_or(now);
        SystemClock.sleep_until(next.map_or(latest, |next| next.min(latest))).await;
    }
}

fn view(cluster: &ClusterPass) -> RolloutView {
    RolloutView {
        cluster: cluster.cluster.clone(),
        state: cluster.outcome.word(),
        stage: cluster.outcome.stage().map(ToString::to_string),
        message: cluster.outcome.message(),
        help: cluster.outcome.help(),
        commit: cluster.committed.last().map(|stage| stage.commit.to_string()),
    }
}

fn later(interval: u64) -> Timestamp {
    let seconds = i64::try_from(interval).unwrap_or(i64::MAX).max(1);
    let now = SystemClock.now();
    now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now)
}

fn next_wake(pass: &Pass, interval: u64) -> Timestamp {
    let soon = SystemClock.now().checked_add(SOONEST).unwrap_or_else(|_| SystemClock.now());
    let next = pass.clusters.iter().filter_map(|cluster| cluster.next).min();
    next.map_or_else(|| later(interval), |next| next.max(soon).min(later(interval)))
}

/// Transitions only: a wait that goes on is not told again, and what it waits for only to whoever looks closely.
fn report_changes(last: &Pass, pass: &Pass) {
    let known: HashMap<&str, &ClusterPass> =
        last.clusters.iter().map(|cluster| (cluster.cluster.as_str(), cluster)).collect();
    for cluster in &pass.clusters {
        let before = known.get(cluster.cluster.as_str());
        let told = before.is_some_and(|known| {
            known.outcome.word() == cluster.outcome.word() && known.outcome.stage() == cluster.outcome.stage()
        });
        let (name, state) = (&cluster.cluster, cluster.outcome.word());
        let message = cluster.outcome.message();
        if told {
            if before.is_some_and(|known| known.outcome.message() != message) {
                tracing::debug!(cluster.name = %name, cluster.state = state, reason = %message, "cluster `{name}` is still {state}");
            }
            continue;
        }
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

/// The longest secret of webhooks that is read, in bytes.
const LONGEST_SECRET: u64 = 64 << 10;

async fn start_webhooks(arguments: &Arguments, watch: &Watch) -> Result<Option<JoinHandle<()>>, CommandError> {
    let Some(address) = arguments.webhook_address else { return Ok(None) };
    let Some(file) = &arguments.webhook_secret_file else {
        return Err(CommandError::new("webhooks need a secret").hint("name its file with --webhook-secret-file"));
    };
    let secret = disk::read_text(file, LONGEST_SECRET)
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

/// Metrics and health. Without `--listen` the usual address is tried, and somebody else who has it is no error.
async fn start_telemetry(
    arguments: &Arguments,
    metrics: &Arc<Metrics>,
    health: &Arc<Health>,
) -> Result<Option<JoinHandle<()>>, CommandError> {
    let Some(address) = arguments.listen.unwrap_or_default().address() else { return Ok(None) };
    let listener = match tokio::net::TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) if arguments.listen.is_none() => {
            tracing::warn!(%error, "no metrics and health at {address}; --listen names another address, or `off`");
            return Ok(None);
        }
        Err(error) => return Err(CommandError::from(error).context(format!("listening on {address}"))),
    };
    tracing::info!("metrics and health at http://{address}");
    let router = router(Arc::clone(metrics), Arc::clone(health));
    Ok(Some(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the endpoint of metrics and health ended");
        }
    })))
}
