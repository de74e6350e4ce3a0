//! Clusters of eksctl: what forbids a plan, what a person should know, and what gates expect of EKS.

pub(crate) mod replaced_groups;
pub(crate) mod way_back;

use domain::ClusterName;
use overlays::eksctl::{GROUP_LISTS, Succession, addons, minor_of, node_groups, succession};
use overlays::{ClusterKind, ClusterSpec, RenderedTree, WorkerGroupKind};
use policy::{Apply, Policy};
use rollout::eksctl::EksctlStep;
use rollout::{
    Block, DeployHead, EksPart, EksctlStages, Expectation, LedgerState, Risk, RiskKind, StageAtTheEnd, StageId,
    StageName, addon_workload,
};
use yaml::Node;

use crate::ClusterDirectory;
use crate::plan::Facts;
use crate::stage_tree::StageTree;

fn eks(part: EksPart) -> Expectation {
    Expectation::Eks(part.into())
}

/// The `ClusterConfig` in a tree.
fn config(tree: &RenderedTree, cluster: &ClusterSpec) -> Option<Node> {
    let name = |node: &Node| node.at(&["metadata", "name"]).and_then(Node::as_str).map(str::to_owned);
    let is_it = |node: &Node| {
        node.get("kind").and_then(Node::as_str) == Some("ClusterConfig") && name(node) == name(&cluster.node)
    };
    tree.files.values().flat_map(|bytes| overlays::objects_of(bytes)).find(is_it)
}

fn version(root: &Node) -> Option<String> {
    root.at(&["metadata", "version"]).and_then(Node::scalar_text).map(std::borrow::Cow::into_owned)
}

/// What the gate of a stage expects of the tree that it leaves, or found.
pub(crate) fn expectation(cluster: &ClusterSpec, stage: &StageName, tree: &RenderedTree) -> Option<Expectation> {
    let root = config(tree, cluster)?;
    let part = match stage {
        StageName::ControlPlane => EksPart::ControlPlane { version: version(&root)? },
        StageName::Addon(name) => {
            let version = addons(&root).find(|(known, _)| *known == name.as_str()).and_then(|(_, version)| version);
            EksPart::Addon { name: name.clone(), version }
        }
        StageName::Workers(name) => group(&root, name.as_str())?,
        _ => return None,
    };
    Some(eks(part))
}

/// A node group of a `ClusterConfig`; one that it does not have is to be gone.
fn group(root: &Node, name: &str) -> Option<EksPart> {
    let Some((_, _, item)) = node_groups(root).find(|(_, known, _)| *known == name) else {
        return Some(EksPart::NodeGroupGone { name: name.parse().ok()? });
    };
    // Whoever scales it goes down to the least that it may have.
    let count = |key: &str| item.get(key).and_then(Node::as_i64).and_then(|count| u32::try_from(count).ok());
    let nodes = count("minSize").or_else(|| count("desiredCapacity")).unwrap_or(0);
    let version = succession(root, name).version();
    Some(EksPart::NodeGroup { name: name.parse().ok()?, version, nodes })
}

/// What stages without a commit expect; none of clusters of other kinds.
pub(crate) fn stages(facts: &Facts<'_>, policy: &dyn Fn(&str) -> policy::StagePolicy) -> Option<EksctlStages> {
    let cluster = facts.cluster;
    if cluster.kind != ClusterKind::Eksctl {
        return None;
    }
    let deployed = facts.deployed.unwrap_or(cluster);
    let recorded = EksPart::ControlPlane { version: deployed.kubernetes_version.clone() };
    let groups = node_groups(&deployed.node).filter_map(|(_, name, _)| group(&deployed.node, name));
    let preflight = std::iter::once(recorded).chain(groups).map(eks).collect();
    let name = cluster.node.at(&["metadata", "name"]).and_then(Node::as_str).unwrap_or(&cluster.name).to_owned();
    let groups = node_groups(&cluster.node).map(|(_, name, _)| name.to_owned()).collect();
    let restarts = facts.befores.restarts_fargate(facts.newest, &cluster.name);
    let fargate = EksPart::Fargate { version: cluster.kubernetes_version.clone(), restarts };
    Some(EksctlStages {
        preflight,
        fargate: StageAtTheEnd { expectation: eks(fargate), policy: policy("fargate") },
        leftovers: StageAtTheEnd {
            expectation: eks(EksPart::Leftovers { cluster: name, groups }),
            policy: policy("leftovers"),
        },
    })
}

