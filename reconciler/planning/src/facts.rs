//! What is gathered about one cluster for its plan: what forbids it, what it changes, what a person should know.

use std::collections::BTreeMap;

use bundles::{Bundles, Locks};
use domain::ClusterName;
use domain::{Problem, ProblemCode};
use overlays::{
    BundleFile, ClusterKind, ClusterSpec, ComponentName, Fleet, ObjectSummary, RenderedCluster, RenderedTree,
};
use policy::Apply;
use rollout::{Block, ComponentChange, FluxReference, StageName};

use crate::changes;
use crate::eksctl;
use crate::stage_tree::{SpecificationStep, StageTree};
use crate::support::{self, NewRelease};

/// What forbids the rollout of a cluster, as far as the repository and the deploy branch tell.
///
/// `unreadable` are the clusters whose deployed specification cannot be read, and why; `missing` is what a missing record forbids.
pub fn blocks(
    fleet: &Fleet,
    cluster: &ClusterSpec,
    unreadable: &BTreeMap<ClusterName, String>,
    missing: Option<Block>,
) -> Vec<Block> {
    let mut blocks: Vec<Block> = fleet.blocking(&cluster.name).into_iter().map(block).collect();
    match cluster.not_rolled_out(&fleet.policy) {
        // Nothing can be recorded of it, so that nothing is says no more.
        Some((message, help)) => blocks.push(Block {
            code: ProblemCode::NotRolledOut.to_string(),
            stage: None,
            message,
            help: help.to_owned(),
        }),
        None => blocks.extend(missing),
    }
    // Whoever manages others must know what they are at.
    let managed = |name: &&ClusterName| {
        fleet.managed_by(&cluster.name).any(|other| other.name == name.as_str()) || name.as_str() == cluster.name
    };
    for (name, message) in unreadable.iter().filter(|(name, _)| managed(name)) {
        blocks.push(Block {
            code: "unreadable-deployed".to_owned(),
            stage: None,
            message: format!("what cluster {name} is at cannot be read from the deploy branch: {message}"),
            help: "restore the object from another clone of the repository".to_owned(),
        });
    }
    blocks
}

/// The fields that cannot go from what is deployed to what is wanted: what forbids the rollout of it, and what a person should know.
pub fn immutable_fields(
    deployed: &RenderedTree,
    cluster: &ClusterSpec,
    files: &dyn overlays::Files,
) -> (Vec<Block>, Vec<String>) {
    let problems = overlays::immutable_changes(deployed, cluster, files);
    let (errors, others): (Vec<Problem>, Vec<Problem>) = problems.into_iter().partition(Problem::is_error);
    (errors.iter().map(block).collect(), others.iter().map(ToString::to_string).collect())
}

/// A problem of the repository as something that forbids a rollout.
pub fn block(problem: &Problem) -> Block {
    Block {
        code: problem.code.to_string(),
        stage: None,
        message: problem.to_string(),
        help: problem.hint.clone().unwrap_or_else(|| "repair the file named, commit and push".to_owned()),
    }
}

/// The cluster as its deployed files specify it.
pub fn deployed_cluster(deployed: &RenderedTree, cluster: &ClusterSpec) -> Option<ClusterSpec> {
    let fleet = overlays::read_fleet(&deployed.below(ComponentName::Cluster.directory()));
    // By itself, a cluster of eksctl is not told from one of another region.
    let name = |node: &yaml::Node| node.at(&["metadata", "name"]).and_then(yaml::Node::as_str).map(str::to_owned);
    let is_it = |found: &ClusterSpec| match cluster.kind {
        ClusterKind::Eksctl => found.kind == cluster.kind && name(&found.node) == name(&cluster.node),
        _ => found.name == cluster.name,
    };
    let found = fleet.clusters.into_iter().find(is_it)?;
    Some(ClusterSpec { name: cluster.name.clone(), ..found })
}

/// The steps from the deployed specification to the rendered one.
pub fn specification_steps(
    fleet: &Fleet,
    deployed: &RenderedTree,
    rendered: &RenderedCluster,
    cluster: &ClusterSpec,
) -> Vec<SpecificationStep> {
    let Some(Ok(target)) = rendered.components.get(&ComponentName::Cluster) else { return Vec::new() };
    overlays::cluster_stages(fleet, deployed, &target.tree, cluster).into_iter().map(step).collect()
}

/// The steps from the deployed specification back to one of before.
pub fn specification_steps_back(
    fleet: &Fleet,
    deployed: &RenderedTree,
    target: &RenderedTree,
    cluster: &ClusterSpec,
) -> Vec<SpecificationStep> {
    overlays::cluster_stages_back(fleet, deployed, target, cluster).into_iter().map(step).collect()
}

