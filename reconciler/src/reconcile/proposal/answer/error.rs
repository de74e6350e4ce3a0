//! Why an answer does not count, and what helps.

use domain::{ClusterName, CommitId, PlanDigest};
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
    /// A branch was moved between reading and writing it.
    #[error("{0} could not be moved: somebody else moved it meanwhile")]
    Lost(BranchName),
    /// There was nothing to push, or a rule of the repository refused it.
    #[error("{branch} could not be moved: {reason}")]
    NotPushed {
        /// The branch.
        branch: BranchName,
        /// Why.
        reason: String,
    },
    /// The plan is another one than the one that was looked at.
    #[error("cluster {cluster} has another plan by now: {plan}")]
    OtherPlan {
        /// The cluster.
        cluster: ClusterName,
        /// Its plan.
        plan: PlanDigest,
    },
    /// No stage was reverted as often as its policy lets it be committed.
    #[error("no stage of cluster {0} waits for another attempt")]
    NothingReverted(ClusterName),
    /// The cluster does not tell.
    #[error("whether machines of cluster {cluster} wait for another attempt was not read: {reason}")]
    Unread {
        /// The cluster.
        cluster: ClusterName,
        /// Why not.
        reason: String,
    },
    /// The check list has no such box.
    #[error("the check list of cluster {cluster} has no box {name:?}")]
    NoSuchBox {
        /// The cluster.
        cluster: ClusterName,
        /// What was named.
        name: String,
        /// What could be.
        known: Vec<String>,
    },
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

    /// Whether something else was looked at than what would be answered.
    pub fn is_of_another_plan(&self) -> bool {
        matches!(self, Self::OtherPlan { .. })
    }

    /// What helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NothingProposed(cluster) | Self::NothingReverted(cluster) | Self::Unread { cluster, .. } => {
                Some(format!("`stepgate why {cluster}` says what it waits for"))
            }
            Self::OtherPlan { .. } => Some("look at the new plan, and decide again".to_owned()),
            Self::Void { .. } => {
                Some("let the controller (`stepgate run`) propose it anew, and look at that".to_owned())
            }
            Self::Edited { branch, .. } => Some(format!(
                "put what is wanted into the source branch and delete {branch}: it is proposed again without the edit"
            )),
            Self::NoSuchBox { known, .. } if known.is_empty() => {
                Some("approvers.checkList of stepgate.yaml has none for this stage".to_owned())
            }
            Self::NoSuchBox { known, .. } => Some(format!("its boxes are {}", known.join(", "))),
            Self::Lost(_) | Self::NotPushed { .. } => Some("try again; look at the branch first".to_owned()),
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
