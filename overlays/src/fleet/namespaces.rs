//! Objects that name no namespace and need one: kubectl would put them into `default`, Flux and a controller that applies them refuse them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kustomize_rs::{Gvk, is_cluster_scoped};

use super::objects::FoundObject;
use crate::ClusterSpec;
use domain::{Problem, ProblemCode, RepoPath, Severity};
use policy::Apply;
use policy::Policy;

/// Kinds of the groups below that live outside of namespaces.
const OUTSIDE: [&str; 11] = [
    "AWSClusterControllerIdentity",
    "AWSClusterRoleIdentity",
    "AWSClusterStaticIdentity",
    "VSphereClusterIdentity",
    "VSphereDeploymentZone",
    "VSphereFailureDomain",
    "GlobalInClusterIPPool",
    "ExtensionConfig",
    "ClusterIssuer",
    "TanzuKubernetesRelease",
    "OSImage",
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
    let version = |object: &FoundObject| match object.group.as_str() {
        "" => object.version.clone(),
        group => format!("{group}/{}", object.version),
    };
    let lacks = |object: &&Arc<FoundObject>| {
        object.namespace.is_empty() && lives_in_a_namespace(&version(object), &object.kind)
    };
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

/// Whether objects of this kind are known to live in a namespace; of kinds that nobody here knows nothing is said.
pub fn lives_in_a_namespace(api_version: &str, kind: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let is_inside =
        INSIDE.contains(&group) || group.ends_with("cluster.x-k8s.io") || group.ends_with(".toolkit.fluxcd.io");
    match is_cluster_scoped(&Gvk::new(api_version, kind)) {
        Some(is_outside) => !is_outside,
        None => is_inside && !OUTSIDE.contains(&kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lives_in_a_namespace_is_told_of_known_kinds_alone() {
        for (api_version, kind, expected) in [
            ("v1", "ConfigMap", true),
            ("apps/v1", "Deployment", true),
            ("v1", "Namespace", false),
            ("rbac.authorization.k8s.io/v1", "ClusterRole", false),
            ("anywhere.eks.amazonaws.com/v1alpha1", "Cluster", true),
            ("infrastructure.cluster.x-k8s.io/v1beta1", "VSphereMachineTemplate", true),
            ("infrastructure.cluster.x-k8s.io/v1beta1", "VSphereClusterIdentity", false),
            ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", true),
            ("kustomize.config.k8s.io/v1beta1", "Kustomization", false),
            ("cert-manager.io/v1", "ClusterIssuer", false),
            ("example.com/v1", "Thing", false),
        ] {
            assert_eq!(lives_in_a_namespace(api_version, kind), expected, "{api_version} {kind}");
        }
    }
}
