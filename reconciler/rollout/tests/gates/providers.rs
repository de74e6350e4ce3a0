//! Control planes of other providers in preflight, in the gate of the control plane, and for the workers behind them.

use rollout::{ControlPlaneReference, Expectation, Observation};

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
