//! Clusters of Tanzu that no Supervisor carries out: what forbids a plan, and what gates expect of their add-ons.

use std::collections::BTreeMap;

use bundles::tanzu::DistributionVersion;
use overlays::tanzu::{AddonState, IMAGE, workloads};
use overlays::{ClusterKind, ClusterSpec, RenderedTanzu};
use rollout::{
    AddonsExpectation, AttemptedPart, AttemptsExpectation, Block, Expectation, ExpectedAddon, ExpectedAddonState,
    LedgerState, ObjectReference, SecretsExpectation, StageId, StageName, StageRecordKind, TanzuStages,
};
use yaml::Node;

use crate::plan::Facts;
use crate::stage_tree::StageTree;

/// The annotation by which people agree to an image of another name for the release that runs.
const ACCEPTED: &str = "stepgate.dev/accepted-image";

/// What the addons' gate expects: each add-on applied, or said to be in error; on the way down, where they come last, running too.
pub(crate) fn applied(facts: &Facts<'_>, part: &StageTree, is_target: bool) -> Vec<Expectation> {
    let Some(tanzu) = facts.cluster.tanzu.as_deref().filter(|_| is_target && part.stage.name == StageName::Addons)
    else {
        return Vec::new();
    };
    let addons = tanzu.addons.iter().map(|addon| {
        let state = match &addon.state {
            AddonState::Rendered { .. } => {
                let place = facts.kustomizations.get(&format!("addons/{}", addon.name));
                let kustomization = place.map(|place| (place.namespace.clone(), place.name.clone()));
                ExpectedAddonState::Applied { kustomization }
            }
            AddonState::Unreadable(message) => ExpectedAddonState::Unreadable { message: message.clone() },
            AddonState::Unmanaged => ExpectedAddonState::Unmanaged,
        };
        ExpectedAddon { name: addon.name.clone(), version: addon.version.clone(), state }
    });
    let applied = Expectation::AddonsApplied(AddonsExpectation { addons: addons.collect() });
    let running = if goes_down(facts) { pods(tanzu, true).chain(pods(tanzu, false)).collect() } else { Vec::new() };
    std::iter::once(applied).chain(running).collect()
}

/// What has to run on the nodes that a stage has made: behind the control plane what may run there, behind the last pool the rest.
pub(crate) fn running(facts: &Facts<'_>, part: &StageTree) -> Vec<Expectation> {
    let Some(tanzu) = facts.cluster.tanzu.as_deref().filter(|_| part.component.is_none()) else { return Vec::new() };
    let is_of_workers = |part: &&StageTree| matches!(part.stage.name, StageName::Workers(_));
    let last = facts.parts.iter().rev().find(is_of_workers);
    let is_last = last.is_some_and(|last| last.stage == part.stage);
    let of_machines = attempts(facts, &part.stage.name).into_iter().chain([secrets(facts)]);
    let pods = match &part.stage.name {
        _ if goes_down(facts) => Vec::new(),
        StageName::ControlPlane => pods(tanzu, true).collect(),
        _ if is_last => pods(tanzu, false).collect(),
        _ => Vec::new(),
    };
    of_machines.chain(pods).collect()
}

/// That no other update of it is in progress, and none has failed.
fn settled(facts: &Facts<'_>) -> Expectation {
    let cluster = facts.cluster;
    let namespace = if cluster.namespace.is_empty() { "default" } else { &cluster.namespace };
    Expectation::RenderedSettled { namespace: namespace.to_owned(), cluster: cluster.name.clone() }
}

/// What Cluster API keeps of a cluster, and could make anew only as that of another one.
fn secrets(facts: &Facts<'_>) -> Expectation {
    let cluster = facts.cluster;
    let namespace = if cluster.namespace.is_empty() { "default" } else { &cluster.namespace };
    let secret = |purpose: &str| ObjectReference {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: format!("{}-{purpose}", cluster.name),
    };
    Expectation::Secrets(SecretsExpectation {
        namespace: namespace.to_owned(),
        cluster: cluster.name.clone(),
        secrets: ["ca", "etcd", "proxy", "sa", "kubeconfig"].map(secret).to_vec(),
        before: BTreeMap::new(),
    })
}

