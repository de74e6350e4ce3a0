//! Wrong controllers: a harness that finds nothing wrong with them would prove nothing.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use policy::StagePolicy;
use rollout::{ApprovalScope, ApprovalState, Effect, World, record};

use super::fleet::ModelCluster;

/// What a controller does wrong. A [`super::Controller`] has none, unless it was started with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// Commits while the line is stopped (I7).
    IgnoresPause,
    /// Takes silence for consent (I5).
    IgnoresApprovals,
    /// Pushes what it decided on another head, as a rebase would (I1, I2, I3).
    RebasesItsCommits,
    /// Goes on with the world it saw first (it never ends).
    TrustsItsMemory,
    /// Does not look at any generation, nor at machines one by one, and one read is enough (a gate opens early).
    JudgesByCounts,
    /// Takes whatever Flux has applied for the newest commit, knows nothing of before, and one read is enough: argo-cd#29410, kargo#1411 (a gate opens
    /// early).
    TakesAnyRevision,
    /// Does not ask whether EKS Anywhere's controller has carried out what Flux applied, nor what machines are made from, and one read is
    /// enough (a gate opens early).
    TrustsMachineObjects,
    /// Says nothing while it waits (I9).
    WaitsInSilence,
}

impl Defect {
    /// Every defect.
    pub const ALL: [Self; 8] = [
        Self::IgnoresPause,
        Self::IgnoresApprovals,
        Self::RebasesItsCommits,
        Self::TrustsItsMemory,
        Self::JudgesByCounts,
        Self::TakesAnyRevision,
        Self::TrustsMachineObjects,
        Self::WaitsInSilence,
    ];

    /// What the defect makes of the world before a decision.
    pub(super) fn distort(self, world: &mut World, cluster: &ModelCluster, now: Timestamp, read: bool) {
        match self {
            Self::IgnoresPause => world.paused = None,
            Self::IgnoresApprovals => approve_everything(world),
            Self::JudgesByCounts => {
                judge_by_counts(world);
                one_read_is_enough(world, cluster, now, read);
            }
            Self::TakesAnyRevision => {
                take_any_revision(world);
                one_read_is_enough(world, cluster, now, read);
            }
            Self::TrustsMachineObjects => {
                trust_machine_objects(world);
                one_read_is_enough(world, cluster, now, read);
            }
            Self::RebasesItsCommits | Self::TrustsItsMemory | Self::WaitsInSilence => {}
        }
    }

    /// What the defect makes of a decision.
    pub(super) fn distort_effects(self, effects: &mut [Effect], now: Timestamp) {
        for effect in effects {
            match (self, effect) {
                (Self::WaitsInSilence, Effect::Wait { reason, .. }) => reason.message.clear(),
                // A moment in which everything looks finished is short: whoever reads twice a second sees it.
                (Self::JudgesByCounts | Self::TrustsMachineObjects, Effect::Observe { at, .. }) => {
                    *at = (*at).min(now + SignedDuration::from_millis(500));
                }
                _ => {}
            }
        }
    }
}

fn approve_everything(world: &mut World) {
    let stages = world.plan.stages.iter().map(|stage| ApprovalScope::Stage(stage.stage.clone()));
    let scopes: Vec<ApprovalScope> = stages.chain([ApprovalScope::Rollout]).collect();
    world.approvals = scopes
        .into_iter()
        .map(|scope| rollout::ApprovalRecord {
            scope,
            plan: world.plan.digest.clone(),
            state: ApprovalState::Approved,
            by: None,
            place: None,
            facts: rollout::ApprovalFacts::default(),
        })
        .collect();
}

