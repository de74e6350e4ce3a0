//! Which of the objects found make up a cluster.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::kinds::{self, ReadCluster};
use super::members::{self, Folders, Kustomized};
use super::objects::naming::{self, is_name};
use super::objects::{FoundObject, Objects};
use super::scan::cluster_of_path;
use crate::ClusterSpec;
use domain::{GroupName, Problem, ProblemCode, RepoPath, Severity};

/// Every cluster among `objects`, by name; broken ones become problems.
pub(super) fn clusters(
    objects: &[Arc<FoundObject>],
    kustomized: &Kustomized<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<ClusterSpec> {
    let index = Objects::new(objects);
    let all: Vec<&FoundObject> = objects.iter().map(Arc::as_ref).collect();
    let folders = Folders::new(&all, kustomized);
    let mut clusters: Vec<ReadCluster<'_>> = Vec::new();
    let mut broken: Vec<&FoundObject> = Vec::new();
    for object in all.iter().copied().filter(|object| !object.is_local) {
        let Some(read) = kinds::reader(object) else { continue };
        if let Some(problem) = bad_name(object) {
            problems.push(problem);
            broken.push(object);
            continue;
        }
        let read = read(object, &index, problems);
        match read.and_then(|read| bad_group(object, &read.0).map_or(Ok(read), |problem| Err(Box::new(problem)))) {
            Ok((mut cluster, seeds)) => {
                let members = members::members(object, seeds, &index, &folders);
                problems.extend(members::check(object, &cluster.worker_groups, &members, &index));
                cluster.files = members::files_of(&members, &index);
                clusters.push((cluster, members));
            }
            Err(problem) => {
                problems.push(*problem);
                broken.push(object);
            }
        }
    }
    clusters.sort_by(|(left, _), (right, _)| {
        (&left.name, &left.places.name.path).cmp(&(&right.name, &right.places.name.path))
    });
    problems.extend(members::check_shared(&users(&clusters)));
    tell_strays(&all, &clusters, &broken, &index, problems);
    clusters.into_iter().map(|(cluster, _)| cluster).collect()
}

/// Why an object can be no cluster, by what it is called.
fn bad_name(object: &FoundObject) -> Option<Problem> {
    let FoundObject { kind, name, namespace, .. } = object;
    if name.is_empty() {
        let problem = object.problem(&["metadata"], "", format!("a {kind} has no metadata.name"));
        return Some(match cluster_of_path(&object.path) {
            Some(cluster) => problem.cluster(cluster),
            None => problem,
        });
    }
    let is_namespace = namespace.is_empty() || (is_name(namespace) && !namespace.contains('.') && namespace.len() < 64);
    let (field, message) = if !is_name(name) {
        ("name", format!("{name:?} is not a valid name for a cluster"))
    } else if !is_namespace {
        ("namespace", format!("{namespace:?} is not a valid namespace"))
    } else {
        return None;
    };
    let problem = object.problem(&["metadata", field], name, message);
    Some(problem.hint("use lower-case letters, digits and hyphens, as Kubernetes asks for"))
}

/// A worker group after which no stage can be called.
fn bad_group(object: &FoundObject, cluster: &ClusterSpec) -> Option<Problem> {
    let bad = cluster.worker_groups.iter().find_map(|group| group.name.parse::<GroupName>().err())?;
    let problem = object.problem(&["metadata", "name"], &object.name, bad.to_string());
    Some(problem.hint("name the group after Kubernetes' rules: lower-case letters, digits and hyphens"))
}

/// Objects, each with the clusters that it belongs to, in order of place.
fn users<'a, 'c>(clusters: &'c [ReadCluster<'a>]) -> Vec<(&'a FoundObject, Vec<&'c str>)> {
    let mut users: BTreeMap<_, (&'a FoundObject, Vec<&'c str>)> = BTreeMap::new();
    for (cluster, members) in clusters {
        for member in members {
            let key = (&member.path, member.node.span.start(), &member.kind, &member.name);
            users.entry(key).or_insert_with(|| (*member, Vec::new())).1.push(cluster.name.as_str());
        }
    }
    users.into_values().collect()
}

/// Objects of the known kinds that belong to no cluster are told: nothing of them is recorded.
fn tell_strays(
    all: &[&FoundObject],
    clusters: &[ReadCluster<'_>],
    broken: &[&FoundObject],
    index: &Objects<'_>,
    problems: &mut Vec<Problem>,
) {
    let used: HashSet<*const FoundObject> =
        clusters.iter().flat_map(|(_, members)| members.iter().map(|member| std::ptr::from_ref(*member))).collect();
    // Of a cluster that cannot be read, nobody knows what belongs to it.
    let unread: HashSet<*const FoundObject> =
        broken.iter().flat_map(|cluster| index.naming(cluster)).map(std::ptr::from_ref).collect();
    let is_near_broken =
        |object: &FoundObject| broken.iter().any(|cluster| cluster.path.parent() == object.path.parent());
    // Whoever reads the file of a cluster, or its folder, takes the rest of it for a part of the cluster.
    let files: HashSet<&RepoPath> =
        all.iter().filter(|object| object.is_cluster()).map(|object| &object.path).collect();
    let parents: HashSet<RepoPath> = files.iter().filter_map(|path| path.parent()).collect();
    let is_beside = |object: &FoundObject| {
        files.contains(&object.path) || object.path.parent().is_some_and(|folder| parents.contains(&folder))
    };
    for object in all {
        let ours = object.group == "anywhere.eks.amazonaws.com" || object.group.ends_with("cluster.x-k8s.io");
        let named = naming::named(object);
        let known = members::is_apart(object) || object.group.ends_with("toolkit.fluxcd.io");
        let pointer = std::ptr::from_ref(*object);
        let is_ours = ours || object.path.is_below("clusters") || !named.is_empty() || is_beside(object);
        if used.contains(&pointer) || unread.contains(&pointer) || known || !is_ours || is_near_broken(object) {
            continue;
        }
        let (message, hint) = match named.first() {
            Some((cluster, _)) => (
                format!(
                    "{} {:?} names cluster {cluster:?}, which is not in this repository; it is left out",
                    object.kind, object.name
                ),
                "name a cluster of this repository and its namespace, or list the file under `ignore:` in stepgate.yaml",
            ),
            None if object.kind == "Cluster" => (
                format!("Cluster {:?} is of group {:?}, which is not read; it is left out", object.name, object.group),
                "clusters of cluster.x-k8s.io and anywhere.eks.amazonaws.com are read; list others under `ignore:` in \
                 stepgate.yaml",
            ),
            None => (
                format!("{} {:?} belongs to no cluster of this repository and is left out", object.kind, object.name),
                "label it cluster.x-k8s.io/cluster-name, put it into the folder of its cluster, or list the file under \
                 `ignore:` in stepgate.yaml",
            ),
        };
        let place = object.place_of(&["metadata", "name"]);
        let problem = Problem::new(ProblemCode::Skipped, message).severity(Severity::Warning).hint(hint);
        problems.push(problem.path(&place.path).at(place.line, place.column));
    }
}
