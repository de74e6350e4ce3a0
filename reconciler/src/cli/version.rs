//! `stepgate version`: which version this is, and whether it reads what the deploy branch holds.

use clap::Args;
use planning::DeployedLedger;
use rollout::LedgerFormat;
use serde::Serialize;

use super::FleetArguments;
use super::common::error::CommandError;
use super::common::exit::Exit;
use super::common::fleet::{self, Opened};
use super::common::output::{self, Format, Report, Table};
use crate::reconcile::clusters::directory;

/// Arguments of `stepgate version`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    /// Read the ledgers of every cluster on the deploy branch, those of earlier commits included: exit code 3 where one cannot be read. Ask the newer
    /// version before you install it.
    #[arg(long)]
    check_ledger: bool,
    /// How many commits of each cluster.
    #[arg(long, default_value_t = 50, value_name = "NUMBER", requires = "check_ledger")]
    limit: usize,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Which version this is, and which ledgers it has read.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionReport {
    /// The version of this program.
    pub version: String,
    /// The newest form of ledgers that it reads, and the one that it writes.
    pub ledger_format: u32,
    /// The ledgers that were read, newest first, by cluster; empty without `--check-ledger`.
    pub ledgers: Vec<LedgerReport>,
}

/// One ledger of the deploy branch.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerReport {
    /// The cluster.
    pub cluster: String,
    /// The commit that it lies in.
    pub commit: String,
    /// Its form; null where it cannot be read.
    pub format: Option<u32>,
    /// Why it cannot be read; null where it can.
    pub problem: Option<String>,
}

impl Report for VersionReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table = Table { headers: vec!["CLUSTER", "COMMIT", "PROBLEM"], ..Table::default() };
        let unread = self.ledgers.iter().filter_map(|ledger| Some((ledger, ledger.problem.as_ref()?)));
        for (ledger, problem) in unread {
            let commit = ledger.commit.chars().take(12).collect();
            table.rows.push(vec![ledger.cluster.clone(), commit, problem.clone()]);
        }
        table.notes.push(format!("stepgate {}, ledgers up to format {}", self.version, self.ledger_format));
        if !self.ledgers.is_empty() {
            let (all, unread) = (self.ledgers.len(), table.rows.len());
            table.notes.push(format!("{} of {all} ledgers can be read", all - unread));
        }
        vec![(None, table)]
    }
}

/// Prints the version.
///
/// # Errors
/// When the repository cannot be read.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let ledgers = match arguments.check_ledger {
        true => ledgers(&fleet::open(&arguments.fleet)?, arguments.limit)?,
        false => Vec::new(),
    };
    let is_read = ledgers.iter().all(|ledger| ledger.problem.is_none());
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let report = VersionReport { version, ledger_format: LedgerFormat::CURRENT.into(), ledgers };
    output::print(arguments.output, &report)?;
    Ok(if is_read { Exit::Success } else { Exit::Blocked })
}

/// The ledgers of the clusters that the source branch names.
fn ledgers(opened: &Opened, limit: usize) -> Result<Vec<LedgerReport>, CommandError> {
    let mut ledgers = Vec::new();
    for name in opened.clusters(None)? {
        let cluster = name.parse()?;
        for entry in opened.planner.commits(&opened.reading, &cluster, limit)? {
            let snapshot = opened.planner.repository().deploy_snapshot(&opened.reading.layout, &entry.commit)?;
            let (format, problem) = match directory::read(&snapshot, &cluster)?.ledger {
                DeployedLedger::Absent => continue,
                DeployedLedger::Read(ledger) => (Some(ledger.format.into()), None),
                DeployedLedger::Unreadable(problem) => (None, Some(problem)),
            };
            ledgers.push(LedgerReport { cluster: name.clone(), commit: entry.commit.to_string(), format, problem });
        }
    }
    Ok(ledgers)
}
