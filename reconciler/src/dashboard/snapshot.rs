//! The fleet at one moment, as pages show it.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::CommitId;
use jiff::Timestamp;
use overlays::ClusterSpec;
use rollout::{LedgerState, StageState};
use serde::Serialize;

use crate::reconcile::observe::explain::{Explanation, State};
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use crate::reconcile::{ClusterOutcome, ClusterPass, FleetView, ReconcileReport};
use crate::report::{ChangeReport, ClusterStatus, WaveReport};

/// Whose eyes a snapshot was read with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadBy {
    /// The process that carries rollouts through: what stands here is what it has decided.
    Controller,
    /// A process that waits for its turn: what stands here is what git says.
    Follower,
    /// `stepgate web`: what git says, and the clusters where they were named.
    Web,
}

/// The fleet at one moment.
#[derive(Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// When it was read, RFC 3339.
    pub read_at: String,
    /// Whose eyes it was read with.
    pub read_by: ReadBy,
    /// The branch that people write.
    pub source_branch: String,
    /// Its commit.
    pub source: String,
    /// The branch that Stepgate writes.
    pub deploy_branch: String,
    /// Its commit; null where the branch does not exist.
    pub deploy: Option<String>,
    /// Errors that keep every cluster from going on.
    pub errors: Vec<String>,
    /// The clusters, by name.
    pub clusters: Vec<ClusterRow>,
    /// The waves, in their order; none where the policy has none.
    pub waves: Vec<WaveReport>,
    /// What details are read from.
    #[serde(skip)]
    pub(super) fleet: FleetSource,
}

/// What details of a snapshot are read from.
#[derive(Clone)]
pub(super) struct FleetSource {
    pub(super) planner: Planner,
    pub(super) reading: FleetReading,
    pub(super) explanations: BTreeMap<String, Arc<Explanation>>,
}

/// One cluster of a snapshot.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// Where it stands.
    #[serde(flatten)]
    pub status: ClusterStatus,
    /// Its environment; null where the policy names none.
    pub environment: Option<String>,
    /// Its wave; null where the policy has none.
    pub wave: Option<String>,
    /// The Kubernetes version that its specification asks for.
    pub kubernetes: Option<String>,
    /// What its rollout changes.
    pub changes: Vec<ChangeReport>,
    /// Stages of its rollout that are committed or passed.
    pub stages_done: usize,
    /// Stages of its rollout that change something.
    pub stages: usize,
    /// When its rollout's last commit was made, RFC 3339; null where nothing is under way.
    pub since: Option<String>,
    /// The branch on which people are asked; null where nobody is.
    pub proposed: Option<String>,
}

/// A fleet that was read, before its clusters are told of.
pub(super) struct Read<'a> {
    pub(super) planner: &'a Planner,
    pub(super) reading: &'a FleetReading,
    pub(super) read_by: ReadBy,
    pub(super) waves: Vec<WaveReport>,
    pub(super) at: Timestamp,
}

impl Read<'_> {
    /// The snapshot with these clusters.
    pub(super) fn with(self, clusters: Vec<(ClusterRow, Option<Arc<Explanation>>)>) -> Snapshot {
        let reading = self.reading;
        let told = clusters.iter();
        let explanations = told
            .filter_map(|(row, explanation)| Some((row.status.cluster.clone(), Arc::clone(explanation.as_ref()?))))
            .collect();
        let mut clusters: Vec<ClusterRow> = clusters.into_iter().map(|(row, _)| row).collect();
        clusters.sort_by(|left, right| left.status.cluster.cmp(&right.status.cluster));
        Snapshot {
            read_at: self.at.to_string(),
            read_by: self.read_by,
            source_branch: self.planner.source_branch().to_string(),
            source: reading.source_commit().to_string(),
            deploy_branch: reading.layout.branch.to_string(),
            deploy: reading.deploy_head().map(CommitId::to_string),
            errors: reading.fleet.errors_of_everybody().map(ToString::to_string).collect(),
            clusters,
            waves: self.waves,
            fleet: FleetSource { planner: self.planner.clone(), reading: reading.clone(), explanations },
        }
    }
}

