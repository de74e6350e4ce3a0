//! The controller's loop: passes over the fleet, woken by git, by clusters and by time, in the process that leads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch::{Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::announce::{Announcements, tell_server};
use super::announcing::{Telling, announce};
use super::dashboard;
use super::dashboard::{DashboardArguments, DashboardManagement};
use super::debounce::{Debounce, processor_time};
use super::endpoints::Endpoints;
use super::updates::{Updates, propose};
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::reconcile::main_loop::clock::{Clock as _, SystemClock};
use crate::reconcile::{ClusterPass, Controller, ReconcileReport};
use crate::telemetry::{Health, Metrics};
use crate::watch::{Watch, WatchSettings};
use cluster::kubernetes::{
    Connection, Holder, Lease, Projection, RolloutView, end_expired, end_expired_marks, end_expired_of_clusters,
};

/// The longest time between two looks at pauses of Flux.
const LOOK_AT_PAUSES: SignedDuration = SignedDuration::from_secs(10);

/// The longest time between two looks at what is shown.
const SHOW_AGAIN: Duration = Duration::from_secs(20);

/// How long a pass may take, beyond the interval, before the process counts as dead.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// How soon after a pass the next one may come that no change asks for, whatever the pass says.
const SOONEST: SignedDuration = SignedDuration::from_millis(250);

/// What the controller has of the management cluster besides the clusters themselves.
pub struct Management {
    /// The connection to it, or why there is none.
    pub connection: Result<Connection, String>,
    /// What is competed for, where several processes take turns.
    pub lease: Option<Lease>,
    /// Where `Rollout` objects are written.
    pub projection: Option<Projection>,
    /// The connection by which tokens are reviewed, where they are.
    pub review: Option<Connection>,
    /// Who is told of rollouts.
    pub telling: Option<Telling>,
    /// Who proposes new versions.
    pub updates: Option<Updates>,
    /// Where the dashboard is, and what it needs.
    pub(super) dashboard: (DashboardArguments, Option<DashboardManagement>),
}

