//! What the model's clusters are made of, and what follows from the versions of their parts.

mod expectations;
mod objects;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use domain::{ClusterName, CommitId, GroupName};
use policy::{ControlPlaneGate, PlanPolicy, StagePolicy};
use rollout::{
    ChecksExpectation, ClusterRole, Expectation, GroupVersions, Ledger, Pause, PlanInput, SkewFacts, StageId,
    StageInput, StageName, TanzuStages, VersionStep,
};

use super::branch::{Parts, is_of_the_specification, part_digest, tree_digest};
use crate::shape::{ClusterShape, Etcd};

const FLUX_NAMESPACE: &str = "flux-system";
const EKSA_NAMESPACE: &str = "default";
const CAPI_NAMESPACE: &str = "eksa-system";

/// One cluster of the model.
#[derive(Debug, Clone)]
pub struct ModelCluster {
    /// What it is made of. Its machines follow the parts `control-plane`, `workers/…` and `etcd`.
    pub shape: ClusterShape,
    /// What it is to the others.
    pub role: ClusterRole,
    /// Its components: stages that change something in it, the cluster specification apart.
    pub components: Vec<StageName>,
    /// The policy of every stage.
    pub policy: StagePolicy,
    /// Clusters that have to be done before it begins.
    pub after: Vec<ClusterName>,
    /// Whether its Kustomizations wait for the health of what they apply.
    pub flux_waits: bool,
    /// How long a machine may take to come up, where it is a cluster of Tanzu that is rendered for Cluster API; none where EKS Anywhere carries it
    /// out.
    pub rendered: Option<Duration>,
}

/// A commit of the source branch: what every cluster is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceCommit {
    /// Its id.
    pub id: CommitId,
    /// The wanted version of every part of every cluster.
    pub wanted: BTreeMap<ClusterName, Parts>,
    /// `paused: true` in `stepgate.yaml`.
    pub paused: Option<Pause>,
}

impl SourceCommit {
    /// The `number`-th commit of the source branch.
    #[must_use]
    pub fn new(number: usize, wanted: BTreeMap<ClusterName, Parts>, paused: Option<Pause>) -> Self {
        let digits = format!("{:040x}", 0x5000_0000_usize.saturating_add(number));
        let id = digits.parse().unwrap_or_else(|_| unreachable!("{digits:?} are forty hexadecimal digits"));
        Self { id, wanted, paused }
    }
}

impl ModelCluster {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &ClusterName {
        &self.shape.name
    }

    /// Its stages with a part in git, in order.
    #[must_use]
    pub fn stages(&self) -> Vec<StageName> {
        let mut stages = self.components.clone();
        if matches!(self.shape.etcd, Etcd::External { .. }) {
            stages.push(StageName::Etcd);
        }
        stages.push(StageName::ControlPlane);
        stages.extend(self.shape.worker_groups.iter().map(|group| StageName::Workers(group.name.clone())));
        stages.sort();
        stages
    }

    /// What its plan is made from: deployed parts, wanted parts and the ledger.
    #[must_use]
    pub fn plan_input(&self, source: &CommitId, deployed: &Parts, wanted: &Parts, ledger: Option<Ledger>) -> PlanInput {
        PlanInput {
            cluster: self.name().clone(),
            role: self.role,
            source: source.clone(),
            deployed: tree_digest(deployed),
            target: tree_digest(wanted),
            stages: self.stage_inputs(deployed, wanted),
            skew: self.skew(deployed, wanted),
            policy: PlanPolicy::default(),
            checks: ChecksExpectation::default(),
            blocked: Vec::new(),
            warnings: Vec::new(),
            ledger,
            rollback: None,
            eksctl: None,
            tanzu: self.rendered.map(|_| TanzuStages {
                is_front: false,
                preflight: vec![self.settled(), self.secrets()],
                verify: Vec::new(),
            }),
        }
    }

