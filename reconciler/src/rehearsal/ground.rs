//! What all rehearsals of one rollout have in common: the repository that they borrow from, and what the cluster is filled with.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{BranchName, ClusterName};
use jiff::Timestamp;
use overlays::{ClusterKind, ClusterSpec};
use planning::facts::deployed_cluster;
use policy::Apply;
use rollout::{ClusterIdentity, StageName, StagePlan, StageState};
use simulator::{MachineKind, Pace};
use tempfile::TempDir;

use super::error::RehearsalError;
use crate::reconcile::planner::EksDReleases;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use crate::simulation::{MachineCounts, Simulation};

/// The one cluster, its plan, and a folder for copies of its repository, which goes with this.
pub(super) struct Ground {
    /// The cluster.
    pub(super) name: ClusterName,
    /// When the rollout begins.
    pub(super) begins: Timestamp,
    planner: Planner,
    branches: Vec<BranchName>,
    folder: TempDir,
    counts: MachineCounts,
    paces: BTreeMap<MachineKind, Pace>,
    identity: Option<ClusterIdentity>,
    releases: (EksDReleases, EksDReleases),
}

impl Ground {
    /// The ground that rehearsals stand on.
    ///
    /// # Errors
    /// [`RehearsalError`] when no folder can be made, or the repository cannot be copied.
    pub(super) fn new(
        planner: &Planner,
        reading: &FleetReading,
        view: &ClusterView,
        begins: Timestamp,
        (counts, paces): (MachineCounts, BTreeMap<MachineKind, Pace>),
    ) -> Result<Self, RehearsalError> {
        let folder = tempfile::Builder::new().prefix("stepgate-rehearsal-").tempdir()?;
        let mut branches = vec![planner.source_branch().clone()];
        let deployed = reading.branches.iter().filter(|branch| *branch != planner.source_branch());
        branches.extend(deployed.cloned());
        let copy = planner.repository().borrow_to(&folder.path().join("first.git"), &branches)?;
        let identity = view.directory.ledger().and_then(|ledger| ledger.identity.clone());
        let (before, after) = planner.releases(reading, view)?;
        let is_to_come = changing(view).any(|stage| stage.stage.name == StageName::ControlPlane);
        let releases = (if is_to_come { before } else { after.clone() }, after);
        let planner = planner.rehearsing_in(copy);
        Ok(Self { name: view.name.clone(), begins, planner, branches, folder, counts, paces, identity, releases })
    }

    /// A planner on a copy of its own, as the repository is now.
    ///
    /// # Errors
    /// [`RehearsalError`] when it cannot be copied.
    pub(super) fn copy(&self, number: usize) -> Result<Planner, RehearsalError> {
        let place = self.folder.path().join(format!("{number}.git"));
        let copy = self.planner.repository().borrow_to(&place, &self.branches)?;
        Ok(self.planner.rehearsing_in(copy))
    }

    /// What is simulated, with everything random by `seed`.
    pub(super) fn simulation(&self, seed: u64) -> Simulation {
        Simulation {
            only: Some(self.name.clone()),
            seed,
            counts: self.counts.clone(),
            releases: self.releases.clone(),
            paces: self.paces.clone(),
            identity: self.identity.clone(),
        }
    }
}

/// The cluster as it is deployed, where a simulation shows what the gates of its plan read.
///
/// # Errors
/// [`RehearsalError`] that says what there is no simulation of.
pub(super) fn simulated(reading: &FleetReading, view: &ClusterView) -> Result<ClusterSpec, RehearsalError> {
    let name = view.name.as_str();
    let refused = |what: String| Err(RehearsalError::NotSimulated { cluster: name.to_owned(), what });
    let apply = reading.fleet.policy.apply_of(name);
    if apply != Apply::Flux {
        return refused("without Flux (`apply` in `stepgate.yaml`) nothing applies commits in a simulation".to_owned());
    }
    // Stages of one name would be told as one, and machines by the bundle of the end.
    if let Some(chain) = view.chain().filter(|chain| chain.rollout < chain.targets.len()) {
        let (rollout, rollouts) = (chain.rollout, chain.targets.len());
        return refused(format!(
            "it is rollout {rollout} of {rollouts} of a chain, and only the last one is simulated"
        ));
    }
    let deployed = deployed_cluster(&view.directory.deployed(&view.name), &view.cluster);
    let cluster = deployed.unwrap_or_else(|| view.cluster.as_ref().clone());
    match cluster.kind {
        ClusterKind::EksAnywhere | ClusterKind::ClusterApi => {}
        ClusterKind::ClusterClass => {
            return refused("there is no simulation of the controller of cluster topologies".to_owned());
        }
        ClusterKind::Tanzu => return refused("there is no simulation of a Supervisor".to_owned()),
        ClusterKind::Eksctl => return refused("there is no simulation of EKS".to_owned()),
    }
    let control_plane = cluster.node.at(&["spec", "controlPlaneRef", "kind"]).and_then(yaml::Node::as_str);
    if cluster.kind == ClusterKind::ClusterApi && control_plane != Some("KubeadmControlPlane") {
        let kind = control_plane.unwrap_or("another kind");
        return refused(format!("there is no simulation of a control plane of {kind}"));
    }
    if let Some(pool) = cluster.worker_groups.iter().find(|group| group.kind.is_machine_pool()) {
        return refused(format!("there is no simulation of the MachinePool {}", pool.name));
    }
    if let Some(stage) = changing(view).find(|stage| is_in_place(stage)) {
        return refused(format!("stage {} upgrades machines in place", stage.stage));
    }
    Ok(cluster)
}

fn is_in_place(stage: &StagePlan) -> bool {
    stage.reasons.iter().any(|reason| reason.starts_with(StagePlan::IN_PLACE))
}

/// The stages that are still to come, those without a commit included.
pub(super) fn changing(view: &ClusterView) -> impl Iterator<Item = &StagePlan> {
    view.plan.stages.iter().filter(|stage| matches!(stage.state, StageState::Pending | StageState::Blocked))
}

/// The last stage that has a commit, with which faults of `verify` begin.
pub(super) fn last_commit(view: &ClusterView) -> Option<StageName> {
    let committed = changing(view).filter(|stage| !stage.stage.is_without_commit()).last();
    committed.map(|stage| stage.stage.name.clone())
}

/// For whoever runs several at once.
pub(super) type SharedGround = Arc<Ground>;
