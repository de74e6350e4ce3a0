//! Wrong ideas of what a cluster is at.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use policy::StagePolicy;
use rollout::{
    ConditionStatus, DaemonSet, Deployment, EtcdHealth, EtcdMembership, Expectation, Machine, Observation, PlacedPod,
    RunningImage, World, record,
};

use super::{Defect, ModelCluster};

/// What `defect` takes the last reading for.
pub(super) fn distort(defect: Defect, world: &mut World) {
    match defect {
        Defect::JudgesByCounts => judge_by_counts(world),
        Defect::TakesAnyRevision => take_any_revision(world),
        Defect::TrustsMachineObjects => trust_machine_objects(world),
        Defect::TrustsDeployments => with_reading(world, |read| read.deployments.iter_mut().for_each(trust_deployment)),
        Defect::TrustsDaemonSets => with_reading(world, trust_daemon_sets),
        Defect::TrustsControlPlanes => {
            trust_machine_objects(world);
            with_reading(world, |read| trust_owners(read, Owners::ControlPlanes));
            trust_kube_vip(world);
        }
        Defect::TrustsWorkers => {
            trust_machine_objects(world);
            with_reading(world, |read| trust_owners(read, Owners::Workers));
        }
        Defect::TrustsEtcd => {
            trust_machine_objects(world);
            with_reading(world, trust_etcd);
        }
        _ => {}
    }
}

fn with_reading(world: &mut World, change: impl FnOnce(&mut Observation)) {
    if let Some(observation) = world.observation.as_mut().map(Arc::make_mut) {
        change(observation);
    }
}

/// What a Deployment wants is what runs.
fn trust_deployment(deployment: &mut Deployment) {
    let all = Some(deployment.spec_replicas);
    deployment.observed_generation = Some(deployment.generation);
    deployment.replicas = all;
    deployment.updated_replicas = all;
    deployment.ready_replicas = all;
    deployment.available_replicas = all;
    for (kind, condition) in &mut deployment.conditions {
        if kind == "Available" || kind == "Progressing" {
            condition.status = ConditionStatus::True;
        }
    }
    let pods = (0..deployment.spec_replicas).map(|number| format!("{}-{number}", deployment.name));
    deployment.running = pods.flat_map(|pod| running(&pod, &deployment.images)).collect();
}

fn running(pod: &str, images: &[String]) -> Vec<RunningImage> {
    let container = |image: &String| RunningImage {
        pod: pod.to_owned(),
        container: "main".to_owned(),
        image: image.clone(),
        digest: digest(image),
        ready: true,
        waiting: None,
        deleting: false,
    };
    images.iter().map(container).collect()
}

/// What a `DaemonSet` wants is what runs on every node.
fn trust_daemon_sets(observation: &mut Observation) {
    let nodes: Vec<String> = observation.nodes.iter().map(|node| node.name.clone()).collect();
    for daemon_set in &mut observation.daemon_sets {
        trust_daemon_set(daemon_set, &nodes);
    }
}

fn trust_daemon_set(daemon_set: &mut DaemonSet, nodes: &[String]) {
    let all = daemon_set.desired_scheduled;
    daemon_set.observed_generation = Some(daemon_set.generation);
    daemon_set.current_scheduled = all;
    daemon_set.updated_scheduled = all;
    daemon_set.ready = all;
    daemon_set.available = all;
    daemon_set.misscheduled = Some(0);
    daemon_set.running = nodes.iter().flat_map(|node| running(node, &daemon_set.images)).collect();
    let placed = |node: &String| PlacedPod {
        pod: format!("{}-{node}", daemon_set.name),
        node: node.clone(),
        template: daemon_set.template.clone(),
        ready: true,
    };
    daemon_set.pods = nodes.iter().map(placed).collect();
}

/// The members that there are, are those that are wanted.
fn trust_etcd(observation: &mut Observation) {
    for etcd in &mut observation.etcd_clusters {
        etcd.observed_generation = Some(etcd.generation);
        etcd.ready = Some(true);
        etcd.ready_replicas = etcd.spec_replicas;
        for condition in etcd.conditions.values_mut() {
            (condition.status, condition.observed_generation) = (ConditionStatus::True, Some(etcd.generation));
        }
        if let Some(EtcdMembership::Known { members }) = &mut etcd.membership {
            members.iter_mut().for_each(|member| member.health = EtcdHealth::Healthy);
        }
    }
}

