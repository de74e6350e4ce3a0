//! The settings of a stage, as they are written at one level.

use std::time::Duration;

use schemars::JsonSchema;

use super::approvers::ApproverRules;
use super::in_place::InPlaceSettings;
use super::schema::{DurationText, WindowText, every_field_is_optional};
use crate::{Approval, ControlPlaneGate, MaintenanceWindow, OnFailure, RolloutStrategy, StagePolicy};

/// Settings as written at one level; what is absent comes from the next weaker level.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase", transform = every_field_is_optional)]
pub struct StageSettings {
    /// How long the gate has to hold without a break.
    #[schemars(with = "Option<DurationText>")]
    pub soak: Option<Duration>,
    /// How long the gate may take before it fails.
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<Duration>,
    /// How long the stage takes, soak included, where no past rollout tells: windows with `mustFit` ask.
    #[schemars(with = "Option<DurationText>")]
    pub estimate: Option<Duration>,
    /// Who has to agree before the stage is committed.
    pub approval: Option<Approval>,
    /// What a failed gate leads to.
    pub on_failure: Option<OnFailure>,
    /// What a merge leads to that comes after the source branch has moved on.
    pub on_stale_merge: Option<OnFailure>,
    /// How many times a reverted stage is committed again.
    pub retries: Option<u32>,
    /// Whether what people change on a proposed branch becomes what is proposed.
    pub accept_edits: Option<bool>,
    /// Of the control plane: whether no machine is drained before the newest one is proven by its API server, its etcd member and its kube-vip. Where
    /// nothing is said, of a cluster that manages itself.
    pub brakes: Option<bool>,
    /// Of the control plane: the Lease in `kube-system` of the cluster that says which node holds its address, where the specification does not tell.
    /// The machine of that node goes last.
    pub lease: Option<String>,
    /// Of the control plane: how far it has to be before the next stage.
    pub gate: Option<ControlPlaneGate>,
    /// Of control plane and worker groups: how machines come to another version. Where nothing is said, what the specification says counts, and
    /// else others take their place.
    pub strategy: Option<RolloutStrategy>,
    /// Of control plane and worker groups that are upgraded in place: who goes from machine to machine, and what happens where that is not possible.
    pub in_place: InPlaceSettings,
    /// When stages may begin; without any, what the next weaker level says.
    #[schemars(with = "Vec<WindowText>")]
    pub windows: Vec<MaintenanceWindow>,
    /// Whose approval is enough.
    pub approvers: ApproverRules,
}

impl StageSettings {
    /// Lays these settings over weaker ones; whose approval is enough is left to [`ApproverRules::over`], and when it may begin
    /// to [`super::Policy::windows`].
    pub(super) fn over(&self, weaker: &mut StagePolicy) {
        weaker.soak = self.soak.unwrap_or(weaker.soak);
        weaker.timeout = self.timeout.unwrap_or(weaker.timeout);
        weaker.estimate = self.estimate.or(weaker.estimate);
        weaker.approval = self.approval.unwrap_or(weaker.approval);
        weaker.on_failure = self.on_failure.unwrap_or(weaker.on_failure);
        weaker.on_stale_merge = self.on_stale_merge.unwrap_or(weaker.on_stale_merge);
        weaker.retries = self.retries.unwrap_or(weaker.retries);
        weaker.accept_edits = self.accept_edits.unwrap_or(weaker.accept_edits);
        weaker.machines.brakes = self.brakes.or(weaker.machines.brakes);
        weaker.machines.lease = self.lease.clone().or(weaker.machines.lease.take());
        weaker.machines.gate = self.gate.unwrap_or(weaker.machines.gate);
        weaker.machines.strategy = self.strategy.or(weaker.machines.strategy);
        self.in_place.over(&mut weaker.machines);
    }
}
