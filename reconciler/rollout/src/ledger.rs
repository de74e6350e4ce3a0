//! The ledger: `clusters/<name>/rollout.yaml` on the deploy branch, written in the same commit as the stage it records.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::approval::{ApprovalScope, Approved, Retry};
use crate::before::Before;
use crate::chain::Chain;
use crate::edit::AcceptedEdit;
use crate::eksctl::way_back::WayBack;
use crate::identity::ClusterIdentity;
use crate::plan::PastDurations;
use crate::rollback::Rollback;
use crate::stage::StageId;
use crate::verdict::{Evidence, Reason};
use domain::{ClusterName, CommitId, PlanDigest, RolloutId, TreeDigest};

/// Whether the recorded rollout has reached its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LedgerState {
    /// Stages may follow.
    Running,
    /// The rollout was verified and closed.
    Done,
    /// A new target asked for what was already deployed, so the rollout was closed before its own target.
    Superseded,
}

/// What a stage record stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageRecordKind {
    /// The stage's tree was committed.
    #[default]
    Commit,
    /// The stage's previous tree was committed back.
    Revert,
}

/// One commit of a stage, or of its undoing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageRecord {
    /// The stage.
    pub stage: StageId,
    /// Whether it was committed or reverted.
    #[serde(default)]
    pub kind: StageRecordKind,
    /// Which attempt at this stage it was, from 1.
    pub attempt: u32,
    /// When.
    pub committed_at: Timestamp,
    /// Digest of the stage's part before.
    pub before: TreeDigest,
    /// Digest of the stage's part after.
    pub after: TreeDigest,
    /// Evidence of the gate that opened this stage; none for a revert or a repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_by: Option<Evidence>,
    /// Why it was reverted, or which failure it repairs; empty for an ordinary commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// Stages that this commit has moved too, each with a gate of its own after this one's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carries: Vec<StageId>,
    /// What could not be undone from this commit on, in the plan's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_way: Vec<String>,
    /// What the external etcd was when the commit was made; none where the stage is of something
    /// else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdBefore>,
}

/// An external etcd before a stage: what is compared with it afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBefore {
    /// The generation of its object, where the stage makes every member anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Its machines.
    pub machines: Vec<String>,
}

/// The form of a ledger's file. A form that a version does not know is refused, never guessed at:
/// what it leaves out when it writes the next one would be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct LedgerFormat(u32);

impl LedgerFormat {
    /// The highest that this version reads. It is raised by a change that an older version would misread.
    pub const CURRENT: Self = Self(2);

    /// What a ledger is written as: the lowest form that has all of it, so that older versions go on reading the others.
    #[must_use]
    pub fn of(chain: Option<&Chain>) -> Self {
        // Who does not know of chains takes what a cluster is at for what its source commit asks for.
        if chain.is_some() { Self(2) } else { Self::default() }
    }
}

impl Default for LedgerFormat {
    /// Ledgers of versions that wrote none have the first one.
    fn default() -> Self {
        Self(1)
    }
}

impl From<LedgerFormat> for u32 {
    fn from(format: LedgerFormat) -> Self {
        format.0
    }
}

impl TryFrom<u32> for LedgerFormat {
    type Error = UnknownLedgerFormat;

    fn try_from(format: u32) -> Result<Self, Self::Error> {
        let known = 1..=Self::CURRENT.0;
        if known.contains(&format) { Ok(Self(format)) } else { Err(UnknownLedgerFormat(format)) }
    }
}

/// A ledger of a form that this version does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "format {0} is not known to this version, which reads up to {known}: run the version of Stepgate that wrote it, or a newer one",
    known = LedgerFormat::CURRENT.0
)]
pub struct UnknownLedgerFormat(u32);