fn step(of: overlays::ClusterStage) -> SpecificationStep {
    SpecificationStep { stage: of.stage, tree: of.tree, moves: of.moves }
}

/// The worker groups that a new release of EKS-D rolls together with the control plane.
pub fn new_releases(
    base: Option<&Fleet>,
    cluster: &ClusterSpec,
    target: &Bundles,
    deployed: Option<&ClusterSpec>,
) -> Vec<NewRelease> {
    let old = base.and_then(|base| overlays::bundle_for(base, base.cluster(&cluster.name)?).ok());
    let releases = |old: &BundleFile| support::new_releases(&old.bundles, target, deployed.unwrap_or(cluster));
    old.map(releases).unwrap_or_default()
}

/// How the components of the bundle change since what is deployed, by stage.
pub fn component_changes(
    base: Option<&Fleet>,
    fleet: &Fleet,
    cluster: &ClusterSpec,
    target: &Bundles,
    deployed: Option<&ClusterSpec>,
) -> BTreeMap<StageName, Vec<ComponentChange>> {
    let base = base.and_then(|base| {
        let before = base.cluster(&cluster.name)?;
        Some((overlays::bundle_for(base, before).ok()?, &base.lock))
    });
    let Some((old, old_lock)) = base else { return BTreeMap::new() };
    let deployed = deployed.unwrap_or(cluster);
    let sections = changes::section(&old.bundles, deployed.kubernetes_minor())
        .zip(changes::section(target, cluster.kubernetes_minor()));
    let locks = Locks { old: Some(old_lock), new: Some(&fleet.lock) };
    sections.map(|(old, new)| changes::by_stage(old, new, locks, cluster)).unwrap_or_default()
}

/// What a person should know: warnings, and errors of the repository that do not stop this cluster.
pub fn warnings(fleet: &Fleet, cluster: &ClusterSpec, rendered: &RenderedCluster) -> Vec<String> {
    let blocking = fleet.blocking(&cluster.name);
    // That it is not rolled out blocks it, and is said there.
    let told = fleet.problems_of(&cluster.name).filter(|problem| problem.code != ProblemCode::NotRolledOut);
    let remarks = told.filter(|problem| match problem.severity {
        // Which file to change is good to know in any plan.
        domain::Severity::Note => problem.code == ProblemCode::Rendered,
        domain::Severity::Warning => true,
        domain::Severity::Error => !blocking.contains(problem),
    });
    let skipped = rendered.skipped.iter().map(|(component, reason)| format!("{component}: {reason}"));
    remarks.map(ToString::to_string).chain(skipped).collect()
}

/// Objects that Flux would refuse for want of a namespace.
pub fn without_namespace(fleet: &Fleet, parts: &[StageTree]) -> Vec<String> {
    if fleet.policy.apply != Apply::Flux {
        return Vec::new();
    }
    let lacks = |object: &&ObjectSummary| {
        object.namespace.is_none() && overlays::lives_in_a_namespace(&object.api_version, &object.kind)
    };
    let told = |part: &StageTree| -> Vec<String> {
        let objects = part.objects.iter().filter(lacks);
        let told = |object: &ObjectSummary| {
            format!("{}: {} {} names no namespace, and Flux refuses it", part.stage, object.kind, object.name)
        };
        objects.map(told).collect()
    };
    parts.iter().flat_map(told).collect()
}

/// The cluster's Flux Kustomizations by the directory that they apply; none where somebody's pipeline applies it.
pub fn kustomizations(
    fleet: &Fleet,
    spec: &ClusterSpec,
    rendered: &RenderedCluster,
    cluster: &ClusterName,
) -> BTreeMap<String, FluxReference> {
    if eksctl::is_applied_elsewhere(&fleet.policy, spec) {
        return BTreeMap::new();
    }
    let Some(Ok(objects)) = rendered.components.get(&ComponentName::FluxObjects) else {
        // Without Flux the names only tell the directories apart.
        let reference = |directory: &str| FluxReference {
            namespace: "stepgate".to_owned(),
            name: format!("{cluster}-{directory}"),
        };
        let directories = rendered.components.keys().map(|component| component.directory());
        return directories.map(|directory| (directory.to_owned(), reference(directory))).collect();
    };
    let marker = format!("clusters/{cluster}/");
    let nodes = objects.tree.files.values().flat_map(|bytes| overlays::objects_of(bytes));
    nodes
        .filter_map(|node| {
            let text = |path: &[&str]| node.at(path)?.as_str().map(str::to_owned);
            let path = text(&["spec", "path"])?;
            let (_, directory) = path.split_once(&marker)?;
            let reference =
                FluxReference { namespace: text(&["metadata", "namespace"])?, name: text(&["metadata", "name"])? };
            Some((directory.trim_end_matches('/').to_owned(), reference))
        })
        .collect()
}
