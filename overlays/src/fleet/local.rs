//! Objects that are for tools alone: kustomize, and so Flux, leaves them out of what it applies.

use std::sync::Arc;

use yaml::Node;

use super::objects::{FoundObject, scalar};
use domain::{Problem, ProblemCode, Severity};

/// The annotation that says so; `false` takes it back.
const MARK: &str = "config.kubernetes.io/local-config";

/// Whether an object is never applied.
pub(super) fn is_local(node: &Node) -> bool {
    let mark = node.at(&["metadata", "annotations"]).and_then(|annotations| annotations.get(MARK));
    mark.and_then(scalar).is_some_and(|value| value != "false")
}

/// Tells the objects that would be parts of clusters, and are never applied.
pub(super) fn told(objects: &[Arc<FoundObject>]) -> Vec<Problem> {
    let is_part = |object: &&Arc<FoundObject>| object.is_local && object.is_of_clusters();
    let told = objects.iter().filter(is_part).map(|object| {
        let message = format!("{} {:?} is marked {MARK}, so it is applied by nobody", object.kind, object.name);
        let is_cluster = matches!(object.kind.as_str(), "Cluster" | "TanzuKubernetesCluster" | "ClusterConfig");
        let severity = if is_cluster { Severity::Warning } else { Severity::Note };
        let place = object.place_of(&["metadata", "annotations", MARK]);
        let problem = Problem::new(ProblemCode::Skipped, message).path(&place.path).at(place.line, place.column);
        problem.severity(severity).hint("it is left out; where it should be applied, take the annotation away")
    });
    told.collect()
}
