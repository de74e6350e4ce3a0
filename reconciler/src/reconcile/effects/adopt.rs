//! Adopting a cluster that runs already: records what the source branch says of it now as deployed.
//!
//! Without this first record every file would be new, and the first rollout would install components that are there. Adopting
//! changes nothing in the cluster as long as the source branch describes what runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::CommitId;
use domain::RepoPath;
use jiff::Timestamp;
use rollout::{Block, ClusterIdentity, Ledger, RenderFailure, StageId};

use super::records::{self, Record, Records};
use crate::reconcile::clusters::directory::ledger_path;
use crate::reconcile::effects::commit::{Signature, ledger_text};
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use git::{CommitDraft, CommitMessage, CommitOutcome, PushOutcome};

/// New content by path.
pub(super) type Edits = BTreeMap<RepoPath, Option<Arc<[u8]>>>;

/// What adopting a cluster came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It has a ledger already.
    Already,
    /// It was recorded by this commit, or would be.
    Recorded {
        /// The commit; none for a dry run.
        commit: Option<CommitId>,
        /// How many files the record has.
        files: usize,
    },
    /// It has a ledger, which says from this commit on that it is another cluster than before, or would.
    Identified {
        /// The commit; none for a dry run.
        commit: Option<CommitId>,
        /// What was recorded before.
        before: Option<ClusterIdentity>,
    },
}

/// A cluster that must not be recorded anew, since its record was lost: all that is left of its rollout would be applied at once.
#[derive(Debug, thiserror::Error)]
#[error("cluster {cluster} had a record, and is not recorded anew: {}", block.message)]
pub struct LostRecord {
    /// The cluster.
    pub cluster: String,
    /// What is wrong, and what helps.
    pub block: Block,
}

/// A cluster of a kind that is not rolled out: a record of it would be applied by nobody.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct NotRolledOut {
    /// Why.
    pub message: String,
    /// What to do instead.
    pub help: &'static str,
}

/// A cluster that cannot be recorded, since it could not be rendered in full.
#[derive(Debug, thiserror::Error)]
#[error("cluster {cluster} cannot be recorded while parts of it cannot be rendered:{}", listed(.failures))]
pub struct Unrendered {
    /// The cluster.
    pub cluster: String,
    /// The stages whose files could not be made, and why.
    pub failures: Vec<(StageId, RenderFailure)>,
}

fn listed(failures: &[(StageId, RenderFailure)]) -> String {
    failures.iter().map(|(stage, failure)| format!("\n  {stage}: {}", failure.message)).collect()
}

/// Records what the source branch says of a cluster; with `dry` only says what would be recorded. Which cluster it is is recorded with its next commit.
///
/// # Errors
/// When it cannot be rendered in full, its record was lost, or the push did not succeed.
pub fn adopt(
    planner: &Planner,
    reading: &FleetReading,
    cluster: &str,
    now: Timestamp,
    dry: bool,
) -> Result<Adoption, anyhow::Error> {
    let view = planner.view(reading, cluster)?;
    if let Some(missing) = view.missing.as_ref().filter(|missing| missing.is_lost()) {
        let block = missing.block(&view.name, &reading.layout, planner.repository());
        return Err(LostRecord { cluster: cluster.to_owned(), block }.into());
    }
    record(planner, reading, &view, None, &[], now, dry)
}

/// As [`adopt`], of a cluster whose record is known not to be lost, or to be lost for good; and which cluster it is, where that is known.
/// `as_declared` is what runs otherwise, where it is recorded all the same.
///
/// # Errors
/// When it cannot be rendered in full, or the push did not succeed.
pub fn record(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    identity: Option<&ClusterIdentity>,
    as_declared: &[String],
    now: Timestamp,
    dry: bool,
) -> Result<Adoption, anyhow::Error> {
    let Some(record) = Record::of(reading, view, identity, as_declared, now)? else { return Ok(Adoption::Already) };
    if dry {
        return Ok(Adoption::Recorded { commit: None, files: record.files() });
    }
    let mut records = Records::new(reading.clone());
    records.push(record);
    let outcome = records.commit(planner, now)?.pop();
    outcome.map_or(Ok(Adoption::Already), |(_, outcome)| outcome)
}

