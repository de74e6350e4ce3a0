//! Names of clusters that are longer than what is named after them may be.

use super::uses_bundle;
use crate::render::{ComponentName, kustomization_name};
use crate::{ClusterKind, ClusterSpec, Fleet};
use domain::{Problem, ProblemCode};
use policy::Apply;

/// What a label of Kubernetes holds.
const LABEL: usize = 63;

/// Why the name of a cluster is too long, where it is.
pub(super) fn check(fleet: &Fleet, cluster: &ClusterSpec) -> Option<Problem> {
    if cluster.kind == ClusterKind::Eksctl {
        return None;
    }
    let place = &cluster.places.name;
    let told = |message: String| {
        let problem = Problem::new(ProblemCode::BadCluster, message).path(&place.path);
        let hint = "make a cluster with a shorter name, and list this one under `ignore:` in stepgate.yaml";
        problem.at(place.line, place.column).cluster(&cluster.name).hint(hint)
    };
    let length = cluster.name.len();
    if length > LABEL {
        return Some(told(format!(
            "the name of cluster {:?} has {length} characters, and labels that hold it may have {LABEL}",
            cluster.name
        )));
    }
    // kustomize-controller writes the name of a Kustomization into a label of all that it applies.
    let components = ComponentName::ALL.into_iter().filter(|component| is_named(fleet, cluster, *component));
    let longest = components.map(|component| kustomization_name(&cluster.name, component)).max_by_key(String::len)?;
    let is_too_long = fleet.policy.apply == Apply::Flux && longest.len() > LABEL;
    is_too_long.then(|| {
        told(format!(
            "Kustomization {longest:?} of cluster {:?} has {} characters, and labels that hold its name may have {LABEL}",
            cluster.name,
            longest.len()
        ))
    })
}

/// Whether a Kustomization of Flux is made for a component of a cluster.
fn is_named(fleet: &Fleet, cluster: &ClusterSpec, component: ComponentName) -> bool {
    match component {
        ComponentName::Cluster => true,
        ComponentName::FluxObjects => false,
        // Add-ons have one each, whose length is looked at with its name.
        ComponentName::Addons => false,
        ComponentName::Templates => cluster.tanzu.is_some(),
        ComponentName::Cilium | ComponentName::CiliumPreflight => uses_bundle(fleet, cluster) && cluster.cilium,
        ComponentName::Bundle
        | ComponentName::CertManager
        | ComponentName::Capi
        | ComponentName::EksA
        | ComponentName::Flux => uses_bundle(fleet, cluster) && cluster.is_management(),
    }
}
