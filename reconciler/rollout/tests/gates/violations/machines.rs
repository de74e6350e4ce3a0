//! Violations of EKS Anywhere's cluster, control planes, workers and nodes.

use rollout::{ConditionStatus, Machine};

use super::{Violation, set};
use crate::healthy::*;

pub const MACHINES: &[Violation] = &[
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
