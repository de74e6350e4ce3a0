//! Plans as documents with a stable shape: what `stepgate plan` prints and what the demo's report holds.

use domain::ProblemCode;
use policy::Approval;
use rollout::{Block, Plan, StagePlan, StageState};
use serde::Serialize;

/// The plan of one cluster.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPlan {
    /// The cluster.
    pub cluster: String,
    /// Name of the rollout; null where the cluster has no plan at all.
    pub rollout_id: Option<String>,
    /// Commit of the source branch.
    pub source: Option<String>,
    /// What forbids the rollout; empty where nothing does.
    pub blocked: Vec<BlockReport>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// Stages still to be committed.
    pub commits: u32,
    /// Machines still to be replaced.
    pub machines: u32,
    /// The stages in order, skipped ones included.
    pub stages: Vec<StageReport>,
}

/// Something that forbids a rollout.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockReport {
    /// The rule.
    pub code: String,
    /// The stage concerned; null where the whole plan is.
    pub stage: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// One stage of a plan.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageReport {
    /// The stage.
    pub name: String,
    /// `skipped`, `passed`, `committed`, `pending` or `blocked`.
    pub state: String,
    /// What changes.
    pub changes: Vec<ChangeReport>,
    /// Why it is, or is not, part of the plan.
    pub reasons: Vec<String>,
    /// What could go wrong.
    pub risks: Vec<String>,
    /// What cannot be undone by committing the previous tree.
    pub one_way: Vec<String>,
    /// Machines that it replaces.
    pub machines: u32,
    /// Who is asked before it is committed: `none`, people once for the `rollout`, or people for this `stage`.
    pub approval: String,
    /// Whose approval is enough, in words; none where nobody is asked, or anybody's is.
    pub approvers: Option<String>,
}

/// One component that a stage changes.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeReport {
    /// The manifest's own key, or `kubernetes`.
    pub component: String,
    /// The class of the change.
    pub class: String,
    /// What is deployed.
    pub old_version: Option<String>,
    /// What the stage leads to.
    pub new_version: Option<String>,
}

impl ClusterPlan {
    /// The report of a plan.
    pub fn of(plan: &Plan, unconfirmed: &[Block]) -> Self {
        // What is already there needs nobody's word.
        let unconfirmed = unconfirmed.iter().filter(|_| plan.next_stage().is_some());
        // Stages that are never committed would be promises.
        let refused = ProblemCode::NotRolledOut.to_string();
        let is_rolled_out = !plan.blocked.iter().any(|block| block.code == refused);
        let counted = |number: u32| if is_rolled_out { number } else { 0 };
        let stages = plan.stages.iter().filter(|_| is_rolled_out);
        Self {
            cluster: plan.cluster.to_string(),
            rollout_id: Some(plan.rollout_id.to_string()),
            source: Some(plan.source.to_string()),
            blocked: plan
                .blocked
                .iter()
                .chain(unconfirmed)
                .map(|block| BlockReport {
                    code: block.code.clone(),
                    stage: block.stage.as_ref().map(ToString::to_string),
                    message: block.message.clone(),
                    help: block.help.clone(),
                })
                .collect(),
            warnings: plan.warnings.clone(),
            commits: counted(plan.estimate.commits),
            machines: counted(plan.estimate.machines),
            stages: stages.map(StageReport::of).collect(),
        }
    }

    /// A cluster whose plan could not be made.
    pub fn broken(cluster: &str, error: &dyn std::error::Error) -> Self {
        let block = BlockReport {
            code: "no-plan".to_owned(),
            stage: None,
            message: error.to_string(),
            help: "`stepgate check` lists what to repair".to_owned(),
        };
        Self {
            cluster: cluster.to_owned(),
            rollout_id: None,
            source: None,
            blocked: vec![block],
            warnings: Vec::new(),
            commits: 0,
            machines: 0,
            stages: Vec::new(),
        }
    }
}

impl StageReport {
    fn of(stage: &StagePlan) -> Self {
        Self {
            name: stage.stage.to_string(),
            state: state(stage.state).to_owned(),
            changes: stage
                .changes
                .iter()
                .map(|change| ChangeReport {
                    component: change.component.clone(),
                    class: change.class.to_string(),
                    old_version: change.old_version.clone(),
                    new_version: change.new_version.clone(),
                })
                .collect(),
            reasons: stage.reasons.clone(),
            risks: stage.risks.clone(),
            one_way: stage.one_way.clone(),
            machines: stage.machines,
            approval: match stage.policy.approval {
                _ if stage.stage.is_without_commit() => "none",
                Approval::None => "none",
                Approval::Rollout => "rollout",
                Approval::Stage => "stage",
            }
            .to_owned(),
            approvers: (!stage.stage.is_without_commit() && stage.policy.approval != Approval::None)
                .then_some(&stage.policy.approvers)
                .filter(|rules| !rules.take_anybody())
                .map(ToString::to_string),
        }
    }
}

/// The state of a stage, as one word.
fn state(state: StageState) -> &'static str {
    match state {
        StageState::Skipped => "skipped",
        StageState::Passed => "passed",
        StageState::Committed => "committed",
        StageState::Pending => "pending",
        StageState::Blocked => "blocked",
    }
}
