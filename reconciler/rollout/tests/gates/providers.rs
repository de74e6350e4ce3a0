//! Control planes of other providers in preflight, in the gate of the control plane, and for the workers behind them.

use rollout::{ControlPlaneReference, Expectation, MachinePool, Observation, WorkersExpectation};

use super::healthy::*;
use super::{reasons, soaked, verdict};

/// The healthy cluster, with a control plane that RKE2 makes.
fn of_rke2() -> Observation {
    let mut observation = healthy();
    let control_plane = &mut observation.control_planes[0];
    control_plane.kind = "RKE2ControlPlane".to_owned().into();
    control_plane.conditions.retain(|name, _| ["Available", "Paused"].contains(&name.as_str()));
    observation.clusters[0].control_plane = Some(ControlPlaneReference {
        group: "controlplane.cluster.x-k8s.io".into(),
        kind: control_plane.kind.clone(),
        namespace: control_plane.namespace.clone(),
        name: control_plane.name.clone(),
    });
    observation
}

fn told(observation: &Observation, expectations: &[Expectation]) -> String {
    reasons(&verdict(&soaked(observation), expectations, now()))
}

fn preflight() -> Vec<Expectation> {
    vec![flux(), Expectation::ClusterHealthy { cluster: Some("prod".into()) }]
}

#[test]
fn another_provider_passes_wherever_its_control_plane_is_judged() {
    assert_eq!(told(&of_rke2(), &expectations()), "");
    assert_eq!(told(&of_rke2(), &preflight()), "");
}

#[test]
fn preflight_names_the_kind_that_is_missing_or_not_read() {
    let mut missing = of_rke2();
    missing.control_planes.clear();
    let said = told(&missing, &preflight());
    assert!(said.contains("has no RKE2ControlPlane"), "{said}");
    missing.unread.insert("RKE2ControlPlane".into(), "forbidden".into());
    let said = told(&missing, &preflight());
    assert!(said.contains("RKE2ControlPlane: could not be read: forbidden"), "{said}");
}

#[test]
fn a_control_plane_that_its_cluster_does_not_name_is_not_judged() {
    let mut observation = of_rke2();
    observation.control_planes.extend(healthy().control_planes);
    assert_eq!(told(&observation, &expectations()), "");
    observation.clusters[0].control_plane = None;
    let said = told(&observation, &expectations());
    assert!(said.contains("2 found, one expected"), "{said}");
}

/// The healthy cluster, with pools that name no version, as those of managed services need not.
fn pools_without_versions() -> Observation {
    let mut observation = healthy();
    let deployments = std::mem::take(&mut observation.machine_deployments);
    let nodes = |name: &String| {
        let machines = observation.machines.iter().filter(|machine| machine.owner.as_ref() == Some(name));
        machines.filter_map(|machine| machine.node.clone()).collect()
    };
    let pools = deployments.iter().map(|deployment| MachinePool {
        namespace: deployment.namespace.clone(),
        name: deployment.name.clone(),
        cluster: deployment.cluster.clone(),
        group: deployment.group.clone(),
        generation: deployment.generation,
        observed_generation: deployment.observed_generation,
        spec_replicas: deployment.spec_replicas,
        replicas: deployment.replicas,
        ready_replicas: deployment.ready_replicas,
        phase: Some("Running".into()),
        nodes: Some(nodes(&deployment.name)),
        infrastructure_template: deployment.infrastructure_template.clone(),
        bootstrap_template: deployment.bootstrap_template.clone(),
        ..MachinePool::default()
    });
    let pools = pools.collect();
    observation.machine_pools = pools;
    observation.machine_sets.clear();
    observation.machines.retain(|machine| machine.control_plane);
    observation
}

fn workers_at(version: &str) -> Vec<Expectation> {
    let versions = |expectation| match expectation {
        Expectation::Workers(workers) => {
            Some(Expectation::Workers(WorkersExpectation { version: version.to_owned(), ..workers }))
        }
        _ => None,
    };
    std::iter::once(flux()).chain(expectations().into_iter().filter_map(versions)).collect()
}

#[test]
fn workers_that_name_no_version_keep_their_own() {
    let mut pools = pools_without_versions();
    assert_eq!(told(&pools, &preflight()), "");
    pools.nodes.iter_mut().for_each(|node| node.kubelet_version = Some("v1.30.0".into()));
    let mut deployments = healthy();
    deployments.machine_deployments.iter_mut().for_each(|deployment| deployment.spec_version = None);
    deployments.machine_sets.iter_mut().for_each(|set| set.spec_version = None);
    for machine in deployments.machines.iter_mut().filter(|machine| !machine.control_plane) {
        machine.spec_version = None;
    }
    for observation in [&pools, &deployments] {
        assert_eq!(told(observation, &workers_at("")), "");
        let said = told(observation, &workers_at(VERSION));
        assert!(said.contains("spec.template.spec.version") && said.contains("not set"), "{said}");
    }
    assert_eq!(told(&deployments, &preflight()), "");
}
