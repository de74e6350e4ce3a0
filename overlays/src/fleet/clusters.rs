//! Which of the objects found make up a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::objects::{FoundObject, Objects};
use super::scan::cluster_of_path;
use super::{cluster_api, eks_anywhere, other};
use crate::ClusterSpec;
use domain::{Problem, ProblemCode, RepoPath, Severity};

/// Every cluster among `objects`, by name; broken ones become problems.
pub(super) fn clusters(objects: &[Arc<FoundObject>], problems: &mut Vec<Problem>) -> Vec<ClusterSpec> {
    let mut clusters = Vec::new();
    let index = Objects::new(objects);
    for object in objects {
        let read = match (object.group.as_str(), object.kind.as_str()) {
            ("anywhere.eks.amazonaws.com", "Cluster") => eks_anywhere::read,
            ("cluster.x-k8s.io", "Cluster") => cluster_api::read,
            ("run.tanzu.vmware.com", "TanzuKubernetesCluster") => other::read_tanzu,
            ("eksctl.io", "ClusterConfig") => other::read_eksctl,
            _ => continue,
        };
        if object.name.is_empty() {
            let problem = object.problem(&["metadata"], "", format!("a {} has no metadata.name", object.kind));
            problems.push(match cluster_of_path(&object.path) {
                Some(cluster) => problem.cluster(cluster),
                None => problem,
            });
            continue;
        }
        if !is_name(&object.name) {
            let message = format!("{:?} is not a valid name for a cluster", object.name);
            let problem = object.problem(&["metadata", "name"], &object.name, message);
            problems.push(problem.hint("use lower-case letters, digits and hyphens, as Kubernetes asks for"));
            continue;
        }
        match read(object, &index, problems) {
            Ok(cluster) => clusters.push(cluster),
            Err(problem) => problems.push(*problem),
        }
    }
    clusters.sort_by(|left, right| (&left.name, &left.places.name.path).cmp(&(&right.name, &right.places.name.path)));
    tell_strays(objects, &clusters, problems);
    clusters
}

/// Names become folders and branch names: DNS-1123 labels with dots.
pub(super) fn is_name(name: &str) -> bool {
    let edge = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    name.len() <= 253
        && name.starts_with(edge)
        && name.ends_with(edge)
        && !name.contains("..")
        && name.chars().all(|character| edge(character) || matches!(character, '-' | '.'))
}

/// Objects of the known kinds that belong to no cluster are told, so that nobody wonders.
fn tell_strays(objects: &[Arc<FoundObject>], clusters: &[ClusterSpec], problems: &mut Vec<Problem>) {
    let used: BTreeSet<&RepoPath> =
        clusters.iter().flat_map(|cluster| cluster.files.iter().map(|file| &file.path)).collect();
    for object in objects {
        let ours = object.group == "anywhere.eks.amazonaws.com" || object.group.ends_with("cluster.x-k8s.io");
        let in_clusters = object.path.is_below("clusters");
        let known = matches!(object.kind.as_str(), "Bundles" | "EKSARelease" | "Cluster")
            || object.group == "kustomize.config.k8s.io"
            || object.group.ends_with("toolkit.fluxcd.io")
            || object.path.file_name().starts_with("gotk-");
        if used.contains(&object.path) || known || !(ours || in_clusters) {
            continue;
        }
        let message =
            format!("{} {:?} belongs to no cluster of this repository and is left out", object.kind, object.name);
        let place = object.place_of(&["metadata", "name"]);
        let problem = Problem::new(ProblemCode::Skipped, message).severity(Severity::Note);
        problems.push(problem.path(&place.path).at(place.line, place.column));
    }
}
