//! Everything that a decision looks at.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::approval::{ApprovalRecord, People};
use crate::deploy::DeployHead;
use crate::history::GateHistory;
use crate::ledger::Ledger;
use crate::observation::Observation;
use crate::plan::{Block, Plan};
use crate::wave::WaveHold;
use domain::{ClusterName, CommitId};

/// Stop the line: nothing is committed while this is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Where it is written, such as `stepgate.yaml` or `clusters/prod`.
    pub place: String,
    /// Why, in the words of whoever paused.
    #[serde(default)]
    pub reason: Option<String>,
    /// What ends it; none where the place says so.
    #[serde(default)]
    pub help: Option<String>,
    /// When it ends by itself; none where it does not.
    #[serde(default)]
    pub until: Option<Timestamp>,
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

/// Everything that a decision about one cluster looks at. What is large is shared with whoever has read or made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct World {
    /// The plan for the newest source, made from the very deploy head below.
    pub plan: Arc<Plan>,
    /// Where the ledger is running another plan than [`World::plan`]: that plan, made again from the ledger's own source commit.
    pub running: Option<Arc<Plan>>,
    /// The ledger at the deploy head.
    pub ledger: Option<Arc<Ledger>>,
    /// The deploy branch.
    pub deploy: Arc<DeployHead>,
    /// The last reading of the cluster; none before the first one.
    pub observation: Option<Arc<Observation>>,
    /// What the stages before the running one are judged by, where the last reading speaks of the running one alone (see `confirming`): the reading
    /// before it.
    #[serde(default)]
    pub rest: Option<Arc<Observation>>,
    /// How long gates have held, that reading included (see `record`).
    pub history: GateHistory,
    /// Whether the line is stopped.
    pub paused: Option<Pause>,
    /// What was pushed of where commits land, under whose name and whose word counts, and nobody who may has confirmed: nothing is written anywhere
    /// while this is there.
    #[serde(default)]
    pub unconfirmed: Vec<Block>,
    /// Whether somebody else wrote to the cluster's directory.
    pub foreign_change: Option<ForeignChange>,
    /// Clusters that have to come first.
    pub prerequisites: Vec<Prerequisite>,
    /// What keeps the cluster from its next stage by the waves of the fleet.
    #[serde(default)]
    pub wave: Option<WaveHold>,
    /// Approvals asked for so far.
    pub approvals: Vec<ApprovalRecord>,
    /// What else is known of people.
    #[serde(default)]
    pub people: People,
}
