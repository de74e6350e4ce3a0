//! Where one cluster stands.

use jiff::Timestamp;
use policy::Override;
use rollout::{LedgerState, Machine, StageName, StagePlan, StageState};
use serde::Serialize;

use super::tanzu::TanzuStatus;
use super::why::way_back;
use crate::reconcile::observe::explain::Explanation;
use crate::reconcile::planner::ClusterView;

/// Where one cluster stands.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The cluster.
    pub cluster: String,
    /// `done`, `running` (a stage is on its way), `waiting` (for people, a time, another cluster), `held`, `blocked` or `failed`.
    pub state: String,
    /// The rollout that the ledger records, or that the plan would begin.
    pub rollout: Option<String>,
    /// Which rollout of how many it is on the way to what the source branch asks for; left out where it is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// The last committed stage of it.
    pub committed: Option<String>,
    /// The next stage with a difference.
    pub next: Option<String>,
    /// One line: what it stands at.
    pub message: String,
    /// Why, one reason each, the most telling first.
    pub reasons: Vec<String>,
    /// What helps, the most telling first.
    pub advice: Vec<String>,
    /// When the wait ends by itself, RFC 3339.
    pub until: Option<String>,
    /// How long its last upgrade can be taken back by EKS; null where it cannot, or is of another kind.
    pub way_back: Option<String>,
    /// Until when `stepgate rollback` can put it back to where its last rollout began; null where it was at nothing else.
    pub rollback: Option<String>,
    /// Where a cluster of Tanzu stands; null of others, and where it was not read.
    pub tanzu: Option<TanzuStatus>,
    /// The stages of its rollout that change something, in order; none where nothing is under way, and where they were not asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planned_stages: Vec<StageStatus>,
}

/// Where one stage stands.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageStatus {
    /// The stage.
    pub stage: String,
    /// `passed`, `committed`, `pending` or `blocked`; of the stage that the cluster is at, the state of the cluster.
    pub state: String,
    /// How many machines it replaces.
    pub machines: u32,
    /// Those of its machines that were read.
    pub read: Vec<MachineStatus>,
}

/// One machine.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The machine.
    pub machine: String,
    /// Its phase, as Cluster API says; `Deleting` of one that is on its way out.
    pub phase: Option<String>,
    /// The version that it runs, or is to run.
    pub version: Option<String>,
    /// Its node.
    pub node: Option<String>,
}

impl ClusterStatus {
    /// Where it stands, and by whom rules for approvals were set aside.
    #[must_use]
    pub fn of(view: &ClusterView, explanation: &Explanation, overridden: Option<&Override>) -> Self {
        let running = view.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
        let next = view.plan.next_stage().map(|stage| stage.stage.to_string());
        let reasons: Vec<String> = explanation.reasons.iter().map(ToString::to_string).collect();
        let aside = overridden.map(|it| format!("; rules for approvals set aside by {}: {}", it.who, it.reason));
        let message = reasons.first().cloned().unwrap_or_default();
        Self {
            cluster: view.name.to_string(),
            state: explanation.state.word().to_owned(),
            rollout: running
                .map(|ledger| ledger.rollout.to_string())
                .or_else(|| next.as_ref().map(|_| view.plan.rollout_id.to_string())),
            chain: view.chain().map(ToString::to_string),
            committed: running.and_then(|ledger| ledger.stages.last()).map(|record| record.stage.to_string()),
            next,
            message: format!("{message}{}", aside.unwrap_or_default()),
            reasons,
            advice: explanation.help.clone(),
            until: explanation.until.as_ref().map(Timestamp::to_string),
            way_back: way_back(view),
            rollback: None,
            tanzu: explanation.tanzu.as_ref().map(TanzuStatus::from),
            planned_stages: Vec::new(),
        }
    }

    /// With the stages of its rollout, and their machines as far as they were read.
    #[must_use]
    pub fn with_stages(self, view: &ClusterView, explanation: &Explanation) -> Self {
        if self.rollout.is_none() {
            return self;
        }
        let plan = view.running.as_ref().map_or(view.plan.as_ref(), |(plan, _)| plan.as_ref());
        let shown = |stage: &&StagePlan| stage.state != StageState::Skipped;
        let groups: Vec<&str> = plan.stages.iter().filter_map(|stage| group(&stage.stage.name)).collect();
        let status = |stage: &StagePlan| {
            let is_here = explanation.stage.as_ref() == Some(&stage.stage);
            let state = if is_here { self.state.as_str() } else { super::plan::state(stage.state) };
            let of_stage = |machine: &&Machine| match &stage.stage.name {
                StageName::ControlPlane => machine.control_plane,
                name => group(name).is_some_and(|group| owner(machine, &groups) == Some(group)),
            };
            StageStatus {
                stage: stage.stage.to_string(),
                state: state.to_owned(),
                machines: stage.machines,
                read: explanation.machines.iter().filter(of_stage).map(MachineStatus::from).collect(),
            }
        };
        Self { planned_stages: plan.stages.iter().filter(shown).map(status).collect(), ..self }
    }

    /// Where a cluster stands whose plan is not at hand.
    #[must_use]
    pub fn without_plan(cluster: &str, explanation: &Explanation) -> Self {
        let reasons: Vec<String> = explanation.reasons.iter().map(ToString::to_string).collect();
        Self {
            cluster: cluster.to_owned(),
            state: explanation.state.word().to_owned(),
            rollout: None,
            chain: None,
            committed: None,
            next: explanation.stage.as_ref().map(ToString::to_string),
            message: reasons.first().cloned().unwrap_or_default(),
            reasons,
            advice: explanation.help.clone(),
            until: explanation.until.as_ref().map(Timestamp::to_string),
            way_back: None,
            rollback: None,
            tanzu: explanation.tanzu.as_ref().map(TanzuStatus::from),
            planned_stages: Vec::new(),
        }
    }

    /// A cluster of which nothing can be told but why.
    #[must_use]
    pub fn failed(cluster: String, message: String) -> Self {
        Self {
            cluster,
            state: "failed".to_owned(),
            rollout: None,
            chain: None,
            committed: None,
            next: None,
            reasons: vec![message.clone()],
            message,
            advice: vec!["`stepgate check` lists what to repair".to_owned()],
            until: None,
            way_back: None,
            rollback: None,
            tanzu: None,
            planned_stages: Vec::new(),
        }
    }
}

impl From<&Machine> for MachineStatus {
    fn from(machine: &Machine) -> Self {
        let phase = if machine.deleting { Some("Deleting".to_owned()) } else { machine.phase.clone() };
        let version = machine.kubelet_version.as_ref().or(machine.spec_version.as_ref());
        Self { machine: machine.name.clone(), phase, version: version.cloned(), node: machine.node.clone() }
    }
}

/// The group of workers that a stage is about.
fn group(stage: &StageName) -> Option<&str> {
    match stage {
        StageName::Workers(group) => Some(group.as_str()),
        _ => None,
    }
}

/// The group that a machine belongs to: what owns it is called so, or by the cluster and that.
fn owner<'g>(machine: &Machine, groups: &[&'g str]) -> Option<&'g str> {
    let owner = machine.owner.as_deref().or(machine.pool.as_deref()).filter(|_| !machine.control_plane)?;
    let is_its =
        |group: &&&str| owner == **group || owner.strip_suffix(**group).is_some_and(|rest| rest.ends_with('-'));
    groups.iter().filter(is_its).max_by_key(|group| group.len()).copied()
}
