//! Objects that Flux is told to leave alone: a record of them changes nothing in the cluster, and a gate on them waits for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::objects::FoundObject;
use crate::ClusterSpec;
use domain::{Problem, ProblemCode, RepoPath, Severity};
use policy::{Apply, Policy};

/// What kustomize-controller reads in labels and annotations, and the value with which it does not change an object that is there.
const MARKS: [(&str, &str); 3] = [
    ("kustomize.toolkit.fluxcd.io/reconcile", "disabled"),
    ("kustomize.toolkit.fluxcd.io/ssa", "Ignore"),
    ("kustomize.toolkit.fluxcd.io/ssa", "IfNotPresent"),
];

/// The mark of an object.
fn mark(object: &FoundObject) -> Option<(&'static str, &'static str, &'static str)> {
    ["annotations", "labels"].into_iter().find_map(|field| {
        let (key, value) = MARKS.into_iter().find(|(key, value)| {
            let found = object.node.at(&["metadata", field]).and_then(|marks| marks.get(key));
            found.and_then(yaml::Node::as_str).is_some_and(|found| found.eq_ignore_ascii_case(value))
        })?;
        Some((field, key, value))
    })
}

/// Whether a rollout waits for what becomes of it.
fn is_waited_for(object: &FoundObject) -> bool {
    let groups = ["cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "anywhere.eks.amazonaws.com"];
    groups.contains(&object.group.as_str())
}

/// Objects of clusters that Flux leaves alone and a gate looks at.
pub(super) fn check(objects: &[Arc<FoundObject>], clusters: &[ClusterSpec], policy: &Policy) -> Vec<Problem> {
    if policy.apply != Apply::Flux {
        return Vec::new();
    }
    let files = clusters.iter().flat_map(|cluster| cluster.files.iter().map(move |file| (&file.path, &cluster.name)));
    let clusters: BTreeMap<&RepoPath, &String> = files.collect();
    let told = |object: &Arc<FoundObject>| {
        let (field, key, value) = mark(object)?;
        let cluster = clusters.get(&object.path)?;
        let place = object.place_of(&["metadata", field]);
        let message = format!("{} {:?} is marked {key}: {value}, so Flux never changes it", object.kind, object.name);
        let problem = Problem::new(ProblemCode::BadCluster, message).path(&place.path);
        let problem = problem.at(place.line, place.column).cluster(cluster.as_str()).severity(Severity::Error);
        Some(problem.hint(format!("take it out of metadata.{field}, and wait until Flux has applied that")))
    };
    objects.iter().filter(|object| is_waited_for(object)).filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::super::read_fleet;
    use crate::testing::memory;

    fn told(mark: &str) -> Vec<String> {
        let text = format!(
            "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {{name: a, namespace: n, {mark}}}\n\
             spec: {{topology: {{version: v1.34.0, classRef: {{name: c}}}}}}\n"
        );
        let fleet = read_fleet(&memory(&[("a.yaml", text.as_str())]));
        let problems = fleet.problems.iter().map(ToString::to_string);
        problems.filter(|problem| problem.contains("Flux never changes it")).collect()
    }

    #[test]
    fn a_cluster_that_flux_never_changes_is_an_error() {
        for mark in [
            "annotations: {kustomize.toolkit.fluxcd.io/reconcile: disabled}",
            "labels: {kustomize.toolkit.fluxcd.io/ssa: Ignore}",
            "annotations: {kustomize.toolkit.fluxcd.io/ssa: IfNotPresent}",
        ] {
            assert_eq!(told(mark).len(), 1, "{mark}");
        }
        for mark in ["annotations: {kustomize.toolkit.fluxcd.io/ssa: Merge}", "labels: {reconcile: disabled}"] {
            assert_eq!(told(mark), [""; 0], "{mark}");
        }
    }
}