    fn stage_inputs(&self, deployed: &Parts, wanted: &Parts) -> Vec<StageInput> {
        // What a stage of the specification finds when the ones before it are committed.
        let mut staged = deployed.clone();
        let mut inputs = Vec::new();
        let moves_both = self.one_field_differs(deployed, wanted);
        for stage in self.stages() {
            let before = staged.clone();
            for moved in self.moved_by(&stage) {
                staged.extend(wanted.get(&moved).map(|version| (moved.clone(), *version)));
            }
            let expected = |parts: &Parts| {
                let mut expectations = self.expectations(&stage, parts);
                for expectation in &mut expectations {
                    if let Expectation::Etcd(etcd) = expectation {
                        etcd.rolls = before.get(&StageName::Etcd) != staged.get(&StageName::Etcd);
                    }
                }
                expectations
            };
            inputs.push(StageInput {
                stage: StageId::last(stage.clone()),
                deployed: part_digest(&before, &stage),
                target: part_digest(&staged, &stage),
                changes: Vec::new(),
                reasons: Vec::new(),
                risks: Vec::new(),
                one_way: Vec::new(),
                expectations: expected(&staged),
                deployed_expectations: expected(&before),
                policy: self.policy.clone(),
                machines: 0,
                uncounted_machines: false,
                render_error: None,
                carried_by: (moves_both && stage == StageName::ControlPlane).then(|| StageName::Etcd.into()),
            });
        }
        inputs
    }

    /// The parts that a stage's commit moves: one field of EKS Anywhere moves external etcd and the
    /// control plane.
    #[must_use]
    pub fn moved_by(&self, stage: &StageName) -> Vec<StageName> {
        match (stage, &self.shape.etcd) {
            (StageName::Etcd, Etcd::External { .. }) => vec![StageName::Etcd, StageName::ControlPlane],
            _ => vec![stage.clone()],
        }
    }

    fn one_field_differs(&self, deployed: &Parts, wanted: &Parts) -> bool {
        let differs = |part: &StageName| wanted.get(part).is_some_and(|version| deployed.get(part) != Some(version));
        matches!(self.shape.etcd, Etcd::External { .. }) && self.moved_by(&StageName::Etcd).iter().any(differs)
    }

    fn skew(&self, deployed: &Parts, wanted: &Parts) -> SkewFacts {
        let step = |stage: &StageName| {
            Some(VersionStep {
                deployed: deployed.get(stage).map(|version| kubernetes(*version)),
                target: kubernetes(*wanted.get(stage)?),
            })
        };
        let group = |name: &GroupName| {
            Some(GroupVersions { group: name.clone(), version: step(&StageName::Workers(name.clone()))? })
        };
        SkewFacts {
            control_plane: step(&StageName::ControlPlane),
            workers: self.shape.worker_groups.iter().filter_map(|known| group(&known.name)).collect(),
            ..SkewFacts::default()
        }
    }

    /// How far the control plane has to be before the next stage.
    pub(super) fn control_plane_gate(&self) -> ControlPlaneGate {
        match self.role {
            ClusterRole::Management => ControlPlaneGate::Whole,
            ClusterRole::Workload => self.policy.machines.gate,
        }
    }

    /// How long any gate of it has to hold: those before the first commit have the usual soak, whatever its policy says.
    pub(super) fn shortest_soak(&self) -> Duration {
        self.policy.soak.min(StagePolicy::default().soak)
    }

    /// Names of everything that a stage changes, its Kustomization included, as [`SimulatedCluster::unfinished`] names them.
    ///
    /// [`SimulatedCluster::unfinished`]: crate::SimulatedCluster::unfinished
    #[must_use]
    pub fn names_of(&self, stage: &StageName) -> BTreeSet<String> {
        // Names do not depend on versions, but for the bundle's own object.
        let objects = self.objects(stage, &Parts::new()).into_iter().map(|object| object.to_string());
        let kustomization = format!("Kustomization {FLUX_NAMESPACE}/{}", self.kustomization_name(stage));
        objects.chain([kustomization]).collect()
    }

    /// The same without its Kustomization.
    pub(super) fn objects_of(&self, stage: &StageName) -> BTreeSet<String> {
        self.objects(stage, &Parts::new()).into_iter().map(|object| object.to_string()).collect()
    }

    /// The same of `stage` and all stages after it.
    pub(super) fn names_from(&self, stage: &StageName) -> BTreeSet<String> {
        self.stages().iter().filter(|other| *other >= stage).flat_map(|later| self.names_of(later)).collect()
    }

    fn kustomization_name(&self, stage: &StageName) -> String {
        if is_of_the_specification(stage) {
            format!("{}-cluster", self.name())
        } else {
            format!("{}-{stage}", self.name())
        }
    }
}

/// Kubernetes of a version number of machines: ten patches make a minor, from 1.30.0 on.
#[must_use]
pub fn kubernetes(version: u32) -> String {
    format!("v1.{}.{}", 30 + version / 10, version % 10)
}