fn block(code: &str, stage: Option<StageName>, message: String, help: &str) -> Block {
    Block { code: code.to_owned(), stage: stage.map(StageId::from), message, help: help.to_owned() }
}

/// What EKS refuses of a plan, where nothing of it has begun.
pub(crate) fn blocks(facts: &Facts<'_>) -> Vec<Block> {
    let cluster = facts.cluster;
    let (ClusterKind::Eksctl, Some(deployed)) = (cluster.kind, facts.deployed) else { return Vec::new() };
    let (Some(old), Some(new)) = (minor_of(&deployed.kubernetes_version), minor_of(&cluster.kubernetes_version)) else {
        return Vec::new();
    };
    let mut blocks = Vec::new();
    if new > old {
        let behind = node_groups(&deployed.node).filter(|(kind, ..)| *kind == WorkerGroupKind::ManagedNodeGroup);
        for (_, name, _) in behind {
            let Succession::Versioned(known) = succession(&deployed.node, name) else { continue };
            if known.minor < old {
                let message = format!(
                    "managed node group {name} is at {}, and EKS raises a control plane only while they are at its own version ({})",
                    known.version(),
                    deployed.kubernetes_version
                );
                let help = "leave metadata.version as it is until the group is replaced, then raise it";
                blocks.push(block("managed-nodes-behind", Some(StageName::ControlPlane), message, help));
            }
        }
    }
    for (name, version) in addons(&cluster.node) {
        let minor = version.as_deref().and_then(|version| {
            let mut parts = version.trim_start_matches('v').split('.');
            (parts.next() == Some("1")).then(|| parts.next()?.parse::<u32>().ok()).flatten()
        });
        let Some(minor) = minor.filter(|minor| name == "kube-proxy" && (*minor > new || *minor + 3 < new)) else {
            continue;
        };
        let message = format!("add-on kube-proxy is of 1.{minor}, and the cluster of {}", cluster.kubernetes_version);
        let help = "name a version between three minors below that of the cluster and its own";
        blocks.push(block("addon-skew", name.parse().ok().map(StageName::Addon), message, help));
    }
    if facts.fleet.policy.apply_of(&cluster.name) == Apply::Eksctl && !other_fields_are_alike(deployed, cluster) {
        let message = "fields change that no command of Stepgate carries out: versions, add-ons and node groups alone go by stages";
        let help = "carry them out by hand, and put them into the deploy branch by `stepgate adopt`, or let a pipeline do it \
                    (`apply: pipeline`)";
        blocks.push(block("not-carried-out", Some(StageName::ControlPlane), message.to_owned(), help));
    }
    let forced = cluster.node.at(&["metadata", "forceUpdateVersion"]).and_then(Node::as_bool) == Some(true);
    let may_force = facts.befores.allows_forced_update(facts.newest, &cluster.name);
    if forced && new != old && !may_force {
        let message = "metadata.forceUpdateVersion lets eksctl override what EKS says against the upgrade".to_owned();
        let help = "remove it: what EKS says is told by `aws eks list-insights`, and is to be mended before; where that is \
                    meant all the same, set allowForcedUpdate for the cluster";
        blocks.push(block("forced-update", Some(StageName::ControlPlane), message, help));
    }
    blocks
}

/// What a gate cannot tell, and what nobody but the pipeline sees.
pub(crate) fn risks(facts: &Facts<'_>, part: &StageTree) -> Vec<Risk> {
    if facts.cluster.kind != ClusterKind::Eksctl || !part.is_moved() {
        return Vec::new();
    }
    let text = match &part.stage.name {
        StageName::Addon(name) if addon_workload(name.as_str()).is_none() => {
            format!("nothing in the cluster tells the version of add-on {name}: its gate asks for ready workloads alone")
        }
        StageName::ControlPlane if other_fields(facts, part) => {
            "fields beside metadata.version change, which `eksctl upgrade cluster` leaves alone and no gate looks at: the \
             pipeline has to carry them out"
                .to_owned()
        }
        _ => return Vec::new(),
    };
    vec![Risk::new(RiskKind::GateReach, text)]
}

/// Whether the first step changes more than the version.
fn other_fields(facts: &Facts<'_>, part: &StageTree) -> bool {
    let rest = |tree: &RenderedTree| {
        let mut root = config(tree, facts.cluster)?;
        if let Some(metadata) = root.get_mut("metadata").and_then(Node::as_mapping_mut) {
            ["version", "forceUpdateVersion", "rollbackConfig", "annotations"]
                .iter()
                .for_each(|key| drop(metadata.remove(key)));
        }
        Some(root)
    };
    rest(&part.before) != rest(&part.after)
}

