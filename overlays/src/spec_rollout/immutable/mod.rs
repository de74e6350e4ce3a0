//! Fields of a specification that cannot be changed in place: told before anything is committed, with the way out.
//!
//! What a webhook refuses is an error; an edit that is taken and rolls nothing is a warning ([`effects`]).

mod cluster_api;
mod effects;
mod eks_anywhere;
mod eksctl;
mod evaluate;
mod place;
mod rule;
mod tanzu;

use std::collections::BTreeMap;

use serde_json::Value;
use yaml::Node;

use crate::object::{ObjectId, object_id, objects_of};
use crate::{ClusterSpec, DeployedTree, Files, Management, Provider, SpecFile};
use domain::{Problem, ProblemCode};
use evaluate::{Change, evaluate, value};
use rule::{Rule, When};

/// The pause of EKS Anywhere: its webhooks let everything through while the object has it.
const PAUSED: &str = "anywhere.eks.amazonaws.com/paused";
/// How many fields a problem names.
const NAMED: usize = 3;
/// The longest value that a problem shows.
const SHOWN: usize = 60;

/// The fields of a cluster's specification that cannot go from what is deployed to what the source branch says.
///
/// `deployed` is the cluster's directory on the deploy branch, empty where it has none; `files` are those of the source branch, to find the
/// lines in.
pub fn immutable_changes(deployed: &DeployedTree, cluster: &ClusterSpec, files: &dyn Files) -> Vec<Problem> {
    let before = deployed.below("cluster");
    let old: BTreeMap<ObjectId, Node> = before
        .files
        .values()
        .flat_map(|bytes| objects_of(bytes))
        .filter_map(|node| Some((object_id(&node)?, node)))
        .collect();
    if old.is_empty() {
        return Vec::new();
    }
    let mut problems = eksctl::changes(deployed, cluster);
    for file in &cluster.files {
        for node in objects_of(&file.bytes) {
            let Some(id) = object_id(&node) else { continue };
            problems.extend(moved(&id, &old, cluster, file));
            let Some(before) = old.get(&id).filter(|before| **before != node) else { continue };
            let object = Object { id: &id, before, after: &node, file, old: &old };
            problems.extend(refused(&object, cluster, files));
        }
    }
    problems.sort();
    problems.dedup();
    problems
}

/// A cluster that goes to another namespace: it would be made there anew, beside the one that runs.
fn moved(id: &ObjectId, old: &BTreeMap<ObjectId, Node>, cluster: &ClusterSpec, file: &SpecFile) -> Option<Problem> {
    let is_cluster = Some(id) == object_id(&cluster.node).as_ref();
    let namespace = |id: &ObjectId| id.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let is_same = |other: &&ObjectId| (&other.group, &other.kind, &other.name) == (&id.group, &id.kind, &id.name);
    let places: Vec<String> = old.keys().filter(|_| is_cluster).filter(is_same).map(namespace).collect();
    let before = places.first().filter(|_| !places.contains(&namespace(id)))?;
    let message = format!(
        "{id}: metadata.namespace goes from {before:?} to {:?}, and the cluster would be made there anew, beside the one \
         that runs",
        namespace(id)
    );
    let place = &cluster.places.name;
    let problem = Problem::new(ProblemCode::ImmutableField, message).cluster(&cluster.name).path(&file.path);
    Some(problem.at(place.line, place.column).hint(rule::Remedy::NewCluster.text("Cluster")))
}

/// An object that both sides have.
struct Object<'a> {
    id: &'a ObjectId,
    before: &'a Node,
    after: &'a Node,
    file: &'a SpecFile,
    /// All objects of the side before.
    old: &'a BTreeMap<ObjectId, Node>,
}

fn refused(object: &Object<'_>, cluster: &ClusterSpec, files: &dyn Files) -> Vec<Problem> {
    let tables = cluster_api::RULES.iter().chain(eks_anywhere::RULES).chain(tanzu::RULES);
    let rules = tables.filter(|rule| rule.group == object.id.group && rule.kind == object.id.kind);
    let mut problems = Vec::new();
    for rule in rules.filter(|rule| holds(rule.when, object, cluster)) {
        let changes = evaluate(rule, object.before, object.after);
        if changes.is_empty() {
            continue;
        }
        let message = format!("{}: {}, and {}", object.id, told(&changes), who(rule));
        problems.push(problem(object, cluster, files, &changes, message).hint(rule.remedy.text(rule.kind)));
    }
    problems.extend(manager(object, cluster, files));
    problems.extend(tanzu::smaller_control_plane(object, cluster, files));
    problems.extend(effects::problem_of(object, cluster, files));
    problems
}

fn problem(
    object: &Object<'_>,
    cluster: &ClusterSpec,
    files: &dyn Files,
    changes: &[Change],
    message: String,
) -> Problem {
    let problem = Problem::new(ProblemCode::ImmutableField, message).cluster(&cluster.name).path(&object.file.path);
    let place = changes.iter().find_map(|change| place::find(object, files, &change.field));
    match place {
        Some((line, column)) => problem.at(line, column),
        None => problem,
    }
}