fn judge_by_counts(world: &mut World) {
    trust_machine_objects(world);
    let Some(observation) = world.observation.as_mut().map(Arc::make_mut) else { return };
    for control_plane in &mut observation.control_planes {
        control_plane.observed_generation = Some(control_plane.generation);
        for condition in control_plane.conditions.values_mut() {
            condition.observed_generation = Some(control_plane.generation);
        }
        control_plane.status_version = Some(control_plane.spec_version.clone());
    }
    // Every machine looks like what its owner wants.
    let wanted = |owner: &Option<String>| {
        let of_control_plane = observation.control_planes.iter().find(|known| Some(&known.name) == owner.as_ref());
        let of_workers = observation.machine_deployments.iter().find(|known| Some(&known.name) == owner.as_ref());
        of_control_plane.map(|known| (known.spec_version.clone(), None)).or_else(|| {
            of_workers.and_then(|known| Some((known.spec_version.clone()?, known.infrastructure_template.clone())))
        })
    };
    for machine in &mut observation.machines {
        let Some((version, template)) = wanted(&machine.owner) else { continue };
        machine.kubelet_version = Some(version.clone());
        machine.spec_version = Some(version);
        machine.infrastructure_template = template.or(machine.infrastructure_template.take());
        if let Some(condition) = machine.conditions.get_mut("UpToDate") {
            condition.status = rollout::ConditionStatus::True;
        }
    }
    observation.machine_sets.clear();
    for node in &mut observation.nodes {
        let machine = observation.machines.iter().find(|machine| machine.node.as_ref() == Some(&node.name));
        node.kubelet_version = machine.and_then(|machine| machine.kubelet_version.clone());
    }
    let pods = observation.pods.iter_mut().flat_map(|pod| &mut pod.running);
    let newest =
        world.plan.stages.iter().flat_map(|stage| &stage.expectations).find_map(|expectation| match expectation {
            rollout::Expectation::ControlPlane(control_plane) => {
                control_plane.kube_vip.as_ref().and_then(|known| known.image.clone())
            }
            _ => None,
        });
    for running in pods {
        if let Some(image) = &newest {
            running.image.clone_from(image);
            running.digest = image.split_once('@').map(|(_, digest)| digest.to_owned());
        }
    }
}

/// Forgets what external etcd was at when its stage was committed.
fn forget_etcd(world: &mut World) {
    let records = world.ledger.as_mut().map(Arc::make_mut).into_iter().flat_map(|ledger| &mut ledger.stages);
    for record in records {
        record.etcd = None;
    }
}

fn trust_machine_objects(world: &mut World) {
    // It would tell that EKS Anywhere's controller has not written its objects yet.
    forget_etcd(world);
    let Some(observation) = world.observation.as_mut().map(Arc::make_mut) else { return };
    for cluster in &mut observation.eksa_clusters {
        cluster.observed_generation = Some(cluster.generation);
        cluster.reconciled_generation = Some(cluster.generation);
        cluster.children_reconciled_generation = Some(i64::MAX);
    }
    for machine in &mut observation.machines {
        machine.infrastructure_template = None;
    }
}

fn take_any_revision(world: &mut World) {
    let head = world.deploy.commit().cloned();
    // It would tell that nothing was applied yet.
    forget_etcd(world);
    let Some(observation) = world.observation.as_mut().map(Arc::make_mut) else { return };
    for source in &mut observation.flux.sources {
        source.artifact_revision.clone_from(&head);
    }
    for kustomization in &mut observation.flux.kustomizations {
        kustomization.last_applied_revision.clone_from(&head);
        kustomization.last_attempted_revision.clone_from(&head);
    }
}

/// Counts the reading as if one had held ever since the soak began.
fn one_read_is_enough(world: &mut World, cluster: &ModelCluster, now: Timestamp, read: bool) {
    let Some(observation) = world.observation.clone().filter(|_| read) else { return };
    // The gates before the first commit have the usual soak, whatever the cluster's policy says.
    let longest = cluster.policy.soak.max(StagePolicy::default().soak);
    let soak = SignedDuration::try_from(longest).unwrap_or(SignedDuration::ZERO);
    let committed_at = world.deploy.commits().last().map_or(now, |commit| commit.committed_at);
    let earlier = (observation.read_at - soak).max(committed_at + SignedDuration::from_millis(1));
    let mut past = observation.as_ref().clone();
    past.read_at = earlier;
    for probe in &mut past.webhooks {
        probe.probed_at = earlier;
    }
    world.observation = Some(Arc::new(past));
    world.history = record(world, earlier);
    world.observation = Some(observation);
    world.history = record(world, now);
}