/// What closes with a step, and how long it stays open.
pub(crate) fn one_way(facts: &Facts<'_>, part: &StageTree) -> Option<String> {
    let deployed = facts.deployed.filter(|_| facts.cluster.kind == ClusterKind::Eksctl && part.is_moved())?;
    let (old, new) = (minor_of(&deployed.kubernetes_version)?, minor_of(&facts.cluster.kubernetes_version)?);
    (part.stage.name == StageName::ControlPlane && new > old).then(|| {
        format!(
            "EKS takes a control plane back from 1.{new} to 1.{old} within 7 days, and only while no node is newer: replacing \
             the first node group closes that way"
        )
    })
}

/// Who applies a cluster of eksctl: nobody whose word could be asked for.
pub(crate) fn is_applied_elsewhere(policy: &Policy, cluster: &ClusterSpec) -> bool {
    let apply = policy.apply_of(&cluster.name);
    cluster.kind == ClusterKind::Eksctl && matches!(apply, Apply::Pipeline | Apply::Eksctl)
}

/// Whether two states of a `ClusterConfig` differ in nothing but what stages are made of.
fn other_fields_are_alike(deployed: &ClusterSpec, cluster: &ClusterSpec) -> bool {
    let rest = |spec: &ClusterSpec| {
        let mut root = spec.node.as_ref().clone();
        if let Some(metadata) = root.get_mut("metadata").and_then(Node::as_mapping_mut) {
            ["version", "forceUpdateVersion", "rollbackConfig", "annotations"]
                .iter()
                .for_each(|key| drop(metadata.remove(key)));
        }
        if let Some(mapping) = root.as_mapping_mut() {
            let lists = GROUP_LISTS.into_iter().map(|(list, _)| list);
            lists.chain(["addons"]).for_each(|list| drop(mapping.remove(list)));
        }
        root
    };
    // An add-on that goes has no stage of its own.
    let is_kept = |name: &str| addons(&cluster.node).any(|(known, _)| known == name);
    rest(deployed) == rest(cluster) && addons(&deployed.node).all(|(name, _)| is_kept(name))
}

/// What eksctl is to carry out for a cluster: the newest stage of its rollout.
#[derive(Debug, Clone)]
pub struct EksctlWork {
    /// What AWS calls the cluster.
    pub name: String,
    /// Its region.
    pub region: String,
    /// The commit, and what its gate expects.
    pub step: EksctlStep,
    /// The deployed `ClusterConfig`.
    pub config: Node,
}

/// What eksctl is to carry out of what is deployed; none where no rollout runs, or its newest stage is not eksctl's.
#[must_use]
pub fn eksctl_work(
    cluster: &ClusterSpec,
    name: &ClusterName,
    directory: &ClusterDirectory,
    head: &DeployHead,
) -> Option<EksctlWork> {
    let ledger = directory.ledger().filter(|ledger| ledger.state == LedgerState::Running)?;
    let stage = &ledger.stages.last()?.stage;
    let is_it = |trailer: &rollout::StageTrailer| {
        trailer.cluster == *name && trailer.rollout == ledger.rollout && trailer.stage == *stage
    };
    let commit = head.newest(is_it)?.id.clone();
    let config = config(&directory.files, cluster)?;
    let part = running_eks_part(cluster, directory)?;
    let has_addon = match &part {
        EksPart::Addon { name, .. } => addons(&config).any(|(known, _)| known == name.as_str()),
        _ => false,
    };
    let (name, region) = eksctl_names(&config)?;
    let step = EksctlStep { rollout: ledger.rollout.clone(), commit, part, has_addon };
    Some(EksctlWork { name, region, step, config })
}

/// What the newest stage of a running rollout is about; none where none runs, or that is not eksctl's.
#[must_use]
pub fn running_eks_part(cluster: &ClusterSpec, directory: &ClusterDirectory) -> Option<EksPart> {
    let ledger = directory.ledger().filter(|ledger| ledger.state == LedgerState::Running)?;
    match expectation(cluster, &ledger.stages.last()?.stage.name, &directory.files)? {
        Expectation::Eks(expected) => Some(expected.part),
        _ => None,
    }
}

/// What AWS calls the cluster of a `ClusterConfig`, and its region.
#[must_use]
pub fn eksctl_names(config: &Node) -> Option<(String, String)> {
    let text = |key: &str| config.at(&["metadata", key]).and_then(Node::scalar_text).map(|text| text.into_owned());
    Some((text("name")?, text("region")?))
}
