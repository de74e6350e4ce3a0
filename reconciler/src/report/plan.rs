//! Plans as documents with a stable shape: what `stepgate plan` prints and what the demo's report holds.

use std::collections::BTreeMap;

use domain::ProblemCode;
use policy::Approval;
use rollout::{Block, Chain, ChainTarget, Ledger, NodeTime, Plan, RiskGroup, StagePlan, StageState, risk_groups};
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
    /// The rollouts that lead to what the source branch asks for, of which this is one; left out where it is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainReport>,
    /// What forbids the rollout; empty where nothing does.
    pub blocked: Vec<BlockReport>,
    /// The wave that it goes in, and what that says, in words; absent where the policy has none for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<String>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// Stages still to be committed.
    pub commits: u32,
    /// Machines still to be replaced.
    pub machines: u32,
    /// How long the stages that are left take, by the last rollout; null where it tells nothing.
    pub expected_time: Option<ExpectedTimeReport>,
    /// The risks of the stages by kind, the weightiest first.
    pub risk_groups: Vec<RiskGroupReport>,
    /// The stages in order, skipped ones included.
    pub stages: Vec<StageReport>,
}

/// Rollouts that follow each other.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainReport {
    /// Which of them the plan is about, from 1.
    pub rollout: usize,
    /// How many there are.
    pub rollouts: usize,
    /// Which of how many it is, and where to, in words.
    pub told: String,
    /// What each of them leads to, those included that have ended.
    pub targets: Vec<ChainTargetReport>,
}

/// What one rollout of a chain leads to.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainTargetReport {
    /// Kubernetes of the control plane.
    pub kubernetes: String,
    /// Kubernetes of worker groups that have a version of their own.
    pub workers: BTreeMap<String, String>,
    /// Name of the bundle.
    pub bundle: String,
    /// The version of EKS Anywhere that the bundle belongs to; null where nothing says so.
    pub eksa: Option<String>,
    /// The stages that replace nodes.
    pub rolls: Vec<String>,
    /// The versions in words.
    pub told: String,
}

impl From<&Chain> for ChainReport {
    fn from(chain: &Chain) -> Self {
        let targets = chain.targets.iter().map(ChainTargetReport::from).collect();
        Self { rollout: chain.rollout, rollouts: chain.targets.len(), told: chain.to_string(), targets }
    }
}

impl From<&ChainTarget> for ChainTargetReport {
    fn from(target: &ChainTarget) -> Self {
        let workers = target.workers.iter().map(|(group, version)| (group.to_string(), version.clone()));
        Self {
            kubernetes: target.kubernetes.clone(),
            workers: workers.collect(),
            bundle: target.bundle.clone(),
            eksa: target.eksa.clone(),
            rolls: target.rolls.iter().map(ToString::to_string).collect(),
            told: target.to_string(),
        }
    }
}

/// How long a rollout takes, by one that has ended.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedTimeReport {
    /// Minutes from commits until gates passed; approvals and windows come on top.
    pub minutes: u64,
    /// Whether every stage that is left was part of that rollout; else it takes longer.
    pub complete: bool,
    /// The rollout that took as long.
    pub rollout: String,
    /// When that ended, RFC 3339.
    pub ended_at: String,
}

/// Risks of one kind.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RiskGroupReport {
    /// The kind.
    pub kind: String,
    /// How many there are.
    pub count: usize,
    /// All of them in one line, with one example.
    pub text: String,
}

impl From<&RiskGroup<'_>> for RiskGroupReport {
    fn from(group: &RiskGroup<'_>) -> Self {
        Self { kind: group.kind.as_str().to_owned(), count: group.risks.len(), text: group.line() }
    }
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
    /// Whether it replaces machines whose number the specification does not tell.
    pub uncounted_machines: bool,
    /// How long each node takes that is upgraded in place, in words; null where none is.
    pub node_time: Option<String>,
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

impl From<&rollout::ComponentChange> for ChangeReport {
    fn from(change: &rollout::ComponentChange) -> Self {
        Self {
            component: change.component.clone(),
            class: change.class.to_string(),
            old_version: change.old_version.clone(),
            new_version: change.new_version.clone(),
        }
    }
}

impl ClusterPlan {
    /// The report of a plan; `ledger` is the record of the cluster's last rollout.
    pub fn of(plan: &Plan, unconfirmed: &[Block], ledger: Option<&Ledger>) -> Self {
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
            chain: plan.chain.as_ref().map(ChainReport::from),
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
            wave: None,
            warnings: plan.warnings.clone(),
            commits: counted(plan.estimate.commits),
            machines: counted(plan.estimate.machines),
            expected_time: ledger.filter(|_| is_rolled_out).and_then(|ledger| expected_time(plan, ledger)),
            risk_groups: risk_groups(plan.stages.iter().filter(|_| is_rolled_out))
                .iter()
                .map(RiskGroupReport::from)
                .collect(),
            stages: stages.map(|stage| StageReport::of(stage, ledger)).collect(),
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
            chain: None,
            blocked: vec![block],
            wave: None,
            warnings: Vec::new(),
            commits: 0,
            machines: 0,
            expected_time: None,
            risk_groups: Vec::new(),
            stages: Vec::new(),
        }
    }
}

impl StageReport {
    fn of(stage: &StagePlan, ledger: Option<&Ledger>) -> Self {
        Self {
            name: stage.stage.to_string(),
            state: state(stage.state).to_owned(),
            changes: stage.changes.iter().map(ChangeReport::from).collect(),
            reasons: stage.reasons.clone(),
            risks: stage.risks.iter().map(|risk| risk.text.clone()).collect(),
            one_way: stage.one_way.clone(),
            machines: stage.machines,
            uncounted_machines: stage.uncounted_machines,
            node_time: NodeTime::of(stage, ledger).map(|time| time.to_string()),
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

fn expected_time(plan: &Plan, ledger: &Ledger) -> Option<ExpectedTimeReport> {
    let expected = plan.expected_time(ledger)?;
    // Less than a minute is one.
    let minutes = u64::try_from(expected.takes.as_secs()).unwrap_or_default().div_ceil(60).max(1);
    Some(ExpectedTimeReport {
        minutes,
        complete: expected.is_whole,
        rollout: expected.rollout.to_string(),
        ended_at: expected.ended.to_string(),
    })
}

/// The state of a stage, as one word.
pub(super) fn state(state: StageState) -> &'static str {
    match state {
        StageState::Skipped => "skipped",
        StageState::Passed => "passed",
        StageState::Committed => "committed",
        StageState::Pending => "pending",
        StageState::Blocked => "blocked",
    }
}
