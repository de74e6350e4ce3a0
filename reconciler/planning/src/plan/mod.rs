//! From a rendered cluster to the input of its plan: stages with reasons, risks, one-way doors and what their gates expect.

mod risks;
mod skew;

use std::collections::BTreeMap;

use domain::{ClusterName, CommitId};
use jiff::civil::Date;
use overlays::{ClusterKind, ClusterSpec, ComponentName, Fleet, Note, ObjectSummary, RenderedTree, Weight};
use policy::{ControlPlaneGate, Policy, StagePolicy};
use rollout::{
    Block, ChecksExpectation, ClusterRole, ComponentChange, Expectation, Extent, PlanInput, Rollback, StageInput,
    StageName,
};
use yaml::Node;

use crate::directory::{ClusterDirectory, cluster_folder};
use crate::machines::Specification;
use crate::policies::Befores;
use crate::stage_tree::{StageTree, target_tree};
use crate::support::NewRelease;
use crate::{changes, definitions, expectation, images, people, removed_apis, rolled, signatures};
use rollout::FluxReference;

/// What is known about one cluster when its plan is made.
pub struct Facts<'a> {
    /// The fleet of the source commit.
    pub fleet: &'a Fleet,
    /// The policies of before that count besides the newest.
    pub befores: &'a Befores,
    /// The newest policy.
    pub newest: &'a Policy,
    /// The cluster as the source branch wants it.
    pub cluster: &'a ClusterSpec,
    /// Its name, checked.
    pub name: &'a ClusterName,
    /// The cluster as it is deployed; none where its directory holds no specification.
    pub deployed: Option<&'a ClusterSpec>,
    /// Its directory on the deploy branch.
    pub directory: &'a ClusterDirectory,
    /// The source commit.
    pub source: &'a CommitId,
    /// The parts of its target.
    pub parts: &'a [StageTree],
    /// How its components change, by stage.
    pub changes: &'a BTreeMap<StageName, Vec<ComponentChange>>,
    /// What upstream changed of what overlays set, by component.
    pub overlay_conflicts: &'a BTreeMap<ComponentName, Vec<String>>,
    /// The Flux Kustomizations by the directory that they apply.
    pub kustomizations: &'a BTreeMap<String, FluxReference>,
    /// EKS Anywhere versions of the other clusters, as deployed.
    pub deployed_eksa: &'a BTreeMap<ClusterName, String>,
    /// The worker groups that a new release of EKS-D rolls together with the control plane.
    pub new_releases: &'a [NewRelease],
    /// The day on which the plan is made.
    pub today: Date,
    /// What forbids the rollout.
    pub blocked: Vec<Block>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// What the cluster goes back to, where its target is a state of before.
    pub rollback: Option<Rollback>,
}

/// Makes the input of the plan.
pub fn input(facts: &Facts<'_>) -> PlanInput {
    let policy = &facts.fleet.policy;
    let mut blocked = facts.blocked.clone();
    blocked.extend(people::unusable_names(policy));
    let unproven = signatures::unproven(facts.fleet, facts.cluster, facts.befores, facts.newest);
    blocked.extend(signatures::blocks(&unproven));
    let mut stages = Vec::new();
    for part in facts.parts {
        if part.skipped.is_some() {
            continue;
        }
        for note in part.notes.iter().filter(|note| note.weight == Weight::Block) {
            blocked.push(Block {
                code: "render".to_owned(),
                stage: Some(part.stage.clone()),
                message: note.to_string(),
                help: "change the bundle, the overlay or the object named, so that this stage can be applied"
                    .to_owned(),
            });
        }
        if !part.missing_hops.is_empty() {
            blocked.push(missing_hops(part));
        }
        stages.push(stage_input(facts, part));
    }
    PlanInput {
        cluster: facts.name.clone(),
        role: if facts.cluster.is_management() { ClusterRole::Management } else { ClusterRole::Workload },
        source: facts.source.clone(),
        deployed: facts.directory.files.digest(),
        target: target_tree(&facts.directory.files, facts.parts).digest(),
        stages,
        skew: skew::skew(facts),
        policy: facts.befores.plan_policy(policy, facts.newest, &facts.cluster.name),
        checks: ChecksExpectation {
            definitions: definitions::changes(facts.parts),
            removed_apis: removed_apis::removed_apis(
                facts.parts,
                facts.deployed.map(|deployed| deployed.kubernetes_version.as_str()),
                &facts.cluster.kubernetes_version,
            ),
            images: images::images(facts.parts),
            compared: compared(facts.parts),
            signatures: unproven,
            ..ChecksExpectation::default()
        },
        blocked,
        warnings: facts.warnings.clone(),
        ledger: facts.directory.ledger().cloned(),
        rollback: facts.rollback.clone(),
    }
}