/// Who refuses it.
fn who(rule: &Rule) -> &'static str {
    match (rule.group, rule.kind, rule.check) {
        (_, _, rule::Check::NetworkPlugin) => "EKS Anywhere changes no network plug-in",
        ("cluster.x-k8s.io", "Cluster", rule::Check::BetweenValues | rule::Check::ValuesOfList) => {
            "Cluster API does not bring it to machines that run"
        }
        ("cluster.x-k8s.io", "Cluster", rule::Check::Reference | rule::Check::AnotherReference) => {
            "Cluster API would make another one beside what runs"
        }
        ("run.tanzu.vmware.com", _, _) => "the webhook of a Supervisor refuses it",
        ("anywhere.eks.amazonaws.com", _, _) => "EKS Anywhere's webhook refuses it",
        _ => "the webhook of this kind refuses it",
    }
}

/// Whether a rule holds for this object.
fn holds(when: When, object: &Object<'_>, cluster: &ClusterSpec) -> bool {
    let is_paused = object.before.at(&["metadata", "annotations"]).is_some_and(|node| node.get(PAUSED).is_some());
    let is_self_managed = match &cluster.management {
        Management::SelfManaged | Management::Undeclared => true,
        Management::ManagedBy(_) => false,
    };
    match when {
        When::Always => true,
        When::NotPaused => !is_paused,
        When::SelfManaged => is_self_managed,
        When::Managed => !is_self_managed && !is_paused,
        When::Tinkerbell => cluster.provider == Provider::Tinkerbell && !is_paused,
        When::TinkerbellUpgrade => {
            let version = |node: &Node| value(node.at(&["spec", "kubernetesVersion"]));
            cluster.provider == Provider::Tinkerbell && version(object.before) != version(object.after)
        }
        When::ControlPlaneOfSelfManaged => is_self_managed && !is_paused && is_of_control_plane(object),
    }
}

/// Whether the control plane or etcd is made of this machine configuration, as deployed.
fn is_of_control_plane(object: &Object<'_>) -> bool {
    let refers = |cluster: &Node| {
        let fields = ["controlPlaneConfiguration", "externalEtcdConfiguration"];
        fields.iter().any(|field| {
            let name = cluster.at(&["spec", field, "machineGroupRef", "name"]).and_then(Node::as_str);
            name == Some(object.id.name.as_str())
        })
    };
    object.old.iter().any(|(id, node)| id.kind == "Cluster" && id.group == object.id.group && refers(node))
}

/// Another cluster cannot take over one that is there, nor let it go.
fn manager(object: &Object<'_>, cluster: &ClusterSpec, files: &dyn Files) -> Option<Problem> {
    let is_it = object.id.group == "anywhere.eks.amazonaws.com" && object.id.kind == "Cluster";
    if !is_it || !holds(When::NotPaused, object, cluster) {
        return None;
    }
    let manager = |node: &Node| {
        let name =
            node.at(&["spec", "managementCluster", "name"]).and_then(Node::as_str).filter(|name| !name.is_empty());
        name.unwrap_or(&object.id.name).to_owned()
    };
    let (old, new) = (manager(object.before), manager(object.after));
    if old == new {
        return None;
    }
    let field = "spec.managementCluster.name".to_owned();
    let changes = [Change { field, old: Some(Value::String(old)), new: Some(Value::String(new)) }];
    let message = format!("{}: {}, and EKS Anywhere's webhook refuses it", object.id, told(&changes));
    let problem = problem(object, cluster, files, &changes, message);
    Some(problem.hint(rule::Remedy::NewCluster.text("Cluster")))
}

/// `spec.a goes from 1 to 2, spec.b from 3 to 4`.
fn told(changes: &[Change]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for change in changes.iter().take(NAMED) {
        let field = &change.field;
        let [old, new] = [&change.old, &change.new].map(|value| value.as_ref().map(|value| shown(change, value)));
        parts.push(match (old, new) {
            (None, Some(Some(new))) => format!("{field} becomes {new}"),
            (None, Some(None)) => format!("{field} is set"),
            (Some(Some(old)), None) => format!("{field} is no longer {old}"),
            (Some(None), None) => format!("{field} is taken out"),
            (Some(Some(old)), Some(Some(new))) if old != new => format!("{field} goes from {old} to {new}"),
            (Some(_), Some(_)) => format!("{field} gets another value"),
            (None, None) => format!("{field} changes"),
        });
    }
    let more = changes.len().saturating_sub(NAMED);
    if more > 0 {
        parts.push(format!("{more} more field{} change{}", plural(more), if more == 1 { "s" } else { "" }));
    }
    parts.join(", ")
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A value as JSON; none where it is long or may hold a secret: proxies carry passwords in their addresses.
fn shown(change: &Change, value: &Value) -> Option<String> {
    let text = value.to_string();
    let is_secret = ["Proxy", "user", "password", "secret", "token", "content"]
        .iter()
        .any(|word| change.field.contains(word) || change.field.to_lowercase().contains(word));
    (!is_secret && text.chars().count() <= SHOWN).then_some(text)
}

#[cfg(test)]
mod tests;