/// That machines of a stage come up, each in its time.
fn attempts(facts: &Facts<'_>, stage: &StageName) -> Option<Expectation> {
    let cluster = facts.cluster;
    let part = match stage {
        StageName::ControlPlane => AttemptedPart::ControlPlane,
        StageName::Workers(group) if cluster.worker_groups.iter().any(|known| known.name == group.as_str()) => {
            AttemptedPart::Workers { group: group.clone() }
        }
        _ => return None,
    };
    let namespace = if cluster.namespace.is_empty() { "default" } else { &cluster.namespace };
    let limit = facts.fleet.policy.tanzu_of(&cluster.name).machine_timeout;
    let (namespace, cluster) = (namespace.to_owned(), cluster.name.clone());
    Some(Expectation::Attempts(AttemptsExpectation { namespace, cluster, part, limit, retried_after: Vec::new() }))
}

/// What stages without a commit expect of a rendered cluster that is there; none of others.
pub(crate) fn stages(facts: &Facts<'_>) -> Option<TanzuStages> {
    let is_there = facts.cluster.tanzu.is_some() && facts.deployed.is_some();
    is_there.then(|| TanzuStages {
        is_front: false,
        preflight: vec![settled(facts), secrets(facts)],
        verify: Vec::new(),
    })
}

/// Why a stage is part of the plan, in the words update, upgrade and downgrade.
pub(crate) fn reasons(facts: &Facts<'_>, part: &StageTree) -> Vec<String> {
    let Some(tanzu) = facts.cluster.tanzu.as_deref().filter(|_| part.is_moved()) else { return Vec::new() };
    let is_of_release = matches!(part.stage.name, StageName::Addons | StageName::ControlPlane);
    let releases = facts.deployed.and_then(|deployed| release(&deployed.node)).zip(tanzu.release.parse().ok());
    let releases =
        releases.filter(|(old, new): &(DistributionVersion, DistributionVersion)| is_of_release && old != new);
    let said = releases.map(|(old, new)| {
        let what = match new.order(&old) {
            std::cmp::Ordering::Greater => "upgrade",
            std::cmp::Ordering::Less => "downgrade",
            std::cmp::Ordering::Equal => "update",
        };
        format!("{what}: release {old} to {new}")
    });
    said.into_iter().collect()
}

/// The release that a rendered Cluster names.
fn release(node: &Node) -> Option<DistributionVersion> {
    let labels = node.at(&["metadata", "labels"])?;
    labels.get("run.tanzu.vmware.com/tkr").and_then(Node::as_str)?.parse().ok()
}

/// The workloads of add-ons whose pods may run in a control plane, or those whose pods may not.
fn pods(tanzu: &RenderedTanzu, of_control_plane: bool) -> impl Iterator<Item = Expectation> {
    let rendered = tanzu.addons.iter().filter_map(|addon| match &addon.state {
        AddonState::Rendered { objects, .. } => Some(workloads(objects)),
        AddonState::Unreadable(_) | AddonState::Unmanaged => None,
    });
    let meant = rendered.flatten().filter(move |(_, tolerates)| *tolerates == of_control_plane);
    meant.map(|((kind, namespace, name), _)| match kind.as_str() {
        "DaemonSet" => Expectation::PodsOnNewNodes { namespace, name, release: tanzu.label.clone() },
        _ => Expectation::Deployment { namespace, name, images: Vec::new() },
    })
}

/// Whether the control plane goes to an earlier release, or went there in the rollout that runs: then add-ons come after it.
fn goes_down(facts: &Facts<'_>) -> bool {
    let version = |cluster: &ClusterSpec| cluster.kubernetes_version.parse::<bundles::KubernetesVersion>().ok();
    let both = facts.deployed.and_then(version).zip(version(facts.cluster));
    if both.is_some_and(|(old, new)| new.order(&old).is_lt()) {
        return true;
    }
    let running = facts.directory.ledger().filter(|ledger| ledger.state == LedgerState::Running);
    let commits: Vec<&StageName> = running
        .iter()
        .flat_map(|ledger| &ledger.stages)
        .filter(|record| record.kind == StageRecordKind::Commit)
        .map(|record| &record.stage.name)
        .collect();
    let Some(plane) = commits.iter().position(|stage| **stage == StageName::ControlPlane) else { return false };
    let (before, after) = commits.split_at(plane);
    let is_pending = facts.parts.iter().any(|part| part.stage.name == StageName::Addons && part.is_moved());
    before.iter().any(|stage| matches!(stage, StageName::Workers(_)))
        || after.contains(&&StageName::Addons)
        || is_pending && !before.contains(&&StageName::Addons)
}

