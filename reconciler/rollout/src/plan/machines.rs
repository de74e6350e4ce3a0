//! Which machines a plan looks at and replaces, by what its stages expect.

use crate::expectation::{ControlPlaneAddress, Expectation, RollingNodes};

use super::{PlanInput, StageInput};

/// Namespace and name of the Cluster API `Cluster` whose machines the plan's stages look at; none where no stage looks at any.
pub(super) fn cluster_of(input: &PlanInput) -> Option<(String, String)> {
    let expectations =
        input.stages.iter().flat_map(|stage| stage.deployed_expectations.iter().chain(&stage.expectations));
    expectations.into_iter().find_map(|expectation| match expectation {
        Expectation::ControlPlane(control_plane) => {
            Some((control_plane.namespace.clone(), control_plane.cluster.clone()))
        }
        Expectation::Workers(workers) => Some((workers.namespace.clone(), workers.cluster.clone())),
        _ => None,
    })
}

/// The nodes that the plan replaces, by what its stages expect.
pub(super) fn rolling(input: &PlanInput) -> Option<RollingNodes> {
    let (_, cluster) = cluster_of(input)?;
    let mut rolling = RollingNodes { cluster, control_plane: false, groups: Vec::new() };
    let replaces = |stage: &&StageInput| stage.machines > 0 || stage.uncounted_machines;
    let stages = input.stages.iter().filter(|stage| stage.deployed != stage.target).filter(replaces);
    for expectation in stages.flat_map(|stage| &stage.expectations) {
        match expectation {
            Expectation::ControlPlane(_) => rolling.control_plane = true,
            Expectation::Workers(workers) if !rolling.groups.contains(&workers.group) => {
                rolling.groups.push(workers.group.clone());
            }
            _ => {}
        }
    }
    (rolling.control_plane || !rolling.groups.is_empty()).then_some(rolling)
}

/// By what the address of a control plane is carried whose machines the plan replaces.
pub(super) fn address(input: &PlanInput) -> Option<ControlPlaneAddress> {
    let replaces = |stage: &&StageInput| stage.machines > 0 || stage.uncounted_machines;
    let stages = input.stages.iter().filter(|stage| stage.deployed != stage.target).filter(replaces);
    let mut expected =
        stages.flat_map(|stage| &stage.deployed_expectations).filter_map(|expectation| match expectation {
            Expectation::ControlPlane(control_plane) => Some(control_plane),
            _ => None,
        });
    let expected = expected.next()?;
    let (lease, kube_vip) = (expected.lease().map(str::to_owned), expected.kube_vip.is_some());
    let (namespace, cluster) = (expected.namespace.clone(), expected.cluster.clone());
    (kube_vip || lease.is_some()).then_some(ControlPlaneAddress { namespace, cluster, kube_vip, lease })
}
