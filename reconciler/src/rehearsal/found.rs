//! What a dump tells of a cluster, as far as a rehearsal can use it.

use std::collections::BTreeSet;

use overlays::{ClusterSpec, RenderedTree};
use rollout::dump::Dump;
use serde::Serialize;

use crate::simulation::MachineCounts;

/// What the simulated cluster is filled with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundReport {
    /// When the dump was taken, RFC 3339; null where there is none, and the repository alone tells.
    pub dumped_at: Option<String>,
    /// Machines of the control plane.
    pub control_plane: u32,
    /// Members of an external etcd; 0 where it runs on the control plane.
    pub etcd: u32,
    /// Worker groups, in the order of the specification.
    pub groups: Vec<GroupFound>,
    /// Images that the rollout brings and no pod of the dump runs; empty without a dump.
    pub new_images: Vec<String>,
    /// Disruption budgets that allow no eviction at the moment of the dump.
    pub refusing_budgets: Vec<String>,
    /// Nodes that were not ready, or took no pods.
    pub unready_nodes: Vec<String>,
    /// Where the dump and the specification differ, a line each.
    pub differences: Vec<String>,
}

/// A worker group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupFound {
    /// Its name.
    pub name: String,
    /// Its machines.
    pub machines: u32,
}

/// How many machines run, by the groups that nodes are labelled with.
pub(super) fn counts(cluster: &ClusterSpec, dump: &Dump) -> MachineCounts {
    let of = |names: &[&str]| {
        let count = dump.nodes.iter().filter(|node| node.group.as_deref().is_some_and(|group| names.contains(&group)));
        u32::try_from(count.count()).ok().filter(|count| *count > 0)
    };
    let group = |group: &overlays::WorkerGroup| {
        let made = format!("{}-{}", cluster.name, group.name);
        let object = group.object.as_deref().unwrap_or(&made);
        Some((group.name.parse().ok()?, of(&[&group.name, &made, object])?))
    };
    MachineCounts {
        control_plane: of(&["control-plane"]),
        workers: cluster.worker_groups.iter().filter_map(group).collect(),
    }
}

/// What is told of the cluster as it is deployed, and of the dump, where `target` is what the rollout leads to.
pub(super) fn told(
    cluster: &ClusterSpec,
    counts: &MachineCounts,
    dump: Option<&Dump>,
    target: &RenderedTree,
) -> FoundReport {
    let mut differences = Vec::new();
    let mut count = |what: &str, specified: Option<u32>, found: Option<u32>| {
        if let (Some(specified), Some(found)) = (specified, found)
            && specified != found
        {
            differences
                .push(format!("{what}: the dump has {found} nodes, the specification {specified}, which is rehearsed"));
        }
        specified.or(found).unwrap_or(1)
    };
    let control_plane = count("control plane", cluster.control_plane_count, counts.control_plane);
    let groups = cluster.worker_groups.iter().map(|group| {
        let found = group.name.parse().ok().and_then(|name| counts.workers.get(&name).copied());
        let machines = count(&format!("workers/{}", group.name), group.replicas, found);
        GroupFound { name: group.name.clone(), machines }
    });
    let groups = groups.collect();
    let budgets = dump.iter().flat_map(|dump| &dump.budgets);
    let refusing = budgets.filter(|budget| budget.allowed == 0 && budget.expected > 0);
    let nodes = dump.iter().flat_map(|dump| &dump.nodes);
    let unready = nodes.filter(|node| node.unschedulable || node.ready != rollout::ConditionStatus::True);
    FoundReport {
        dumped_at: dump.map(|dump| dump.taken_at.to_string()),
        control_plane,
        etcd: cluster.external_etcd.unwrap_or(0),
        groups,
        new_images: dump.map(|dump| new_images(dump, target)).unwrap_or_default(),
        refusing_budgets: refusing.map(|budget| format!("{}/{}", budget.namespace, budget.name)).collect(),
        unready_nodes: unready.map(|node| node.name.clone()).collect(),
        differences,
    }
}

