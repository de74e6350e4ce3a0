//! Why an answer about a wave does not count, and what helps.

use domain::nearest;
use git::GitError;

use crate::reconcile::planner::PlanError;
use crate::reconcile::proposal::AnswerError;

/// Why there is nothing to answer of a wave, or the answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum WaveError {
    /// The policy has none of that name.
    #[error("stepgate.yaml has no wave {name}")]
    NoWave {
        /// What was named.
        name: String,
        /// What could be.
        known: Vec<String>,
    },
    /// Nobody is asked about it.
    #[error("nobody is asked about wave {0}")]
    NotAsked(String),
    /// There is nothing to say of it now.
    #[error("there is nothing to approve of wave {wave} now: {why}")]
    NotNow {
        /// The wave.
        wave: String,
        /// Why.
        why: String,
    },
    /// Whoever says it may not.
    #[error("{by} does not approve wave {wave}: {why}")]
    NotAnApprover {
        /// The wave.
        wave: String,
        /// Who.
        by: String,
        /// Why.
        why: String,
    },
    /// Approvals are counted where people are known.
    #[error("approvals are counted on the forge, and a commit's word of wave {0} is not known to be anybody's there")]
    OnForge(String),
    /// As of what is answered of a cluster.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// A plan cannot be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// What was said cannot be read, so nothing is added to it.
    #[error("what was said of waves cannot be read: {0}")]
    Unreadable(String),
    /// What is said cannot be written.
    #[error("what is said of wave {wave} cannot be written: {why}")]
    NotWritten {
        /// The wave.
        wave: String,
        /// Why.
        why: String,
    },
}

impl WaveError {
    /// What helps.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoWave { known, .. } if known.is_empty() => "it has no `waves` at all".to_owned(),
            Self::NoWave { name, known } => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let near = nearest(name, &known).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
                format!("{near}waves are: {}", known.join(", "))
            }
            Self::NotAsked(_) => "`approval: before` or `after` of a wave asks for one".to_owned(),
            Self::NotNow { .. } => "`stepgate status` says where each wave stands".to_owned(),
            Self::NotAnApprover { .. } => "`approvers` of the wave say who does".to_owned(),
            Self::OnForge(_) => "write `approval: rollout` for its clusters, which are approved there".to_owned(),
            Self::Answer(error) => return error.hint(),
            Self::Git(error) | Self::Plan(PlanError::Git(error)) => return error.hint(),
            Self::Unreadable(_) => "put `waves.yaml` of the deploy branch back as it was, by `git revert`".to_owned(),
            Self::Plan(_) | Self::NotWritten { .. } => return None,
        })
    }
}
