//! Rehearsals as pages show them: made when somebody asks, one at a time beside the passes, and kept while both branches stay.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use jiff::{SignedDuration, Timestamp};
use maud::Markup;
use tokio::sync::Mutex;

use super::router::{Answer, Dashboard, json};
use crate::dashboard::pages;
use crate::dashboard::snapshot::Snapshot;
use crate::rehearsal::RehearsalReport;

/// For so long one that began at a moment tells of the next ones: windows open and close.
const COUNTS_FOR: SignedDuration = SignedDuration::from_mins(60);

/// Of how many clusters they are kept.
const KEPT: usize = 32;

/// The rehearsals that were made, by cluster.
#[derive(Clone, Default)]
pub(super) struct Rehearsals(Arc<Mutex<BTreeMap<String, Rehearsed>>>);

struct Rehearsed {
    source: String,
    deploy: Option<String>,
    begun: Timestamp,
    report: Arc<RehearsalReport>,
}

impl Rehearsed {
    fn counts(&self, snapshot: &Snapshot, now: Timestamp) -> bool {
        let is_same = self.source == snapshot.source && self.deploy == snapshot.deploy;
        is_same && now.duration_since(self.begun) < COUNTS_FOR
    }
}

impl Dashboard {
    /// The rehearsal of a cluster from now on, of this snapshot. Whoever asks meanwhile waits, and so is asked for once.
    async fn rehearsed(&self, cluster: &str) -> Answer<(Arc<Snapshot>, Arc<RehearsalReport>)> {
        let mut known = self.rehearsals().0.lock().await;
        let (snapshot, now) = (self.snapshot()?, Timestamp::now());
        if let Some(found) = known.get(cluster).filter(|found| found.counts(&snapshot, now)) {
            return Ok((snapshot, Arc::clone(&found.report)));
        }
        let name = cluster.to_owned();
        let (snapshot, report) = self.read(move |snapshot| snapshot.rehearsal(&name, now)).await?;
        let report = Arc::new(report);
        known.retain(|_, rehearsed| rehearsed.counts(&snapshot, now));
        if known.len() < KEPT {
            let (source, deploy) = (snapshot.source.clone(), snapshot.deploy.clone());
            let rehearsed = Rehearsed { source, deploy, begun: now, report: Arc::clone(&report) };
            known.insert(cluster.to_owned(), rehearsed);
        }
        Ok((snapshot, report))
    }
}

/// The page, and its report.
pub(super) fn routes() -> Router<Dashboard> {
    let shown = async |State(dashboard): State<Dashboard>, Path(cluster): Path<String>| -> Answer<Markup> {
        let (snapshot, report) = dashboard.rehearsed(&cluster).await?;
        Ok(pages::rehearsal(&snapshot, &cluster, &report))
    };
    let told = async |State(dashboard): State<Dashboard>, Path(cluster): Path<String>| -> Answer<Response> {
        let (_, report) = dashboard.rehearsed(&cluster).await?;
        Ok(json(report.as_ref()))
    };
    Router::new()
        .route("/clusters/{cluster}/rehearsal", get(shown))
        .route("/clusters/{cluster}/rehearsal.json", get(told))
}

/// On a page nothing is done at once: the loop needs the processors more.
pub(in crate::dashboard) const AT_ONCE: NonZero<usize> = NonZero::<usize>::MIN;
