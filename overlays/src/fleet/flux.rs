//! What Flux' own objects on the source branch mean for the clusters beside them.

use std::sync::Arc;

use yaml::Node;

use super::objects::{FoundObject, field};
use crate::ClusterSpec;
use domain::{Problem, ProblemCode, Severity};

/// Kustomizations that apply specifications of clusters from the source branch, as EKS Anywhere sets them up, and delete what they apply no more.
/// As soon as such a one is pointed to the deploy branch, Flux deletes the clusters.
pub(super) fn check_prune(objects: &[Arc<FoundObject>], clusters: &[ClusterSpec]) -> Vec<Problem> {
    let prunes = |object: &&Arc<FoundObject>| {
        object.group == "kustomize.toolkit.fluxcd.io"
            && object.kind == "Kustomization"
            && object.node.at(&["spec", "prune"]).and_then(Node::as_bool) == Some(true)
    };
    objects.iter().filter(prunes).filter_map(|object| check(object, clusters)).collect()
}

fn check(object: &FoundObject, clusters: &[ClusterSpec]) -> Option<Problem> {
    let folder = field(&object.node, &["spec", "path"]).unwrap_or_default();
    let folder = folder.trim_start_matches("./").trim_end_matches('/');
    let applied = |cluster: &&ClusterSpec| {
        cluster.files.iter().any(|file| matches!(folder, "" | ".") || file.path.is_below(folder))
    };
    let names: Vec<&str> = clusters.iter().filter(applied).map(|cluster| cluster.name.as_str()).collect();
    let (first, rest) = names.split_first()?;
    let others = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    let message = format!(
        "Flux deletes cluster {first}{others} when Kustomization {:?} is pointed to the deploy branch, since it prunes",
        object.name
    );
    let hint = "write `prune: false` here, and wait until Flux has applied that, before anything else of it is changed";
    let place = object.place_of(&["spec", "prune"]);
    let problem = Problem::new(ProblemCode::FluxPrunes, message).path(&place.path).at(place.line, place.column);
    Some(problem.severity(Severity::Warning).hint(hint))
}
