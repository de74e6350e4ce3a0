//! `stepgate history`: the stage commits of the deploy branch.

use clap::Args;
use serde::Serialize;

use crate::cli::FleetArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use planning::ClusterDirectory;

/// Arguments of `stepgate history`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    /// The cluster; all, when left out.
    cluster: Option<String>,
    /// How many commits of each cluster.
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Commits of the deploy branch.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct HistoryReport {
    /// Newest first, by cluster.
    pub commits: Vec<CommitReport>,
}

/// One commit that changed a cluster's directory.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitReport {
    /// The cluster.
    pub cluster: String,
    /// The commit.
    pub commit: String,
    /// When it was made, RFC 3339.
    pub committed_at: String,
    /// Its author.
    pub author: String,
    /// The rollout; null for somebody else's commit.
    pub rollout: Option<String>,
    /// The stage; null for somebody else's commit.
    pub stage: Option<String>,
    /// First line of its message.
    pub subject: String,
    /// What the gate that opened it saw.
    pub evidence: Vec<String>,
}

impl Report for HistoryReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table =
            Table { headers: vec!["CLUSTER", "WHEN", "COMMIT", "ROLLOUT", "STAGE", "SUBJECT"], ..Table::default() };
        for commit in &self.commits {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "(foreign)".to_owned());
            table.rows.push(vec![
                commit.cluster.clone(),
                commit.committed_at.clone(),
                commit.commit.chars().take(12).collect(),
                text(&commit.rollout),
                text(&commit.stage),
                commit.subject.clone(),
            ]);
        }
        if self.commits.is_empty() {
            table.notes.push("no commits yet: `stepgate why CLUSTER` says what helps".to_owned());
        }
        vec![(None, table)]
    }
}

/// Prints the history.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    let (mut commits, mut exit) = (Vec::new(), Exit::Success);
    for name in opened.clusters(arguments.cluster.as_deref())? {
        match commits_of(&opened, &name, arguments.limit) {
            Ok(found) => commits.extend(found),
            // The others have a history all the same.
            Err(error) if arguments.cluster.is_none() => {
                output::note(&format!("error: cluster {name}: {error}"));
                exit = Exit::Error;
            }
            Err(error) => return Err(error),
        }
    }
    output::print(arguments.output, &HistoryReport { commits })?;
    Ok(exit)
}

fn commits_of(opened: &fleet::Opened, name: &str, limit: usize) -> Result<Vec<CommitReport>, CommandError> {
    let cluster: domain::ClusterName = name.parse()?;
    let entries = opened.planner.commits(&opened.reading, &cluster, limit)?;
    let report = |entry: &git::HistoryEntry| -> Result<CommitReport, CommandError> {
        let snapshot = opened.planner.repository().deploy_snapshot(&opened.reading.layout, &entry.commit)?;
        Ok(report(name, entry, &crate::reconcile::clusters::directory::read(&snapshot, &cluster)?))
    };
    entries.iter().map(report).collect()
}

fn report(cluster: &str, entry: &git::HistoryEntry, directory: &ClusterDirectory) -> CommitReport {
    let stage = entry.stage.as_ref().map(|trailers| &trailers.stage);
    let record = directory.ledger().zip(stage).and_then(|(ledger, stage)| ledger.last_record(stage));
    // The commit that closes a rollout has no record of a stage: what was verified stands for itself.
    let closing = stage.is_some_and(|stage| stage.name == rollout::StageName::Verify);
    let verified = directory.ledger().filter(|_| closing).and_then(|ledger| ledger.verified.as_ref());
    let evidence = verified.or_else(|| record.and_then(|record| record.opened_by.as_ref()));
    CommitReport {
        cluster: cluster.to_owned(),
        commit: entry.commit.to_string(),
        committed_at: entry.committed_at.to_string(),
        author: entry.author.clone(),
        rollout: entry.stage.as_ref().map(|trailers| trailers.rollout.to_string()),
        stage: stage.map(ToString::to_string),
        subject: entry.subject.clone(),
        evidence: evidence
            .map(|evidence| evidence.facts.iter().map(|fact| format!("{}: {}", fact.object, fact.seen)).collect())
            .unwrap_or_default(),
    }
}
