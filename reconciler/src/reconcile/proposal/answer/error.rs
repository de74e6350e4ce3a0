//! Why an answer does not count, and what helps.

use domain::{ClusterName, CommitId};
use rollout::Block;

use crate::reconcile::effects::commit::SignatureError;
use crate::reconcile::planner::PlanError;
use crate::reconcile::proposal::edited::Edited;
use domain::BranchName;
use git::{GitError, IdentityError};

/// Why there is nothing to answer, or the answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Nothing is proposed.
    #[error("nothing is proposed for cluster {0}")]
    NothingProposed(ClusterName),
    /// What is proposed is not what would be committed now.
    #[error("what {branch} proposes is not what would be committed now: {reason}")]
    Void {
        /// The branch.
        branch: BranchName,
        /// What moved.
        reason: &'static str,
    },
    /// People changed the proposed branch.
    #[error("{branch} was changed by people: it holds {head}, which does not come from Stepgate{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Edited {
        /// The branch.
        branch: BranchName,
        /// What it holds.
        head: CommitId,
        /// Why that is not taken up, as far as it was looked at.
        why: Option<String>,
    },
    /// A branch moved meanwhile, or a rule of the repository refused the push.
    #[error("{branch} could not be moved: {reason}")]
    NotPushed {
        /// The branch.
        branch: BranchName,
        /// Why.
        reason: String,
    },
    /// No stage was reverted as often as its policy lets it be committed.
    #[error("no stage of cluster {0} waits for another attempt")]
    NothingReverted(ClusterName),
    /// Approvals are counted where people are known.
    #[error(
        "approvals of cluster {0} are counted on the forge, and a commit's word is not known to be anybody's there"
    )]
    OnForge(ClusterName),
    /// The policy that was pushed last says otherwise where commits land, under whose name or whose word counts, and nobody has confirmed that.
    #[error("nothing is committed for cluster {cluster}: {}", messages(.blocks))]
    Unconfirmed {
        /// The cluster.
        cluster: ClusterName,
        /// What was pushed.
        blocks: Vec<Block>,
    },
    /// What the rules look at.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Name or address cannot be written into a commit.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Nothing can be committed under this policy.
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

impl AnswerError {
    /// The same error, with why what people changed is not taken up.
    pub(super) fn because(self, edited: Option<&Edited>) -> Self {
        match (self, edited) {
            (Self::Edited { branch, head, .. }, Some(Edited::Refused(why))) => {
                Self::Edited { branch, head, why: Some(why.clone()) }
            }
            (error, _) => error,
        }
    }

    /// What helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NothingProposed(cluster) | Self::NothingReverted(cluster) => {
                Some(format!("`stepgate why {cluster}` says what it waits for"))
            }
            Self::Void { .. } => {
                Some("let the controller (`stepgate run`) propose it anew, and look at that".to_owned())
            }
            Self::Edited { branch, .. } => Some(format!(
                "put what is wanted into the source branch and delete {branch}: it is proposed again without the edit"
            )),
            Self::NotPushed { .. } => Some("try again; look at the branch first".to_owned()),
            Self::OnForge(cluster) => Some(format!(
                "review the pull request, or comment `/stepgate approve` there; `stepgate approve {cluster} --override --reason TEXT` sets the \
                 rules aside"
            )),
            Self::Git(error) | Self::Plan(PlanError::Git(error)) => error.hint(),
            Self::Unconfirmed { blocks, .. } => blocks.first().map(|block| block.help.clone()),
            Self::Plan(_) | Self::Identity(_) | Self::Signature(_) => None,
        }
    }
}

fn messages(blocks: &[Block]) -> String {
    blocks.iter().map(|block| block.message.as_str()).collect::<Vec<_>>().join("; ")
}
