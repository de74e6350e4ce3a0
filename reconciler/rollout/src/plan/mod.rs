//! What a rollout is going to do, stage by stage.

mod build;
mod default_stages;
mod etcd;
mod expected_time;
mod hops;
mod machines;
mod node_time;
mod order;
mod risk;
mod skew;
mod stage_rules;
mod stage_time;
mod version;

#[cfg(test)]
mod outlook_tests;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::change::ComponentChange;
use crate::edit::AcceptedEdit;
use crate::expectation::{ChecksExpectation, Expectation};
use crate::ledger::Ledger;
use crate::rollback::Rollback;
use crate::stage::StageId;
use domain::{ClusterName, CommitId, PlanDigest, RolloutId, TreeDigest};
use policy::{PlanPolicy, StagePolicy};

pub use build::plan;
pub(crate) use build::{has_flux, is_bound};
pub use expected_time::ExpectedTime;
pub use hops::{MissingHops, hops};
pub use node_time::NodeTime;
pub use risk::{LostVersion, Risk, RiskGroup, RiskKind, risk_groups};
pub use skew::{
    Chaining, ExtendedSupport, GroupVersions, MinorBack, ProviderContracts, RULES, SkewFacts, SkewRule, VersionStep,
};
pub use stage_time::{PastDurations, StageTime};

/// What a cluster is to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterRole {
    /// It runs Cluster API, EKS Anywhere and Flux; all stages apply.
    Management,
    /// It is managed by another cluster: `preflight`, `backup`, `cilium` and everything from `etcd` on.
    Workload,
}

/// Everything that a plan is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanInput {
    /// The cluster.
    pub cluster: ClusterName,
    /// What it is to the others.
    pub role: ClusterRole,
    /// Commit of the source branch.
    pub source: CommitId,
    /// Digest of the cluster's directory on the deploy branch, without `rollout.yaml`.
    pub deployed: TreeDigest,
    /// Digest of what that directory is to become.
    pub target: TreeDigest,
    /// The stages in the order they are to run, `preflight`, `backup` and `verify` (with equal digests) included. Parts of the cluster
    /// specification (`etcd`, `control-plane`, `workers/…`) and intermediate versions are cumulative: each one's `deployed` is what it finds
    /// when the ones before it are committed.
    pub stages: Vec<StageInput>,
    /// Versions and contracts that the skew rules look at.
    pub skew: SkewFacts,
    /// The policy for the plan as a whole.
    pub policy: PlanPolicy,
    /// What checks are asked about it, but for the cluster and the waivers.
    pub checks: ChecksExpectation,
    /// What the caller found that forbids the rollout (an unverified lock, a bad manifest).
    pub blocked: Vec<Block>,
    /// What the caller found that a person should know.
    pub warnings: Vec<String>,
    /// The ledger on the deploy branch.
    pub ledger: Option<Ledger>,
    /// What it goes back to, where its target is a state of before: then the stages are in reverse order.
    pub rollback: Option<Rollback>,
    /// What stages without a commit expect of a cluster of eksctl; none of others.
    pub eksctl: Option<EksctlStages>,
    /// What stages without a commit expect of a `TanzuKubernetesCluster`; none of others.
    pub tanzu: Option<TanzuStages>,
}

/// What stages without a commit expect of a `TanzuKubernetesCluster` besides what they expect of every cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TanzuStages {
    /// Whether a Supervisor decides what comes when.
    pub is_front: bool,
    /// That it is as it is recorded, and that nothing of it is on its way or has failed.
    pub preflight: Vec<Expectation>,
    /// That nothing of it is on its way any more.
    pub verify: Vec<Expectation>,
}

/// The stages without a commit of a cluster of eksctl, which has no objects that could be saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EksctlStages {
    /// What `preflight` expects besides what it expects of every cluster: that the cluster is as it is recorded.
    pub preflight: Vec<Expectation>,
    /// Fargate's nodes.
    pub fargate: StageAtTheEnd,
    /// Nodes that are left over.
    pub leftovers: StageAtTheEnd,
}

/// A stage that is asked about when everything is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageAtTheEnd {
    /// What it expects.
    pub expectation: Expectation,
    /// The policy in force for it.
    pub policy: StagePolicy,
}

/// One stage as the renderers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageInput {
    /// The stage.
    pub stage: StageId,
    /// Digest of its part as deployed.
    pub deployed: TreeDigest,
    /// Digest of its part after the stage.
    pub target: TreeDigest,
    /// What changes, component by component.
    pub changes: Vec<ComponentChange>,
    /// Why it is part of the plan.
    pub reasons: Vec<String>,
    /// What could go wrong.
    pub risks: Vec<Risk>,
    /// What cannot be undone by committing the previous tree; empty where everything can.
    pub one_way: Vec<String>,
    /// What its gate expects once it is committed (or where it has no difference).
    pub expectations: Vec<Expectation>,
    /// What its gate expects of the deployed tree, where that differs: asked after a revert, after an intermediate version, and when a new
    /// target changes a stage that is still being watched.
    pub deployed_expectations: Vec<Expectation>,
    /// The policy in force for it.
    pub policy: StagePolicy,
    /// How many machines it replaces, as far as the specification tells.
    pub machines: u32,
    /// Whether it replaces machines whose number the specification does not tell.
    pub uncounted_machines: bool,
    /// Why it could not be rendered.
    pub render_error: Option<RenderFailure>,
    /// The stage whose commit moves this one too, since one field moves both: it has no difference
    /// of its own, and a gate of its own.
    pub carried_by: Option<StageId>,
}