/// The files of components that change, as the deploy branch has them.
fn compared(parts: &[StageTree]) -> Vec<String> {
    let changed = parts.iter().filter(|part| part.component.is_some() && part.is_moved());
    let mut paths: Vec<String> = changed
        .flat_map(|part| part.before.files.keys())
        .filter(|path| path.is_yaml())
        .map(ToString::to_string)
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

fn missing_hops(part: &StageTree) -> Block {
    Block {
        code: "skip-minor".to_owned(),
        stage: Some(part.stage.clone()),
        message: format!(
            "{} goes one minor at a time, and no bundle has {}",
            part.stage.name,
            part.missing_hops.join(", ")
        ),
        help: "add the bundles of the releases in between to bundles/, each with its own number".to_owned(),
    }
}

/// What the team has decided about a stage, and had decided before it wanted this.
fn policy_in_force(facts: &Facts<'_>, stage: &str) -> StagePolicy {
    facts.befores.stage_policy(&facts.fleet.policy, facts.newest, &facts.cluster.name, stage)
}

fn stage_input(facts: &Facts<'_>, part: &StageTree) -> StageInput {
    let texts = |weight: Weight| -> Vec<String> {
        part.notes.iter().filter(|note| note.weight == weight).map(Note::to_string).collect()
    };
    let mut reasons = texts(Weight::Note);
    let changes = stage_changes(facts, part);
    if part.before != part.after {
        let files = part.before.diff(&part.after).files.len();
        reasons.insert(
            0,
            format!("{files} file{} of its directory differ{}", plural(files), if files == 1 { "s" } else { "" }),
        );
    }
    StageInput {
        stage: part.stage.clone(),
        deployed: part.before.digest(),
        target: part.after.digest(),
        reasons,
        risks: risks::risks(facts, part, &changes),
        one_way: texts(Weight::OneWay).into_iter().chain(etcd_one_way(facts, part)).collect(),
        expectations: expectations(facts, part, Side::Target),
        deployed_expectations: expectations(facts, part, Side::Deployed),
        policy: policy_in_force(facts, &part.stage.to_string()),
        machines: machines(facts, part, &changes),
        changes,
        render_error: part.error.clone(),
        carried_by: part.carried_by.clone(),
    }
}

/// Why EKS Anywhere lets nobody take back a commit that moves etcd: it refuses lower versions.
fn etcd_one_way(facts: &Facts<'_>, part: &StageTree) -> Option<String> {
    let deployed = facts.deployed.filter(|_| part.stage.name == StageName::Etcd && part.before != part.after)?;
    if facts.cluster.kind != ClusterKind::EksAnywhere {
        return None;
    }
    let versions = [
        ("kubernetesVersion", Some(&deployed.kubernetes_version), Some(&facts.cluster.kubernetes_version)),
        ("eksaVersion", eksa_version(deployed), eksa_version(facts.cluster)),
    ];
    let (field, old, new) = versions.into_iter().find(|(_, old, new)| old != new)?;
    let text = |version: Option<&String>| version.map_or("none", String::as_str).to_owned();
    Some(format!("EKS Anywhere does not let {field} go back from {} to {}", text(new), text(old)))
}

fn eksa_version(cluster: &ClusterSpec) -> Option<&String> {
    match &cluster.bundle_reference {
        Some(overlays::BundleReference::EksaVersion(version)) => Some(version),
        Some(overlays::BundleReference::Bundles(_)) | None => None,
    }
}

/// The worker groups that roll with the control plane, where this stage is the one that refers to the new bundle.
fn rolled_groups<'a>(facts: &'a Facts<'_>, part: &StageTree) -> &'a [NewRelease] {
    let is_it = part.stage.name == StageName::ControlPlane && part.component.is_none();
    if is_it { facts.new_releases } else { &[] }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// All objects in a tree.
fn nodes(tree: &RenderedTree) -> Vec<Node> {
    let files = tree.files.iter().filter(|(path, _)| path.is_yaml());
    files.flat_map(|(_, bytes)| overlays::objects_of(bytes)).collect()
}

fn stage_changes(facts: &Facts<'_>, part: &StageTree) -> Vec<ComponentChange> {
    let versions = || {
        let deployed = facts.deployed?;
        match &part.stage.name {
            StageName::Workers(group) => {
                let of = |spec: &ClusterSpec| {
                    spec.worker_groups
                        .iter()
                        .find(|known| known.name == group.as_str() && !known.keeps_its_version())
                        .map(|known| known.kubernetes_version.clone())
                };
                changes::kubernetes(&of(deployed)?, &of(facts.cluster)?)
            }
            _ => changes::kubernetes(&deployed.kubernetes_version, &facts.cluster.kubernetes_version),
        }
    };
    let mut found = match part.stage.name {
        StageName::CiliumPreflight => facts.changes.get(&StageName::Cilium).cloned().unwrap_or_default(),
        _ => facts.changes.get(&part.stage.name).cloned().unwrap_or_default(),
    };
    if matches!(part.stage.name, StageName::ControlPlane | StageName::Workers(_)) {
        found.extend(versions());
    }
    found
}

/// Which side of a stage its gate is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Deployed,
    Target,
}

fn expectations(facts: &Facts<'_>, part: &StageTree, side: Side) -> Vec<Expectation> {
    let directory = part.component.map_or("cluster", ComponentName::directory);
    let flux = facts.kustomizations.get(directory).map(|reference| Expectation::Flux {
        namespace: reference.namespace.clone(),
        kustomizations: vec![reference.name.clone()],
    });
    if part.component.is_none() {
        return flux.into_iter().chain(machine_expectations(facts, part, side)).collect();
    }
    match side {
        Side::Target => {
            // The pre-pull goes with the stage after it: what pulled the images has no more use.
            let gone = (part.stage == StageName::Cilium.into()).then(expectation::pre_pull_gone);
            expectation::of_objects(&part.objects, flux).into_iter().chain(gone).collect()
        }
        Side::Deployed => {
            // The Flux objects that a part carries are those of every component, and none of its own.
            let home = part.before.below(&cluster_folder(facts.name));
            let objects: Vec<ObjectSummary> = nodes(&home).iter().filter_map(ObjectSummary::of).collect();
            expectation::of_objects(&objects, flux)
        }
    }
}

/// What a step of the specification brings about.
fn machine_expectations(facts: &Facts<'_>, part: &StageTree, side: Side) -> Vec<Expectation> {
    let (cluster, tree) = match side {
        Side::Target => (facts.cluster, &part.after),
        Side::Deployed => (facts.deployed.unwrap_or(facts.cluster), &part.before),
    };
    let specification = Specification { cluster, objects: &nodes(tree) };
    let before = facts.deployed.filter(|_| side == Side::Target && part.before != part.after);
    let own = match &part.stage.name {
        StageName::Etcd => specification.etcd(before, &nodes(&part.before)),
        StageName::ControlPlane => {
            let policy = policy_in_force(facts, &part.stage.to_string());
            Some(specification.control_plane(&policy.machines))
        }
        StageName::Workers(group) => Some(specification.workers(group)),
        _ => None,
    };
    // They roll at the version that they have; one of their own comes in a stage of their own.
    let deployed = facts.deployed.filter(|_| side == Side::Target);
    let rolled = deployed.into_iter().flat_map(|cluster| {
        let specification = Specification { cluster, objects: specification.objects };
        let groups = rolled_groups(facts, part).iter().filter_map(|known| known.group.parse().ok());
        groups.map(move |group| specification.workers(&group))
    });
    // What comes first of a specification is there before the rest is carried out.
    let is_of_first_node = own
        .as_ref()
        .is_some_and(|own| matches!(own, Expectation::ControlPlane(own) if own.gate == ControlPlaneGate::FirstNode));
    let extent = if part.stage.name == StageName::Etcd || is_of_first_node { Extent::Begun } else { Extent::Whole };
    // What is wrong with the machines themselves helps more than that the controller is still at it.
    own.into_iter().chain(rolled).chain(specification.carried_out(extent)).collect()
}

/// How many machines a stage replaces, as far as the specification tells.
fn machines(facts: &Facts<'_>, part: &StageTree, changes: &[ComponentChange]) -> u32 {
    if !part.is_moved() {
        return 0;
    }
    let is_cluster_api = facts.cluster.kind == ClusterKind::ClusterApi;
    let sides = || (nodes(&part.before), nodes(&part.after));
    let rolls_control_plane = || {
        let (before, after) = sides();
        is_cluster_api && rolled::control_plane(&before, &after) == Some(true)
    };
    match &part.stage.name {
        StageName::Etcd => facts.cluster.external_etcd.unwrap_or(0),
        StageName::ControlPlane if !changes.is_empty() || rolls_control_plane() || part.carried_by.is_some() => {
            let rolled = rolled_groups(facts, part).iter().map(|group| group.machines);
            rolled.fold(facts.cluster.control_plane_count.unwrap_or(0), u32::saturating_add)
        }
        StageName::Workers(group) => {
            let (before, after) = if is_cluster_api { sides() } else { Default::default() };
            if rolled::machine_deployment(&before, &after, group.as_str()) == Some(false) {
                return 0;
            }
            let group = facts.cluster.worker_groups.iter().find(|known| known.name == group.as_str());
            group.and_then(|known| known.replicas).unwrap_or(0)
        }
        _ => 0,
    }
}