/// Records that a cluster with a ledger is this one by now; with `dry` only says so.
///
/// # Errors
/// When it has no ledger, or the push did not succeed.
pub fn replace_identity(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    identity: &ClusterIdentity,
    now: Timestamp,
    dry: bool,
) -> Result<Adoption, anyhow::Error> {
    let cluster = view.name.as_str();
    let Some(ledger) = view.directory.ledger() else {
        anyhow::bail!("cluster {cluster} has no ledger that could be read: without one there is nothing to replace");
    };
    let before = ledger.identity.clone();
    if before.as_ref() == Some(identity) {
        return Ok(Adoption::Already);
    }
    if dry {
        return Ok(Adoption::Identified { commit: None, before });
    }
    let was =
        before.as_ref().map_or_else(|| "nothing was recorded".to_owned(), |before| format!("{before} was recorded"));
    let said = (
        format!("{cluster}: record which cluster it is"),
        format!("From now on it is {identity}; {was}. Nothing in the cluster changes by it."),
    );
    let ledger = Ledger { identity: Some(identity.clone()), ..ledger.clone() };
    let commit = commit(planner, reading, &ledger, said, now)?;
    Ok(commit.map_or(Adoption::Already, |commit| Adoption::Identified { commit: Some(commit), before }))
}

/// Commits a ledger and pushes that; none where nothing would change.
pub(super) fn commit(
    planner: &Planner,
    reading: &FleetReading,
    ledger: &Ledger,
    (subject, body): (String, String),
    now: Timestamp,
) -> Result<Option<CommitId>, anyhow::Error> {
    let edits = BTreeMap::from([(ledger_path(&ledger.cluster)?, Some(ledger_text(ledger)?))]);
    let message = CommitMessage { subject, body, trailers: vec![records::trailers(ledger)] };
    let head = planner.repository().head(&reading.layout.branch)?;
    match push(planner, reading, head.as_ref(), edits, message, now)? {
        Pushed::Commit(commit) => Ok(Some(commit)),
        Pushed::Nothing => Ok(None),
        Pushed::Lost => {
            anyhow::bail!("somebody else moved {} meanwhile; nothing was recorded, try again", reading.layout.branch)
        }
    }
}

/// What became of a commit.
pub(super) enum Pushed {
    /// The deploy branch holds it.
    Commit(CommitId),
    /// It would change nothing.
    Nothing,
    /// The deploy branch is not where it was.
    Lost,
}

/// Commits files on top of `head`, and pushes that.
pub(super) fn push(
    planner: &Planner,
    reading: &FleetReading,
    head: Option<&CommitId>,
    edits: Edits,
    message: CommitMessage,
    now: Timestamp,
) -> Result<Pushed, anyhow::Error> {
    let signature = Signature::of(&reading.fleet.policy, planner.signing())?;
    let draft = CommitDraft {
        parent: head.cloned(),
        prefix: signature.prefix.clone(),
        edits,
        message,
        author: signature.author.clone(),
        time: now,
        merges: None,
        allow_empty: true,
    };
    let commit = match planner.repository().commit(&draft, &signature.signing)? {
        CommitOutcome::Created(commit) => commit,
        CommitOutcome::Unchanged => return Ok(Pushed::Nothing),
    };
    match planner.repository().push(&reading.layout.branch, &commit, head)? {
        PushOutcome::Pushed => Ok(Pushed::Commit(commit)),
        PushOutcome::Lost { .. } => Ok(Pushed::Lost),
        PushOutcome::RejectedByHook { message } => {
            anyhow::bail!("a hook of the repository rejected the record: {message}")
        }
    }
}
