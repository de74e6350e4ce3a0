//! What eksctl lets nobody change: it makes what is not there, and leaves alone whatever has the name already.

use std::collections::BTreeMap;

use yaml::Node;

use crate::eksctl::{self, NodeGroupName, VersionedName, eksctl_target, minor_of, node_groups};
use crate::{ClusterKind, ClusterSpec, DeployedTree, objects_of};
use domain::{Problem, ProblemCode, Severity};

/// Node groups, Fargate profiles and the region that say something else under the name that they have, and add-ons that go.
pub(super) fn changes(deployed: &DeployedTree, cluster: &ClusterSpec) -> Vec<Problem> {
    if cluster.kind != ClusterKind::Eksctl {
        return Vec::new();
    }
    let target = match eksctl_target(cluster, deployed) {
        Ok(target) => target,
        Err(error) => {
            let hint = "write its name as a plain text on one line, or rename it by hand";
            return vec![told(cluster, &cluster.node, error.to_string(), hint)];
        }
    };
    let wanted: &Node = target.as_ref().map_or(&cluster.node, |target| &target.node);
    let before = deployed.below("cluster");
    let objects: Vec<Node> = before.files.values().flat_map(|bytes| objects_of(bytes)).collect();
    let name = |node: &Node| node.at(&["metadata", "name"]).and_then(Node::as_str).map(str::to_owned);
    let is_it =
        |node: &&Node| node.get("kind").and_then(Node::as_str) == Some("ClusterConfig") && name(node) == name(wanted);
    let Some(before) = objects.iter().find(is_it) else { return Vec::new() };
    let mut problems = Vec::new();
    let region = |node: &Node| node.at(&["metadata", "region"]).and_then(Node::as_str).map(str::to_owned);
    if region(before) != region(wanted) {
        let text = |node: &Node| region(node).unwrap_or_default();
        let message = format!(
            "metadata.region goes from {:?} to {:?}, where eksctl knows another cluster, or none",
            text(before),
            text(wanted)
        );
        problems.push(told(cluster, wanted, message, "specify the other cluster in a file of its own"));
    }
    problems.extend(groups(cluster, before, wanted));
    problems.extend(profiles(cluster, before, wanted));
    problems.extend(addons(cluster, before, wanted));
    problems
}

fn told(cluster: &ClusterSpec, node: &Node, message: String, hint: impl Into<String>) -> Problem {
    let place = &cluster.places.name;
    let problem = Problem::new(ProblemCode::ImmutableField, message).cluster(&cluster.name).path(&place.path);
    // A node of the edited text may stand elsewhere: the lines of names do not move.
    let (line, column) = (node.span.line(), node.span.column());
    let is_known = line > 0 && !std::ptr::eq(node, cluster.node.as_ref());
    let problem = if is_known { problem.at(line, column) } else { problem.at(place.line, place.column) };
    problem.hint(hint)
}

fn groups(cluster: &ClusterSpec, before: &Node, wanted: &Node) -> Vec<Problem> {
    let old: BTreeMap<&str, (crate::WorkerGroupKind, &Node)> =
        node_groups(before).map(|(kind, name, item)| (name, (kind, item))).collect();
    let mut problems = Vec::new();
    for (kind, name, item) in node_groups(wanted) {
        let Some((known, before)) = old.get(name) else { continue };
        if *known == kind && *before == item {
            continue;
        }
        let fields = fields(before, item);
        let message = match *known == kind {
            true => format!("node group {name}: {fields} changed, and eksctl leaves a group of that name as it is"),
            false => format!("node group {name} goes to another list, and eksctl leaves a group of that name as it is"),
        };
        let next = match NodeGroupName::of(name) {
            NodeGroupName::Versioned(name) => Some(name.rebuilt()),
            NodeGroupName::Unversioned => {
                let minor = minor_of(&cluster.kubernetes_version);
                minor.map(|minor| VersionedName::first(&eksctl::stem(wanted, name), minor))
            }
        };
        let rename = next.map_or_else(|| "give it another name".to_owned(), |next| format!("call it {next}"));
        let hint = match is_size(before, item) {
            true => format!("{rename}, or leave the file as it was and run `eksctl scale nodegroup`"),
            false => format!("{rename}: then it replaces the one that there is"),
        };
        problems.push(told(cluster, item, message, hint));
    }
    problems
}

const SIZES: [&str; 3] = ["desiredCapacity", "minSize", "maxSize"];

fn differing<'a>(before: &'a Node, item: &'a Node) -> Vec<&'a str> {
    let keys =
        |node: &'a Node| node.as_mapping().into_iter().flat_map(yaml::Mapping::iter).map(|entry| entry.key.as_str());
    let mut names: Vec<&str> = keys(before).chain(keys(item)).filter(|key| before.get(key) != item.get(key)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn is_size(before: &Node, item: &Node) -> bool {
    differing(before, item).iter().all(|field| SIZES.contains(field))
}

fn fields(before: &Node, item: &Node) -> String {
    differing(before, item).join(", ")
}

fn profiles(cluster: &ClusterSpec, before: &Node, wanted: &Node) -> Vec<Problem> {
    let list = |node: &Node| -> Vec<Node> {
        node.get("fargateProfiles").and_then(Node::as_sequence).unwrap_or_default().to_vec()
    };
    let name = |node: &Node| node.get("name").and_then(Node::as_str).map(str::to_owned);
    let old = list(before);
    let changed =
        list(wanted).into_iter().filter(|item| old.iter().any(|known| name(known) == name(item) && known != item));
    let message = |item: &Node| {
        format!(
            "Fargate profile {}: EKS changes none that there is, and eksctl leaves one of that name as it is",
            name(item).unwrap_or_default()
        )
    };
    changed.map(|item| told(cluster, &item, message(&item), "give it another name, and delete the old one")).collect()
}

fn addons(cluster: &ClusterSpec, before: &Node, wanted: &Node) -> Vec<Problem> {
    let kept: Vec<&str> = eksctl::addons(wanted).map(|(name, _)| name).collect();
    let gone = eksctl::addons(before).filter(|(name, _)| !kept.contains(name));
    let told = gone.map(|(name, _)| {
        let message = format!("add-on {name} is in the file no longer, and eksctl deletes none by its file");
        let command = format!("`eksctl delete addon --cluster {} --name {name}`, where it is to go", cluster.name);
        told(cluster, &cluster.node, message, command).severity(Severity::Warning)
    });
    told.collect()
}
