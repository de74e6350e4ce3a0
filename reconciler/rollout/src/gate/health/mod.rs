//! The cluster as a whole: healthy as it is, saved, and verified at the end.
//!
//! A backup counts for its own rollout, while it is there and younger than the policy says. Every
//! workload that was ready when the rollout began (the ledger's `before`) has to be ready again;
//! what was broken already is remarked on.

pub(in crate::gate) mod api_errors;
pub(in crate::gate) mod checks;
pub(in crate::gate) mod drain;
pub(crate) mod leftovers;
pub(in crate::gate) mod sidecars;

use std::time::Duration;

use bundles::KubernetesVersion;
use jiff::SignedDuration;

use crate::before::Before;
use crate::expectation::{
    ControlPlaneExpectation, EtcdExpectation, KubeletVersions, MachineOrderRules, MembersHeard, OldMembers,
    VerifiedExpectation, WorkersExpectation,
};
use crate::gate::TOLERATED_SKEW;
use crate::gate::etcd;
use crate::gate::extension;
use crate::gate::findings::{Findings, object};
use crate::gate::flux;
use crate::gate::machines::control_plane;
use crate::gate::machines::workers;
use crate::observation::{BackupFailure, BackupReport, ConditionStatus, ControlPlane, Observation};
use crate::verdict::Reason;
use domain::RolloutId;
use policy::ControlPlaneGate;

/// Nodes are ready, and control plane, worker groups, etcd and Flux are settled at whatever they declare.
pub(in crate::gate) fn check_cluster(cluster: Option<&str>, observation: &Observation, findings: &mut Findings) {
    check_nodes(observation, findings);
    flux::check_health(observation, findings);
    if let Some(cluster) = cluster {
        check_cluster_api(cluster, observation, findings);
    }
}

fn check_nodes(observation: &Observation, findings: &mut Findings) {
    if !findings.was_read("Node", observation) {
        return;
    }
    for node in observation.nodes.iter().filter(|node| node.ready != ConditionStatus::True) {
        let message = format!("{}, True expected", node.ready);
        let help = format!("kubectl describe node {}", node.name);
        findings.wait(Reason::on(format!("Node {}", node.name), message).field("status.conditions[Ready]").help(help));
    }
    findings.settle(format!("{} nodes", observation.nodes.len()));
    findings.fact("nodes", format!("{} ready", observation.nodes.len()));
}

fn check_cluster_api(cluster: &str, observation: &Observation, findings: &mut Findings) {
    let is_own = |known: &&ControlPlane| known.cluster == cluster && control_plane::is_referred_to(known, observation);
    let control_planes: Vec<_> = observation.control_planes.iter().filter(is_own).collect();
    if control_planes.is_empty() {
        let reference = observation
            .clusters
            .iter()
            .find(|known| known.name == cluster)
            .and_then(|known| known.control_plane.as_ref());
        let kind = reference.map(|reference| reference.kind.clone()).unwrap_or_default();
        if findings.was_read(kind.as_str(), observation) {
            let name = kind.as_str().to_lowercase();
            let help = format!("kubectl get {name} -A -l cluster.x-k8s.io/cluster-name={cluster}");
            findings.wait(Reason::on(format!("cluster {cluster}"), format!("has no {kind}")).help(help));
        }
    }
    let external: Vec<_> = observation.etcd_clusters.iter().filter(|known| known.cluster == cluster).collect();
    for known in &external {
        let expectation = EtcdExpectation {
            namespace: known.namespace.clone(),
            name: known.name.clone(),
            replicas: known.spec_replicas.unwrap_or(0),
            members: MembersHeard::WhenReported,
            old_members: OldMembers::Gone,
            ..EtcdExpectation::default()
        };
        etcd::check(&expectation, observation, findings);
    }
    for known in control_planes {
        let expectation = ControlPlaneExpectation {
            namespace: known.namespace.clone(),
            cluster: cluster.to_owned(),
            version: declared_version(known),
            replicas: None,
            infrastructure_template: None,
            stacked_etcd: external.is_empty(),
            kubelet_versions: KubeletVersions::WhenReported,
            kube_vip: None,
            order: MachineOrderRules::default(),
            gate: ControlPlaneGate::Whole,
        };
        control_plane::check(&expectation, observation, findings);
    }
    findings.was_read("MachineDeployment", observation);
    findings.was_read("MachinePool", observation);
    let deployments = observation.machine_deployments.iter().filter(|known| known.cluster == cluster);
    let deployments = deployments
        .map(|known| ("MachineDeployment", &known.namespace, &known.name, &known.group, &known.spec_version));
    let pools = observation.machine_pools.iter().filter(|known| known.cluster == cluster);
    let pools = pools.map(|known| ("MachinePool", &known.namespace, &known.name, &known.group, &known.spec_version));
    for (kind, namespace, name, group, version) in deployments.chain(pools) {
        let Some(group) = group else {
            findings.wait(Reason::on(object(kind, namespace, name), "its worker group is not known"));
            continue;
        };
        let expectation = WorkersExpectation {
            namespace: namespace.clone(),
            cluster: cluster.to_owned(),
            group: group.clone(),
            // What names no version keeps the one that it has.
            version: version.clone().unwrap_or_default(),
            replicas: None,
            infrastructure_template: None,
            bootstrap_template: None,
            kubelet_versions: KubeletVersions::WhenReported,
        };
        workers::check(&expectation, observation, findings);
    }
}

