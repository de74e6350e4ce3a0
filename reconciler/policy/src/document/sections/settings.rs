//! The settings of a stage, as they are written at one level.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use yaml::{Entry, Node};

use crate::document::read::{Reader, STAGES};
use crate::document::schema::{DurationText, WindowText, every_field_is_optional};
use crate::document::sections::approvers::ApproverRules;
use crate::document::sections::in_place::InPlaceSettings;
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
    /// How the fields are written.
    pub(in crate::document) const FIELDS: [&'static str; 15] = [
        "soak",
        "timeout",
        "estimate",
        "approval",
        "onFailure",
        "onStaleMerge",
        "retries",
        "acceptEdits",
        "brakes",
        "lease",
        "gate",
        "strategy",
        "inPlace",
        "windows",
        "approvers",
    ];

    /// Lays these settings over weaker ones; whose approval is enough is left to [`ApproverRules::over`], and when it may begin
    /// to [`super::Policy::windows`].
    pub(in crate::document) fn over(&self, weaker: &mut StagePolicy) {
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

const ON_FAILURE: [(&str, OnFailure); 2] = [("hold", OnFailure::Hold), ("revert", OnFailure::Revert)];
/// Those that say something of one stage alone.
const OF_CONTROL_PLANE: [&str; 3] = ["brakes", "lease", "gate"];
/// Stages that commit nothing: there is nothing that could begin in a window.
const WITHOUT_COMMIT: [&str; 3] = ["preflight", "backup", "verify"];
/// Those that say something of machines.
const OF_MACHINES: [&str; 2] = ["strategy", "inPlace"];
const CONTROL_PLANE: &str = "control-plane";

impl Reader<'_> {
    /// One of [`StageSettings::FIELDS`]; `false` when the entry is something else.
    pub(in crate::document) fn setting(&mut self, entry: &Entry, settings: &mut StageSettings) -> bool {
        let (node, key) = (&entry.value, entry.key.as_str());
        match key {
            "soak" => settings.soak = self.duration(node, key),
            "timeout" => settings.timeout = self.duration(node, key),
            "estimate" => settings.estimate = self.duration(node, key),
            "approval" => {
                let choices = [("none", Approval::None), ("rollout", Approval::Rollout), ("stage", Approval::Stage)];
                settings.approval = self.choice(node, key, &choices);
            }
            "onFailure" => settings.on_failure = self.choice(node, key, &ON_FAILURE),
            "onStaleMerge" => settings.on_stale_merge = self.choice(node, key, &ON_FAILURE),
            "retries" => settings.retries = self.number(node, key, 0, 100),
            "acceptEdits" => settings.accept_edits = self.boolean(node, key),
            "brakes" => settings.brakes = self.boolean(node, key),
            "lease" => settings.lease = self.object_name(node, key),
            "gate" => {
                let choices = [("whole", ControlPlaneGate::Whole), ("first-node", ControlPlaneGate::FirstNode)];
                settings.gate = self.choice(node, key, &choices);
            }
            "strategy" => {
                let choices = [("rolling", RolloutStrategy::Rolling), ("inPlace", RolloutStrategy::InPlace)];
                settings.strategy = self.choice(node, key, &choices);
            }
            "inPlace" => settings.in_place = self.in_place(node),
            "windows" => settings.windows = self.windows(node),
            "approvers" => settings.approvers = self.approvers(node, key),
            _ => return false,
        }
        true
    }

    /// The name of an object of Kubernetes.
    fn object_name(&mut self, node: &Node, place: &str) -> Option<String> {
        let text = self.text(node, place)?;
        let is_end =
            |character: Option<char>| character.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
        let is_known = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, '-' | '.');
        let ends = [text.chars().next(), text.chars().last()];
        if text.len() <= 253 && ends.into_iter().all(is_end) && text.chars().all(is_known) {
            return Some(text);
        }
        let hint = "lower-case letters, digits, `-` and `.`, such as plndr-cp-lock".to_owned();
        self.problem(node.span, format!("{place} {text:?} is not a valid name of an object"), Some(hint));
        None
    }

    pub(in crate::document) fn stages(&mut self, node: &Node) -> BTreeMap<String, StageSettings> {
        let mut stages = BTreeMap::new();
        for entry in self.mapping(node, "stages").into_iter().flatten() {
            let group = entry.key.strip_prefix("workers/").is_some_and(|group| !group.is_empty());
            if !group && !STAGES.contains(&entry.key.as_str()) {
                self.unknown(entry, "stages", &STAGES);
                continue;
            }
            let place = format!("stages.{}", entry.key);
            let mut settings = StageSettings::default();
            for field in self.mapping(&entry.value, &place).into_iter().flatten() {
                if OF_CONTROL_PLANE.contains(&field.key.as_str()) && entry.key.as_str() != CONTROL_PLANE {
                    let message =
                        format!("{} is a setting of stage {CONTROL_PLANE}, and not of {}", field.key, entry.key);
                    let hint = format!("write it below stages.{CONTROL_PLANE}");
                    self.problem(field.key_span, message, Some(hint));
                } else if OF_MACHINES.contains(&field.key.as_str()) && !has_machines(&entry.key) {
                    let message =
                        format!("{} is a setting of stages with machines, and not of {}", field.key, entry.key);
                    let hint = format!("write it below stages.{CONTROL_PLANE}, stages.workers or stages.workers/GROUP");
                    self.problem(field.key_span, message, Some(hint));
                } else if field.key.as_str() == "windows" && WITHOUT_COMMIT.contains(&entry.key.as_str()) {
                    let message = format!("stage {} commits nothing that could begin in a window", entry.key);
                    let hint = "write windows below a stage that commits, or for all of them at the level".to_owned();
                    self.problem(field.key_span, message, Some(hint));
                } else if !self.setting(field, &mut settings) {
                    self.unknown(field, &place, &StageSettings::FIELDS);
                }
            }
            stages.insert(entry.key.to_string(), settings);
        }
        stages
    }
}

/// Whether a stage has machines of its own.
fn has_machines(stage: &str) -> bool {
    stage == CONTROL_PLANE || stage == "workers" || stage.starts_with("workers/")
}
