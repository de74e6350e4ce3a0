//! The settings of a stage, as they are written and as they hold.

use std::time::Duration;

use serde::Serialize;

use super::approvers::ApproverRules;

/// Who has to agree before a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approval {
    /// Nobody.
    None,
    /// One approval for the whole plan.
    Rollout,
    /// One approval for each stage.
    Stage,
}

/// What happens when a gate fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The rollout stops where it is.
    Hold,
    /// The previous tree of the stage is committed back, where that is safe.
    Revert,
}

/// The settings of one stage on one cluster, complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StagePolicy {
    /// How long the gate must hold without a break.
    #[serde(serialize_with = "super::duration::serialize")]
    pub soak: Duration,
    /// How long the gate may take before it fails.
    #[serde(serialize_with = "super::duration::serialize")]
    pub timeout: Duration,
    /// Who has to agree first.
    pub approval: Approval,
    /// What a failed gate leads to.
    pub on_failure: OnFailure,
    /// What a merge leads to that comes after the source branch has moved on.
    pub on_stale_merge: OnFailure,
    /// How many times a reverted stage is tried again.
    pub retries: u32,
    /// Whether what people change on a proposed branch becomes what is proposed.
    pub accept_edits: bool,
    /// Whose approval is enough.
    pub approvers: ApproverRules,
}

/// Settings as written at one level; what is absent comes from the next weaker level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageSettings {
    /// See [`StagePolicy::soak`].
    pub soak: Option<Duration>,
    /// See [`StagePolicy::timeout`].
    pub timeout: Option<Duration>,
    /// See [`StagePolicy::approval`].
    pub approval: Option<Approval>,
    /// See [`StagePolicy::on_failure`].
    pub on_failure: Option<OnFailure>,
    /// See [`StagePolicy::on_stale_merge`].
    pub on_stale_merge: Option<OnFailure>,
    /// See [`StagePolicy::retries`].
    pub retries: Option<u32>,
    /// See [`StagePolicy::accept_edits`].
    pub accept_edits: Option<bool>,
    /// See [`StagePolicy::approvers`].
    pub approvers: ApproverRules,
}

impl StageSettings {
    /// Lays these settings over weaker ones.
    pub(super) fn over(&self, weaker: &mut StagePolicy) {
        weaker.soak = self.soak.unwrap_or(weaker.soak);
        weaker.timeout = self.timeout.unwrap_or(weaker.timeout);
        weaker.approval = self.approval.unwrap_or(weaker.approval);
        weaker.on_failure = self.on_failure.unwrap_or(weaker.on_failure);
        weaker.on_stale_merge = self.on_stale_merge.unwrap_or(weaker.on_stale_merge);
        weaker.retries = self.retries.unwrap_or(weaker.retries);
        weaker.accept_edits = self.accept_edits.unwrap_or(weaker.accept_edits);
        self.approvers.over(&mut weaker.approvers);
    }
}
