//! What a demonstration tells while it runs and in the end.

use serde::Serialize;
use simulator::Break;

use crate::reconcile::{ClusterPass, CommittedStage};
use crate::report::ClusterPlan;

/// Something to tell while a demonstration runs; times are virtual.
#[derive(Debug)]
pub enum DemoEvent<'a> {
    /// The repository is there and the clusters are recorded as they run.
    Ready {
        /// The repository.
        repository: String,
        /// The clusters.
        clusters: Vec<String>,
    },
    /// The bump was pushed.
    Pushed {
        /// Its subject.
        subject: &'a str,
    },
    /// What a cluster is about to go through.
    Planned {
        /// Its plan.
        plan: &'a ClusterPlan,
    },
    /// A stage was committed.
    Committed {
        /// The cluster.
        cluster: &'a str,
        /// The commit.
        stage: &'a CommittedStage,
    },
    /// A cluster waits, is held or blocked, for a new reason.
    ClusterProgress {
        /// What the pass came to.
        pass: &'a ClusterPass,
    },
    /// What was broken has been repaired.
    Repaired {
        /// The cluster.
        cluster: &'a str,
        /// What was broken.
        broken: &'a Break,
    },
}

/// How a demonstration ended.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DemoReport {
    /// The folder.
    pub folder: String,
    /// The bare repository with the branches `main` and `deploy`.
    pub repository: String,
    /// What the bump means for each cluster, planned before the first commit.
    pub plans: Vec<ClusterPlan>,
    /// The clusters, in the order of the repository.
    pub clusters: Vec<ClusterResult>,
    /// Commits that this run pushed to the deploy branch.
    pub commits: usize,
    /// What was held because of `--break`; null without it.
    pub held: Option<HeldResult>,
    /// Virtual time from the bump to the end, in seconds.
    pub virtual_seconds: i64,
    /// Real time of the whole run, in seconds.
    pub seconds: f64,
    /// Whether every cluster is done.
    pub complete: bool,
}

/// How it ended for one cluster.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterResult {
    /// The cluster.
    pub cluster: String,
    /// `done`, or where it stands.
    pub state: String,
    /// What it stands at, where it is not done.
    pub message: String,
    /// What helps there.
    pub help: Option<String>,
    /// What this run committed, in order.
    pub stages: Vec<StageResult>,
}

/// One commit.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageResult {
    /// The stage; `verify` closes the rollout.
    pub stage: String,
    /// The commit.
    pub commit: String,
    /// Whether the stage was taken back.
    pub reverted: bool,
    /// When it was committed, virtual time, RFC 3339.
    pub committed_at: String,
    /// What the gate that opened it saw.
    pub evidence: Vec<String>,
}

/// What `--break` brought about.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldResult {
    /// The cluster.
    pub cluster: String,
    /// The stage that was broken.
    pub stage: String,
    /// The fault.
    pub fault: String,
    /// `held` or `waiting`.
    pub state: String,
    /// Why, as `stepgate why` says it.
    pub reasons: Vec<String>,
    /// What helps.
    pub help: Option<String>,
}
