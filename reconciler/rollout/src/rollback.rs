//! Going back: a forward plan whose target is a state that was deployed and verified before.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::stage::StageId;
use domain::{CommitId, RolloutId, TreeDigest};

/// The state that a cluster goes back to, and stays at, in the place of what the source branch asks for.
///
/// It counts as long as the source branch asks for what it was at: without that the next pass would roll forward again at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollback {
    /// Commit of the deploy branch that has the cluster's directory as it is to be.
    pub to: CommitId,
    /// Digest of the directory there, without `rollout.yaml`.
    pub tree: TreeDigest,
    /// The rollout that left it so.
    pub rollout: RolloutId,
    /// The last stage of that rollout which stays; none for the end of the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageId>,
    /// Commit of the source branch that the directory was rendered from.
    pub source: CommitId,
    /// Commit of the source branch that is held back: what it asks for is not rolled out again.
    pub held_back: CommitId,
    /// Who wanted it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl fmt::Display for Rollback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stage {
            Some(stage) => write!(formatter, "stage {stage} of rollout {}", self.rollout),
            None => write!(formatter, "the end of rollout {}", self.rollout),
        }
    }
}