/// Whose machines are believed to be what they are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owners {
    ControlPlanes,
    Workers,
}

/// What owners want is what their machines are.
fn trust_owners(observation: &mut Observation, owners: Owners) {
    match owners {
        Owners::ControlPlanes => {
            for known in &mut observation.control_planes {
                known.observed_generation = Some(known.generation);
                known.status_version = Some(known.spec_version.clone());
                let all = known.spec_replicas;
                (known.replicas, known.up_to_date_replicas) = (all, all);
                (known.ready_replicas, known.available_replicas) = (all, all);
                for condition in known.conditions.values_mut() {
                    condition.observed_generation = Some(known.generation);
                }
            }
        }
        Owners::Workers => {
            for known in &mut observation.machine_deployments {
                known.observed_generation = Some(known.generation);
                let all = known.spec_replicas;
                (known.replicas, known.up_to_date_replicas) = (all, all);
                (known.ready_replicas, known.available_replicas) = (all, all);
                for condition in known.conditions.values_mut() {
                    condition.observed_generation = Some(known.generation);
                }
            }
            observation.machine_sets.clear();
        }
    }
    trust_machines(observation, |machine| machine.control_plane == (owners == Owners::ControlPlanes));
}

/// These machines and their nodes look like what their owners want.
fn trust_machines(observation: &mut Observation, which: impl Fn(&Machine) -> bool) {
    let wanted = |owner: &Option<String>| {
        let of_control_planes = observation.control_planes.iter().find(|known| Some(&known.name) == owner.as_ref());
        let of_workers = observation.machine_deployments.iter().find(|known| Some(&known.name) == owner.as_ref());
        of_control_planes.map(|known| (known.spec_version.clone(), None)).or_else(|| {
            of_workers.and_then(|known| Some((known.spec_version.clone()?, known.infrastructure_template.clone())))
        })
    };
    for machine in observation.machines.iter_mut().filter(|machine| which(machine)) {
        let Some((version, template)) = wanted(&machine.owner) else { continue };
        machine.kubelet_version = Some(version.clone());
        machine.spec_version = Some(version);
        machine.infrastructure_template = template.or(machine.infrastructure_template.take());
        if let Some(condition) = machine.conditions.get_mut("UpToDate") {
            condition.status = ConditionStatus::True;
        }
    }
    for node in &mut observation.nodes {
        let machine = observation.machines.iter().find(|machine| machine.node.as_ref() == Some(&node.name));
        node.kubelet_version = machine.and_then(|machine| machine.kubelet_version.clone());
    }
}

fn judge_by_counts(world: &mut World) {
    trust_machine_objects(world);
    with_reading(world, |observation| {
        for control_plane in &mut observation.control_planes {
            control_plane.observed_generation = Some(control_plane.generation);
            for condition in control_plane.conditions.values_mut() {
                condition.observed_generation = Some(control_plane.generation);
            }
            control_plane.status_version = Some(control_plane.spec_version.clone());
        }
        trust_machines(observation, |_| true);
        observation.machine_sets.clear();
    });
    trust_kube_vip(world);
}

/// Whatever announces the virtual address runs the newest image.
fn trust_kube_vip(world: &mut World) {
    let expectations = world.plan.stages.iter().flat_map(|stage| &stage.expectations);
    let newest = expectations.filter_map(|expectation| match expectation {
        Expectation::ControlPlane(control_plane) => control_plane.kube_vip.as_ref()?.image.clone(),
        _ => None,
    });
    let Some(image) = newest.collect::<Vec<_>>().into_iter().next() else { return };
    with_reading(world, |observation| {
        for running in observation.pods.iter_mut().flat_map(|pod| &mut pod.running) {
            running.image.clone_from(&image);
            running.digest = digest(&image);
        }
    });
}

fn digest(image: &str) -> Option<String> {
    image.split_once('@').map(|(_, digest)| digest.to_owned())
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
pub(super) fn one_read_is_enough(world: &mut World, cluster: &ModelCluster, now: Timestamp, read: bool) {
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
