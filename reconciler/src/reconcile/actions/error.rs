//! Why something was not done, and what helps.

use cluster::ClusterError;
use domain::{ClusterName, PlanDigest};
use git::GitError;
use rollout::Block;

use crate::reconcile::planner::{PlanError, RollbackError};
use crate::reconcile::proposal::AnswerError;

/// Why something was not done; nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// The cluster has another plan than the one that somebody has looked at.
    #[error("cluster {cluster} has another plan by now: {plan}")]
    OtherPlan {
        /// The cluster.
        cluster: ClusterName,
        /// Its plan.
        plan: PlanDigest,
    },
    /// People answer where they are asked.
    #[error("people are asked about cluster {0} on the forge, and answer there")]
    OnForge(ClusterName),
    /// Nothing is held back.
    #[error("nothing of cluster {0} is held back")]
    NothingHeldBack(ClusterName),
    /// The way back is barred.
    #[error("the way back is barred: {}", messages(.0))]
    Barred(Vec<Block>),
    /// An answer does not count.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// There is no way back.
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    /// The cluster has no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The fleet cannot be read.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The cluster was not written to.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The deploy branch was not written to.
    #[error("{0:#}")]
    NotWritten(anyhow::Error),
    /// Such an end is beyond all calendars.
    #[error("such a long time has no end")]
    TooLong,
}

impl ActionError {
    /// What helps.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::OtherPlan { .. } => Some("look at the new plan, and decide again".to_owned()),
            Self::OnForge(cluster) => Some(format!("`stepgate why {cluster}` names the pull request")),
            Self::NothingHeldBack(cluster) => Some(format!("`stepgate why {cluster}` says what it waits for")),
            Self::Barred(blocks) => blocks.first().map(|block| block.help.clone()),
            Self::Answer(error) => error.hint(),
            Self::Rollback(error) => error.hint(),
            Self::Git(error) | Self::Plan(PlanError::Git(error)) => error.hint(),
            Self::TooLong => Some("write such as 30m or 4h".to_owned()),
            Self::Plan(_) | Self::Cluster(_) | Self::NotWritten(_) => None,
        }
    }
}

fn messages(blocks: &[Block]) -> String {
    blocks.iter().map(|block| block.message.as_str()).collect::<Vec<_>>().join("; ")
}
