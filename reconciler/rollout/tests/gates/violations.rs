//! One violation of every clause.

use std::collections::BTreeMap;

use domain::PlanDigest;
use jiff::SignedDuration;
use rollout::{
    Artifacts, BackupFailure, Condition, ConditionStatus, EtcdHealth, EtcdMember, EtcdMembership, Machine, MachineSet,
    ObjectReference, Observation, Reachability, RunningImage, SourceKind, TakenField, Unfinished, WebhookOutcome,
    conditions,
};

use super::healthy::*;

/// What breaks, and what the reason has to mention.
pub type Violation = (&'static str, fn(&mut Observation), &'static str);

pub fn set(conditions: &mut BTreeMap<String, Condition>, name: &str, status: ConditionStatus) {
    conditions.get_mut(name).unwrap().status = status;
}

/// What the members of etcd say of themselves.
fn words(observation: &mut Observation) -> &mut Vec<EtcdMember> {
    match observation.etcd_clusters[0].membership.as_mut().unwrap() {
        EtcdMembership::Known { members } => members,
        EtcdMembership::Unknown { reason } => panic!("{reason}"),
    }
}

/// One violation of every clause.
pub const VIOLATIONS: &[Violation] = &[
    ("unreachable", |o| o.reachable = Reachability::Unreachable { reason: "refused".into() }, "refused"),
    ("unconfirmed", |o| o.confirmed = false, "not confirmed"),
    ("stale", |o| o.read_at = second(-1000), "old"),
    ("from the future", |o| o.read_at = second(30), "ahead of the clock"),
    ("before the commit", |o| o.read_at = second(-60), "before commit"),
    ("kustomizations not read", |o| drop(o.unread.insert("Kustomization".into(), "forbidden".into())), "forbidden"),
    ("machines not read", |o| drop(o.unread.insert("Machine".into(), "forbidden".into())), "forbidden"),
    ("nodes not read", |o| drop(o.unread.insert("Node".into(), "forbidden".into())), "forbidden"),
    ("source suspended", |o| o.flux.sources[0].suspended = true, "suspended"),
    ("source gone", |o| o.flux.sources.clear(), "not found"),
    ("source not ready", |o| o.flux.sources[0].ready.as_mut().unwrap().status = ConditionStatus::False, "Ready"),
    ("source stale", |o| o.flux.sources[0].observed_generation = Some(1), "stale"),
    ("source behind", |o| o.flux.sources[0].artifact_revision = Some(commit('a')), "does not contain"),
    (
        "source that names no commit",
        |o| o.flux.kustomizations[0].source_kind = SourceKind::Other("Bucket".into()),
        "Bucket flux-system/fleet: names no commit",
    ),
    (
        "source of another kind of the same name",
        |o| o.flux.kustomizations[0].source_kind = SourceKind::OciRepository,
        "OCIRepository flux-system/fleet: not found",
    ),
    (
        "artifact that names no commit",
        |o| {
            let source = &mut o.flux.sources[0];
            source.kind = SourceKind::OciRepository;
            (source.artifact, source.artifact_revision) = (Some("latest@sha256:00".into()), None);
            o.flux.kustomizations[0].source_kind = SourceKind::OciRepository;
        },
        "org.opencontainers.image.revision",
    ),
    (
        "another artifact being tried",
        |o| {
            o.flux.kustomizations[0].artifacts =
                Artifacts { applied: Some("latest@sha256:00".into()), attempted: Some("latest@sha256:11".into()) };
        },
        "latest@sha256:11 is being tried",
    ),
    ("kustomization gone", |o| o.flux.kustomizations.clear(), "not found"),
    ("kustomization suspended", |o| o.flux.kustomizations[0].suspended = true, "suspended"),
    ("kustomization disabled", |o| o.flux.kustomizations[0].reconcile_disabled = true, "disabled"),
    ("kustomization stale", |o| o.flux.kustomizations[0].observed_generation = Some(1), "stale"),
    ("kustomization without generation", |o| o.flux.kustomizations[0].observed_generation = None, "not set"),
    (
        "kustomization not ready",
        |o| o.flux.kustomizations[0].ready.as_mut().unwrap().status = ConditionStatus::Unknown,
        "Ready",
    ),
    ("kustomization without condition", |o| o.flux.kustomizations[0].ready = None, "not reported"),
    (
        "ready of an earlier generation",
        |o| o.flux.kustomizations[0].ready.as_mut().unwrap().observed_generation = Some(1),
        "generation 1",
    ),
    ("the revision before", |o| o.flux.kustomizations[0].last_applied_revision = Some(commit('a')), "does not contain"),
    ("no revision", |o| o.flux.kustomizations[0].last_applied_revision = None, "not set"),
    ("being tried", |o| o.flux.kustomizations[0].last_attempted_revision = Some(commit('b')), "being tried"),
    ("deployment gone", |o| o.deployments.clear(), "not found"),
    ("deployment deleted", |o| o.deployments[0].deleting = true, "deleted"),
    ("deployment paused", |o| o.deployments[0].paused = true, "paused"),
    ("deployment stale", |o| o.deployments[0].observed_generation = Some(1), "stale"),
    ("deployment scaled to zero", |o| o.deployments[0].spec_replicas = 0, "zero"),
    ("deployment not updated", |o| o.deployments[0].updated_replicas = Some(1), "updatedReplicas"),
    ("deployment with old pods", |o| o.deployments[0].replicas = Some(3), "status.replicas"),
    ("deployment not ready", |o| o.deployments[0].ready_replicas = None, "readyReplicas"),
    ("deployment not available", |o| o.deployments[0].available_replicas = Some(1), "availableReplicas"),
    (
        "deployment Available False",
        |o| set(&mut o.deployments[0].conditions, "Available", ConditionStatus::False),
        "Available",
    ),
    (
        "deadline exceeded",
        |o| o.deployments[0].conditions.get_mut("Progressing").unwrap().reason = "ProgressDeadlineExceeded".into(),
        "Progress",
    ),
    (
        "another image",
        |o| o.deployments[0].images = vec!["registry.example/manager:v1".into()],
        "is expected and not there",
    ),
    ("a further image", |o| o.deployments[0].images.push("registry.example/sidecar:v1".into()), "not expected"),
    ("an old digest runs", |o| o.deployments[0].running[0].digest = Some(DIGEST.replace('a', "b")), "was not rendered"),
    ("no digest", |o| o.deployments[0].running[0].digest = None, "no digest"),
    ("a pod too few", |o| drop(o.deployments[0].running.pop()), "1 of 2 pods"),
    ("a pod not ready", |o| o.deployments[0].running[0].ready = false, "not ready"),
    (
        "a pod in back-off",
        |o| o.deployments[0].running[0].waiting = Some("ImagePullBackOff".into()),
        "ImagePullBackOff",
    ),
    (
        "an old pod",
        |o| o.deployments[0].running.push(RunningImage { deleting: true, ..running("z") }),
        "still being deleted",
    ),
    (
        "a second writer",
        |o| {
            let object = o.objects[0].reference.clone();
            let (field, manager) = (String::from("spec.replicas"), String::from("kubectl"));
            o.taken.push(TakenField { object, field, added: false, manager, at: None });
        },
        "taken over by `kubectl`",
    ),
    (
        "a patch that somebody added",
        |o| {
            let object = ObjectReference {
                api_version: "kustomize.toolkit.fluxcd.io/v1".into(),
                kind: "Kustomization".into(),
                namespace: Some("flux-system".into()),
                name: "capi".into(),
            };
            let (field, manager) = (String::from("spec.patches"), String::from("kubectl"));
            o.taken.push(TakenField { object, field, added: true, manager, at: None });
        },
        "added by `kubectl`",
    ),
    ("daemon set gone", |o| o.daemon_sets.clear(), "not found"),
    ("daemon set deleted", |o| o.daemon_sets[0].deleting = true, "deleted"),
    ("daemon set stale", |o| o.daemon_sets[0].observed_generation = None, "not set"),
    (
        "daemon set wants none",
        |o| {
            let set = &mut o.daemon_sets[0];
            (set.desired_scheduled, set.current_scheduled, set.updated_scheduled) = (Some(0), Some(0), Some(0));
            (set.ready, set.available) = (Some(0), Some(0));
        },
        "although the cluster has nodes",
    ),
    ("daemon set not counted", |o| o.daemon_sets[0].desired_scheduled = None, "not set"),
    ("daemon set not updated", |o| o.daemon_sets[0].updated_scheduled = Some(1), "updatedNumberScheduled"),
    ("daemon set not scheduled", |o| o.daemon_sets[0].current_scheduled = Some(1), "currentNumberScheduled"),
    ("daemon set not ready", |o| o.daemon_sets[0].ready = None, "numberReady"),
    ("daemon set not available", |o| o.daemon_sets[0].available = Some(1), "numberAvailable"),
    (
        "daemon set with an old digest",
        |o| o.daemon_sets[0].running[1].digest = Some("sha256:0".into()),
        "was not rendered",
    ),
    ("definition gone", |o| o.custom_resource_definitions.clear(), "not found"),
    ("definition deleted", |o| o.custom_resource_definitions[0].deleting = true, "deleted"),
    ("definition not established", |o| o.custom_resource_definitions[0].established = false, "Established"),
    ("names not accepted", |o| o.custom_resource_definitions[0].names_accepted = false, "NamesAccepted"),
    ("a version not served", |o| drop(o.custom_resource_definitions[0].served_versions.remove(0)), "not served"),
    (
        "another storage version",
        |o| o.custom_resource_definitions[0].storage_version = Some("v1beta1".into()),
        "v1beta2 expected",
    ),
    (
        "stored at a dropped version",
        |o| o.custom_resource_definitions[0].stored_versions.push("v1alpha4".into()),
        "v1alpha4",
    ),
    ("stored versions unknown", |o| o.custom_resource_definitions[0].stored_versions.clear(), "storedVersions"),
    (
        "no authority in the conversion",
        |o| o.custom_resource_definitions[0].conversion_authority_injected = Some(false),
        "caBundle",
    ),
    ("webhook not called", |o| o.webhooks.clear(), "not called"),
    ("webhook called before", |o| o.webhooks[0].probed_at = second(-61), "before the commit"),
    (
        "webhook down",
        |o| o.webhooks[0].outcome = WebhookOutcome::Unreachable { message: "no endpoints".into() },
        "no endpoints",
    ),
    (
        "webhook unproven",
        |o| o.webhooks[0].outcome = WebhookOutcome::Unproven { message: "no endpoint".into() },
        "is not proven to answer: no endpoint",
    ),
    ("object not asked for", |o| o.objects.clear(), "was not read"),
    ("object absent", |o| o.objects[0].present = false, "not found"),
    ("object deleted", |o| o.objects[0].deleting = true, "deleted"),
    ("leftover", |o| o.objects[1].present = true, "still there"),
    (
        "an object that is not finished",
        |o| {
            let (field, message) = ("status.readyReplicas".into(), "1, 3 expected".into());
            o.objects[0].unfinished = Some(Unfinished { field, message, failed: false });
        },
        "1, 3 expected",
    ),
    ("a node that vanished", |o| drop(o.nodes.pop()), "is not there any more"),
    (
        "a machine that belongs to nothing",
        |o| {
            let lost = Machine { name: "lost".into(), owner: Some("gone".into()), ..o.machines[0].clone() };
            o.machines.push(Machine { control_plane: false, ..lost });
        },
        "belongs to no control plane, worker group or etcd cluster",
    ),
    (
        "a set of machines that belongs to nothing",
        |o| {
            let lost = MachineSet { name: "lost".into(), machine_deployment: None, ..o.machine_sets[0].clone() };
            o.machine_sets.push(MachineSet { replicas: Some(2), ..lost });
        },
        "belongs to no MachineDeployment, and still has 2 machines",
    ),
    ("workloads not surveyed", |o| o.survey = None, "were not looked at"),
    ("stateful sets not read", |o| drop(o.unread.insert("StatefulSet".into(), "forbidden".into())), "forbidden"),
    (
        "a workload was well before",
        |o| o.survey.as_mut().unwrap().broken.push("StatefulSet shop/orders".into()),
        "StatefulSet shop/orders: is not ready",
    ),
    ("nothing inspected", |o| o.inspection = None, "check nodes: the cluster was not looked at"),
    ("disk full", |o| o.nodes[0].pressures.push("DiskPressure".into()), "check nodes: DiskPressure is True"),
    (
        "certificates about to end",
        |o| o.machines[0].certificates_end = Some(second(3600)),
        "check certificates: API server and etcd certificates: ends at",
    ),
    ("no backup", |o| o.backup = None, "none yet"),
    (
        "another rollout's backup",
        |o| o.backup.as_mut().unwrap().rollout = PlanDigest::of([b"other".as_slice()]).rollout_id(),
        "of rollout",
    ),
    (
        "an old backup",
        |o| o.backup.as_mut().unwrap().taken_at = o.read_at - SignedDuration::from_hours(25),
        "taken 25 h ago, at most 24 h are allowed",
    ),
    (
        "a backup of tomorrow",
        |o| o.backup.as_mut().unwrap().taken_at = o.read_at + SignedDuration::from_hours(24),
        "is yet to come",
    ),
    (
        "no room for a backup",
        |o| {
            o.backup = None;
            let (rollout, message) = (rollout_id(), String::from("no space left"));
            o.backup_failure = Some(BackupFailure { rollout, at: o.read_at, volume_full: true, message });
        },
        "volume full at",
    ),
    ("an empty backup", |o| o.backup.as_mut().unwrap().objects = 0, "no object"),
    ("a backup not read back", |o| o.backup.as_mut().unwrap().read_back = false, "not read back"),
    ("etcd gone", |o| o.etcd_clusters.clear(), "not found"),
    ("etcd paused", |o| o.etcd_clusters[0].paused = true, "paused"),
    ("etcd deleted", |o| o.etcd_clusters[0].deleting = true, "deleted"),
    ("etcd stale", |o| o.etcd_clusters[0].observed_generation = Some(1), "stale"),
    ("etcd not ready", |o| o.etcd_clusters[0].ready = None, "status.ready"),
    ("a member missing", |o| o.etcd_clusters[0].ready_replicas = Some(2), "status.replicas"),
    ("another member count", |o| o.etcd_clusters[0].spec_replicas = Some(5), "spec.replicas"),
    ("etcd being created", |o| o.etcd_clusters[0].creation_complete = Some(false), "creationComplete"),
    (
        "a member of the old template",
        |o| o.machines[5].infrastructure_template = Some("etcd-template-1".into()),
        "made from",
    ),
    ("a member being deleted", |o| o.machines[6].deleting = true, "Machine eksa-system/etcd-1"),
    ("a member gone", |o| drop(o.machines.pop()), "EtcdadmCluster eksa-system/prod-etcd: machines: 2, 3 expected"),
    ("a member without owner", |o| o.machines[7].owner = None, "EtcdadmCluster eksa-system/prod-etcd: machines: 2"),
    (
        "members that could not be asked",
        |o| {
            let reason = String::from("Secret eksa-system/prod-etcd is not there");
            o.etcd_clusters[0].membership = Some(EtcdMembership::Unknown { reason });
        },
        "its members could not be asked: Secret eksa-system/prod-etcd is not there",
    ),
    ("members that were not asked", |o| o.etcd_clusters[0].membership = None, "its members were not asked yet"),
    ("etcd as before the commit", |o| o.etcd_clusters[0].generation = 1, "as before the commit"),
    (
        "members of the old specification",
        |o| o.etcd_clusters[0].conditions = conditions([("EtcdMachinesSpecUpToDate", ConditionStatus::False)]),
        "EtcdMachinesSpecUpToDate",
    ),
    (
        "a member that is not healthy",
        |o| words(o)[1].health = EtcdHealth::Unhealthy { reason: "alarm NOSPACE".into() },
        "Machine eksa-system/etcd-1: /health: not healthy: alarm NOSPACE",
    ),
    (
        "a member that does not answer",
        |o| words(o)[1].health = EtcdHealth::Down { reason: "connection refused".into() },
        "Machine eksa-system/etcd-1: /health: does not answer",
    ),
    (
        "a member that could not be asked",
        |o| words(o)[1].health = EtcdHealth::Unknown { reason: "no answer within 5 s".into() },
        "Machine eksa-system/etcd-1: /health: not known",
    ),
    ("a member that learns", |o| words(o)[2].learner = true, "still learns"),
    ("a member of the old version", |o| words(o)[0].version = Some("3.5.15".into()), "/version: 3.5.15"),
    ("a member of no known version", |o| words(o)[0].version = None, "/version: not reported"),
    ("a machine that is no member", |o| drop(words(o).pop()), "Machine eksa-system/etcd-2: members: is not among"),
    (
        "a member without a machine",
        |o| words(o).push(EtcdMember { hosts: vec!["192.0.2.9".into()], ..word("etcd-9") }),
        "EtcdadmCluster eksa-system/prod-etcd: members: etcd-9 (etcd-9) at 192.0.2.9 is among the members",
    ),
    (
        "old machines without end",
        |o| {
            for name in ["etcd-3", "etcd-4", "etcd-5", "etcd-6"] {
                o.machines.push(Machine { owner: None, ..member(name) });
                words(o).push(word(name));
            }
        },
        "4 machines without an owner, at most 3",
    ),
    (
        "quorum lost",
        |o| {
            for word in words(o).iter_mut() {
                word.health = EtcdHealth::Unhealthy { reason: "RAFT NO LEADER".into() };
            }
        },
        "has lost its quorum: 0 of 3 members can vote, 2 are needed",
    ),
    (
        "etcd of another template",
        |o| {
            o.etcd_clusters[0].infrastructure_template = Some("etcd-template-1".into());
            o.machines[5..].iter_mut().for_each(|m| m.infrastructure_template = Some("etcd-template-1".into()));
        },
        "spec.infrastructureTemplate.name: etcd-template-1",
    ),
    (
        "EKS Anywhere not read",
        |o| drop(o.unread.insert("clusters.anywhere.eks.amazonaws.com".into(), "forbidden".into())),
        "forbidden",
    ),
    (
        "machine configurations not read",
        |o| drop(o.unread.insert("VSphereMachineConfig".into(), "forbidden".into())),
        "forbidden",
    ),
    ("EKS Anywhere's cluster gone", |o| o.eksa_clusters.clear(), "EKS Anywhere Cluster default/prod: not found"),
    ("EKS Anywhere's cluster deleted", |o| o.eksa_clusters[0].deleting = true, "deleted"),
    ("EKS Anywhere's cluster paused", |o| o.eksa_clusters[0].paused = true, "anywhere.eks.amazonaws.com/paused"),
    (
        "EKS Anywhere refuses the cluster",
        |o| o.eksa_clusters[0].failure = Some("machine config invalid".into()),
        "status.failureMessage: machine config invalid",
    ),
    ("EKS Anywhere has not begun", |o| o.eksa_clusters[0].observed_generation = Some(3), "stale"),
    ("EKS Anywhere has never begun", |o| o.eksa_clusters[0].observed_generation = None, "not set"),
    (
        "EKS Anywhere has not finished",
        |o| o.eksa_clusters[0].reconciled_generation = Some(3),
        "has not carried out generation 4",
    ),
    ("EKS Anywhere has never finished", |o| o.eksa_clusters[0].reconciled_generation = None, "reconciledGeneration"),
    (
        "EKS Anywhere has not seen the machine configuration",
        |o| o.eksa_clusters[0].children_reconciled_generation = Some(2),
        "2, at least 3 expected",
    ),
    (
        "EKS Anywhere counts no children",
        |o| o.eksa_clusters[0].children_reconciled_generation = None,
        "childrenReconciledGeneration",
    ),
    ("a machine configuration gone", |o| o.objects[2].present = false, "VSphereMachineConfig default/prod-etcd"),
    (
        "topology of an earlier generation",
        |o| o.clusters[0].conditions.get_mut("TopologyReconciled").unwrap().observed_generation = Some(1),
        "TopologyReconciled]: of generation 1",
    ),
    (
        "topology not written",
        |o| {
            let condition = o.clusters[0].conditions.get_mut("TopologyReconciled").unwrap();
            (condition.status, condition.reason) = (ConditionStatus::False, "ReconcileFailed".into());
        },
        "ReconcileFailed",
    ),
    ("topology not reported", |o| o.clusters[0].conditions.clear(), "TopologyReconciled"),
    ("cluster paused", |o| o.clusters[0].paused = true, "paused"),
    ("cluster deleted", |o| o.clusters[0].deleting = true, "deleted"),
    ("topology elsewhere", |o| o.clusters[0].topology_version = Some("v1.36.0".into()), "topology"),
    ("control plane gone", |o| o.control_planes.clear(), "not found"),
    ("two control planes", |o| o.control_planes.push(o.control_planes[0].clone()), "one expected"),
    ("control plane paused", |o| o.control_planes[0].paused = true, "paused"),
    (
        "control plane paused before it has seen what is asked of it",
        |o| {
            let control_plane = &mut o.control_planes[0];
            (control_plane.paused, control_plane.generation) = (true, control_plane.generation + 1);
        },
        "paused, and its status is stale",
    ),
    ("control plane deleted", |o| o.control_planes[0].deleting = true, "deleted"),
    ("control plane of another version", |o| o.control_planes[0].spec_version = "v1.34.0".into(), "spec.version"),
    (
        "control plane of another release",
        |o| o.control_planes[0].spec_version = "v1.35.0-eks-1-35-3".into(),
        "spec.version",
    ),
    ("control plane stale", |o| o.control_planes[0].observed_generation = Some(1), "stale"),
    ("control plane not initialised", |o| o.control_planes[0].observed_generation = None, "not set"),
    ("status version behind", |o| o.control_planes[0].status_version = Some("v1.34.0".into()), "status.version"),
    ("status version absent", |o| o.control_planes[0].status_version = None, "status.version"),
    ("replicas unknown", |o| o.control_planes[0].spec_replicas = None, "spec.replicas"),
    ("a replica too many", |o| o.control_planes[0].replicas = Some(4), "status.replicas"),
    ("not up to date", |o| o.control_planes[0].up_to_date_replicas = Some(2), "upToDateReplicas"),
    ("not ready", |o| o.control_planes[0].ready_replicas = Some(2), "readyReplicas"),
    ("not available", |o| o.control_planes[0].available_replicas = None, "availableReplicas"),
    ("RollingOut", |o| set(&mut o.control_planes[0].conditions, "RollingOut", ConditionStatus::True), "RollingOut"),
    ("ScalingUp", |o| set(&mut o.control_planes[0].conditions, "ScalingUp", ConditionStatus::True), "ScalingUp"),
    (
        "ScalingDown",
        |o| set(&mut o.control_planes[0].conditions, "ScalingDown", ConditionStatus::Unknown),
        "ScalingDown",
    ),
    ("Remediating", |o| set(&mut o.control_planes[0].conditions, "Remediating", ConditionStatus::True), "Remediating"),
    ("Deleting", |o| set(&mut o.control_planes[0].conditions, "Deleting", ConditionStatus::True), "Deleting"),
    ("Paused", |o| set(&mut o.control_planes[0].conditions, "Paused", ConditionStatus::True), "Paused"),
    (
        "MachinesUpToDate",
        |o| set(&mut o.control_planes[0].conditions, "MachinesUpToDate", ConditionStatus::False),
        "MachinesUpToDate",
    ),
    (
        "MachinesReady",
        |o| set(&mut o.control_planes[0].conditions, "MachinesReady", ConditionStatus::Unknown),
        "MachinesReady",
    ),
    ("Available", |o| set(&mut o.control_planes[0].conditions, "Available", ConditionStatus::Unknown), "Available"),
    (
        "EtcdClusterHealthy",
        |o| set(&mut o.control_planes[0].conditions, "EtcdClusterHealthy", ConditionStatus::False),
        "EtcdClusterHealthy",
    ),
    (
        "components",
        |o| set(&mut o.control_planes[0].conditions, "ControlPlaneComponentsHealthy", ConditionStatus::False),
        "Components",
    ),
    (
        "certificates",
        |o| set(&mut o.control_planes[0].conditions, "CertificatesAvailable", ConditionStatus::False),
        "Certificates",
    ),
    ("condition absent", |o| drop(o.control_planes[0].conditions.remove("RollingOut")), "not reported"),
    (
        "condition of an earlier generation",
        |o| {
            o.control_planes[0].conditions.get_mut("MachinesUpToDate").unwrap().observed_generation = Some(1);
        },
        "of generation 1",
    ),
    (
        "control plane of another template",
        |o| o.control_planes[0].infrastructure_template = Some("template-1".into()),
        "infrastructureRef.name: template-1, template-2 expected",
    ),
    (
        "a control-plane machine of the old template",
        |o| o.machines[1].infrastructure_template = Some("template-1".into()),
        "Machine eksa-system/cp-1",
    ),
    ("a machine gone", |o| drop(o.machines.remove(0)), "machines"),
    (
        "an old machine more",
        |o| o.machines.push(Machine { spec_version: Some("v1.34.0".into()), ..machine("cp-9", "prod", true) }),
        "machines",
    ),
    ("a machine of nobody", |o| o.machines[0].owner = None, "owned by nobody"),
    ("a machine of another", |o| o.machines[0].owner = Some("other".into()), "owned by other"),
    ("an old machine", |o| o.machines[2].spec_version = Some("v1.34.0".into()), "v1.34.0"),
    ("a machine without version", |o| o.machines[1].spec_version = None, "spec.version"),
    ("a machine being deleted", |o| o.machines[1].deleting = true, "deleted"),
    ("a machine updating", |o| set(&mut o.machines[0].conditions, "Updating", ConditionStatus::True), "Updating"),
    (
        "a machine not up to date",
        |o| set(&mut o.machines[0].conditions, "UpToDate", ConditionStatus::False),
        "UpToDate",
    ),
    (
        "a machine not healthy",
        |o| set(&mut o.machines[0].conditions, "NodeHealthy", ConditionStatus::Unknown),
        "NodeHealthy",
    ),
    ("a machine not ready", |o| drop(o.machines[0].conditions.remove("Ready")), "Ready"),
    (
        "an etcd member",
        |o| set(&mut o.machines[0].conditions, "EtcdMemberHealthy", ConditionStatus::False),
        "EtcdMemberHealthy",
    ),
    (
        "a machine's condition is old",
        |o| o.machines[0].conditions.get_mut("UpToDate").unwrap().observed_generation = Some(1),
        "of generation 1",
    ),
    ("a machine without node", |o| o.machines[0].node = None, "nodeRef"),
    ("another kubelet", |o| o.machines[0].kubelet_version = Some("v1.34.2-eks-6f07bbc".into()), "kubeletVersion"),
    (
        "no kubelet version",
        |o| {
            o.machines[0].kubelet_version = None;
            o.nodes[0].kubelet_version = None;
        },
        "kubeletVersion",
    ),
    ("a node not ready", |o| o.nodes[0].ready = ConditionStatus::Unknown, "Node node-cp-0"),
    ("a node's kubelet", |o| o.nodes[4].kubelet_version = Some("v1.34.2".into()), "kubeletVersion"),
    ("kube-vip gone", |o| drop(o.pods.remove(0)), "no such pod"),
    ("kube-vip not ready", |o| o.pods[0].ready = false, "not ready"),
    ("an old kube-vip", |o| o.pods[0].running[0].digest = Some("sha256:0".into()), "was not rendered"),
    ("nobody holds the address", |o| o.virtual_address = None, "held by nobody"),
    (
        "a stranger holds the address",
        |o| o.virtual_address.as_mut().unwrap().holder = Some("node-old".into()),
        "node-old",
    ),
    ("no machine deployment", |o| o.machine_deployments.clear(), "no MachineDeployment"),
    ("group paused", |o| o.machine_deployments[0].paused = true, "paused"),
    ("group deleted", |o| o.machine_deployments[0].deleting = true, "deleted"),
    (
        "group of another version",
        |o| o.machine_deployments[0].spec_version = Some("v1.34.0".into()),
        "spec.template.spec.version",
    ),
    ("group stale", |o| o.machine_deployments[0].observed_generation = Some(1), "stale"),
    ("group replicas unknown", |o| o.machine_deployments[0].spec_replicas = None, "spec.replicas"),
    ("group surplus", |o| o.machine_deployments[0].replicas = Some(3), "status.replicas"),
    ("group not up to date", |o| o.machine_deployments[0].up_to_date_replicas = Some(0), "upToDateReplicas"),
    ("group not ready", |o| o.machine_deployments[0].ready_replicas = Some(1), "readyReplicas"),
    ("group not available", |o| o.machine_deployments[0].available_replicas = Some(1), "availableReplicas"),
    (
        "group RollingOut",
        |o| set(&mut o.machine_deployments[0].conditions, "RollingOut", ConditionStatus::True),
        "RollingOut",
    ),
    (
        "group MachinesUpToDate",
        |o| set(&mut o.machine_deployments[0].conditions, "MachinesUpToDate", ConditionStatus::False),
        "MachinesUpToDate",
    ),
    ("group Available", |o| drop(o.machine_deployments[0].conditions.remove("Available")), "Available"),
    ("an old worker", |o| o.machines[4].spec_version = Some("v1.34.0".into()), "v1.34.0"),
    (
        "a worker of the old template",
        |o| o.machines[4].infrastructure_template = Some("template-1".into()),
        "made from template-1",
    ),
    ("a worker gone", |o| drop(o.machines.remove(4)), "machines"),
    (
        "group of another template",
        |o| o.machine_deployments[0].infrastructure_template = Some("template-1".into()),
        "infrastructureRef.name: template-1, template-2 expected",
    ),
    (
        "group of another bootstrap template",
        |o| o.machine_deployments[0].bootstrap_template = Some("bootstrap-1".into()),
        "bootstrap.configRef.name: bootstrap-1, bootstrap-2 expected",
    ),
    ("machines of the old bootstrap template", |o| o.machine_sets[2].replicas = Some(1), "prod-md-0-older"),
    ("an earlier set has machines", |o| o.machine_sets[1].replicas = Some(1), "an earlier set"),
    ("an earlier set wants machines", |o| o.machine_sets[1].spec_replicas = Some(1), "an earlier set"),
    ("a control plane behind its workers", |o| o.machines[0].spec_version = Some("v1.34.0".into()), "before workers"),
];