impl Snapshot {
    /// What the controller's pass came to.
    pub(crate) fn of_pass(
        planner: &Planner,
        FleetView { reading, views }: &FleetView,
        pass: &ReconcileReport,
        at: Timestamp,
    ) -> Self {
        let row = |cluster: &ClusterPass| {
            let view = views.get(&cluster.cluster).map(Arc::as_ref);
            let explanation = explained(&cluster.outcome, cluster.tanzu.as_ref());
            let status = match (&explanation, view) {
                (Ok(explanation), Some(view)) => {
                    ClusterStatus::of(view, explanation, None).with_stages(view, explanation)
                }
                (Ok(explanation), None) => ClusterStatus::without_plan(&cluster.cluster, explanation),
                (Err(message), _) => ClusterStatus::failed(cluster.cluster.clone(), message.clone()),
            };
            let proposed = cluster.proposed.as_ref().map(ToString::to_string);
            let row = ClusterRow { proposed, ..ClusterRow::of(reading, status, view) };
            (row, explanation.ok().map(Arc::new))
        };
        let clusters = pass.clusters.iter().map(row).collect();
        let waves = pass.waves.iter().map(|wave| WaveReport::of(wave, at)).collect();
        Read { planner, reading, read_by: ReadBy::Controller, waves, at }.with(clusters)
    }

    /// The branches that it was read from.
    pub(crate) fn branches(&self) -> Vec<domain::BranchName> {
        vec![self.fleet.planner.source_branch().clone(), self.fleet.reading.layout.branch.clone()]
    }

    /// The row of a cluster.
    pub(super) fn row(&self, cluster: &str) -> Option<&ClusterRow> {
        self.clusters.iter().find(|row| row.status.cluster == cluster)
    }
}

/// What a pass came to for a cluster, as `why` tells it; the message where our side has failed.
fn explained(outcome: &ClusterOutcome, tanzu: Option<&rollout::TanzuStanding>) -> Result<Explanation, String> {
    let explanation = match outcome {
        ClusterOutcome::Done => Explanation {
            state: State::Done,
            stage: None,
            reasons: vec![rollout::Reason::new("deploy equals target")],
            help: Vec::new(),
            until: None,
            tanzu: None,
            machines: Vec::new(),
        },
        ClusterOutcome::Waiting { stage, reason, until } => Explanation {
            state: State::Waiting,
            stage: stage.clone(),
            reasons: reason.clone().into_lines(),
            help: Vec::new(),
            until: *until,
            tanzu: None,
            machines: Vec::new(),
        },
        ClusterOutcome::Held { stage, reasons, help } => Explanation {
            state: State::Held,
            stage: stage.clone(),
            reasons: reasons.iter().cloned().flat_map(rollout::Reason::into_lines).collect(),
            help: vec![help.clone()],
            until: None,
            tanzu: None,
            machines: Vec::new(),
        },
        ClusterOutcome::Blocked { reasons } => Explanation {
            state: State::Blocked,
            stage: None,
            reasons: reasons.iter().map(|block| rollout::Reason::new(&*block.message).help(&*block.help)).collect(),
            help: Vec::new(),
            until: None,
            tanzu: None,
            machines: Vec::new(),
        },
        ClusterOutcome::Failed { message, .. } => return Err(message.clone()),
    };
    Ok(Explanation { tanzu: tanzu.cloned(), ..explanation.with_help() })
}

impl ClusterRow {
    /// What git says of a cluster that stands so.
    pub(super) fn of(reading: &FleetReading, status: ClusterStatus, view: Option<&ClusterView>) -> Self {
        let policy = &reading.fleet.policy;
        let name = status.cluster.clone();
        let running = view.and_then(|view| view.directory.ledger()).filter(|it| it.state == LedgerState::Running);
        let plan = view.map(|view| view.running.as_ref().map_or(&view.plan, |(plan, _)| plan));
        let stages = plan.iter().flat_map(|plan| &plan.stages).filter(|stage| stage.state != StageState::Skipped);
        let stages: Vec<_> = stages.collect();
        let is_done = |state: StageState| matches!(state, StageState::Passed | StageState::Committed);
        let mut changes: Vec<ChangeReport> = Vec::new();
        for change in stages.iter().flat_map(|stage| &stage.changes).map(ChangeReport::from) {
            if !changes.iter().any(|known| known.component == change.component) {
                changes.push(change);
            }
        }
        Self {
            environment: policy.environment_of(&name).map(str::to_owned),
            wave: policy.wave_of(&name).and_then(|index| policy.waves.get(index)).map(|wave| wave.name.clone()),
            kubernetes: kubernetes(reading.fleet.cluster(&name)),
            changes,
            stages_done: stages.iter().filter(|stage| is_done(stage.state)).count(),
            stages: stages.len(),
            since: running.and_then(|ledger| ledger.stages.last()).map(|record| record.committed_at.to_string()),
            proposed: None,
            status,
        }
    }
}

fn kubernetes(cluster: Option<&ClusterSpec>) -> Option<String> {
    cluster.map(|cluster| cluster.kubernetes_version.clone()).filter(|version| !version.is_empty())
}
