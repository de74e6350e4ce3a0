//! What people are asked, and what they answered.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::stage::StageId;
use domain::PlanDigest;
use policy::{GivenApproval, GivenTick, Override, OwningEntry, Person, Roster};

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
    /// What the rules for approvals look at.
    #[serde(default)]
    pub facts: ApprovalFacts,
}

/// What the rules for approvals look at, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalFacts {
    /// What people gave so far.
    pub given: Vec<GivenApproval>,
    /// What people ticked of the check list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ticks: Vec<GivenTick>,
    /// Who wrote what the plan rolls out.
    pub authors: Vec<Person>,
    /// The entries of CODEOWNERS that own what is changed, or why they are not known.
    pub owners: Result<Vec<OwningEntry>, String>,
    /// Who let it through all the same.
    pub overridden: Option<Override>,
    /// What people changed of what is proposed, and why that is not taken up; nothing of it is approved then.
    #[serde(default)]
    pub edited: Option<String>,
}

impl Default for ApprovalFacts {
    fn default() -> Self {
        Self {
            given: Vec::new(),
            ticks: Vec::new(),
            authors: Vec::new(),
            owners: Ok(Vec::new()),
            overridden: None,
            edited: None,
        }
    }
}

/// What is known of people besides what they are asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct People {
    /// Who is who.
    pub roster: Roster,
    /// What was given for what has landed already.
    pub landed: Vec<ApprovalRecord>,
    /// Who wants a reverted stage committed once more.
    #[serde(default)]
    pub retries: Vec<Retry>,
    /// When the source branch began to ask for something else than the ledger's plan; none where it does not.
    pub source_moved_at: Option<Timestamp>,
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
    /// The stage whose commit people looked at when they approved the whole plan; none for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<StageId>,
    /// Everybody who approved it, where the policy has rules for that; the commit after it says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<GivenApproval>,
    /// Who ticked which box of the check list, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ticks: Vec<GivenTick>,
    /// Who let it through although the rules were not met, or although it was merged too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Override>,
}

/// That somebody wants a reverted stage committed once more than the policy says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// The stage.
    pub stage: StageId,
    /// The plan that it is of.
    pub plan: PlanDigest,
    /// Which attempt is meant, from 2: each is wanted by itself.
    pub attempt: u32,
    /// Who.
    pub who: Person,
    /// When.
    pub at: Timestamp,
    /// The comment that says so; none where a commit does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}
