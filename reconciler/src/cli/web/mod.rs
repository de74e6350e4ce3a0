//! `stepgate web`: the dashboard of a fleet, for a laptop. It reads, and never writes.

mod people;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use cluster::kubernetes::{Connection, SYSTEM_NAMESPACE};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::people::PeopleArguments;
use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::fleet;
use super::{ClusterArguments, FleetArguments};
use crate::dashboard::{AccessSettings, Actors, Dashboard, DashboardAccess, FleetReader, Publisher, ReadBy};
use crate::endpoint::{Endpoint, Limits, TlsFiles};
use crate::reconcile::clusters::access::NoAccess;
use crate::reconcile::planner::Planner;
use crate::watch::{Watch, WatchSettings};

/// How long a browser may keep its connection for what has changed.
const CONNECTION: Duration = Duration::from_secs(15 * 60);

/// How soon after one branch another has to move to be read with it.
const TOGETHER: Duration = Duration::from_millis(50);

/// How often a fleet is read again whose branches do not move.
const SHOWN_AGAIN: Duration = Duration::from_secs(30);

/// How many connections there may be at once; one more ends the oldest.
const CONNECTIONS: usize = 256;

/// Arguments of `stepgate web`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The address to listen on.
    #[arg(long, env = "STEPGATE_WEB_LISTEN", default_value = "127.0.0.1:8090", value_name = "ADDRESS")]
    web_listen: SocketAddr,
    #[command(flatten)]
    readers: WebReaderArguments,
    /// The namespace of the `Rollout` objects that `--web-authentication kubernetes` asks about.
    #[arg(long, env = "STEPGATE_NAMESPACE", value_name = "NAME", default_value = SYSTEM_NAMESPACE)]
    namespace: String,
    /// The longest time between two looks at the clusters, in seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    interval: u64,
}

/// Who may read the dashboard, and how it is called.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct WebReaderArguments {
    #[command(flatten)]
    people: PeopleArguments,
    /// A name by which the dashboard is called, besides the address it listens on. May be given several times.
    #[arg(long = "web-host", env = "STEPGATE_WEB_HOSTS", value_delimiter = ',', value_name = "NAME")]
    web_hosts: Vec<String>,
    /// Folder with `tls.crt` and `tls.key`, in PEM form: the dashboard goes by TLS then.
    #[arg(long, env = "STEPGATE_WEB_TLS_DIR", value_name = "DIR")]
    web_tls_dir: Option<PathBuf>,
}

impl WebReaderArguments {
    /// Whether the management cluster knows people.
    pub(in crate::cli) fn reviews_tokens(&self) -> bool {
        self.people.reviews_tokens()
    }

    /// Begins to answer at that address: nothing but that the fleet is being read, until a snapshot is published. `reviewed` is the
    /// management cluster that knows people, where it does, and the namespace of its `Rollout` objects.
    ///
    /// # Errors
    /// When the address cannot be listened on, or nobody has said who may read there.
    pub(in crate::cli) async fn serve(
        &self,
        address: SocketAddr,
        reviewed: Option<(Connection, &str)>,
        actors: Option<Actors>,
    ) -> Result<(Publisher, JoinHandle<()>), CommandError> {
        let access = self.people.access(address, reviewed)?;
        let tls = self.web_tls_dir.as_deref().map(TlsFiles::open).transpose()?;
        let (dashboard, publisher) = Dashboard::new(access, actors);
        let router = dashboard.router(address, &self.web_hosts);
        let endpoint = Endpoint::bind("dashboard", address, router)
            .await
            .map_err(|error| CommandError::from(error).context(format!("listening on {address} for the dashboard")))?;
        let limits = Limits { connections: CONNECTIONS, connection: CONNECTION, ..Limits::default() };
        let endpoint = endpoint.with_tls(tls).with_limits(limits);
        tracing::info!("{endpoint}");
        Ok((publisher, endpoint.serve()))
    }
}

/// Answers until it is stopped.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let planner = fleet::planner(&arguments.fleet)?;
    let clusters = arguments.access.open()?;
    let reviewed = arguments.readers.reviews_tokens().then(|| arguments.access.review()).transpose()?;
    let reviewed = reviewed.map(|connection| (connection, arguments.namespace.as_str()));
    super::run::verb::runtime()?.block_on(async {
        let (publisher, serving) = arguments.readers.serve(arguments.web_listen, reviewed, None).await?;
        let reader = FleetReader::new(planner, Arc::clone(&clusters), ReadBy::Web);
        let interval = Duration::from_secs(arguments.interval.max(1));
        tokio::select! {
            never = keep(&reader, &publisher, interval) => never,
            _ = tokio::signal::ctrl_c() => {
                serving.abort();
                Ok(Exit::Success)
            }
        }
    })
}

/// Shows a fleet whose planner comes later, to this machine alone. Answers where that is.
///
/// # Errors
/// When others reach the address, or it cannot be listened on.
pub(in crate::cli) async fn show(
    address: SocketAddr,
    planner: tokio::sync::oneshot::Receiver<Planner>,
    why_no_cluster: &str,
) -> Result<String, CommandError> {
    let access = DashboardAccess::at(address, AccessSettings::default())
        .map_err(|error| CommandError::new(error.to_string()).hint("show it on this machine, at 127.0.0.1"))?;
    let (dashboard, publisher) = Dashboard::new(access, None);
    let endpoint = Endpoint::bind("dashboard", address, dashboard.router(address, &[]))
        .await
        .map_err(|error| CommandError::from(error).context(format!("listening on {address} for the dashboard")))?;
    let endpoint =
        endpoint.with_limits(Limits { connections: CONNECTIONS, connection: CONNECTION, ..Limits::default() });
    let told = endpoint.to_string();
    // Both end with the process.
    drop(endpoint.serve());
    let clusters = Arc::new(NoAccess::new(why_no_cluster.to_owned()));
    drop(tokio::spawn(async move {
        let Ok(planner) = planner.await else { return };
        let reader = FleetReader::new(planner, clusters, ReadBy::Web);
        if let Err(error) = keep(&reader, &publisher, SHOWN_AGAIN).await {
            tracing::warn!(%error, "the dashboard shows nothing");
        }
    }));
    Ok(told)
}

/// Publishes the fleet whenever a branch has moved, and when so much time has passed.
async fn keep(reader: &FleetReader, publisher: &Publisher, interval: Duration) -> Result<Exit, CommandError> {
    let planner = reader.planner();
    let first = planner.read_to_check().map_err(fleet::explain)?;
    let branches = vec![planner.source_branch().clone(), first.layout.branch];
    let mut watch = Watch::start(planner.repository().clone(), WatchSettings::new(branches));
    loop {
        match reader.read().await {
            Ok(snapshot) => {
                watch.follow(snapshot.branches());
                publisher.publish(snapshot);
            }
            Err(error) => tracing::warn!(%error, "the fleet could not be read; the dashboard shows what was read last"),
        }
        match timeout(interval, watch.changed()).await {
            // Nothing that has moved is told twice: the next reading takes all of it.
            Ok(Some(_)) => while let Ok(Some(_)) = timeout(TOGETHER, watch.changed()).await {},
            // Nobody watches any more: what is left is the interval.
            Ok(None) => sleep(interval).await,
            Err(_) => {}
        }
    }
}
