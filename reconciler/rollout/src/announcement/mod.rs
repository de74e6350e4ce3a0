//! What is to be told of a rollout: pure values, so that a new process comes to the same ones.
//!
//! Architecture Invariant: what has happened is read off two states of the ledger, and never off what a process
//! remembers. So nothing is lost by a crash, and what is told again has the same name.
//!
//! Architecture Invariant: an announcement is true when it is made: what it tells of is on the deploy branch by then.

mod standing;
mod words;

#[cfg(test)]
mod tests;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ledger::{Ledger, LedgerState, StageRecord, StageRecordKind};
use crate::stage::StageId;
use domain::{ClusterName, CommitId, RolloutId};
use policy::AnnouncementKind;

pub use standing::{RolloutStanding, standing};

/// Names an announcement: told again, it has the same name. `prod/0a1b2c3d4e5f/control-plane/held/1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AnnouncementId(String);

impl AnnouncementId {
    /// The name, as sinks tell it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AnnouncementId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Something that people want to hear of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The cluster.
    pub cluster: ClusterName,
    /// The rollout.
    pub rollout: RolloutId,
    /// The stage; none for all of the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageId>,
    /// What is told.
    pub kind: AnnouncementKind,
    /// Which time it is told of this stage and rollout, from 1: attempts, and holds that come again.
    pub turn: u32,
    /// When it came to be so.
    pub at: Timestamp,
    /// The commit that made it so; none where no commit did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// Why, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// What helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// When the window opens that is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<Timestamp>,
    /// How long it takes by what it took before, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes: Option<i64>,
    /// What people will feel, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impact: Vec<String>,
    /// Where people are asked: a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
}

impl Announcement {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> AnnouncementId {
        let stage = self.stage.as_ref().map_or_else(|| "rollout".to_owned(), ToString::to_string);
        AnnouncementId(format!("{}/{}/{stage}/{}/{}", self.cluster, self.rollout, self.kind, self.turn))
    }

    fn of(ledger: &Ledger, stage: Option<&StageId>, kind: AnnouncementKind, at: Timestamp, turn: u32) -> Self {
        Self {
            cluster: ledger.cluster.clone(),
            rollout: ledger.rollout.clone(),
            stage: stage.cloned(),
            kind,
            turn,
            at,
            commit: None,
            reasons: Vec::new(),
            help: None,
            opens: None,
            takes: None,
            impact: Vec::new(),
            asked: None,
        }
    }
}

/// What is to be told of a commit that brought a ledger from one state to the next, in order. A cluster that is recorded
/// as it is has had no rollout, and nothing is told of it.
#[must_use]
pub fn announcements(before: Option<&Ledger>, after: &Ledger, commit: &CommitId) -> Vec<Announcement> {
    let before = before.filter(|before| before.rollout == after.rollout && is_continued(before, after));
    let known = before.map_or(0, |before| before.stages.len());
    let mut told = Vec::new();
    if before.is_none() && !after.stages.is_empty() {
        let kind = AnnouncementKind::Started;
        let mut started = Announcement::of(after, None, kind, after.started_at, 1);
        started.reasons.extend(after.rollback.as_ref().map(words::of_rollback));
        told.push(started);
    }
    for (index, record) in after.stages.iter().enumerate().skip(known) {
        let last = index.checked_sub(1).and_then(|last| after.stages.get(last));
        if let Some(last) = last.filter(|_| record.opened_by.is_some()) {
            told.extend(passed(after, index - 1, last, record.committed_at));
        }
        let turn = turn_of(after, index);
        let stage = Some(&record.stage);
        told.push(match record.kind {
            StageRecordKind::Commit => {
                Announcement::of(after, stage, AnnouncementKind::Started, record.committed_at, turn)
            }
            StageRecordKind::Revert => {
                let at = record.committed_at;
                let back = Announcement::of(after, stage, AnnouncementKind::RolledBack, at, turn);
                Announcement { reasons: record.reasons.iter().map(ToString::to_string).collect(), ..back }
            }
        });
    }
    let was_running = before.is_none_or(|before| before.state == LedgerState::Running);
    if after.state != LedgerState::Running && was_running && !after.stages.is_empty() {
        let at = after.finished_at.unwrap_or(after.started_at);
        if let Some((index, last)) = after.stages.iter().enumerate().next_back().filter(|_| after.verified.is_some()) {
            told.extend(passed(after, index, last, at));
        }
        let kind = match &after.rollback {
            Some(_) => AnnouncementKind::RolledBack,
            None => AnnouncementKind::Done,
        };
        let mut ended = Announcement::of(after, None, kind, at, 1);
        if after.state == LedgerState::Superseded {
            ended.reasons.push("what is deployed is what the source branch asks for by now".to_owned());
        }
        told.push(ended);
    }
    for announcement in &mut told {
        announcement.commit = Some(commit.clone());
    }
    told
}

/// A ledger holds the records of before, unless its rollout was begun anew.
fn is_continued(before: &Ledger, after: &Ledger) -> bool {
    before.started_at == after.started_at && before.stages.len() <= after.stages.len()
}

/// The gate of a commit has passed.
fn passed(ledger: &Ledger, index: usize, record: &StageRecord, at: Timestamp) -> Option<Announcement> {
    let turn = turn_of(ledger, index);
    let is_commit = record.kind == StageRecordKind::Commit;
    is_commit.then(|| Announcement::of(ledger, Some(&record.stage), AnnouncementKind::Done, at, turn))
}

/// The how-manieth record of its stage and kind this is.
fn turn_of(ledger: &Ledger, index: usize) -> u32 {
    let Some(record) = ledger.stages.get(index) else { return 1 };
    let same = |other: &&StageRecord| other.stage == record.stage && other.kind == record.kind;
    let before = ledger.stages.iter().take(index).filter(same).count();
    u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1)
}
