//! What people are asked, and what they answered.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::identifier::PlanDigest;
use crate::stage::StageId;

/// What an approval is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalScope {
    /// The whole plan.
    Rollout,
    /// One stage of it.
    Stage(StageId),
}

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalState {
    /// Asked, not answered.
    Pending,
    /// Yes.
    Approved,
    /// No.
    Rejected,
}

/// An approval, bound to the plan it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRecord {
    /// What for.
    pub scope: ApprovalScope,
    /// The plan it was asked for; it is void for any other.
    pub plan: PlanDigest,
    /// What was answered.
    pub state: ApprovalState,
    /// By whom, where that is known.
    #[serde(default)]
    pub by: Option<String>,
    /// Where it is asked: the pull request's address or the proposed branch.
    #[serde(default)]
    pub place: Option<String>,
}

/// That people let a stage, or the whole plan, be committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approved {
    /// What for.
    pub scope: ApprovalScope,
    /// The plan that was looked at; the approval holds for no other.
    pub plan: PlanDigest,
    /// By whom, as far as git tells; of a proposal that was merged, the commit after it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}
