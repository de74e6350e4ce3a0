//! From a rendered cluster to the input of its plan: stages with reasons, risks, one-way doors and what their gates expect.

mod in_place;
mod risks;
mod skew;

pub use in_place::problems as in_place_problems;

use std::collections::{BTreeMap, BTreeSet};

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use jiff::civil::Date;
use overlays::{
    ClusterKind, ClusterSpec, ComponentName, Fleet, Note, ObjectSummary, RenderedTree, Weight, WorkerGroup,
};
use policy::{ControlPlaneGate, Policy, StagePolicy};
use rollout::{
    Block, ChecksExpectation, ClusterRole, ComponentChange, Expectation, Extent, PlanInput, Rollback, StageInput,
    StageName,
};
use yaml::Node;

use crate::apis::removed::removed_apis;
use crate::directory::{ClusterDirectory, cluster_folder};
use crate::eksctl::replaced_groups;
use crate::machines::{Specification, rolled};
use crate::policies::Befores;
use crate::stage_tree::{StageTree, target_tree};
use crate::support::NewRelease;
use crate::tanzu::rendered;
use crate::{changes, definitions, eksctl, expectation, images, people, release_notes, signatures, tanzu};
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
    /// The moment at which it is made.
    pub now: Timestamp,
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
    blocked.extend(eksctl::blocks(facts));
    blocked.extend(tanzu::blocks(facts));
    blocked.extend(rendered::blocks(facts));
    let mut stages = Vec::new();
    let mut images = images::images(facts.parts);
    let mut in_place_hooks = BTreeSet::new();
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
        let stage = stage_input(facts, part);
        let outlook = in_place::outlook(facts, part, stage.machines);
        blocked.extend(outlook.blocks);
        in_place_hooks.extend(outlook.asked_in);
        images.extend(outlook.image.filter(|wanted| images.iter().all(|known| known.image != wanted.image)));
        stages.push(StageInput {
            reasons: stage.reasons.into_iter().chain(outlook.reasons).collect(),
            risks: stage.risks.into_iter().chain(outlook.risks).collect(),
            one_way: stage.one_way.into_iter().chain(outlook.one_way).collect(),
            ..stage
        });
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
            removed_apis: removed_apis(
                facts.parts,
                facts.deployed.map(|deployed| deployed.kubernetes_version.as_str()),
                &facts.cluster.kubernetes_version,
            ),
            replaced_groups: replaced_groups::replaced_groups(facts),
            given_addresses: replaced_groups::given_addresses(facts),
            images,
            in_place_hooks: in_place_hooks.into_iter().collect(),
            compared: compared(facts.parts),
            signatures: unproven,
            notes: release_notes::told(facts),
            ..ChecksExpectation::default()
        },
        blocked,
        warnings: facts.warnings.clone(),
        ledger: facts.directory.ledger().cloned(),
        rollback: facts.rollback.clone(),
        eksctl: eksctl::stages(facts, &|stage| policy_in_force(facts, stage)),
        tanzu: tanzu::stages(facts).or_else(|| rendered::stages(facts)),
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
    reasons.extend(tanzu::reasons(facts, part));
    reasons.extend(rendered::reasons(facts, part));
    if let Some(group) = gone_group(facts, part) {
        let machines = group.replicas.map_or_else(
            || "its machines".to_owned(),
            |count| format!("its {count} machine{}", plural(count.try_into().unwrap_or_default())),
        );
        reasons.insert(0, format!("the group goes, and {machines} with it"));
    }
    StageInput {
        stage: part.stage.clone(),
        deployed: part.before.digest(),
        target: part.after.digest(),
        reasons,
        risks: risks::risks(facts, part, &changes),
        one_way: texts(Weight::OneWay)
            .into_iter()
            .chain(etcd_one_way(facts, part))
            .chain(eksctl::one_way(facts, part))
            .chain(tanzu::one_way(facts, part))
            .collect(),
        expectations: expectations(facts, part, Side::Target),
        deployed_expectations: expectations(facts, part, Side::Deployed),
        policy: policy_in_force(facts, &part.stage.to_string()),
        machines: machines(facts, part, &changes),
        uncounted_machines: has_uncounted(facts, part, &changes),
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

pub(crate) fn eksa_version(cluster: &ClusterSpec) -> Option<&String> {
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
    let directories = std::iter::once(directory).chain(part.carries.iter().map(|component| component.directory()));
    let flux = flux(facts, directories);
    if part.stage.name == StageName::Addons && part.component.is_some() || part.stage.name == StageName::Templates {
        // Without add-ons nothing is applied that a gate could be tied to.
        let applied = rendered::applied(facts, part, side == Side::Target);
        return if flux.is_empty() { flux } else { flux.into_iter().chain(applied).collect() };
    }
    if part.component.is_none() {
        let own = machine_expectations(facts, part, side);
        let running = rendered::running(facts, part).into_iter().filter(|_| side == Side::Target);
        return flux.into_iter().chain(own).chain(running).collect();
    }
    match side {
        Side::Target => {
            // The pre-pull goes with the stage after it: what pulled the images has no more use.
            let gone = (part.stage == StageName::Cilium.into()).then(expectation::pre_pull_gone);
            flux.into_iter().chain(expectation::of_objects(&part.objects, None)).chain(gone).collect()
        }
        Side::Deployed => {
            // The Flux objects that a part carries are those of every component, and none of its own.
            let home = part.before.below(&cluster_folder(facts.name));
            let objects: Vec<ObjectSummary> = nodes(&home).iter().filter_map(ObjectSummary::of).collect();
            flux.into_iter().chain(expectation::of_objects(&objects, None)).collect()
        }
    }
}

/// That Flux has applied these directories, by namespace of its Kustomizations: those of add-ons are each below theirs.
fn flux<'d>(facts: &Facts<'_>, directories: impl Iterator<Item = &'d str>) -> Vec<Expectation> {
    let directories: Vec<&str> = directories.collect();
    let is_meant = |known: &str| {
        directories
            .iter()
            .any(|wanted| known.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    let mut by_namespace: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (_, reference) in facts.kustomizations.iter().filter(|(known, _)| is_meant(known)) {
        by_namespace.entry(&reference.namespace).or_default().push(reference.name.clone());
    }
    let expectation = |(namespace, kustomizations): (&str, Vec<String>)| Expectation::Flux {
        namespace: namespace.to_owned(),
        kustomizations,
    };
    by_namespace.into_iter().map(expectation).collect()
}

/// What a step of the specification brings about.
fn machine_expectations(facts: &Facts<'_>, part: &StageTree, side: Side) -> Vec<Expectation> {
    let (cluster, tree) = match side {
        Side::Target => (facts.cluster, &part.after),
        Side::Deployed => (facts.deployed.unwrap_or(facts.cluster), &part.before),
    };
    if cluster.kind == ClusterKind::Eksctl {
        return eksctl::expectation(cluster, &part.stage.name, tree).into_iter().collect();
    }
    if cluster.kind == ClusterKind::Tanzu {
        return tanzu::expectation(facts, &part.stage.name, tree).into_iter().collect();
    }
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

/// The worker group that a stage takes away.
fn gone_group<'a>(facts: &'a Facts<'_>, part: &StageTree) -> Option<&'a WorkerGroup> {
    let StageName::Workers(name) = &part.stage.name else { return None };
    let of = |spec: &'a ClusterSpec| spec.worker_groups.iter().find(|known| known.name == name.as_str());
    of(facts.deployed?).filter(|_| part.is_moved() && of(facts.cluster).is_none())
}

/// The worker group whose machines a stage replaces, or makes.
fn rolled_group<'a>(facts: &'a Facts<'_>, part: &StageTree) -> Option<&'a WorkerGroup> {
    let StageName::Workers(name) = &part.stage.name else { return None };
    let known = facts.cluster.worker_groups.iter().find(|known| known.name == name.as_str())?;
    let (before, after) = (nodes(&part.before), nodes(&part.after));
    let rolls = tanzu::rolls(facts, &part.stage.name);
    let rolls = rolls
        .or_else(|| rolled::machine_deployment(&before, &after, known.object.as_deref().unwrap_or(name.as_str())))
        .or_else(|| rolled::listed_group(&before, &after, name.as_str()));
    // What is not on both sides is made anew.
    (rolls != Some(false)).then_some(known)
}

/// Whether a stage replaces the machines of the control plane.
fn rolls_control_plane(facts: &Facts<'_>, part: &StageTree, changes: &[ComponentChange]) -> bool {
    let by_itself = || {
        let (before, after) = (nodes(&part.before), nodes(&part.after));
        match facts.cluster.kind {
            ClusterKind::ClusterApi => rolled::control_plane(&before, &after) == Some(true),
            ClusterKind::EksAnywhere | ClusterKind::ClusterClass => rolled::described_control_plane(&before, &after),
            ClusterKind::Tanzu => tanzu::rolls(facts, &part.stage.name) == Some(true),
            ClusterKind::Eksctl => false,
        }
    };
    let is_it = part.stage.name == StageName::ControlPlane;
    let is_carried = facts.cluster.kind != ClusterKind::Tanzu && part.carried_by.is_some();
    is_it && (!changes.is_empty() || by_itself() || is_carried)
}

/// How many machines a stage replaces, as far as the specification tells.
fn machines(facts: &Facts<'_>, part: &StageTree, changes: &[ComponentChange]) -> u32 {
    if !part.is_moved() {
        return 0;
    }
    match &part.stage.name {
        StageName::Etcd => facts.cluster.external_etcd.unwrap_or(0),
        StageName::ControlPlane if rolls_control_plane(facts, part, changes) => {
            let rolled = rolled_groups(facts, part).iter().map(|group| group.machines);
            rolled.fold(facts.cluster.control_plane_count.unwrap_or(0), u32::saturating_add)
        }
        StageName::Workers(_) => rolled_group(facts, part).and_then(|known| known.replicas).unwrap_or(0),
        _ => 0,
    }
}

/// Whether a stage replaces machines whose number the specification does not tell: an autoscaler decides, or nobody has written it. A
/// control plane of a service has no machines.
fn has_uncounted(facts: &Facts<'_>, part: &StageTree, changes: &[ComponentChange]) -> bool {
    let is_kubeadm = || nodes(&part.after).iter().any(is_kubeadm_control_plane);
    part.is_moved()
        && match &part.stage.name {
            StageName::ControlPlane => {
                facts.cluster.control_plane_count.is_none() && rolls_control_plane(facts, part, changes) && is_kubeadm()
            }
            StageName::Workers(_) => rolled_group(facts, part).is_some_and(|known| known.replicas.is_none()),
            _ => false,
        }
}

fn is_kubeadm_control_plane(node: &Node) -> bool {
    node.get("kind").and_then(Node::as_str) == Some("KubeadmControlPlane")
}
