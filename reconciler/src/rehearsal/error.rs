//! Why a rollout cannot be rehearsed.

use git::GitError;
use rollout::StageName;

use crate::reconcile::planner::PlanError;

/// Why a rollout cannot be rehearsed.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// No simulation shows what gates of it read.
    #[error("the rollout of {cluster} cannot be rehearsed: {what}")]
    NotSimulated {
        /// The cluster.
        cluster: String,
        /// What there is no simulation of.
        what: String,
    },
    /// Nothing changes at a stage that is to be broken.
    #[error("stage {stage} changes nothing in the rollout of {cluster}, so nothing can break there")]
    NoSuchStage {
        /// The cluster.
        cluster: String,
        /// The stage.
        stage: StageName,
        /// The stages that change something.
        stages: Vec<String>,
    },
    /// Something failed on our side.
    #[error("a rehearsal did not get on: {0}")]
    Failed(String),
    /// The copy of the repository cannot be made or read.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A plan cannot be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The folder for the copies cannot be made.
    #[error("making a folder for the copy of the repository")]
    Folder(#[from] std::io::Error),
    /// A task ended before its time.
    #[error("a rehearsal ended before its time")]
    Task(#[from] tokio::task::JoinError),
}

impl RehearsalError {
    /// What helps.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoSuchStage { stages, .. } => Some(format!("stages that change something: {}", stages.join(", "))),
            Self::Git(error) | Self::Plan(PlanError::Git(error)) => error.hint(),
            Self::NotSimulated { .. } => Some("`stepgate plan` says what it would do".to_owned()),
            Self::Failed(_) | Self::Plan(_) | Self::Folder(_) | Self::Task(_) => None,
        }
    }
}
