//! Clusters of one name. Names are folders of the deploy branch, so two of one name cannot both be recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::field;
use crate::{ClusterKind, ClusterSpec};
use domain::{Problem, ProblemCode, Scope};

/// Names clusters of eksctl after name and region, as eksctl does, where several have the name. One that was recorded under its
/// name alone is told as recorded and no longer specified: it is recorded once more, under both.
pub(super) fn name_by_region(clusters: &mut [ClusterSpec], problems: &mut [Problem]) {
    let mut regions: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for cluster in clusters.iter() {
        let region = match cluster.kind {
            ClusterKind::Eksctl => field(&cluster.node, &["metadata", "region"]),
            _ => None,
        };
        regions.entry(cluster.name.clone()).or_default().push(region);
    }
    for cluster in clusters.iter_mut() {
        let Some(regions) = regions.get(&cluster.name).filter(|regions| regions.len() > 1) else { continue };
        let distinct: BTreeSet<&String> = regions.iter().flatten().collect();
        if distinct.len() == regions.len()
            && let Some(region) = field(&cluster.node, &["metadata", "region"])
        {
            let name = format!("{}.{region}", cluster.name);
            // What is wrong with a file is wrong with its own cluster.
            let path = &cluster.places.name.path;
            let own = Scope::Cluster(cluster.name.clone());
            for problem in problems.iter_mut().filter(|it| it.path.as_ref() == Some(path) && it.scope == own) {
                problem.scope = Scope::Cluster(name.clone());
            }
            cluster.name = name;
        }
    }
}

/// The errors of clusters that have a name together, each at its own place.
pub(super) fn check(clusters: &[ClusterSpec]) -> Vec<Problem> {
    let mut names: BTreeMap<&str, Vec<&ClusterSpec>> = BTreeMap::new();
    for cluster in clusters {
        names.entry(&cluster.name).or_default().push(cluster);
    }
    let mut problems = Vec::new();
    for twins in names.values().filter(|twins| twins.len() > 1) {
        for cluster in twins {
            let others = twins.iter().filter(|other| !std::ptr::eq(**other, *cluster));
            problems.extend(others.map(|other| told(cluster, other)));
        }
    }
    problems
}

fn told(cluster: &ClusterSpec, other: &ClusterSpec) -> Problem {
    let place = &cluster.places.name;
    let (name, path, line) = (&cluster.name, &other.places.name.path, other.places.name.line);
    let namespace = |cluster: &ClusterSpec| match cluster.namespace.as_str() {
        "" => "default".to_owned(),
        namespace => namespace.to_owned(),
    };
    let (own, its) = (namespace(cluster), namespace(other));
    let (message, hint) = if own == its && cluster.kind == other.kind {
        let message = format!("cluster {name:?} is also specified in {path}:{line}");
        (message, "keep one of the two, or list the other file under `ignore:` in stepgate.yaml")
    } else if own == its {
        let message = format!("cluster {name:?} has the name of another kind of cluster in {path}:{line}");
        (message, "rename one of the two, or list its file under `ignore:` in stepgate.yaml")
    } else {
        let message = format!(
            "cluster {name:?} of namespace {own} has the name of that of namespace {its} in {path}:{line}, and names are \
             folders of the deploy branch"
        );
        let hint = "keep one of the two in a repository of its own, or list its files under `ignore:` in stepgate.yaml; \
                    neither is planned before that";
        (message, hint)
    };
    let problem = Problem::new(ProblemCode::DuplicateCluster, message).path(&place.path);
    problem.at(place.line, place.column).cluster(name).hint(hint)
}
