//! The policy in force for a stage and for a plan: soak, timeout, approval, failure, windows.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{DriftIgnore, InjectionRule, Waiver};
use crate::rules::ApprovalRules;
use crate::window::Windows;

/// Who has to agree before a stage is committed; the later ones ask more often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Approval {
    /// Nobody: gates alone decide.
    #[default]
    None,
    /// One approval for the whole plan.
    Rollout,
    /// One approval for each stage.
    Stage,
}

/// What happens when the gate of a committed stage fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// Nothing more is committed until the gate passes or a person acts.
    #[default]
    Hold,
    /// The stage's previous tree is committed back, where that is safe; a one-way stage is held instead.
    Revert,
}

/// How far a control plane has to be before the next stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlPlaneGate {
    /// All of its machines are replaced.
    #[default]
    Whole,
    /// One new machine is proven and one old machine is gone: the rest rolls beside the next stages,
    /// and `verify` waits for all of it. A cluster that manages itself waits for the whole all the same.
    FirstNode,
}

impl ControlPlaneGate {
    /// Whether all machines have to be replaced.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// How machines come to another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RolloutStrategy {
    /// Others take their place.
    Rolling,
    /// They stay, and are upgraded on the spot.
    InPlace,
}

/// What happens where machines are to be upgraded in place, and cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnDecline {
    /// The stage does not begin.
    #[default]
    Hold,
    /// Others take their place.
    Replace,
}

impl OnDecline {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Replace => "replace",
        }
    }

    /// Whether the stage does not begin.
    #[must_use]
    pub fn is_hold(&self) -> bool {
        *self == Self::Hold
    }
}

/// Who goes from machine to machine where they are upgraded in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InPlaceDriver {
    /// Cluster API, which asks by its hooks.
    Hooks,
    /// Stepgate's controller, while the owner of the machines is paused.
    Controller,
}

impl InPlaceDriver {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Hooks, Self::Controller];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::Controller => "controller",
        }
    }
}

/// How the machines of a control plane or of a worker group are replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePolicy {
    /// Whether no machine is drained before the newest one is proven; where nothing is said, of a cluster that manages itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brakes: Option<bool>,
    /// The Lease in `kube-system` of the cluster that says which node holds the control plane's address; none where the specification tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// How far it has to be before the next stage.
    #[serde(skip_serializing_if = "ControlPlaneGate::is_whole")]
    pub gate: ControlPlaneGate,
    /// How they come to another version; what the specification says, where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RolloutStrategy>,
    /// What happens where they are to be upgraded in place, and cannot be.
    #[serde(skip_serializing_if = "OnDecline::is_hold")]
    pub on_decline: OnDecline,
    /// Who upgrades them in place; what the specification says, where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<InPlaceDriver>,
}

impl MachinePolicy {
    /// The same, and not below what another asks for.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        let brakes = match (self.brakes, other.brakes) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (None, _) | (_, None) => None,
            (Some(false), Some(false)) => Some(false),
        };
        Self { brakes, gate: if other.gate.is_whole() { other.gate } else { self.gate }, ..self }
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The policy in force for one stage of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StagePolicy {
    /// How long the gate must hold without a break.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub soak: Duration,
    /// How long after its commit a stage may take before its gate fails.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub timeout: Duration,
    /// How long it takes by what the team says; past rollouts tell it better.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::unsigned_duration::friendly::compact::optional"
    )]
    pub estimate: Option<Duration>,
    /// Who has to agree before the stage is committed.
    pub approval: Approval,
    /// Whose approval is enough.
    pub approvers: ApprovalRules,
    /// What happens when its gate fails.
    pub on_failure: OnFailure,
    /// What happens when it was merged after what it was proposed for had moved on.
    #[serde(default)]
    pub on_stale_merge: OnFailure,
    /// How often a reverted stage is committed again.
    pub retries: u32,
    /// Whether what people change on a proposed branch becomes what is proposed.
    pub accept_edits: bool,
    /// How many consecutive reads must pass; never counted as fewer than two.
    pub minimum_reads: u32,
    /// An observation older than this decides nothing, and a longer gap between two reads breaks a soak.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub maximum_age: Duration,
    /// When the stage may be committed; always, when empty.
    #[serde(skip_serializing_if = "Windows::is_empty")]
    pub windows: Windows,
    /// How machines are replaced; of the control plane and of worker groups.
    #[serde(skip_serializing_if = "MachinePolicy::is_default")]
    pub machines: MachinePolicy,
}

impl Default for StagePolicy {
    fn default() -> Self {
        Self {
            soak: Duration::from_secs(30),
            timeout: Duration::from_secs(60 * 60),
            estimate: None,
            approval: Approval::None,
            approvers: ApprovalRules::default(),
            on_failure: OnFailure::Hold,
            on_stale_merge: OnFailure::Hold,
            retries: 0,
            accept_edits: false,
            minimum_reads: 2,
            maximum_age: Duration::from_secs(120),
            windows: Windows::default(),
            machines: MachinePolicy::default(),
        }
    }
}

/// The part of the policy that concerns a plan as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanPolicy {
    /// Whether components may go to an earlier version.
    pub allow_downgrade: bool,
    /// The policy in force for `preflight`. It has no commit of its own to count a timeout from.
    pub preflight: StagePolicy,
    /// The policy in force for `backup`, of which the same is true.
    pub backup: StagePolicy,
    /// How old the backup may be when the rollout begins.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub backup_maximum_age: Duration,
    /// The policy in force for `verify`.
    pub verify: StagePolicy,
    /// What checks find before the rollout and the team lives with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waivers: Vec<Waiver>,
    /// What was pushed to be lived with, and does not count yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waivers_to_come: Vec<Waiver>,
    /// What is no drift.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drift_ignores: Vec<DriftIgnore>,
    /// Sidecars that pods ask for, besides those that are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub injection: Vec<InjectionRule>,
}

impl Default for PlanPolicy {
    fn default() -> Self {
        Self {
            allow_downgrade: false,
            preflight: StagePolicy::default(),
            backup: StagePolicy::default(),
            backup_maximum_age: Duration::from_secs(24 * 60 * 60),
            verify: StagePolicy::default(),
            waivers: Vec::new(),
            waivers_to_come: Vec::new(),
            drift_ignores: Vec::new(),
            injection: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_in_words() {
        let text = serde_json::to_string(&StagePolicy::default()).unwrap();
        assert!(text.contains("\"soak\":\"30s\""), "{text}");
        assert_eq!(serde_json::from_str::<StagePolicy>(&text).unwrap(), StagePolicy::default());
        assert_eq!(
            serde_json::from_str::<StagePolicy>("{\"timeout\":\"1h 30m\"}").unwrap().timeout,
            Duration::from_secs(5400)
        );
    }
}
