//! Clusters of Tanzu whose Supervisor does the work: what forbids a plan, what a person should know, and what gates expect.

pub(crate) mod rendered;

use bundles::tanzu::DistributionVersion;
use domain::GroupName;
use overlays::tanzu::{MachineGroup, control_plane, is_cluster, node_pools, release_of};
use overlays::{ClusterKind, ClusterSpec, RenderedTree};
use rollout::{Block, Expectation, Risk, RiskKind, StageName, TanzuExpectation, TanzuMachines, TanzuPart, TanzuStages};
use yaml::Node;

use crate::plan::Facts;
use crate::stage_tree::StageTree;

fn expect(cluster: &ClusterSpec, part: TanzuPart) -> Expectation {
    let namespace = if cluster.namespace.is_empty() { "default" } else { &cluster.namespace };
    let name = cluster.node.at(&["metadata", "name"]).and_then(Node::as_str).unwrap_or(&cluster.name);
    Expectation::Tanzu(TanzuExpectation { namespace: namespace.to_owned(), name: name.to_owned(), part })
}

/// The `TanzuKubernetesCluster` in a tree.
fn object(tree: &RenderedTree, cluster: &ClusterSpec) -> Option<Node> {
    let name = |node: &Node| node.at(&["metadata", "name"]).and_then(Node::as_str).map(str::to_owned);
    let is_it = |node: &Node| is_cluster(node) && name(node) == name(&cluster.node);
    tree.files.values().flat_map(|bytes| overlays::objects_of(bytes)).find(is_it)
}

fn machines(group: &MachineGroup) -> Option<TanzuMachines> {
    Some(TanzuMachines {
        release: group.release.as_ref()?.to_string(),
        replicas: group.replicas,
        class: group.class.clone(),
        storage_class: group.storage_class.clone(),
        volumes: group.volumes.clone(),
    })
}

/// The names of all pools, of the cluster as it is wanted and as it is deployed.
fn pools(facts: &Facts<'_>, more: Option<&GroupName>) -> Vec<GroupName> {
    let clusters = std::iter::once(facts.cluster).chain(facts.deployed);
    let names = clusters.flat_map(|cluster| &cluster.worker_groups).filter_map(|group| group.name.parse().ok());
    let mut names: Vec<GroupName> = names.chain(more.cloned()).collect();
    names.sort();
    names.dedup();
    names
}

/// What the gate of a stage expects of the tree that it leaves, or found.
pub(crate) fn expectation(facts: &Facts<'_>, stage: &StageName, tree: &RenderedTree) -> Option<Expectation> {
    let root = object(tree, facts.cluster)?;
    part(facts, stage, &root).map(|part| expect(facts.cluster, part))
}

fn part(facts: &Facts<'_>, stage: &StageName, root: &Node) -> Option<TanzuPart> {
    Some(match stage {
        StageName::Addons => TanzuPart::Addons { release: release_of(root)?.to_string() },
        StageName::ControlPlane => {
            let known = machines(&control_plane(root))?;
            // Nothing said means one machine.
            TanzuPart::ControlPlane(TanzuMachines { replicas: known.replicas.or(Some(1)), ..known })
        }
        StageName::Workers(pool) => {
            let pools = pools(facts, Some(pool));
            let pool = pool.clone();
            match node_pools(root).into_iter().find(|(name, _)| name == pool.as_str()) {
                Some((_, group)) => TanzuPart::Workers { pool, pools, machines: machines(&group)? },
                None => TanzuPart::WorkersGone { pool, pools },
            }
        }
        _ => return None,
    })
}

/// What stages without a commit expect; none of clusters of other kinds.
pub(crate) fn stages(facts: &Facts<'_>) -> Option<TanzuStages> {
    if facts.cluster.kind != ClusterKind::Tanzu {
        return None;
    }
    let deployed = facts.deployed.unwrap_or(facts.cluster);
    let groups = deployed.worker_groups.iter().filter_map(|group| Some(StageName::Workers(group.name.parse().ok()?)));
    let stages = [StageName::Addons, StageName::ControlPlane].into_iter().chain(groups);
    let recorded = stages.filter_map(|stage| part(facts, &stage, &deployed.node));
    let settled = || expect(facts.cluster, TanzuPart::Settled);
    Some(TanzuStages {
        is_front: true,
        preflight: std::iter::once(settled()).chain(recorded.map(|part| expect(facts.cluster, part))).collect(),
        verify: vec![settled()],
    })
}

/// Both releases of a movement.
fn releases(facts: &Facts<'_>) -> Option<(DistributionVersion, DistributionVersion)> {
    let deployed = facts.deployed.filter(|_| facts.cluster.kind == ClusterKind::Tanzu)?;
    Some((release_of(&deployed.node)?, release_of(&facts.cluster.node)?))
}

