//! A cluster specification moves from the deployed to the target text in steps.
//!
//! Each step is a complete specification: external etcd first, then the control plane with everything that belongs to no
//! other step, then each worker group by itself. Groups that are not there yet are held back: an EKS Anywhere group by its
//! own `kubernetesVersion`, a group of a `ClusterClass` by the annotation `topology.cluster.x-k8s.io/defer-upgrade`. For a
//! lower version the groups go first. How external etcd and the control plane go together is told in `etcd.rs`. The last step has exactly the bytes that people wrote; the steps before are byte-span
//! edits of theirs, checked against what they should say. Where one of them is not possible, all are printed anew.

mod change;
mod composite;
mod eksctl;
mod etcd;
mod immutable;
mod layout;
mod side;
mod tanzu;
mod text;

use std::sync::Arc;

use serde::Serialize;

pub use change::SpecChange;
pub use immutable::immutable_changes;
pub(crate) use text::lines_of;

use crate::note::{Note, NoteKind, Weight};
use crate::{ClusterKind, ClusterSpec, DeployedTree, Fleet, RenderedTree, SpecFile};
use composite::Move;
use domain::RepoPath;
use etcd::EtcdMove;
use layout::Layout;
use side::Side;

/// A step of a specification.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecStage {
    /// External etcd and its machine configurations.
    Etcd,
    /// What a new release of a `TanzuKubernetesCluster` has its controllers do before its machines.
    Addons,
    /// Everything that is neither external etcd nor a worker group.
    ControlPlane,
    /// One add-on of a cluster of eksctl.
    Addon(String),
    /// One worker group and its machine configuration.
    Workers(String),
}

/// One step, with the whole specification as it shall be after it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterStage {
    /// Which one.
    pub stage: SpecStage,
    /// All files of `cluster/`.
    pub tree: RenderedTree,
    /// What it changes.
    pub changes: Vec<SpecChange>,
    /// The steps whose changes it has too, in their order: they are none of their own then.
    pub moves: Vec<SpecStage>,
}

/// The files of a specification below `cluster/`: their paths from the folder that all of them share.
pub fn spec_tree(files: &[SpecFile]) -> RenderedTree {
    let mut common: Option<Vec<&str>> = None;
    for file in files {
        let mut folders: Vec<&str> = file.path.segments().collect();
        folders.pop();
        common = Some(match common {
            None => folders,
            Some(known) => {
                known.iter().zip(&folders).take_while(|(left, right)| left == right).map(|(left, _)| *left).collect()
            }
        });
    }
    let skip = common.map_or(0, |folders| folders.len());
    files
        .iter()
        .filter_map(|file| {
            let rest: Vec<&str> = file.path.segments().skip(skip).collect();
            // Flux takes files of YAML alone, which JSON is too.
            let end = if file.path.is_json() { ".yaml" } else { "" };
            let path = RepoPath::new(format!("cluster/{}{end}", rest.join("/"))).ok()?;
            Some((path, Arc::clone(&file.bytes)))
        })
        .collect()
}

/// The steps from what is deployed to what `spec` says; only those that change something. A specification that is new, or
/// whose deployed text cannot be read, goes in one step.
///
/// `deployed` is the cluster's directory on the deploy branch; `target` holds the files of the specification below
/// `cluster/` (the tree of [`crate::ComponentName::Cluster`], or [`spec_tree`]). Worker groups go in the order of the
/// policy. Any step of the result, once deployed, gives the rest of the steps with the same trees.
pub fn cluster_stages(
    fleet: &Fleet,
    deployed: &DeployedTree,
    target: &RenderedTree,
    spec: &ClusterSpec,
) -> Vec<ClusterStage> {
    let groups = ordered_groups(fleet, spec);
    stages(deployed, target, spec, &groups.iter().map(String::as_str).collect::<Vec<_>>(), false)
}

/// As [`cluster_stages`], the other way round: the last worker group goes back first, the control plane last.
pub fn cluster_stages_back(
    fleet: &Fleet,
    deployed: &DeployedTree,
    target: &RenderedTree,
    spec: &ClusterSpec,
) -> Vec<ClusterStage> {
    let groups = ordered_groups(fleet, spec);
    stages(deployed, target, spec, &groups.iter().rev().map(String::as_str).collect::<Vec<_>>(), true)
}

