//! `stepgate run`: the controller.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use tokio::runtime::Runtime;

use super::announcing::AnnouncementArguments;
use super::dashboard::{DashboardArguments, DashboardManagement};
use super::endpoints::EndpointArguments;
use super::serve::{Management, serve};
use super::updates::{UpdateHosts, Updates};
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use crate::cli::terminal::screen;
use crate::cli::terminal::tree::{self, Branch};
use crate::cli::{ClusterArguments, FleetArguments};
use crate::dashboard::{Actors, Audit};
use crate::reconcile::clusters::backup_registry::{RegistryBackups, RegistryFolder};
use crate::reconcile::main_loop::clock::SystemClock;
use crate::reconcile::{ClusterPass, Controller, ReconcileReport};
use cluster::kubernetes::{
    BackupPlace, BackupRecipient, BackupRegistry, Connection, Lease, Projection, SYSTEM_NAMESPACE,
};

/// The name of the Lease.
const LEASE: &str = "stepgate";

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
    /// Work only while holding a Lease in the management cluster; several processes then take turns. It saves work: without it they would do
    /// each other no harm.
    #[arg(long, env = "STEPGATE_LEADER_ELECTION")]
    leader_election: bool,
    /// The namespace of its own objects in the management cluster: the Lease, Rollouts and their events.
    #[arg(long, env = "STEPGATE_NAMESPACE", value_name = "NAME", default_value = SYSTEM_NAMESPACE)]
    namespace: String,
    /// Look once a minute at what the guard (`stepgate install --guard`) was told to let pass, and tell of it in events and Rollouts.
    #[arg(long, env = "STEPGATE_GUARD")]
    guard: bool,
    /// Whom backups are encrypted to, by a public key of age (`age1…`), before they reach the disk. May be given several times: each of them can
    /// open them, and this process cannot.
    #[arg(long = "backup-recipient", env = "STEPGATE_BACKUP_RECIPIENTS", value_delimiter = ',', value_name = "KEY")]
    backup_recipients: Vec<BackupRecipient>,
    /// A folder of a registry that backups go to as well: `oci://HOST/PATH`, in it one repository a cluster, with the rollout as the tag. Who may
    /// push there is said by the Docker configuration; a private address needs `--private-host`.
    #[arg(long, env = "STEPGATE_BACKUP_REGISTRY", value_name = "URL")]
    backup_registry: Option<RegistryFolder>,
    /// How long the Lease is held without being renewed, in seconds.
    #[arg(long, env = "STEPGATE_LEASE_DURATION", value_name = "SECONDS", default_value_t = 15)]
    lease_duration: u64,
    /// What this process is called in the Lease; without it the name of the machine or pod, and the process' number.
    #[arg(long, env = "STEPGATE_IDENTITY", value_name = "NAME")]
    identity: Option<String>,
    #[command(flatten)]
    endpoints: EndpointArguments,
    #[command(flatten)]
    dashboard: DashboardArguments,
    #[command(flatten)]
    announcements: AnnouncementArguments,
    #[command(flatten)]
    update_hosts: UpdateHosts,
    /// The time between two looks for new versions, in seconds. Without `--update-host` none is looked for.
    #[arg(long, env = "STEPGATE_UPDATE_INTERVAL", default_value_t = 3600, value_name = "SECONDS")]
    update_interval: u64,
    /// The form of the output of `--once`.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    /// Whether the process goes on until it is told to stop.
    pub(crate) fn goes_on(&self) -> bool {
        !self.once
    }

    /// Where backups go, and who can open them.
    fn backups(&self) -> Result<BackupPlace, CommandError> {
        let registry = match &self.backup_registry {
            Some(folder) => {
                let registry = RegistryBackups::of(folder, &self.fleet.private_hosts).map_err(CommandError::new)?;
                Some(Arc::new(registry) as Arc<dyn BackupRegistry>)
            }
            None => None,
        };
        Ok(BackupPlace { recipients: self.backup_recipients.clone(), registry, ..self.access.place() })
    }

    /// The Lease to compete for, where that is wanted. Its connection is its own: queued behind a long reading it would be lost.
    fn lease(&self) -> Result<Option<Lease>, CommandError> {
        if !self.leader_election {
            return Ok(None);
        }
        let connection = self.access.connect()??;
        let host = || std::env::var("HOSTNAME").unwrap_or_else(|_| String::from("stepgate"));
        let identity = self.identity.clone().unwrap_or_else(|| format!("{}_{}", host(), std::process::id()));
        let duration = Duration::from_secs(self.lease_duration.max(1));
        Ok(Some(Lease::new(connection, &self.namespace, LEASE, &identity, duration)))
    }

    /// What the dashboard needs of the management cluster, where there is one. What people do there, any process may do: nothing of it waits
    /// for who leads.
    fn dashboard_management(&self, events: Option<&Connection>) -> Result<Option<DashboardManagement>, CommandError> {
        if !self.dashboard.is_on() {
            return Ok(None);
        }
        let review = self.dashboard.reviews_tokens().then(|| self.access.review()).transpose()?;
        let clusters = self.access.clusters(self.access.connect()?, self.access.place())?;
        let audit = events.map_or_else(Audit::default, |events| Audit::with_events(events.clone(), &self.namespace));
        Ok(Some(DashboardManagement { review, namespace: self.namespace.clone(), actors: Actors { clusters, audit } }))
    }

    /// The connection by which tokens are reviewed, where they are: strangers' tokens must not queue before the controller's requests.
    fn review(&self) -> Result<Option<Connection>, CommandError> {
        if !self.endpoints.reviews_tokens() {
            return Ok(None);
        }
        Ok(Some(self.access.review()?))
    }
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