/// What a control plane is to be at: of a managed one that leaves it to its service, what that has chosen.
fn declared_version(control_plane: &ControlPlane) -> String {
    let chosen = control_plane.status_version.as_ref().filter(|_| control_plane.spec_version.is_empty());
    chosen.unwrap_or(&control_plane.spec_version).clone()
}

const BACKUP: &str = "backup of Cluster API objects";

/// A backup was taken for this very rollout and not too long ago, holds something, and was read back.
pub(in crate::gate) fn check_backup(
    rollout: &RolloutId,
    maximum_age: Duration,
    observation: &Observation,
    findings: &mut Findings,
) {
    if let Some(problem) = backup_problem(rollout, maximum_age, observation) {
        // Why there is no other says more than what is wrong with the last one.
        let failure = observation.backup_failure.as_ref().filter(|failure| failure.rollout == *rollout);
        findings.wait(failure.map_or(problem, failed_backup));
    } else if let Some(backup) = &observation.backup {
        findings.settle(backup.location.clone());
        let BackupReport { objects, location, taken_at, .. } = backup;
        findings.fact(BACKUP, format!("{objects} objects in {location}, taken at {taken_at}, read back"));
    }
}

/// Why the newest backup does not count; none where it does.
pub(in crate::gate) fn backup_problem(
    rollout: &RolloutId,
    maximum_age: Duration,
    observation: &Observation,
) -> Option<Reason> {
    let Some(backup) = &observation.backup else { return Some(Reason::on(BACKUP, "none yet")) };
    let age = observation.read_at.duration_since(backup.taken_at);
    let look = || format!("look into {}", backup.location);
    if &backup.rollout != rollout {
        Some(Reason::on(BACKUP, format!("the newest one is of rollout {}", backup.rollout)))
    } else if age > SignedDuration::try_from(maximum_age).unwrap_or(SignedDuration::MAX) {
        let message = format!("taken {} h ago, at most {} h are allowed", hours(age), maximum_age.as_secs() / 3600);
        Some(Reason::on(BACKUP, message).field("takenAt").help("backup.maxAge in stepgate.yaml says how old it may be"))
    } else if age < -TOLERATED_SKEW {
        let message = format!("taken at {}, which is yet to come", backup.taken_at);
        Some(Reason::on(BACKUP, message).field("takenAt").help(look()))
    } else if backup.objects == 0 {
        Some(Reason::on(BACKUP, "it holds no object").help(look()))
    } else if !backup.read_back {
        Some(Reason::on(BACKUP, "it was not read back").help(look()))
    } else {
        None
    }
}

