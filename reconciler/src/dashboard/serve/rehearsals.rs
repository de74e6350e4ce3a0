//! Rehearsals as pages show them: made when somebody asks, one at a time beside the passes, and kept while both branches stay.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use jiff::{SignedDuration, Timestamp};
use maud::Markup;
use tokio::sync::watch;
use tokio::time::timeout;

use super::router::{Answer, Dashboard, json};
use crate::dashboard::pages;
use crate::dashboard::snapshot::Snapshot;
use crate::rehearsal::RehearsalReport;

/// For so long one that began at a moment tells of the next ones: windows open and close.
const COUNTS_FOR: SignedDuration = SignedDuration::from_mins(60);

/// For so long whoever asks waits for one that is being made.
const WAITED: Duration = Duration::from_secs(4);

/// Of how many clusters they are kept.
const KEPT: usize = 32;

/// The rehearsals that were made, or are, by cluster.
#[derive(Clone, Default)]
pub(super) struct Rehearsals {
    known: Arc<Mutex<BTreeMap<String, Rehearsed>>>,
    /// Whose turn it is.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Empty until it is made.
type Made = watch::Receiver<Option<Arc<RehearsalReport>>>;

struct Rehearsed {
    source: String,
    deploy: Option<String>,
    begun: Timestamp,
    report: Made,
}

impl Rehearsed {
    fn counts(&self, snapshot: &Snapshot, now: Timestamp) -> bool {
        let is_same = self.source == snapshot.source && self.deploy == snapshot.deploy;
        is_same && now.duration_since(self.begun) < COUNTS_FOR
    }
}

impl Dashboard {
    /// The rehearsal of a cluster from now on; none while it is being made. Whoever asks meanwhile asks for the same one.
    async fn rehearsed(&self, cluster: &str) -> Answer<(Arc<Snapshot>, Option<Arc<RehearsalReport>>)> {
        let (snapshot, now) = (self.snapshot()?, Timestamp::now());
        let mut report = self.asked_for(cluster, &snapshot, now);
        let made = timeout(WAITED, report.wait_for(Option::is_some)).await.map(|made| made.map(|made| made.clone()));
        match made {
            Ok(Ok(made)) => Ok((snapshot, made)),
            Ok(Err(_)) => {
                // It could not be made: why is told to whoever asks.
                self.rehearsals().known.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
                let name = cluster.to_owned();
                let (snapshot, report) = self.read(move |snapshot| snapshot.rehearsal(&name, now)).await?;
                Ok((snapshot, Some(Arc::new(report))))
            }
            Err(_) => Ok((snapshot, None)),
        }
    }

    /// The one that counts, or one that begins now.
    fn asked_for(&self, cluster: &str, snapshot: &Snapshot, now: Timestamp) -> Made {
        let mut known = self.rehearsals().known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, rehearsed| rehearsed.counts(snapshot, now));
        if let Some(found) = known.get(cluster) {
            return found.report.clone();
        }
        let report = self.begin(cluster, now);
        let oldest = known.iter().min_by_key(|(_, rehearsed)| rehearsed.begun).map(|(name, _)| name.clone());
        if let Some(oldest) = oldest.filter(|_| known.len() >= KEPT) {
            known.remove(&oldest);
        }
        let (source, deploy) = (snapshot.source.clone(), snapshot.deploy.clone());
        known.insert(cluster.to_owned(), Rehearsed { source, deploy, begun: now, report: report.clone() });
        report
    }

    /// Makes one beside everything, after those that were asked for before.
    fn begin(&self, cluster: &str, now: Timestamp) -> Made {
        let (made, report) = watch::channel(None);
        let (dashboard, name) = (self.clone(), cluster.to_owned());
        tokio::spawn(async move {
            let _turn = dashboard.rehearsals().turn.lock().await;
            if let Ok((_, report)) = dashboard.read(move |snapshot| snapshot.rehearsal(&name, now)).await {
                made.send_replace(Some(Arc::new(report)));
            }
        });
        report
    }
}

/// The page, and its report.
pub(super) fn routes() -> Router<Dashboard> {
    let shown = async |State(dashboard): State<Dashboard>, Path(cluster): Path<String>| -> Answer<Markup> {
        let (snapshot, report) = dashboard.rehearsed(&cluster).await?;
        Ok(pages::rehearsal(&snapshot, &cluster, report.as_deref()))
    };
    let told = async |State(dashboard): State<Dashboard>, Path(cluster): Path<String>| -> Answer<Response> {
        let (_, report) = dashboard.rehearsed(&cluster).await?;
        Ok(match report {
            Some(report) => json(report.as_ref()),
            None => (StatusCode::ACCEPTED, [(header::RETRY_AFTER, "2")]).into_response(),
        })
    };
    Router::new()
        .route("/clusters/{cluster}/rehearsal", get(shown))
        .route("/clusters/{cluster}/rehearsal.json", get(told))
}

/// On a page nothing is done at once: the loop needs the processors more.
pub(in crate::dashboard) const AT_ONCE: NonZero<usize> = NonZero::<usize>::MIN;
