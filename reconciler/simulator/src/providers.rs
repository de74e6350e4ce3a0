//! The same cluster as other providers of Cluster API show it: a control plane by the contract alone, `MachinePools` instead of
//! MachineDeployments.

use std::collections::BTreeSet;

use rollout::{ControlPlaneReference, MachineDeployment, MachinePool, Observation};

const KUBEADM: &str = "KubeadmControlPlane";

/// Conditions that RKE2's control plane reports of those that a KubeadmControlPlane does.
const REPORTED: [&str; 5] = ["Available", "MachinesReady", "MachinesUpToDate", "RollingOut", "Paused"];

/// A reading in which the control plane is of `kind`, and the workers are `MachinePools` whose infrastructure makes no Machines.
///
/// A control plane by the contract has machines, version and counts, and few conditions. A pool has the nodes of its machines,
/// and counts them as a MachineDeployment does.
#[must_use]
pub fn as_other_providers(mut observation: Observation, kind: &str) -> Observation {
    for control_plane in &mut observation.control_planes {
        control_plane.kind = kind.to_owned().into();
        control_plane.conditions.retain(|name, _| REPORTED.contains(&name.as_str()));
        let reference = ControlPlaneReference {
            group: "controlplane.cluster.x-k8s.io".to_owned(),
            kind: control_plane.kind.clone(),
            namespace: control_plane.namespace.clone(),
            name: control_plane.name.clone(),
        };
        let cluster = observation.clusters.iter_mut().find(|cluster| cluster.name == control_plane.cluster);
        cluster.into_iter().for_each(|cluster| cluster.control_plane = Some(reference.clone()));
    }
    if let Some(reason) = observation.unread.remove(KUBEADM) {
        observation.unread.insert(kind.to_owned(), reason);
    }
    let deployments = std::mem::take(&mut observation.machine_deployments);
    observation.machine_pools = deployments.iter().map(|deployment| pool(deployment, &observation)).collect();
    let workers: BTreeSet<&String> = deployments.iter().map(|deployment| &deployment.name).collect();
    observation.machines.retain(|machine| {
        machine.control_plane || !machine.owner.as_ref().is_some_and(|owner| workers.contains(owner))
    });
    observation.machine_sets.clear();
    observation
}

fn pool(deployment: &MachineDeployment, observation: &Observation) -> MachinePool {
    let machines = observation.machines.iter().filter(|machine| machine.owner.as_ref() == Some(&deployment.name));
    let nodes: BTreeSet<String> = machines.filter_map(|machine| machine.node.clone()).collect();
    let wanted = deployment.spec_replicas;
    let is_running = deployment.replicas == wanted && deployment.ready_replicas == wanted;
    MachinePool {
        namespace: deployment.namespace.clone(),
        name: deployment.name.clone(),
        cluster: deployment.cluster.clone(),
        group: deployment.group.clone(),
        generation: deployment.generation,
        observed_generation: deployment.observed_generation,
        paused: deployment.paused,
        deleting: deployment.deleting,
        spec_version: deployment.spec_version.clone(),
        spec_replicas: wanted,
        replicas: deployment.replicas,
        ready_replicas: deployment.ready_replicas,
        phase: Some(if is_running { "Running" } else { "Scaling" }.to_owned()),
        nodes: Some(nodes),
        infrastructure_template: deployment.infrastructure_template.clone(),
        ..MachinePool::default()
    }
}
