//! `stepgate compare`: what differs between two dumps of a cluster, by owner and not by the names of pods.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use rollout::dump::{Comparison, Difference, Dump, compare};
use serde::Serialize;

use super::dump;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet::{self, Opened};
use crate::cli::common::output::{self, Format, Report, Table};
use crate::cli::{ClusterArguments, FleetArguments};
use crate::reconcile::clusters::backup_registry::{RegistryBackups, RegistryFolder};
use crate::reconcile::planner::ClusterView;
use cluster::kubernetes::{BackupPlace, kept_dump, read_dump_file};

/// Arguments of `stepgate compare`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The cluster.
    #[arg(add = crate::cli::common::names::clusters())]
    cluster: String,
    /// The dump from before: its file, a folder of dumps (the newest one of the cluster counts), or its digest below --backups. Left out, it is
    /// the one that the ledger of the last rollout names.
    #[arg(long, value_name = "FILE|DIR|DIGEST")]
    from: Option<String>,
    /// The dump to compare it with, likewise. Left out, it is what the cluster is like now.
    #[arg(long, value_name = "FILE|DIR|DIGEST")]
    to: Option<String>,
    /// A folder of a registry that backups and dumps go to as well: `oci://HOST/PATH`.
    #[arg(long, env = "STEPGATE_BACKUP_REGISTRY", value_name = "URL")]
    backup_registry: Option<RegistryFolder>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What differs between two dumps.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompareReport {
    /// The cluster.
    pub cluster: String,
    /// When the first dump was taken, RFC 3339.
    pub from: String,
    /// When the second one was, RFC 3339.
    pub to: String,
    /// What is worse, the most telling first.
    pub differences: Vec<DifferenceReport>,
    /// What is told only: what was so before, what is new.
    pub remarks: Vec<String>,
}

/// One thing that is worse.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DifferenceReport {
    /// `missing`, `not ready`, `not injected`, `fewer containers`, `fewer replicas`, `volume`, `restarted` or `moved`.
    pub kind: String,
    /// The owner of pods, or another object.
    pub object: String,
    /// What it was before.
    pub before: String,
    /// What it is now.
    pub now: String,
    /// What helps; null where nothing is known.
    pub help: Option<String>,
}

impl From<Difference> for DifferenceReport {
    fn from(difference: Difference) -> Self {
        let Difference { object, kind, before, now, help } = difference;
        Self { kind: kind.to_string(), object, before, now, help }
    }
}

impl CompareReport {
    /// What differs between these dumps.
    #[must_use]
    pub fn of(before: &Dump, now: &Dump) -> Self {
        let Comparison { differences, remarks } = compare(before, now);
        Self {
            cluster: now.cluster.clone(),
            from: before.taken_at.to_string(),
            to: now.taken_at.to_string(),
            differences: differences.into_iter().map(DifferenceReport::from).collect(),
            remarks,
        }
    }
}

impl Report for CompareReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table = Table { headers: vec!["DIFFERENCE", "OBJECT", "BEFORE", "NOW"], ..Table::default() };
        for it in &self.differences {
            table.rows.push(vec![it.kind.clone(), it.object.clone(), it.before.clone(), it.now.clone()]);
            table.notes.extend(it.help.iter().map(|help| format!("{}: {help}", it.object)));
        }
        if self.differences.is_empty() {
            table.notes.push(format!("{} is as well at {} as it was at {}", self.cluster, self.to, self.from));
        }
        table.notes.extend(self.remarks.iter().map(|remark| format!("remark: {remark}")));
        vec![(None, table)]
    }
}

/// Prints what differs. Nothing is changed in the cluster.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    opened.clusters(Some(&arguments.cluster))?;
    let view = opened.view(&arguments.cluster)?;
    let place = place(arguments)?;
    let before = match &arguments.from {
        Some(named) => named_dump(named, &view, &place)?,
        None => recorded(&view, &place)?,
    };
    let now = match &arguments.to {
        Some(named) => named_dump(named, &view, &place)?,
        None => dump::take(&opened, &view, &arguments.access)?,
    };
    is_of(&before, &opened, &view)?;
    is_of(&now, &opened, &view)?;
    let report = CompareReport::of(&before, &now);
    let differs = !report.differences.is_empty();
    output::print(arguments.output, &report)?;
    Ok(if differs { Exit::Differences } else { Exit::Success })
}

/// Where dumps of the cluster are kept.
fn place(arguments: &Arguments) -> Result<BackupPlace, CommandError> {
    let place = arguments.access.place().of_cluster(&arguments.cluster);
    let Some(folder) = &arguments.backup_registry else { return Ok(place) };
    let registry = RegistryBackups::of(folder, arguments.fleet.private_hosts()).map_err(CommandError::new)?;
    Ok(BackupPlace { registry: Some(Arc::new(registry)), ..place })
}

/// The dump of that name: a file, a folder or a digest.
pub(in crate::cli) fn named_dump(named: &str, view: &ClusterView, place: &BackupPlace) -> Result<Dump, CommandError> {
    let found = if named.starts_with("sha256:") {
        kept_dump(place, view.name.as_str(), named)
    } else {
        read_dump_file(Path::new(named), view.name.as_str())
    };
    found.map_err(|error| CommandError::from(error).hint("`stepgate dump CLUSTER --to DIR` writes one"))
}

/// The dump that was taken before the last rollout.
fn recorded(view: &ClusterView, place: &BackupPlace) -> Result<Dump, CommandError> {
    let before = view.directory.ledger().and_then(|ledger| ledger.before.as_ref());
    match before.and_then(|before| before.dump.as_ref()) {
        Some(digest) => named_dump(digest, view, place),
        None => Err(CommandError::new(format!("the ledger of {} names no dump", view.name))
            .hint("name one by --from: `stepgate dump CLUSTER --to DIR` writes it")),
    }
}

/// A dump of another cluster says nothing of this one.
pub(in crate::cli) fn is_of(dump: &Dump, opened: &Opened, view: &ClusterView) -> Result<(), CommandError> {
    if dump.cluster == view.name.as_str() {
        return Ok(());
    }
    let branch = opened.planner.source_branch();
    Err(CommandError::new(format!("the dump is of cluster {}, and {} of {branch} is meant", dump.cluster, view.name)))
}
