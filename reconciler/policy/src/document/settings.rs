//! The settings of a stage, as they are written at one level.

use std::time::Duration;

use super::approvers::ApproverRules;
use crate::{Approval, OnFailure, StagePolicy};

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
    /// Lays these settings over weaker ones; whose approval is enough is left to [`ApproverRules::over`].
    pub(super) fn over(&self, weaker: &mut StagePolicy) {
        weaker.soak = self.soak.unwrap_or(weaker.soak);
        weaker.timeout = self.timeout.unwrap_or(weaker.timeout);
        weaker.approval = self.approval.unwrap_or(weaker.approval);
        weaker.on_failure = self.on_failure.unwrap_or(weaker.on_failure);
        weaker.on_stale_merge = self.on_stale_merge.unwrap_or(weaker.on_stale_merge);
        weaker.retries = self.retries.unwrap_or(weaker.retries);
        weaker.accept_edits = self.accept_edits.unwrap_or(weaker.accept_edits);
    }
}