fn hours(age: SignedDuration) -> i64 {
    age.as_secs() / 3600
}

fn failed_backup(failure: &BackupFailure) -> Reason {
    let BackupFailure { volume_full, message, at, .. } = failure;
    if *volume_full {
        return Reason::on(BACKUP, format!("volume full at {at}: {message}"))
            .help("free space on the volume of the backups (--backups), or lower backup.keep in stepgate.yaml");
    }
    Reason::on(BACKUP, format!("failed at {at}: {message}"))
}

/// Kinds that a survey counts.
const SURVEYED: [&str; 3] = ["Deployment", "DaemonSet", "StatefulSet"];

/// All workloads were looked at, whatever they are like.
pub(in crate::gate) fn check_survey(observation: &Observation, findings: &mut Findings) {
    if !SURVEYED.iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    let subject = "workloads";
    match &observation.survey {
        None => findings.wait(Reason::on(subject, "were not looked at yet")),
        Some(survey) => {
            findings.fact(subject, format!("{}, {} of them not ready", survey.workloads, survey.broken.len()));
        }
    }
}

/// Whatever was ready before is ready; what was not is remarked on.
fn check_before(before: &Before, observation: &Observation, findings: &mut Findings) {
    check_survey(observation, findings);
    let Some(survey) = &observation.survey else { return };
    let ready = observation.nodes.iter().filter(|node| node.ready == ConditionStatus::True).count();
    findings.fact("nodes before", format!("{} ready, {ready} now", before.ready_nodes));
    findings.fact("workloads before", format!("{}, {} now", before.workloads, survey.workloads));
    for broken in &survey.broken {
        if before.excuses(broken, survey) {
            findings.fact(broken, "is not ready, as it was before the rollout");
            continue;
        }
        let help = match broken.split_once(' ').and_then(|(kind, rest)| Some((kind, rest.split_once('/')?))) {
            Some((kind, (namespace, name))) => {
                format!("kubectl describe {} {name} -n {namespace}", kind.to_lowercase())
            }
            None => "kubectl get deployments,daemonsets,statefulsets -A".to_owned(),
        };
        let message = "is not ready, and was not among those that were broken before the rollout";
        findings.wait(Reason::on(broken.clone(), message).help(help));
    }
}

/// Healthy, every node at the version, nothing left over, nothing worse than before.
pub(in crate::gate) fn check_verified(
    expectation: &VerifiedExpectation,
    observation: &Observation,
    findings: &mut Findings,
) {
    check_cluster(expectation.cluster.as_deref(), observation, findings);
    for leftover in &expectation.leftovers {
        extension::check_absent(leftover, observation, findings);
    }
    if let Some(before) = &expectation.before {
        check_before(before, observation, findings);
        sidecars::check_before(before, observation, findings);
        api_errors::check(before, observation, findings);
        leftovers::check(expectation.cluster.as_deref(), before, observation, findings);
    }
    let Some(expected) = &expectation.version else { return };
    let Ok(version) = expected.parse::<KubernetesVersion>() else {
        findings.fail(Reason::new(format!("the expected version {expected:?} is not a valid Kubernetes version")));
        return;
    };
    for node in &observation.nodes {
        let subject = format!("Node {}", node.name);
        let field = "status.nodeInfo.kubeletVersion";
        let help = format!("kubectl describe node {}", node.name);
        match node.kubelet_version.as_deref().filter(|reported| !reported.is_empty()) {
            Some(reported) if version.is_met_by_kubelet(reported) => {}
            Some(reported) => {
                findings.wait(Reason::on(subject, format!("{reported}, {expected} expected")).field(field).help(help));
            }
            None => match expectation.kubelet_versions {
                KubeletVersions::Required => findings.wait(Reason::on(subject, "not reported").field(field).help(help)),
                KubeletVersions::WhenReported => {}
            },
        }
    }
}
