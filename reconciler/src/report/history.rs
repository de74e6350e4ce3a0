//! The stage commits of the deploy branch.

use serde::Serialize;

use crate::reconcile::planner::{FleetReading, Planner};
use planning::ClusterDirectory;

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

/// The commits of a cluster's directory, newest first.
///
/// # Errors
/// When the deploy branch cannot be read.
pub fn commits_of(
    planner: &Planner,
    reading: &FleetReading,
    name: &str,
    limit: usize,
) -> Result<Vec<CommitReport>, anyhow::Error> {
    let cluster: domain::ClusterName = name.parse()?;
    let entries = planner.commits(reading, &cluster, limit)?;
    let report = |entry: &git::HistoryEntry| -> Result<CommitReport, anyhow::Error> {
        let snapshot = planner.repository().deploy_snapshot(&reading.layout, &entry.commit)?;
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