/// The worker groups of a cluster in the order of the policy, which names those of eksctl without their versions too.
pub fn ordered_groups(fleet: &Fleet, spec: &ClusterSpec) -> Vec<String> {
    let groups: Vec<String> = spec.worker_groups.iter().map(|group| group.name.clone()).collect();
    let stem = |name: &str| (spec.kind == ClusterKind::Eksctl).then(|| crate::eksctl::stem(&spec.node, name));
    fleet.policy.worker_order_by(&spec.name, &groups, stem).into_iter().map(str::to_owned).collect()
}

fn stages(
    deployed: &DeployedTree,
    target: &RenderedTree,
    spec: &ClusterSpec,
    worker_order: &[&str],
    back: bool,
) -> Vec<ClusterStage> {
    let (before, target) = (deployed.below("cluster"), target.clone());
    if before == target {
        return Vec::new();
    }
    let (Some(old), Some(new)) = (Side::read(&before), Side::read(&target)) else {
        return vec![whole(&before, target)];
    };
    if before.is_empty() || !old.has_cluster(spec) {
        return vec![whole(&before, target)];
    }
    if spec.kind == ClusterKind::Eksctl {
        return eksctl::Steps::new(spec, &old, &new, worker_order, back).stages(before, target);
    }
    if spec.kind == ClusterKind::Tanzu {
        return tanzu::stages(spec, (&old, &new), worker_order, back, (&before, target));
    }
    let movement = Move::new(spec, &old, &new, worker_order, back);
    let mut stages = Vec::new();
    let mut previous = before;
    let count = movement.stages().len();
    let form = Layout::form(&movement, &old, &new, count);
    let etcd = EtcdMove::of(spec, &movement, &old, &new);
    for (rank, stage) in movement.stages().iter().enumerate() {
        let moves_control_plane = *stage == SpecStage::Etcd && etcd == EtcdMove::WithControlPlane;
        let rank = if moves_control_plane { movement.rank_of(&SpecStage::ControlPlane) } else { rank };
        let tree = if rank + 1 == count {
            target.clone()
        } else {
            Layout::new(&movement, &old, &new, rank, form, etcd).tree()
        };
        if tree != previous {
            let changes = change::between(&previous, &tree);
            let moves = moves_control_plane.then_some(SpecStage::ControlPlane).into_iter().collect();
            stages.push(ClusterStage { stage: stage.clone(), tree: tree.clone(), changes, moves });
            previous = tree;
        }
    }
    stages
}

fn whole(before: &RenderedTree, target: RenderedTree) -> ClusterStage {
    let changes = change::between(before, &target);
    ClusterStage { stage: SpecStage::ControlPlane, tree: target, changes, moves: Vec::new() }
}

/// Worker groups that share a machine configuration with something that goes earlier: a change of it rolls them then.
pub fn shared_machine_configs(spec: &ClusterSpec) -> Vec<Note> {
    use yaml::Node;
    let mut users: Vec<(String, &str)> = Vec::new();
    for (path, what) in
        [("externalEtcdConfiguration", "external etcd"), ("controlPlaneConfiguration", "the control plane")]
    {
        if let Some(name) = spec.node.at(&["spec", path, "machineGroupRef", "name"]).and_then(Node::as_str) {
            users.push((what.to_owned(), name));
        }
    }
    for group in &spec.worker_groups {
        users.extend(group.machine_config.as_deref().map(|config| (format!("worker group {}", group.name), config)));
    }
    let mut notes = Vec::new();
    for (index, (what, config)) in users.iter().enumerate() {
        let earlier = users.iter().take(index).find(|(_, other)| other == config);
        if let Some((first, _)) = earlier.filter(|_| what.starts_with("worker group")) {
            let message =
                format!("{what} shares machine configuration {config} with {first}; a change of it rolls both at once");
            notes.push(Note::new(Weight::Risk, NoteKind::SharedMachineConfig, message));
        }
    }
    notes
}

#[cfg(test)]
mod tests;
