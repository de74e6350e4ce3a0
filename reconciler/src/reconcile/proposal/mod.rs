//! Commits that are proposed to people instead of pushed. What belongs together is proposed together: a branch `stepgate/<wave>/<stage>` holds
//! one commit for each cluster of a wave (else of an environment, else of the fleet) that waits for the same stage under the same rules.
//!
//! Merging the branch into the deploy branch is the approval of all of them, whoever does it and by whichever kind of merge: the ledger in each
//! proposed commit records it, bound to the plan. A rejection is a commit on the proposed branch. So git is all there is to read, and a process
//! that was killed has lost nothing.
//!
//! Architecture Invariant: what was approved is what lands. A proposed commit is the one that would
//! be pushed, its ledger records the approval for this plan, and merging it is the push. This
//! folder reads off git what landed, and off the forge, where there is one, whose words count;
//! `rollout::step` decides.
//!
//! The texts, the commands and what they count for are values: they live in the package `approvals`.

mod answer;
mod ask;
mod below;
mod build;
mod close;
mod edited;
#[cfg(test)]
mod interleavings;
mod landed;
mod lost;
mod merge;
mod mergers;
mod noted;
mod pending_approval;
mod proposal_cache;
mod provenance;
mod rebuild;
mod reply;
mod retry;
mod show;
mod stack;
mod tell;
mod thread;
mod wanted;

use rollout::{ApprovalScope, Plan, approval_scope};

pub use answer::{AnswerError, Approval, Consent, answer, approve, reject, reject_plan};
pub use ask::{Asked, Position};
pub use below::SaidBelow;
pub use edited::{Considered, consider};
pub use landed::people;
pub(in crate::reconcile) use merge::write;
pub use mergers::{Mergers, name_mergers};
pub use pending_approval::{Asking, askings};
pub use proposal_cache::{OpenOnes, ProposalCache};
pub use retry::{Retried, asks_the_cluster, failed_attempts, may_be_retried, retry};
pub use show::Shown;
pub use stack::{Proposal, Stack};

use super::planner::ClusterView;
use crate::reconcile::clusters::directory::path;
use approvals::words::ANSWER as ANSWERED;
use git::GitError;

/// Name of the file, in a cluster's directory, that tells people what they are asked.
pub const BODY: &str = "proposal.md";

/// By whom a proposal was rejected, as a trailer of the commit that says so.
const REJECTED_BY: &str = "Stepgate-Rejected-By";

/// What the text of a pull request begins with that Stepgate itself has closed.
const WITHDRAWN: &str = "**Withdrawn by Stepgate.**";

/// The plans of a cluster, each with what its policy wants to be asked before its next stage.
fn asked(view: &ClusterView) -> impl Iterator<Item = (&Plan, ApprovalScope)> {
    view.plans().filter_map(|plan| Some((plan, approval_scope(plan.next_stage()?)?)))
}

/// `clusters/<name>/proposal.md`.
///
/// # Errors
/// As [`path`].
pub fn body_path(cluster: &domain::ClusterName) -> Result<domain::RepoPath, GitError> {
    path(&format!("{}/{BODY}", planning::cluster_folder(cluster)))
}
