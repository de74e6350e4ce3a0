//! Objects that name no namespace and need one: kubectl would put them into `default`, Flux and a controller that applies them refuse them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kustomize_rs::{Gvk, is_cluster_scoped};

use super::objects::FoundObject;
use crate::policy::Apply;
use crate::{ClusterSpec, Policy, Problem, ProblemCode, RepoPath, Severity};

/// Kinds of the groups below that live outside of namespaces.
const OUTSIDE: [&str; 9] = [
    "AWSClusterControllerIdentity",
    "AWSClusterRoleIdentity",
    "AWSClusterStaticIdentity",
    "VSphereClusterIdentity",
    "VSphereDeploymentZone",
    "VSphereFailureDomain",
    "GlobalInClusterIPPool",
    "ExtensionConfig",
    "ClusterIssuer",
];

/// Groups of which every other kind lives in a namespace.
const INSIDE: [&str; 5] =
    ["anywhere.eks.amazonaws.com", "tinkerbell.org", "bmc.tinkerbell.org", "cert-manager.io", "run.tanzu.vmware.com"];

/// Objects among the files of clusters that Flux cannot apply for want of a namespace.
pub(super) fn check(objects: &[Arc<FoundObject>], clusters: &[ClusterSpec], policy: &Policy) -> Vec<Problem> {
    if policy.apply != Apply::Flux {
        return Vec::new();
    }
    let files = clusters.iter().flat_map(|cluster| cluster.files.iter().map(move |file| (&file.path, &cluster.name)));
    let clusters: BTreeMap<&RepoPath, &String> = files.collect();
    let lacks = |object: &&Arc<FoundObject>| object.namespace.is_empty() && lives_in_a_namespace(object);
    let told = |object: &Arc<FoundObject>| {
        let cluster = clusters.get(&object.path)?;
        let place = object.place_of(&["metadata"]);
        let message = format!("{} {:?} names no namespace, and Flux refuses it", object.kind, object.name);
        let problem = Problem::new(ProblemCode::MissingNamespace, message).path(&place.path);
        let problem = problem.at(place.line, place.column).cluster(cluster.as_str()).severity(Severity::Warning);
        Some(problem.hint("write `namespace:` into its metadata: where kubectl put it, that is `default`"))
    };
    objects.iter().filter(lacks).filter_map(told).collect()
}

/// Whether it is known to live in one; of kinds that nobody here knows nothing is said.
fn lives_in_a_namespace(object: &FoundObject) -> bool {
    let group = object.group.as_str();
    let is_inside =
        INSIDE.contains(&group) || group.ends_with("cluster.x-k8s.io") || group.ends_with(".toolkit.fluxcd.io");
    let version = if group.is_empty() { object.version.clone() } else { format!("{group}/{}", object.version) };
    match is_cluster_scoped(&Gvk::new(&version, &object.kind)) {
        Some(is_outside) => !is_outside,
        None => is_inside && !OUTSIDE.contains(&object.kind.as_str()),
    }
}
