//! The deploy branch, as far as a decision looks at it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::stage::StageId;
use domain::{ClusterName, CommitId, RolloutId};

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
    /// Its trailers; none for a commit of somebody else, or one that closes a rollout. Most have none: in a large fleet most are other clusters'.
    pub trailer: Option<Arc<StageTrailer>>,
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
