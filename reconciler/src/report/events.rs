//! What has happened to a fleet, in the order of time: pushes, stages, approvals, what people wanted, what others did.

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use rollout::{ApprovalScope, Ledger, StageName, StageRecordKind};
use serde::Serialize;

use crate::reconcile::clusters::directory;
use crate::reconcile::planner::{FleetReading, Planner};

/// How many pushes are looked through.
const PUSHES: usize = 10_000;

/// Events, oldest first.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct EventsReport {
    /// The events.
    pub events: Vec<EventReport>,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventReport {
    /// When, RFC 3339.
    pub at: String,
    /// The cluster; null where it concerns the fleet.
    pub cluster: Option<String>,
    /// `pushed`, `adopted`, `committed`, `reverted`, `done`, `approved`, `retried` or `foreign`.
    pub event: String,
    /// The rollout.
    pub rollout: Option<String>,
    /// The stage.
    pub stage: Option<String>,
    /// The commit that it was, or that records it.
    pub commit: String,
    /// Who, where a person did it.
    pub who: Option<String>,
    /// In one line.
    pub message: String,
    /// The time as it is compared.
    #[serde(skip)]
    time: Timestamp,
}

/// What has happened to one cluster by its last commits, at most `limit`; the oldest first.
///
/// # Errors
/// When the deploy branch cannot be read.
pub fn events_of(
    planner: &Planner,
    reading: &FleetReading,
    name: &str,
    limit: usize,
) -> Result<(Vec<EventReport>, Option<CommitId>), anyhow::Error> {
    let cluster: ClusterName = name.parse()?;
    let (mut events, mut before) = (Vec::new(), None);
    let mut first_source = None;
    for entry in planner.commits(reading, &cluster, limit)?.iter().rev() {
        let snapshot = planner.repository().deploy_snapshot(&reading.layout, &entry.commit)?;
        let directory = directory::read(&snapshot, &cluster)?;
        let ledger = directory.shared_ledger().cloned();
        if first_source.is_none() {
            first_source = ledger.as_ref().map(|ledger| ledger.source.clone());
        }
        let at = Happened { cluster: name, entry };
        events.extend(at.of_people(before.as_deref(), ledger.as_deref()));
        events.push(at.itself(before.as_deref(), ledger.as_deref()));
        before = ledger;
    }
    Ok((events, first_source))
}

/// What was pushed to the source branch after a commit.
///
/// # Errors
/// When the source branch cannot be read, or more was pushed than is looked through.
pub fn pushes_since(
    planner: &Planner,
    reading: &FleetReading,
    base: &CommitId,
) -> Result<Vec<EventReport>, anyhow::Error> {
    let pushed = planner.repository().between(Some(base), reading.source_commit(), PUSHES)?;
    let event = |commit: git::WrittenCommit| EventReport {
        at: commit.committed_at.to_string(),
        cluster: None,
        event: "pushed".to_owned(),
        rollout: None,
        stage: None,
        commit: commit.id.to_string(),
        who: commit.authors.first().cloned(),
        message: format!("{} has a new commit", planner.source_branch()),
        time: commit.committed_at,
    };
    Ok(pushed.into_iter().map(event).collect())
}

/// Puts events in the order of time; those of one moment stay in the order in which they are.
pub fn by_time(events: &mut [EventReport]) {
    events.sort_by_key(|event| event.time);
}

impl EventReport {
    /// When it happened.
    pub fn time(&self) -> Timestamp {
        self.time
    }
}

/// A commit of the deploy branch.
struct Happened<'a> {
    cluster: &'a str,
    entry: &'a git::HistoryEntry,
}

impl Happened<'_> {
    fn event(&self, event: &str, message: String) -> EventReport {
        let trailers = self.entry.stage.as_ref();
        EventReport {
            at: self.entry.committed_at.to_string(),
            cluster: Some(self.cluster.to_owned()),
            event: event.to_owned(),
            rollout: trailers.map(|trailers| trailers.rollout.to_string()),
            stage: trailers.map(|trailers| trailers.stage.to_string()),
            commit: self.entry.commit.to_string(),
            who: None,
            message,
            time: self.entry.committed_at,
        }
    }

    /// What the commit itself is.
    fn itself(&self, before: Option<&Ledger>, ledger: Option<&Ledger>) -> EventReport {
        let Some(trailers) = &self.entry.stage else {
            let message = format!("somebody else's commit: {}", self.entry.subject);
            return EventReport { who: Some(self.entry.author.clone()), ..self.event("foreign", message) };
        };
        if trailers.stage.name == StageName::Verify {
            return match before {
                None => self.event("adopted", "recorded as deployed".to_owned()),
                Some(_) => self.event("done", "everything holds; the rollout is closed".to_owned()),
            };
        }
        let record = ledger.and_then(|ledger| ledger.last_record(&trailers.stage));
        match record {
            Some(record) if record.kind == StageRecordKind::Revert => {
                let why = record.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default();
                self.event("reverted", format!("{} was taken back{why}", trailers.stage))
            }
            Some(record) if record.attempt > 1 => {
                self.event("committed", format!("{} was committed, attempt {}", trailers.stage, record.attempt))
            }
            _ => self.event("committed", format!("{} was committed", trailers.stage)),
        }
    }

    /// What people wanted, as far as this commit is the first to record it.
    fn of_people(&self, before: Option<&Ledger>, ledger: Option<&Ledger>) -> Vec<EventReport> {
        let Some(ledger) = ledger else { return Vec::new() };
        let (known, retried) = before.map_or((&[][..], &[][..]), |before| (&before.approvals[..], &before.retries[..]));
        let is_new = |approved: &&rollout::Approved| {
            let is_same = |one: &rollout::Approved| one.scope == approved.scope && one.plan == approved.plan;
            approved.by.is_some() && !known.iter().any(|one| is_same(one) && one.by.is_some())
        };
        let approvals = ledger.approvals.iter().filter(is_new).map(|approved| {
            let time = approved.at.unwrap_or(self.entry.committed_at);
            let aside = approved.overridden.as_ref().map(|aside| format!("; rules set aside: {}", aside.reason));
            let what = match &approved.scope {
                ApprovalScope::Rollout => "the rollout".to_owned(),
                ApprovalScope::Stage(stage) => stage.to_string(),
            };
            let message = format!("{what} was approved{}", aside.unwrap_or_default());
            EventReport { at: time.to_string(), time, who: approved.by.clone(), ..self.event("approved", message) }
        });
        let retries = ledger.retries.iter().filter(|retry| !retried.contains(retry)).map(|retry| {
            let message = format!("{} may be tried again, attempt {}", retry.stage, retry.attempt);
            let (at, who) = (retry.at.to_string(), Some(retry.who.to_string()));
            EventReport { at, time: retry.at, who, ..self.event("retried", message) }
        });
        approvals.chain(retries).collect()
    }
}