/// What a Supervisor refuses of a plan.
pub(crate) fn blocks(facts: &Facts<'_>) -> Vec<Block> {
    let (ClusterKind::Tanzu, Some(deployed)) = (facts.cluster.kind, facts.deployed) else { return Vec::new() };
    let block = |stage: StageName, what: &str, old: &DistributionVersion, new: &DistributionVersion| Block {
        code: "release-downgrade".to_owned(),
        stage: Some(stage.into()),
        message: format!("{what} would go from release {old} down to {new}, and a Supervisor refuses that"),
        help: format!("leave the release at {old}, or make a new cluster of {new} and move what runs there"),
    };
    let mut blocks = Vec::new();
    if let Some((old, new)) = releases(facts).filter(|(old, new)| new.order(old).is_lt()) {
        blocks.push(block(StageName::ControlPlane, "the control plane", &old, &new));
    }
    let before = node_pools(&deployed.node);
    for (name, group) in node_pools(&facts.cluster.node) {
        let known = before.iter().find(|(known, _)| *known == name).and_then(|(_, group)| group.release.as_ref());
        let (Some(old), Some(new), Ok(pool)) = (known, &group.release, name.parse()) else { continue };
        if new.order(old).is_lt() {
            blocks.push(block(StageName::Workers(pool), &format!("node pool {name}"), old, new));
        }
    }
    blocks
}

/// Why a stage is part of the plan, in the words update, upgrade and downgrade.
pub(crate) fn reasons(facts: &Facts<'_>, part: &StageTree) -> Vec<String> {
    let Some(deployed) = facts.deployed.filter(|_| facts.cluster.kind == ClusterKind::Tanzu && part.is_moved()) else {
        return Vec::new();
    };
    let (old, new) = (&deployed.node, &facts.cluster.node);
    let groups = match &part.stage.name {
        StageName::Addons | StageName::ControlPlane => Some((control_plane(old), control_plane(new))),
        StageName::Workers(pool) => {
            let of = |root: &Node| node_pools(root).into_iter().find(|(name, _)| name == pool.as_str());
            Option::zip(of(old), of(new)).map(|((_, old), (_, new))| (old, new))
        }
        _ => None,
    };
    let Some((before, after)) = groups else { return Vec::new() };
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let mut reasons = Vec::new();
    if let (Some(old), Some(new)) = (&before.release, &after.release)
        && old != new
    {
        let what = match new.order(old) {
            std::cmp::Ordering::Greater => "upgrade",
            std::cmp::Ordering::Less => "downgrade",
            std::cmp::Ordering::Equal => "update",
        };
        reasons.push(format!("{what}: release {old} to {new}"));
    }
    if part.stage.name == StageName::Addons {
        return reasons;
    }
    for (field, old, new) in
        [("vmClass", &before.class, &after.class), ("storageClass", &before.storage_class, &after.storage_class)]
    {
        if old != new {
            reasons.push(format!("update: {field} {} to {}", text(old), text(new)));
        }
    }
    if before.volumes != after.volumes {
        reasons.push("update: its volumes".to_owned());
    }
    reasons
}

/// Whether the machines of a stage are replaced; none of clusters of other kinds, and of parts that come or go.
pub(crate) fn rolls(facts: &Facts<'_>, stage: &StageName) -> Option<bool> {
    let deployed = facts.deployed.filter(|_| facts.cluster.kind == ClusterKind::Tanzu)?;
    let (old, new) = (&deployed.node, &facts.cluster.node);
    let settings = |root: &Node| root.at(&["spec", "settings"]).cloned();
    let differ = settings(old) != settings(new);
    match stage {
        StageName::ControlPlane => Some(differ || control_plane(new).rolls_from(&control_plane(old))),
        StageName::Workers(pool) => {
            let of = |root: &Node| node_pools(root).into_iter().find(|(name, _)| name == pool.as_str());
            let (_, before) = of(old)?;
            Some(differ || of(new).is_some_and(|(_, after)| after.rolls_from(&before)))
        }
        _ => Some(false),
    }
}

/// What no gate can tell.
pub(crate) fn risks(facts: &Facts<'_>, part: &StageTree) -> Vec<Risk> {
    let mut risks = Vec::new();
    // What a commit carries is told once, with the commit.
    let Some(deployed) =
        facts.deployed.filter(|_| facts.cluster.kind == ClusterKind::Tanzu && part.before != part.after)
    else {
        return risks;
    };
    if let Some((old, new)) = releases(facts).filter(|(old, new)| old != new && new.order(old).is_eq()) {
        let text = format!("releases {old} and {new} cannot be ordered: a Supervisor may refuse the step as one down");
        risks.push(Risk::new(RiskKind::UnusualVersion, text));
    }
    let settings = |root: &Node| root.at(&["spec", "settings"]).cloned();
    if settings(&deployed.node) != settings(&facts.cluster.node) {
        let text = "settings change, which no machine tells: the gates ask only that nothing is on its way".to_owned();
        risks.push(Risk::new(RiskKind::GateReach, text));
    }
    let parts = |root: &Node| {
        let pools = node_pools(root);
        std::iter::once(("control plane".to_owned(), control_plane(root))).chain(pools).collect::<Vec<_>>()
    };
    let after = parts(&facts.cluster.node);
    for (name, before) in parts(&deployed.node) {
        let Some((_, after)) = after.iter().find(|(known, _)| *known == name) else { continue };
        let goes = |(volume, _): &&(String, String)| !after.volumes.iter().any(|(known, _)| known == volume);
        if let Some((volume, _)) = before.volumes.iter().find(goes) {
            let text = format!("{name}: volume {volume} goes, and no gate looks for volumes that are too many");
            risks.push(Risk::new(RiskKind::GateReach, text));
        }
    }
    risks
}

/// What closes with the commit.
pub(crate) fn one_way(facts: &Facts<'_>, part: &StageTree) -> Option<String> {
    let (old, new) = releases(facts).filter(|(old, new)| old != new && part.before != part.after)?;
    Some(format!("release {old} to {new}: a Supervisor takes no earlier release of a cluster"))
}
