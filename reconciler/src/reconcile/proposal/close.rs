//! Taking back what is void: the pull request is closed and says why, then the branch goes.

use std::collections::BTreeMap;

use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use rollout::ApprovalScope;

use super::WITHDRAWN;
use super::ask::{Position, has_landed};
use super::proposal_cache::ProposalCache;
use super::stack::{Stack, StageTree};
use crate::reconcile::Controller;
use crate::reconcile::planner::FleetReading;
use approvals::status::context;
use approvals::text::body::LOST;
use approvals::text::truncate::{line, whole};
use forge::{CommitStatus, Edit, Forge, ForgeError, PullRequestState, StatusState};
use git::GitError;

/// Pauses between looks at a pull request that is on the deploy branch and still open. A forge that merges moves the branch first and notes a moment
/// later that it has; one that is closed in between, or whose branch goes, looks to everybody as if it had been refused.
const NOTICED: [SignedDuration; 4] = [
    SignedDuration::from_millis(100),
    SignedDuration::from_millis(300),
    SignedDuration::from_millis(600),
    SignedDuration::from_millis(1000),
];

/// Why a part is not asked for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It is on the deploy branch.
    Landed,
    /// Its gate fails.
    Held,
    /// Somebody said no.
    Rejected,
    /// Somebody wants the others to go on without it.
    Apart,
    /// Its plan is another one.
    Moved,
}

impl Left {
    /// For people.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Landed => "It is on the deploy branch.",
            Self::Held => "The gate before it fails now. It is proposed anew once that passes.",
            Self::Rejected => "It was rejected.",
            Self::Apart => "Somebody holds it. It is proposed again once nobody does.",
            Self::Moved => {
                "The source branch, the policy or the cluster's directory has moved: this plan would not be committed any more. What is asked now \
                 is in another pull request."
            }
        }
    }
}

impl Controller {
    /// Withdraws a branch that proposes nothing that could be committed now. Where the forge cannot be asked, the branch goes all the same:
    /// what is void must not be merged.
    pub(super) async fn withdraw(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        stack: &Stack,
        positions: &BTreeMap<ClusterName, Position>,
    ) -> Result<(), GitError> {
        let lost: String =
            self.lost_with(reading, stack, positions)?.iter().map(|entry| format!("- {}\n", line(entry))).collect();
        if let Ok(Some(forge)) = self.planner.forge(reading) {
            self.remember_shown(&stack.branch, None);
            let closed = async {
                let pulls = board.pulls(&forge, reading, &stack.branch).await?;
                let Some(pull) = pulls.iter().find(|pull| pull.state == PullRequestState::Open) else { return Ok(()) };
                let mut reasons = Vec::new();
                for part in &stack.parts {
                    let left = self.left(reading, part, positions).unwrap_or(Left::Moved);
                    if !reasons.contains(&left) {
                        reasons.push(left);
                    }
                }
                let landed = stack.parts.is_empty() || reasons == [Left::Landed];
                if landed && self.is_told_merged(&forge, pull.number).await? {
                    return Ok(());
                }
                if let Some(top) = stack.parts.last().filter(|_| !landed) {
                    let scope = if stack.branch.as_str().ends_with("/rollout") {
                        ApprovalScope::Rollout
                    } else {
                        ApprovalScope::Stage(top.trailers.stage.clone())
                    };
                    let void = CommitStatus {
                        state: StatusState::Failure,
                        description: "void: this would not be committed any more".to_owned(),
                        context: context(&scope),
                    };
                    forge.set_status(stack.head.as_str(), &void).await?;
                }
                if reasons.is_empty() {
                    reasons.push(Left::Landed);
                }
                let reasons: Vec<&str> = reasons.into_iter().map(Left::reason).collect();
                let lost = if lost.is_empty() { lost } else { format!("{LOST}:\n\n{lost}\n") };
                let body = whole(format!("{WITHDRAWN} {}\n\n{lost}{}", reasons.join(" "), pull.body));
                forge.edit(pull.number, &Edit { title: None, body: Some(&body), close: true }).await
            };
            if let Err(error) = closed.await {
                tracing::warn!(git.branch = %stack.branch, %error, hint = error.hint(), "a pull request could not be closed");
            }
        }
        self.planner.repository().withdraw(&stack.branch, &stack.head)?;
        board.holds(&stack.branch, None);
        tracing::info!(git.branch = %stack.branch, "withdrew `{}`: it proposes nothing that could be committed now", stack.branch);
        Ok(())
    }

    /// Whether the forge tells after all that a pull request was merged whose commits are on the deploy branch.
    async fn is_told_merged(&self, forge: &Forge, number: u64) -> Result<bool, ForgeError> {
        for pause in NOTICED {
            self.clock.sleep_until(self.clock.now().saturating_add(pause).unwrap_or(Timestamp::MAX)).await;
            if forge.pull(number).await?.is_none_or(|pull| pull.state != PullRequestState::Open) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Why a part is not wanted on its branch any more.
    pub(super) fn left(
        &self,
        reading: &FleetReading,
        part: &StageTree,
        positions: &BTreeMap<ClusterName, Position>,
    ) -> Result<Left, GitError> {
        let cluster = &part.trailers.cluster;
        if let Some(deploy) = &reading.deploy
            && has_landed(&crate::reconcile::clusters::directory::read(deploy, cluster)?, &part.trailers)
        {
            return Ok(Left::Landed);
        }
        let Some(position) = positions.get(cluster) else { return Ok(Left::Moved) };
        let asking = position.askings.iter().find(|asking| asking.plan == part.trailers.plan);
        Ok(match asking {
            Some(asking) if asking.is_rejected() => Left::Rejected,
            Some(_) if position.held => Left::Held,
            Some(asking) if asking.said.held_by.is_some() => Left::Apart,
            Some(_) | None => Left::Moved,
        })
    }
}
