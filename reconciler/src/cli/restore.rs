//! `stepgate restore`: Cluster API objects of a cluster from a backup, or from the management cluster that they leave.

use std::path::{Path, PathBuf};

use clap::Args;
use domain::RolloutId;
use jiff::Timestamp;
use rollout::LedgerState;
use serde::Serialize;

use super::ClusterArguments;
use super::answer::arguments::{Answer, AnswerArguments};
use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::fleet::Opened;
use super::common::output::{self, Format, Report, Table};
use crate::reconcile::clusters::backup_registry::RegistryBackups;
use crate::reconcile::planner::ClusterView;
use cluster::kubernetes::{
    Backup, BackupIdentity, BackupRegistry as _, Comparison, Connection, ConnectionSource, KubernetesCluster, Restore,
    RestoreError, RestoreOptions, Restored, SavedState, newest_whole, read_backup, read_pulled, with_certificates_of,
};

/// The largest file of keys, in bytes.
const LARGEST_IDENTITY: u64 = 64 << 10;

/// Arguments of `stepgate restore`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    answer: AnswerArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The backup: its folder, the rollout that it was taken for, or its address in a registry (`oci://HOST/PATH/CLUSTER:ROLLOUT`). Left out, it is the newest whole one of the cluster below --backups.
    #[arg(long, value_name = "DIR|ROLLOUT|URL")]
    from: Option<String>,
    /// File with the secret key of age (as `age-keygen` writes it) that opens an encrypted backup.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Kubeconfig of another management cluster, where the objects are to be instead. Those of the old one, if it still has them, are moved as
    /// they are now and stay there, paused.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// The old management cluster does not answer, and never will again: only then may another one manage the same machines.
    #[arg(long, requires = "to")]
    source_is_gone: bool,
    /// Put back objects that were changed, or made anew, since the backup was taken. What was changed is lost.
    #[arg(long)]
    overwrite_newer: bool,
    /// Only the Secrets that machines trust (`-ca`, `-etcd`, `-proxy`, `-sa`, `-kubeconfig`): the rest of a cluster that is being rolled out has
    /// changed since.
    #[arg(long, conflicts_with = "to")]
    certificates: bool,
    /// The same, out of the bootstrap data of this Machine of the control plane instead of a backup.
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["from", "to", "identity"])]
    certificates_of: Option<String>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    /// Whether certificates are all that is restored.
    fn is_of_certificates(&self) -> bool {
        self.certificates || self.certificates_of.is_some()
    }
}

/// How a backup stands to what is there, and what was done.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreReport {
    /// The cluster.
    pub cluster: String,
    /// Where the objects are from.
    pub from: String,
    /// When they were saved, RFC 3339.
    pub taken_at: String,
    /// The API server that they go to.
    pub to: String,
    /// Each object, as it was found: those that differ first.
    pub objects: Vec<RestoreObject>,
    /// Clusters that a restore which was broken off keeps paused.
    pub kept_still: Vec<String>,
    /// What is restored otherwise than it was saved.
    pub remarks: Vec<String>,
    /// What keeps it from being restored, with what helps.
    pub obstacles: Vec<String>,
    /// What was done; null for a dry run.
    pub done: Option<RestoreDone>,
}

/// One object of a backup.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct RestoreObject {
    /// `Kind namespace/name`.
    pub object: String,
    /// `missing`, `changed` (owners or labels lost), `newer`, `leaving` (being deleted), `not-served` or `same`.
    pub state: String,
    /// What differs.
    pub detail: String,
}

/// What was done, each as `Kind namespace/name`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct RestoreDone {
    /// Made anew.
    pub created: Vec<String>,
    /// Put back to what was saved.
    pub changed: Vec<String>,
    /// Let go on at the end.
    pub resumed: Vec<String>,
}

impl From<Restored> for RestoreDone {
    fn from(Restored { created, changed, resumed }: Restored) -> Self {
        Self { created, changed, resumed }
    }
}

