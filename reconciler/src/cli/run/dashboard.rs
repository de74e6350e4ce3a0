//! The dashboard of a running controller: a snapshot of each pass, made beside it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::cli::common::error::CommandError;
use crate::cli::web::WebReaderArguments;
use crate::dashboard::{Actors, FleetReader, Publisher, ReadBy, Snapshot};
use crate::reconcile::clusters::access::NoAccess;
use crate::reconcile::main_loop::clock::{Clock as _, SystemClock};
use crate::reconcile::planner::Planner;
use crate::reconcile::{FleetView, ReconcileReport};
use cluster::kubernetes::Connection;

/// Why a follower asks no cluster: who leads does.
const FOLLOWS: &str = "this process waits for its turn, and reads git alone";

/// Where the dashboard is, and who may read it.
#[derive(Clone, Debug, Args)]
pub struct DashboardArguments {
    /// Address of the dashboard, which shows the fleet in a browser; none, when left out.
    #[arg(long, env = "STEPGATE_WEB_LISTEN", value_name = "ADDRESS")]
    web_listen: Option<SocketAddr>,
    #[command(flatten)]
    readers: WebReaderArguments,
}

/// What a pass came to, with the fleet that it was about; none while another process leads.
pub(super) type Passed = Option<(Arc<ReconcileReport>, FleetView)>;

impl DashboardArguments {
    /// Whether there is a dashboard.
    pub(super) fn is_on(&self) -> bool {
        self.web_listen.is_some()
    }

    /// Whether the management cluster is asked who reads it.
    pub(super) fn reviews_tokens(&self) -> bool {
        self.readers.reviews_tokens()
    }
}

/// Of the management cluster, what the dashboard needs.
pub(super) struct DashboardManagement {
    /// The connection by which people are reviewed.
    pub(super) review: Option<Connection>,
    /// The namespace of `Rollout` objects.
    pub(super) namespace: String,
    /// With what people act: nobody has to lead for it.
    pub(super) actors: Actors,
}

/// Begins to answer, where that is wanted. Each pass that is sent is shown.
///
/// # Errors
/// As [`WebReaderArguments::serve`].
pub(super) async fn serve(
    (arguments, management): (&DashboardArguments, Option<DashboardManagement>),
    planner: &Planner,
    interval: Duration,
) -> Result<(Sender<Passed>, Vec<JoinHandle<()>>), CommandError> {
    let (sender, passes) = channel(None);
    let Some((address, management)) = arguments.web_listen.zip(management) else { return Ok((sender, Vec::new())) };
    let DashboardManagement { review, namespace, actors } = management;
    let reviewed = review.map(|connection| (connection, namespace.as_str()));
    let (publisher, serving) = arguments.readers.serve(address, reviewed, Some(actors)).await?;
    let clusters = Arc::new(NoAccess::new(FOLLOWS.to_owned()));
    let reader = FleetReader::new(planner.clone(), clusters, ReadBy::Follower);
    Ok((sender, vec![serving, tokio::spawn(publish(publisher, reader, passes, interval))]))
}

async fn publish(publisher: Publisher, reader: FleetReader, mut passes: Receiver<Passed>, interval: Duration) {
    loop {
        let passed = passes.borrow_and_update().clone();
        let leads = passed.is_some();
        match passed {
            Some((pass, view)) => {
                let planner = reader.planner().clone();
                let at = SystemClock.now();
                let made = tokio::task::spawn_blocking(move || Snapshot::of_pass(&planner, &view, &pass, at));
                match made.await {
                    Ok(snapshot) => publisher.publish(snapshot),
                    Err(error) => tracing::warn!(%error, "the dashboard shows what was read last"),
                }
            }
            None => match Box::pin(reader.read()).await {
                Ok(snapshot) => publisher.publish(snapshot),
                Err(error) => tracing::warn!(%error, "the dashboard shows what was read last"),
            },
        }
        tokio::select! {
            changed = passes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = sleep(interval), if !leads => {}
        }
    }
}
