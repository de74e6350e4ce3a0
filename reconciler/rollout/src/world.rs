//! Everything that a decision looks at.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::history::GateHistory;
use crate::identifier::{ClusterName, CommitId, PlanDigest, RolloutId};
use crate::ledger::Ledger;
use crate::observation::Observation;
use crate::plan::Plan;
use crate::stage::StageId;

/// The trailers of a commit that Stepgate made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageTrailer {
    /// `Stepgate-Cluster`.
    pub cluster: ClusterName,
    /// `Stepgate-Rollout`.
    pub rollout: RolloutId,
    /// `Stepgate-Stage`.
    pub stage: StageId,
}

/// How a commit came onto the deploy branch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Landing {
    /// Stepgate pushed it when it made it.
    #[default]
    Pushed,
    /// It was proposed, and this person merged it.
    Merged(String),
    /// It was proposed, and put on the branch as it is (a fast-forward, a rebase): git does not tell when and by whom.
    Unknown,
}

/// One commit of the deploy branch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployCommit {
    /// Its id.
    pub id: CommitId,
    /// When it came onto the branch, as far as git tells.
    pub committed_at: Timestamp,
    /// How it came there.
    #[serde(default)]
    pub landing: Landing,
    /// Its trailers; none for a commit of somebody else, or one that closes a rollout.
    pub trailer: Option<StageTrailer>,
}

/// The deploy branch: first parents, oldest first, ending at the head.
///
/// It has to reach back at least to the first commit of the ledger's rollout; older commits do no harm.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeployHead {
    /// The commits; empty for an unborn branch.
    pub commits: Vec<DeployCommit>,
}

impl DeployHead {
    /// The newest commit; none on an unborn branch.
    #[must_use]
    pub fn commit(&self) -> Option<&DeployCommit> {
        self.commits.last()
    }
}

/// Stop the line: nothing is committed while this is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Where it is written, such as `stepgate.yaml` or `clusters/prod`.
    pub place: String,
    /// Why, in the words of whoever paused.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Somebody else wrote to the cluster's directory on the deploy branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignChange {
    /// The newest such commit, where it is known.
    pub commit: Option<CommitId>,
    /// Its author.
    pub author: Option<String>,
    /// Paths that differ.
    pub paths: Vec<String>,
}

/// Another cluster that has to come first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prerequisite {
    /// The cluster.
    pub cluster: ClusterName,
    /// Whether it has no rollout left to do.
    pub met: bool,
    /// What it is at, for the reason of the wait.
    pub state: String,
}

/// What an approval is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalScope {
    /// The whole plan.
    Rollout,
    /// One stage of it.
    Stage(StageId),
}

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalState {
    /// Asked, not answered.
    Pending,
    /// Yes.
    Approved,
    /// No.
    Rejected,
}

/// An approval, bound to the plan it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRecord {
    /// What for.
    pub scope: ApprovalScope,
    /// The plan it was asked for; it is void for any other.
    pub plan: PlanDigest,
    /// What was answered.
    pub state: ApprovalState,
    /// By whom, where that is known.
    #[serde(default)]
    pub by: Option<String>,
    /// Where it is asked: the pull request's address or the proposed branch.
    #[serde(default)]
    pub place: Option<String>,
}

/// Everything that a decision about one cluster looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct World {
    /// The plan for the newest source, made from the very deploy head below.
    pub plan: Plan,
    /// Where the ledger is running another plan than [`World::plan`]: that plan, made again from the ledger's own source commit.
    pub running: Option<Plan>,
    /// The ledger at the deploy head.
    pub ledger: Option<Ledger>,
    /// The deploy branch.
    pub deploy: DeployHead,
    /// The last reading of the cluster; none before the first one.
    pub observation: Option<Observation>,
    /// How long gates have held, that reading included (see `record`).
    pub history: GateHistory,
    /// Whether the line is stopped.
    pub paused: Option<Pause>,
    /// Whether somebody else wrote to the cluster's directory.
    pub foreign_change: Option<ForeignChange>,
    /// Clusters that have to come first.
    pub prerequisites: Vec<Prerequisite>,
    /// Approvals asked for so far.
    pub approvals: Vec<ApprovalRecord>,
}