impl From<&ReconcileReport> for PassReport {
    fn from(pass: &ReconcileReport) -> Self {
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

    fn prose(&self) -> Option<String> {
        let width = screen::width()?;
        let branch = |cluster: &PassedCluster| {
            let committed = cluster.committed.iter().map(|stage| Branch {
                name: stage.clone(),
                state: "committed".to_owned(),
                ..Branch::default()
            });
            let help = cluster.help.as_ref().map(|help| format!("; what helps: {help}")).unwrap_or_default();
            Branch {
                name: cluster.cluster.clone(),
                state: cluster.state.clone(),
                told: cluster.stage.as_ref().map(|stage| format!("at {stage}")).unwrap_or_default(),
                why: Some(format!("{}{help}", cluster.message)),
                below: committed.collect(),
            }
        };
        Some(tree::drawn(&self.clusters.iter().map(branch).collect::<Vec<_>>(), Some(width)))
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
    let endpoints = arguments.endpoints.read()?;
    let telling = arguments.announcements.read()?;
    let planner = fleet::planner(&arguments.fleet)?;
    // One connection for all that reads and writes, so that one limit holds for all of it.
    let connection = arguments.access.connect()?;
    let management = connection.as_ref().map(Connection::clone).map_err(ToString::to_string);
    let lease = if arguments.once { None } else { arguments.lease()? };
    // Pauses are ended by whoever runs; clusters are written to by whoever leads.
    let leadership = lease.as_ref().map(|lease| lease.leadership().clone());
    let connection = connection.map(|connection| connection.fenced(leadership));
    let clusters = arguments.access.clusters(connection, arguments.backups()?)?;
    let updates = arguments.update_hosts.are_named().then(|| Updates {
        updater: arguments.update_hosts.updater(&arguments.fleet, planner.clone()),
        interval: Duration::from_secs(arguments.update_interval.max(1)),
    });
    let controller = Controller::new(planner, clusters, Arc::new(SystemClock), arguments.concurrent);
    let runtime = runtime()?;
    if arguments.once {
        let pass = runtime.block_on(controller.pass()).map_err(fleet::explain)?;
        output::print(arguments.output, &PassReport::from(pass.as_ref()))?;
        let errors = controller.errors();
        errors.iter().for_each(|problem| output::note(&format!("error: {problem}")));
        return Ok(if errors.is_empty() { exit(&pass) } else { Exit::Error });
    }
    let project =
        |connection: &Connection| Projection::new(connection.clone(), &arguments.namespace).with_guard(arguments.guard);
    let dashboard = arguments.dashboard_management(management.as_ref().ok())?;
    let management = Management {
        lease,
        projection: management.as_ref().ok().map(project),
        review: arguments.review()?,
        connection: management,
        telling,
        updates,
        dashboard: (arguments.dashboard.clone(), dashboard),
    };
    runtime.block_on(serve(&controller, arguments.interval, endpoints, management))
}

fn exit(pass: &ReconcileReport) -> Exit {
    let any = |word: &str| pass.clusters.iter().any(|cluster| cluster.outcome.word() == word);
    match () {
        () if any("failed") => Exit::Error,
        () if any("blocked") => Exit::Blocked,
        () if any("held") => Exit::Stopped,
        () if any("waiting") => Exit::Waiting,
        () => Exit::Success,
    }
}