/// Runs until a signal comes; looks at everything after `interval` seconds, even if nothing moves.
pub async fn serve(
    controller: &Controller,
    interval: u64,
    endpoints: Endpoints,
    management: Management,
) -> Result<Exit, CommandError> {
    let Management { connection, lease, projection, review, telling, updates, dashboard } = management;
    let planner = controller.planner();
    let mut watch = Watch::start(planner.repository().clone(), WatchSettings::new(controller.branches()));
    let told = watch.told();
    let metrics = Arc::new(Metrics::default());
    let health = Arc::new(Health::new(Duration::from_secs(interval).saturating_add(PATIENCE)));
    let mut tasks = endpoints.serve(watch.nudge(), Arc::clone(&metrics), Arc::clone(&health), review).await?;
    let (election, mut turn) = elect(lease);
    tasks.extend(updates.map(|updates| tokio::spawn(propose(updates, turn.clone()))));
    let (shown, showing) = show(projection);
    tasks.extend(showing);
    let (announced, announcing) = announce(telling, controller, &metrics)?;
    tasks.extend(announcing);
    let (arguments, needed) = dashboard;
    let every = Duration::from_secs(interval.max(1));
    let (passed, showing) = dashboard::serve((&arguments, needed), planner, every).await?;
    tasks.extend(showing);
    tasks.extend(connection.as_ref().ok().cloned().map(|connection| tokio::spawn(end_pauses(connection))));
    tasks.push(tokio::spawn(tell_server(connection)));
    let mut stop = Stop { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? };
    tracing::info!(git.branch = %planner.source_branch(), "watching {}", planner.repository().location());
    let mut announcements = Announcements::default();
    let mut last = Arc::new(ReconcileReport::default());
    let mut pace = Debounce::default();
    let mut passes = controller.passes();
    loop {
        health.alive();
        let now = *turn.borrow_and_update();
        metrics.leads(now == Turn::Ours);
        if now != Turn::Ours {
            // What is under way is another's now.
            passes = controller.passes();
            shown.send_if_modified(|shown| shown.take().is_some());
            announced.send_if_modified(|announced| announced.take().is_some());
            passed.send_if_modified(|passed| passed.take().is_some());
            // What was said before is not what is seen when it is our turn again.
            last = Arc::new(ReconcileReport::default());
            // Whoever stands by is as ready as can be.
            if now == Turn::Theirs {
                health.ready();
            }
            tokio::select! {
                () = passed_on(&mut turn) => {}
                () = tokio::time::sleep(Duration::from_secs(interval)) => {}
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
        let has_committed =
            |pass: &Arc<ReconcileReport>| pass.clusters.iter().any(|cluster| !cluster.committed.is_empty());
        let rest = pace.rest(started, took, spent, pass.as_ref().is_ok_and(has_committed));
        metrics.passed(pass.as_deref().ok(), took, ended.as_duration().as_secs_f64());
        let wake = match pass {
            Ok(pass) => {
                // People move the deploy branch too, by merging what is proposed; and the policy may name another one.
                watch.follow(controller.branches());
                health.ready();
                if !Arc::ptr_eq(&last, &pass) {
                    metrics.committed(&pass);
                    announcements.tell(controller, &pass);
                    // Nobody looks, where there is no management cluster.
                    let _ = shown.send(Some(Arc::clone(&pass)));
                    // Nobody reads, where nothing is announced.
                    let _ = announced.send(controller.announcer().map(|announcer| (Arc::clone(&pass), announcer)));
                    // Nor where there is no dashboard.
                    if !passed.is_closed() {
                        passed.send_replace(controller.fleet_view().map(|view| (Arc::clone(&pass), view)));
                    }
                }
                let wake = next_wake(&pass, interval);
                last = pass;
                wake
            }
            Err(error) => {
                // The repository may be away for a while: nothing is lost by waiting for it.
                tracing::error!(%error, hint = error.hint(), "the fleet could not be read");
                later(interval)
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
    tasks.iter().for_each(JoinHandle::abort);
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
pub(super) enum Turn {
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
    let mut standing = None;
    loop {
        let mut holding = std::pin::pin!(lease.hold(SystemClock.now()));
        let held = match lease.leadership().until() {
            None => holding.await,
            // An answer that does not come keeps nobody in the lead.
            Some(until) => match tokio::time::timeout_at(until, &mut holding).await {
                Ok(held) => held,
                Err(_) => {
                    pass_on(Turn::Unknown);
                    holding.await
                }
            },
        };
        match held {
            Ok(Holder::Us) => {
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
                if lease.leadership().until().is_none() {
                    pass_on(Turn::Unknown);
                }
            }
        }
        // Not longer than the lead lasts, where it could not be renewed.
        let pace = lease.pace();
        tokio::time::sleep(lease.leadership().remaining().map_or(pace, |left| left.min(pace))).await;
    }
}

/// Shows the newest pass as `Rollout` objects, beside the passes: a slow server holds up nothing, and passes in between are left out. It is shown
/// again now and then: the definition may have come since, or somebody may have changed the objects. While another process leads, none is shown.
fn show(projection: Option<Projection>) -> (Sender<Option<Arc<ReconcileReport>>>, Option<JoinHandle<()>>) {
    let (sender, mut passes) = tokio::sync::watch::channel(None::<Arc<ReconcileReport>>);
    let task = projection.map(|mut projection| {
        tokio::spawn(async move {
            let mut told = false;
            loop {
                match timeout(SHOW_AGAIN, passes.changed()).await {
                    Ok(Ok(())) | Err(_) => {}
                    Ok(Err(_)) => return,
                }
                let Some(pass) = passes.borrow_and_update().clone() else { continue };
                let views: Vec<RolloutView> = pass.clusters.iter().map(view).collect();
                match projection.show(&views, SystemClock.now()).await {
                    Ok(()) => told = false,
                    Err(error) if !std::mem::replace(&mut told, true) => {
                        tracing::warn!(%error, "Rollouts could not be shown in the management cluster");
                    }
                    Err(error) => tracing::debug!(%error, "Rollouts could still not be shown"),
                }
            }
        })
    });
    (sender, task)
}

/// Ends pauses and marks of machines when their time is over, whoever made them, and whether this process leads or not: a pause must not outlive its end because
/// of an election.
async fn end_pauses(connection: Connection) {
    let mut told = false;
    loop {
        let now = SystemClock.now();
        let (pauses, clusters, marks) = futures::join!(
            end_expired(&connection, now),
            end_expired_of_clusters(&connection, now),
            end_expired_marks(&connection, now)
        );
        let next = match pauses.and_then(|pauses| Ok(pauses.into_iter().chain(clusters?).chain(marks?).min())) {
            Ok(next) => {
                told = false;
                next
            }
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(%error, "pauses and marks of machines could not be looked at; those whose time is over last until it works again");
                }
                None
            }
        };
        SystemClock.sleep_until(next_look(now, next)).await;
    }
}

/// When pauses are looked at again, where the next one of those that are known ends at `next`.
fn next_look(now: Timestamp, next: Option<Timestamp>) -> Timestamp {
    // A pause that is made meanwhile lasts longer than this, or is ended a little late.
    let latest = now.checked_add(LOOK_AT_PAUSES).unwrap_or(now);
    next.map_or(latest, |next| next.min(latest))
}

fn view(cluster: &ClusterPass) -> RolloutView {
    RolloutView {
        cluster: cluster.cluster.clone(),
        state: cluster.outcome.word(),
        stage: cluster.outcome.stage().map(ToString::to_string),
        message: cluster.outcome.message(),
        help: cluster.outcome.help(),
        kept: cluster.outcome.kept(),
        commit: cluster.committed.last().map(|stage| stage.commit.to_string()),
        tanzu: cluster.tanzu.clone(),
    }
}

fn later(interval: u64) -> Timestamp {
    let seconds = i64::try_from(interval).unwrap_or(i64::MAX).max(1);
    let now = SystemClock.now();
    now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now)
}

fn next_wake(pass: &ReconcileReport, interval: u64) -> Timestamp {
    let soon = SystemClock.now().checked_add(SOONEST).unwrap_or_else(|_| SystemClock.now());
    let next = pass.clusters.iter().filter_map(|cluster| cluster.next).min();
    next.map_or_else(|| later(interval), |next| next.max(soon).min(later(interval)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_looked_at_when_the_next_one_ends_and_every_ten_seconds() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let after = |seconds| now + SignedDuration::from_secs(seconds);
        for (next, expected) in [(None, 10), (Some(3), 3), (Some(3600), 10), (Some(-5), -5)] {
            assert_eq!(next_look(now, next.map(after)), after(expected), "{next:?}");
        }
    }
}