impl Report for RestoreReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let Self { cluster, from, taken_at, to, .. } = self;
        let differs = |object: &&RestoreObject| object.state != SavedState::Same.word();
        let row = |object: &RestoreObject| vec![object.state.clone(), object.object.clone(), object.detail.clone()];
        let mut table = Table {
            headers: vec!["STATE", "OBJECT", "DETAIL"],
            rows: self.objects.iter().filter(differs).map(row).collect(),
            ..Table::default()
        };
        let count = |state: SavedState| self.objects.iter().filter(|object| object.state == state.word()).count();
        let all = [
            SavedState::Missing,
            SavedState::Changed,
            SavedState::Newer,
            SavedState::Leaving,
            SavedState::NotServed,
            SavedState::Same,
        ];
        let counts: Vec<String> = all
            .into_iter()
            .filter(|state| count(*state) > 0)
            .map(|state| format!("{} {}", count(state), state.word()))
            .collect();
        table.notes.push(format!("{} objects: {}", self.objects.len(), counts.join(", ")));
        table.notes.extend(self.kept_still.iter().map(|kept| format!("paused: {kept}")));
        table.notes.extend(self.remarks.iter().map(|remark| format!("remark: {remark}")));
        table.notes.extend(self.obstacles.iter().map(|obstacle| format!("in the way: {obstacle}")));
        match &self.done {
            Some(RestoreDone { created, changed, resumed }) => table.notes.push(format!(
                "restored: {} made anew, {} put back; on they go: {}",
                created.len(),
                changed.len(),
                if resumed.is_empty() { "nothing was paused".to_owned() } else { resumed.join(", ") }
            )),
            None if !self.obstacles.is_empty() => {}
            None if self.is_settled() => table.notes.push("nothing is to be restored".to_owned()),
            None => table.notes.push("`--yes` restores what is missing or changed".to_owned()),
        }
        vec![(Some(format!("{cluster}: {from}, saved at {taken_at}, to {to}")), table)]
    }
}

impl RestoreReport {
    fn of(cluster: &str, backup: &Backup, to: &str, comparison: Comparison, obstacles: Vec<String>) -> Self {
        let object = |object: cluster::kubernetes::ComparedObject| RestoreObject {
            object: object.object,
            state: object.state.word().to_owned(),
            detail: object.detail,
        };
        let report = &backup.header.report;
        Self {
            cluster: cluster.to_owned(),
            from: report.location.clone(),
            taken_at: report.taken_at.to_string(),
            to: to.to_owned(),
            objects: comparison.objects.into_iter().map(object).collect(),
            kept_still: comparison.kept_still,
            remarks: comparison.remarks,
            obstacles,
            done: None,
        }
    }

    fn is_settled(&self) -> bool {
        self.kept_still.is_empty() && self.objects.iter().all(|object| object.state == SavedState::Same.word())
    }
}

/// Restores, or says what would be restored.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let Answer { opened, view, by } = arguments.answer.open()?;
    let connection = arguments.access.connect()??;
    super::run::verb::runtime()?.block_on(async {
        let reference = opened.planner.reference(&opened.reading, &view.cluster);
        let named = arguments.access.management_cluster.clone().filter(|name| !name.is_empty());
        let backups = arguments.access.backups.join(arguments.answer.cluster());
        let cluster = KubernetesCluster::new(connection, reference, named, backups.clone());
        let by = by.as_ref().map(|by| by.name().to_owned());
        restore(arguments, &opened, &view, &cluster, &backups, by).await
    })
}

async fn restore(
    arguments: &Arguments,
    opened: &Opened,
    view: &ClusterView,
    cluster: &KubernetesCluster,
    backups: &Path,
    by: Option<String>,
) -> Result<Exit, CommandError> {
    let target = match &arguments.to {
        Some(path) => {
            let source = ConnectionSource::Kubeconfig { path: Some(path.clone()), context: None };
            Some(Connection::open(&source).await?)
        }
        None => None,
    };
    let is_move = !arguments.is_of_certificates() && target.is_some() && is_still_there(arguments, cluster).await?;
    if !arguments.source_is_gone && (target.is_none() || is_move) {
        refuse_while_rolling(opened, view, cluster).await?;
    }
    let at = Timestamp::now();
    let mut backup = match &arguments.certificates_of {
        Some(machine) => with_certificates_of(cluster.as_it_is(at).await?, arguments.answer.cluster(), machine)?,
        None if is_move => cluster.as_it_is(at).await?,
        None => saved(arguments, backups)?,
    };
    let options = |reason: String, owner: &str| RestoreOptions {
        owner: owner.to_owned(),
        reason,
        at,
        overwrite_newer: arguments.overwrite_newer,
    };
    let restore = opened_restore(cluster, target.as_ref(), &backup).await?;
    let restore = match arguments.is_of_certificates() {
        true => restore.of_certificates(arguments.answer.cluster()),
        false => restore,
    };
    let comparison = restore.compare().await?;
    let obstacles = comparison.obstacles(arguments.overwrite_newer);
    let server = target.as_ref().map_or_else(|| cluster.server().to_owned(), |target| target.server().to_owned());
    let mut report = RestoreReport::of(arguments.answer.cluster(), &backup, &server, comparison, obstacles);
    let Some(by) = by.filter(|_| report.obstacles.is_empty()) else {
        output::print(arguments.output, &report)?;
        return Ok(if report.obstacles.is_empty() { Exit::Success } else { Exit::Blocked });
    };
    let mut restore = restore;
    if is_move {
        // What still moves there is not what would be moved.
        let leaves = options(format!("it is moved to {server}"), &by);
        cluster.restore(&backup).await?.leave(&leaves, &server).await?;
        backup = cluster.as_it_is(at).await?;
        restore = opened_restore(cluster, target.as_ref(), &backup).await?;
    }
    let from = &backup.header.report.location;
    let restored = restore.carry_out(&options(format!("it is restored from {from}"), &by)).await.map_err(explain)?;
    report.done = Some(restored.into());
    output::print(arguments.output, &report)?;
    if is_move {
        output::note(&format!(
            "the objects in {} stay there, paused: never let them go on; say who manages {} now in its specification, and \
             `stepgate adopt` it there",
            cluster.server(),
            arguments.answer.cluster()
        ));
    }
    Ok(Exit::Success)
}