/// The record of one rollout of one cluster.
///
/// What it does not hold is the id of the commit it lies in: that follows from the commit's trailers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// The form of the file.
    #[serde(default)]
    pub format: LedgerFormat,
    /// The cluster.
    pub cluster: ClusterName,
    /// Name of the rollout.
    pub rollout: RolloutId,
    /// Digest of the plan it carries out.
    pub plan: PlanDigest,
    /// Commit of the source branch the plan was made from.
    pub source: CommitId,
    /// Digest of the cluster's directory, without this file, before the rollout.
    pub base: TreeDigest,
    /// Digest of the cluster's directory, without this file, at the end of the rollout.
    pub target: TreeDigest,
    /// Digest of the cluster's directory, without this file, in this commit. Whoever makes the commit sets it, see [`Ledger::with_tree`]:
    /// a different digest found later means that somebody else wrote to the directory.
    pub tree: TreeDigest,
    /// Whether it has reached its end.
    pub state: LedgerState,
    /// When its first stage was committed.
    pub started_at: Timestamp,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Which cluster it is, as it was when this commit was made: what is read of another one proves nothing. None in ledgers of versions that did not
    /// note it down, and of clusters that could not be reached when they were adopted; the next commit records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ClusterIdentity>,
    /// What the cluster was like before it, to be compared at the end; none in ledgers of versions that did not note it down, and where the
    /// workloads were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// Its commits, oldest first.
    pub stages: Vec<StageRecord>,
    /// What people approved, oldest first; empty where nobody has to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approved>,
    /// Attempts that people wanted beyond those of the policy, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<Retry>,
    /// Files that people changed on proposed branches, as far as the plan of the last commit has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<AcceptedEdit>,
    /// What the cluster goes back to, or is kept at, instead of what the source branch asks for; none where that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// The rollouts that lead to what the source commit asks for, of which this is one; none where it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Chain>,
    /// What ran otherwise than the source branch said when the cluster was recorded all the same, a
    /// line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub as_declared: Vec<String>,
    /// The way back of an upgrade before this rollout, where EKS takes the control plane back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_back: Option<WayBack>,
    /// What stages took in the rollouts before this one.
    #[serde(default, skip_serializing_if = "PastDurations::is_empty")]
    pub durations: PastDurations,
    /// Evidence of the last gate; none until it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Evidence>,
    /// Versions by component, as of this commit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, String>,
}

impl Ledger {
    /// The same ledger, recording that the cluster's directory has this digest in the commit being made.
    #[must_use]
    pub fn with_tree(mut self, tree: TreeDigest) -> Self {
        self.tree = tree;
        self
    }

    /// When the newest stage was committed or taken back; none where no rollout runs.
    #[must_use]
    pub fn stage_since(&self) -> Option<Timestamp> {
        let newest = self.stages.last().filter(|_| self.state == LedgerState::Running)?;
        Some(newest.committed_at)
    }

    /// The last record of a stage; none where the rollout never committed it.
    #[must_use]
    pub fn last_record(&self, stage: &StageId) -> Option<&StageRecord> {
        self.stages.iter().rev().find(|record| &record.stage == stage)
    }

    /// The stage whose commit has moved this one, where that was neither undone nor followed by a
    /// record of this one's own.
    #[must_use]
    pub fn carrier(&self, stage: &StageId) -> Option<&StageId> {
        let last = self.stages.iter().rev().find(|record| &record.stage == stage || record.carries.contains(stage))?;
        let is_there = self.last_record(&last.stage).is_some_and(|newest| newest.kind == StageRecordKind::Commit);
        (&last.stage != stage && is_there).then_some(&last.stage)
    }

    /// Whether people approved this, looking at this very plan.
    #[must_use]
    pub fn is_approved(&self, scope: &ApprovalScope, plan: &PlanDigest) -> bool {
        self.approvals.iter().any(|approved| &approved.scope == scope && &approved.plan == plan)
    }

    /// The stage whose commit brought an approval.
    #[must_use]
    pub fn brought<'a>(&'a self, approved: &'a Approved) -> Option<&'a StageId> {
        match (&approved.scope, &approved.with) {
            (ApprovalScope::Stage(stage), _) | (ApprovalScope::Rollout, Some(stage)) => Some(stage),
            (ApprovalScope::Rollout, None) => self.stages.first().map(|record| &record.stage),
        }
    }

    /// How many times a stage was committed, reverted attempts included.
    #[must_use]
    pub fn attempts(&self, stage: &StageId) -> u32 {
        let commits =
            self.stages.iter().filter(|record| &record.stage == stage && record.kind == StageRecordKind::Commit);
        u32::try_from(commits.count()).unwrap_or(u32::MAX)
    }
}