/// Images of a tree that no container of a dump runs, by name or by digest.
fn new_images(dump: &Dump, target: &RenderedTree) -> Vec<String> {
    let containers = || dump.pods.iter().flat_map(|pod| &pod.containers);
    let known: BTreeSet<&str> = containers()
        .flat_map(|container| [Some(container.image.as_str()), digest(&container.image_id)])
        .flatten()
        .collect();
    let objects = target.files.values().flat_map(|bytes| overlays::objects_of(bytes));
    let images: BTreeSet<String> =
        objects.filter_map(|node| overlays::ObjectSummary::of(&node)).flat_map(|summary| summary.images).collect();
    let is_known =
        |image: &String| known.contains(image.as_str()) || digest(image).is_some_and(|it| known.contains(it));
    images.into_iter().filter(|image| !is_known(image)).collect()
}

fn digest(image: &str) -> Option<&str> {
    image.split_once('@').map(|(_, digest)| digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: prod}\n\
                           spec:\n  kubernetesVersion: \"1.34\"\n  controlPlaneConfiguration: {count: 3}\n\
                           \x20 workerNodeGroupConfigurations:\n  - {name: general, count: 2}\n  - name: scaled\n\
                           \x20   autoscalingConfiguration: {minCount: 1, maxCount: 9}\n";

    fn cluster() -> ClusterSpec {
        let path = domain::RepoPath::new("clusters/prod/cluster.yaml").unwrap();
        let files: overlays::MemoryFiles = [(path, CLUSTER.as_bytes().to_vec())].into_iter().collect();
        overlays::read_fleet(&files).cluster("prod").unwrap().clone()
    }

    fn dump() -> Dump {
        let node =
            |name: &str, group: &str, ready: &str| serde_json::json!({"name": name, "group": group, "ready": ready});
        let nodes = [
            node("a", "control-plane", "True"),
            node("b", "control-plane", "True"),
            node("c", "control-plane", "True"),
            node("d", "prod-general", "True"),
            node("e", "prod-scaled", "True"),
            node("f", "prod-scaled", "False"),
        ];
        serde_json::from_value(serde_json::json!({
            "format": 1, "cluster": "prod", "takenAt": "2026-01-05T09:00:00Z", "nodes": nodes, "workloads": [],
            "pods": [{
                "namespace": "a", "name": "p", "owner": {"kind": "Deployment", "namespace": "a", "name": "p"},
                "phase": "Running", "ready": 1, "expected": 1, "restarts": 0,
                "containers": [{"name": "c", "image": "r/known:1", "imageId": "r/known@sha256:aa", "ready": true}],
            }],
            "budgets": [
                {"namespace": "shop", "name": "web", "expected": 2, "healthy": 2, "desired": 2, "allowed": 0},
                {"namespace": "shop", "name": "free", "expected": 2, "healthy": 2, "desired": 1, "allowed": 1},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn nodes_are_counted_where_the_specification_does_not_tell() {
        let (cluster, dump) = (cluster(), dump());
        let counts = counts(&cluster, &dump);
        let told = told(&cluster, &counts, Some(&dump), &RenderedTree::new());
        let groups: Vec<(&str, u32)> = told.groups.iter().map(|it| (it.name.as_str(), it.machines)).collect();
        assert_eq!((told.control_plane, groups), (3, vec![("general", 2), ("scaled", 2)]));
        assert_eq!(
            told.differences,
            ["workers/general: the dump has 1 nodes, the specification 2, which is rehearsed"]
        );
        assert_eq!((told.refusing_budgets, told.unready_nodes), (vec!["shop/web".to_owned()], vec!["f".to_owned()]));
    }

    #[test]
    fn images_are_known_by_name_or_by_digest() {
        let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n\
                    \x20     containers:\n      - {name: a, image: 'mirror/known:2@sha256:aa'}\n\
                    \x20     - {name: b, image: 'r/known:1'}\n      - {name: c, image: 'r/other:1'}\n";
        let mut tree = RenderedTree::new();
        let path = domain::RepoPath::new("a/a.yaml").unwrap();
        tree.files.insert(path, std::sync::Arc::from(text.as_bytes()));
        assert_eq!(new_images(&dump(), &tree), ["r/other:1"]);
    }
}
