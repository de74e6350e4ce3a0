//! Which address shows what.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use jiff::Timestamp;
use maud::Markup;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};

use super::assets::{LIVE_SCRIPT, STYLE_SHEET};
use super::audit::Audit;
use super::guard::{Hosts, guard};
use super::rehearsals::{self, Rehearsals};
use super::{actions, calendar, events, login};
use crate::dashboard::access::{DashboardAccess, Refusal};
use crate::dashboard::detail::DetailError;
use crate::dashboard::pages::{self, FleetQuery};
use crate::dashboard::snapshot::Snapshot;
use crate::reconcile::clusters::access::Clusters;

/// How many pages are read from the repository at once: the loop needs the processors more.
const AT_ONCE: usize = 2;

/// The largest form, in bytes.
const LARGEST_FORM: usize = 64 << 10;

/// Gives out pages of the snapshot that was published last.
#[derive(Clone)]
pub struct Dashboard {
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    numbers: watch::Receiver<u64>,
    access: Arc<DashboardAccess>,
    readers: Arc<Semaphore>,
    rehearsals: Rehearsals,
    actors: Option<Arc<Actors>>,
}

/// With what people act here. A dashboard without it only reads.
pub struct Actors {
    /// The clusters that are held and let go.
    pub clusters: Arc<dyn Clusters>,
    /// Where it goes on record.
    pub audit: Audit,
}

/// Publishes snapshots. Whoever publishes never waits for who looks.
pub struct Publisher {
    snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    numbers: watch::Sender<u64>,
}

impl Publisher {
    /// Shows this snapshot from now on.
    pub fn publish(&self, snapshot: Snapshot) {
        self.snapshots.send_replace(Some(Arc::new(snapshot)));
        self.numbers.send_modify(|number| *number += 1);
    }
}

impl Dashboard {
    /// A dashboard without a snapshot yet, and who publishes them.
    #[must_use]
    pub fn new(access: DashboardAccess, actors: Option<Actors>) -> (Self, Publisher) {
        let (snapshots, shown) = watch::channel(None);
        let (numbers, told) = watch::channel(0);
        let readers = Arc::new(Semaphore::new(AT_ONCE));
        let actors = actors.map(Arc::new);
        let (access, rehearsals) = (Arc::new(access), Rehearsals::default());
        let dashboard = Self { snapshots: shown, numbers: told, access, readers, rehearsals, actors };
        (dashboard, Publisher { snapshots, numbers })
    }

    /// What is answered at that address, which may be called by these names as well.
    pub fn router(self, address: SocketAddr, hosts: &[String]) -> Router {
        let hosts = Arc::new(Hosts::of(address, hosts));
        let read = Router::new()
            .route("/", get(fleet))
            .route("/fleet.json", get(fleet_json))
            .merge(of_cluster("/clusters/{cluster}", Snapshot::cluster, pages::cluster))
            .merge(of_cluster("/clusters/{cluster}/plan", Snapshot::plan, pages::plan))
            .merge(of_cluster("/clusters/{cluster}/diff", Snapshot::diff, pages::diff))
            .merge(of_cluster("/clusters/{cluster}/rollout", Snapshot::rollout, pages::rollout))
            .merge(of_cluster("/clusters/{cluster}/history", Snapshot::commits, pages::commits))
            .merge(of_fleet("/approvals", Snapshot::approvals, pages::approvals))
            .merge(of_fleet("/history", Snapshot::history, pages::history))
            .merge(of_fleet("/windows", Snapshot::windows, pages::windows))
            .merge(of_fleet("/problems", Snapshot::problems, pages::problems))
            .merge(of_fleet("/about", Snapshot::about, pages::about))
            .merge(rehearsals::routes())
            .merge(actions::routes())
            .route("/calendar.ics", get(windows_calendar))
            .route("/events", get(async |State(it): State<Self>| events::stream(it.numbers)))
            .layer(from_fn_with_state(self.clone(), admitted));
        let open = Router::new().merge(login::routes()).route("/assets/{file}", get(asset));
        read.merge(open)
            .fallback(async || (StatusCode::NOT_FOUND, pages::missing("There is no such page.")))
            .layer(axum::extract::DefaultBodyLimit::max(LARGEST_FORM))
            .layer(from_fn_with_state(hosts, guard))
            .with_state(self)
    }

    /// Who may do what.
    pub(super) fn access(&self) -> &DashboardAccess {
        &self.access
    }

    /// With what people act; none where nobody does.
    pub(super) fn actors(&self) -> Option<&Actors> {
        self.actors.as_deref()
    }

    /// The rehearsals that were made.
    pub(super) fn rehearsals(&self) -> &Rehearsals {
        &self.rehearsals
    }

    /// The snapshot, or the answer while there is none.
    pub(super) fn snapshot(&self) -> Answer<Arc<Snapshot>> {
        let snapshot = self.snapshots.borrow().clone();
        snapshot.ok_or_else(|| {
            let told = "The fleet is being read for the first time; this page comes back by itself.";
            let again = [(header::REFRESH, "2"), (header::RETRY_AFTER, "2")];
            (StatusCode::SERVICE_UNAVAILABLE, again, pages::missing(told)).into_response().into()
        })
    }