/// What must not begin without a person who wants it.
pub(crate) fn blocks(facts: &Facts<'_>) -> Vec<Block> {
    let Some(deployed) = facts.deployed else { return Vec::new() };
    let block = |code: &str, stage: Option<StageId>, message: String, help: String| Block {
        code: code.to_owned(),
        stage,
        message,
        help,
    };
    let Some(tanzu) = facts.cluster.tanzu.as_deref() else {
        let was_rendered = facts.cluster.kind == ClusterKind::Tanzu && deployed.kind != ClusterKind::Tanzu;
        let message = "the cluster was rendered for Cluster API, and a Supervisor would make it anew".to_owned();
        let help = "write `tanzu: {mode: render}` for it in stepgate.yaml".to_owned();
        return was_rendered.then(|| block("tanzu-mode", None, message, help)).into_iter().collect();
    };
    if deployed.kind == ClusterKind::Tanzu {
        let message = "a Supervisor carries the cluster out, and Cluster API would make it anew beside it".to_owned();
        let help = "write `tanzu: {mode: front}` for it in stepgate.yaml".to_owned();
        return vec![block("tanzu-mode", None, message, help)];
    }
    let text = |node: &Node, name: &str| {
        node.at(&["metadata", "annotations"])?.get(name).and_then(Node::as_str).map(str::to_owned)
    };
    let mut blocks = Vec::new();
    let is_same_release = release(&deployed.node) == tanzu.release.parse().ok();
    let has_stage = facts.parts.iter().any(|part| part.stage.name == StageName::Addons && part.is_moved());
    let unreadable = tanzu.addons.iter().find_map(|addon| match &addon.state {
        AddonState::Unreadable(why) => Some((&addon.name, why)),
        AddonState::Rendered { .. } | AddonState::Unmanaged => None,
    });
    let is_running = facts.directory.ledger().is_some_and(|ledger| ledger.state == LedgerState::Running);
    if let Some((name, why)) = unreadable.filter(|_| !is_same_release && !has_stage && !is_running) {
        // No gate of add-ons would be asked.
        let message = format!("add-on {name} of release {}: error: {why}", tanzu.release);
        let help = format!("record its image anew, or list {name} under `tanzu: {{unmanaged: […]}}` in stepgate.yaml");
        blocks.push(block("addon-unreadable", Some(StageName::ControlPlane.into()), message, help));
    }
    let releases = release(&deployed.node).zip(tanzu.release.parse::<DistributionVersion>().ok());
    let may_go_down = facts.befores.plan_policy(&facts.fleet.policy, facts.newest, &facts.cluster.name).allow_downgrade;
    if let Some((old, new)) = releases.filter(|(old, new)| new.order(old).is_lt() && !may_go_down) {
        let message = format!("the cluster would go from release {old} down to {new}");
        let help = "set allowDowngrade for the cluster if that is meant".to_owned();
        blocks.push(block("release-downgrade", Some(StageName::ControlPlane.into()), message, help));
    }
    let before = text(&deployed.node, IMAGE);
    let accepted = text(&facts.cluster.node, ACCEPTED);
    if let Some(before) = before.filter(|before| is_same_release && *before != tanzu.image)
        && accepted.as_deref() != Some(tanzu.image.as_str())
    {
        let message = format!(
            "image {before} of release {} has become {}: the same version under another name would replace every machine",
            tanzu.release, tanzu.image
        );
        let help = format!(
            "write the annotation {ACCEPTED}: {} on the TanzuKubernetesCluster where that is meant",
            tanzu.image
        );
        blocks.push(block("image-renamed", Some(StageName::ControlPlane.into()), message, help));
    }
    blocks
}