/// Why the files of a stage could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderFailure {
    /// What is wrong, and where.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

/// Something that forbids a rollout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// The rule, such as `kubernetes-minor-step`.
    pub code: String,
    /// The stage it concerns; none where it concerns the whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageId>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Block {
    /// The code of a rollback whose target is not the state that was recorded.
    pub const ROLLBACK_TARGET: &str = "rollback-target";
    /// The codes of what passes once other clusters have gone on.
    pub const OF_OTHER_CLUSTERS: [&str; 2] = [skew::AHEAD_OF_WORKLOADS, skew::NEWER_THAN_MANAGEMENT];
}

/// Where a stage stands with respect to git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageState {
    /// It has no difference.
    Skipped,
    /// It was committed by this rollout.
    Committed,
    /// It has no part in git and was passed by this rollout.
    Passed,
    /// It is to be committed (or, for a stage without a part in git, to be passed).
    Pending,
    /// It cannot be committed.
    Blocked,
}

/// One stage of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StagePlan {
    /// The stage.
    #[serde(rename = "name")]
    pub stage: StageId,
    /// Where it stands.
    pub state: StageState,
    /// What changes.
    pub changes: Vec<ComponentChange>,
    /// Why it is (or is not) part of the plan.
    pub reasons: Vec<String>,
    /// What could go wrong.
    pub risks: Vec<Risk>,
    /// What cannot be undone.
    pub one_way: Vec<String>,
    /// How many machines it replaces.
    pub machines: u32,
    /// Whether it replaces machines whose number the specification does not tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted_machines: bool,
    /// Digest of its part before; none for a stage without a part in git.
    pub before: Option<TreeDigest>,
    /// Digest of its part after; none for a stage without a part in git.
    pub after: Option<TreeDigest>,
    /// What its gate expects.
    pub expectations: Vec<Expectation>,
    /// What its gate expects of the deployed tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deployed_expectations: Vec<Expectation>,
    /// The policy in force for it.
    pub policy: StagePolicy,
    /// The stage whose commit moves this one too. Its own commit records what that stage's gate
    /// saw, and changes nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried_by: Option<StageId>,
    /// The stages that its commit moves too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carries: Vec<StageId>,
}

/// How much work a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Stages still to be committed.
    pub commits: u32,
    /// Machines still to be replaced.
    pub machines: u32,
}

/// What a rollout is going to do, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The cluster.
    pub cluster: ClusterName,
    /// What it is to the others.
    pub role: ClusterRole,
    /// Digest of what the rollout does: the same from its first commit to its last.
    pub digest: PlanDigest,
    /// Name of the rollout.
    pub rollout_id: RolloutId,
    /// Commit of the source branch.
    pub source: CommitId,
    /// Digest of the cluster's directory before the rollout.
    pub base: TreeDigest,
    /// Digest of the cluster's directory now.
    pub deployed: TreeDigest,
    /// Digest of the cluster's directory at the end.
    pub target: TreeDigest,
    /// Kubernetes of the control plane; none where it is not known.
    #[serde(default)]
    pub kubernetes: Option<VersionStep>,
    /// Whether the ledger on the deploy branch records this very plan as running.
    pub running: bool,
    /// The stages in order, skipped ones included.
    pub stages: Vec<StagePlan>,
    /// What forbids the rollout; empty where nothing does.
    pub blocked: Vec<Block>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// What is left to do.
    pub estimate: Estimate,
    /// Files that people changed and that stay so, as long as they are rendered as they were then. Its digests have them already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<AcceptedEdit>,
    /// What it goes back to; none for a plan of what the source branch asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// The rollouts that lead to what the source branch asks for, of which this is one; none where it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Chain>,
}

impl StagePlan {
    /// How a reason begins that says that machines stay.
    pub const IN_PLACE: &str = "in place: ";
    /// How a reason begins that says why machines do not stay that were to.
    pub const REPLACE: &str = "replace because ";
}

impl Plan {
    /// Whether anything is left to be committed.
    #[must_use]
    pub fn has_differences(&self) -> bool {
        self.next_stage().is_some()
    }

    /// The first stage that is to be committed.
    #[must_use]
    pub fn next_stage(&self) -> Option<&StagePlan> {
        self.stages.iter().find(|stage| {
            matches!(stage.state, StageState::Pending | StageState::Blocked) && !stage.stage.is_without_commit()
        })
    }

    /// The plan of one stage.
    #[must_use]
    pub fn stage(&self, stage: &StageId) -> Option<&StagePlan> {
        self.stages.iter().find(|plan| &plan.stage == stage)
    }
}