    /// Reads something of the snapshot beside everything that waits.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Snapshot) -> Result<T, DetailError> + Send + 'static,
    ) -> Answer<(Arc<Snapshot>, T)> {
        let snapshot = self.snapshot()?;
        let Ok(_place) = self.readers.acquire().await else { return Err(unread("the dashboard ends")) };
        let shared = Arc::clone(&snapshot);
        match tokio::task::spawn_blocking(move || read(&shared)).await {
            Ok(Ok(found)) => Ok((snapshot, found)),
            Ok(Err(DetailError::NoCluster(name))) => {
                let told = format!("There is no cluster {name} on branch {}.", snapshot.source_branch);
                Err((StatusCode::NOT_FOUND, pages::missing(&told)).into_response().into())
            }
            Ok(Err(DetailError::Unread(message))) => Err(unread(&message)),
            Err(error) => Err(unread(&error.to_string())),
        }
    }
}

pub(super) fn unread(message: &str) -> Refused {
    (StatusCode::UNPROCESSABLE_ENTITY, pages::missing(message)).into_response().into()
}

/// Lets those in who may read; others are shown where to log in.
async fn admitted(State(dashboard): State<Dashboard>, mut request: Request, next: Next) -> Response {
    let refusal = match dashboard.access.reader(request.headers(), Timestamp::now()).await {
        Ok(reader) => {
            request.extensions_mut().insert(reader);
            return next.run(request).await;
        }
        Err(refusal) => refusal,
    };
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if refusal == Refusal::Unknown && accept.contains("text/html") {
        return Redirect::to("/login").into_response();
    }
    refusal.into_response()
}

async fn asset(Path(file): Path<String>) -> Response {
    let path = format!("/assets/{file}");
    match [&STYLE_SHEET, &LIVE_SCRIPT].into_iter().find(|asset| asset.path == path) {
        Some(asset) => asset.answer(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// An answer in the place of a page.
pub(super) struct Refused(Box<Response>);

impl From<Response> for Refused {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        *self.0
    }
}

pub(super) type Answer<T> = Result<T, Refused>;

pub(super) fn json(report: &impl Serialize) -> Response {
    match serde_json::to_string_pretty(report) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn fleet(State(dashboard): State<Dashboard>, Query(query): Query<FleetQuery>) -> Answer<Markup> {
    Ok(pages::fleet(dashboard.snapshot()?.as_ref(), &query))
}

async fn fleet_json(State(dashboard): State<Dashboard>) -> Answer<Response> {
    Ok(json(dashboard.snapshot()?.as_ref()))
}

/// A page of one cluster, and the report that it shows below `.json`.
fn of_cluster<T: Serialize + Send + 'static>(
    path: &str,
    read: fn(&Snapshot, &str) -> Result<T, DetailError>,
    page: fn(&Snapshot, &str, &T) -> Markup,
) -> Router<Dashboard> {
    let detail = move |dashboard: Dashboard, cluster: String| async move {
        let name = cluster.clone();
        let (snapshot, report) = dashboard.read(move |snapshot| read(snapshot, &name)).await?;
        Ok::<_, Refused>((snapshot, cluster, report))
    };
    let shown = move |State(dashboard): State<Dashboard>, Path(cluster): Path<String>| async move {
        let (snapshot, cluster, report) = detail(dashboard, cluster).await?;
        Ok::<_, Refused>(page(&snapshot, &cluster, &report))
    };
    let told = move |State(dashboard): State<Dashboard>, Path(cluster): Path<String>| async move {
        detail(dashboard, cluster).await.map(|(_, _, report)| json(&report))
    };
    let file = if path.ends_with('}') { format!("{path}/why.json") } else { format!("{path}.json") };
    Router::new().route(path, get(shown)).route(&file, get(told))
}

/// A page of the fleet, likewise.
fn of_fleet<T: Serialize + Send + 'static>(
    path: &str,
    read: fn(&Snapshot) -> Result<T, DetailError>,
    page: fn(&Snapshot, &T) -> Markup,
) -> Router<Dashboard> {
    let shown = move |State(dashboard): State<Dashboard>| async move {
        let (snapshot, report) = dashboard.read(read).await?;
        Ok::<_, Refused>(page(&snapshot, &report))
    };
    let told = move |State(dashboard): State<Dashboard>| async move {
        dashboard.read(read).await.map(|(_, report)| json(&report))
    };
    Router::new().route(path, get(shown)).route(&format!("{path}.json"), get(told))
}

async fn windows_calendar(State(dashboard): State<Dashboard>) -> Answer<Response> {
    let (_, windows) = dashboard.read(Snapshot::windows).await?;
    let content_type = [(header::CONTENT_TYPE, "text/calendar; charset=utf-8")];
    Ok((content_type, calendar::calendar(&windows, Timestamp::now())).into_response())
}