async fn opened_restore(
    cluster: &KubernetesCluster,
    target: Option<&Connection>,
    backup: &Backup,
) -> Result<Restore, CommandError> {
    match target {
        None => Ok(cluster.restore(backup).await?),
        Some(target) => Ok(cluster.restore_to(target.clone(), backup).await?),
    }
}

/// Whether the old management cluster still has the cluster.
async fn is_still_there(arguments: &Arguments, cluster: &KubernetesCluster) -> Result<bool, CommandError> {
    let is_there = match cluster.is_held_there().await {
        Ok(is_there) => is_there,
        Err(error) if error.is_unreachable() && arguments.source_is_gone => false,
        Err(error) => {
            let error = CommandError::from(error).context("whether the old management cluster is gone is not known");
            return Err(error.hint("bring it back, or say by --source-is-gone that it never comes back"));
        }
    };
    if is_there && arguments.source_is_gone {
        let error =
            CommandError::new(format!("{} answers and has cluster {}", cluster.server(), arguments.answer.cluster()));
        return Err(error.hint("leave --source-is-gone out: its objects are moved as they are now"));
    }
    if is_there && arguments.from.is_some() {
        let error = CommandError::new(format!(
            "{} still manages cluster {}, and a backup says less than it does",
            cluster.server(),
            arguments.answer.cluster()
        ));
        return Err(error.hint("leave --from out: the objects are moved as they are now"));
    }
    Ok(is_there)
}

/// Two must not write the same objects.
async fn refuse_while_rolling(
    opened: &Opened,
    view: &ClusterView,
    cluster: &KubernetesCluster,
) -> Result<(), CommandError> {
    let running = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
    let Some(ledger) = running else { return Ok(()) };
    let (name, rollout) = (&view.name, &ledger.rollout);
    let error = CommandError::new(format!("rollout {rollout} of cluster {name} is under way, and nobody holds it"));
    if opened.fleet().policy.apply == policy::Apply::Direct {
        return Err(error.hint("stop `stepgate run`, and wait until the rollout has ended or was put back"));
    }
    let applied = cluster.applied_by_flux(&view.flux_references()).await?;
    if applied.is_empty() {
        return Ok(());
    }
    let applied = format!("Flux applies {}", applied.join(", "));
    Err(error.hint(applied).hint(format!("`stepgate hold {name} --reason TEXT --yes` holds it")))
}

/// The backup that is named, or the newest whole one.
fn saved(arguments: &Arguments, backups: &Path) -> Result<Backup, CommandError> {
    let name = arguments.answer.cluster();
    let identities = identities(arguments)?;
    let folder = match &arguments.from {
        Some(from) if from.starts_with("oci://") => {
            let registry = RegistryBackups::of_address(from, arguments.answer.private_hosts());
            let files = registry.and_then(|registry| registry.pull(from)).map_err(CommandError::new)?;
            return Ok(read_pulled(from, &files, &identities)?);
        }
        Some(from) if from.parse::<RolloutId>().is_ok() => backups.join(from),
        Some(from) => PathBuf::from(from),
        None => newest_whole(backups).ok_or_else(|| {
            let error =
                CommandError::new(format!("there is no whole backup of cluster {name} below {}", backups.display()));
            error.hint("name one by --from, or where they are by --backups")
        })?,
    };
    Ok(read_backup(&folder, &identities)?)
}

/// The keys that open an encrypted backup.
fn identities(arguments: &Arguments) -> Result<Vec<BackupIdentity>, CommandError> {
    let Some(path) = &arguments.identity else { return Ok(Vec::new()) };
    let place = path.display();
    let failed = |reason: String| CommandError::new(format!("could not use identity {place}: {reason}"));
    let text = host::disk::read_text(path, LARGEST_IDENTITY).map_err(|error| failed(error.to_string()))?;
    BackupIdentity::of_file(&text).map_err(failed)
}

fn explain(error: RestoreError) -> CommandError {
    CommandError::from(error)
        .hint("restoring again goes on where it was broken off; until then the clusters stay paused")
}
