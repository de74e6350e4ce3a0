//! Which object and which part of the Cluster belongs to which step.

use std::collections::{BTreeMap, BTreeSet};

use yaml::{Mapping, Node, Value};

use super::SpecStage;
use super::side::Side;
use crate::fleet::{Reference, is_worker_group, references};
use crate::object::{ObjectId, object_id};
use crate::tanzu::group_of;
use crate::{ClusterKind, ClusterSpec};

/// A path of keys to a list.
pub(super) type ListPath = &'static [&'static str];

/// The lists of worker groups in the Cluster object.
const EKS_ANYWHERE: &[ListPath] = &[&["spec", "workerNodeGroupConfigurations"]];
const TOPOLOGY: &[ListPath] =
    &[&["spec", "topology", "workers", "machineDeployments"], &["spec", "topology", "workers", "machinePools"]];
const ETCD: &str = "externalEtcdConfiguration";
/// Labels by which machines tell their worker group.
const GROUP_LABELS: [&str; 4] = [
    "cluster.x-k8s.io/deployment-name",
    "cluster.x-k8s.io/pool-name",
    "topology.cluster.x-k8s.io/deployment-name",
    "topology.cluster.x-k8s.io/pool-name",
];
/// Holds back the upgrade of one group of a `ClusterClass`.
pub(super) const DEFER: &str = "topology.cluster.x-k8s.io/defer-upgrade";

/// The whole movement from one specification to another.
pub(super) struct Move {
    stages: Vec<SpecStage>,
    ranks: BTreeMap<ObjectId, usize>,
    pub cluster: ObjectId,
    kind: ClusterKind,
    pub old_version: String,
    pub new_version: String,
    /// The old version as written in the old text, quotes included.
    pub old_version_written: Option<String>,
    /// The new one, likewise.
    pub new_version_written: Option<String>,
}

impl Move {
    pub fn new(spec: &ClusterSpec, old: &Side, new: &Side, worker_order: &[&str], back: bool) -> Self {
        let cluster = object_id(&spec.node).unwrap_or_else(|| ObjectId {
            group: String::new(),
            kind: String::new(),
            namespace: None,
            name: spec.name.clone(),
        });
        let kind = spec.kind;
        let version_path = version_path(kind);
        let version = |side: &Side| side.version(&cluster, version_path);
        let ((old_version, old_version_written), (new_version, new_version_written)) = (version(old), version(new));
        let mut groups: Vec<String> = worker_order.iter().map(|name| (*name).to_owned()).collect();
        for side in [new, old] {
            for group in group_names(kind, &cluster, side) {
                if !groups.contains(&group) {
                    groups.push(group);
                }
            }
        }
        let workers = groups.into_iter().map(SpecStage::Workers);
        let mut stages = Vec::new();
        let goes_down = match kind {
            ClusterKind::ClusterApi => {
                is_lower(&control_plane_version(&cluster, new), &control_plane_version(&cluster, old))
            }
            ClusterKind::EksAnywhere | ClusterKind::ClusterClass | ClusterKind::Tanzu | ClusterKind::Eksctl => {
                is_lower(&new_version, &old_version)
            }
        };
        // Whatever the direction, the control plane follows etcd, whose endpoints it is made with.
        let first = [SpecStage::Etcd, SpecStage::ControlPlane];
        if back || goes_down {
            stages.extend(workers);
            stages.extend(first);
        } else {
            stages.extend(first);
            stages.extend(workers);
        }
        let mut movement = Self {
            stages,
            ranks: BTreeMap::new(),
            cluster,
            kind,
            old_version,
            new_version,
            old_version_written,
            new_version_written,
        };
        movement.ranks = movement.rank_objects(old, new);
        movement
    }

    pub fn stages(&self) -> &[SpecStage] {
        &self.stages
    }

    pub fn rank_of(&self, stage: &SpecStage) -> usize {
        self.stages.iter().position(|known| known == stage).unwrap_or(0)
    }

    /// The step at which an object takes its new form (or goes).
    pub fn rank(&self, id: &ObjectId) -> usize {
        self.ranks.get(id).copied().unwrap_or_else(|| self.rank_of(&SpecStage::ControlPlane))
    }

    /// Whether the control plane is at its new form in step `rank`.
    pub fn control_plane_moved(&self, rank: usize) -> bool {
        rank >= self.rank_of(&SpecStage::ControlPlane)
    }

    /// Where the lists of worker groups are, for kinds that have them in the Cluster.
    pub fn group_lists(&self) -> &'static [ListPath] {
        group_lists(self.kind)
    }

    pub fn is_class(&self) -> bool {
        self.kind == ClusterKind::ClusterClass
    }

    /// Objects that exist on both sides or only in the new one move with their first user there; objects that go, go with
    /// their last user.
    fn rank_objects(&self, old: &Side, new: &Side) -> BTreeMap<ObjectId, usize> {
        let (before, after) = (self.users(old), self.users(new));
        let mut ranks = BTreeMap::new();
        for id in old.ids() {
            if let Some(rank) = before.get(id).and_then(|users| users.iter().max()) {
                ranks.insert(id.clone(), *rank);
            }
        }
        for id in new.ids() {
            match after.get(id).and_then(|users| users.iter().min()) {
                Some(rank) => ranks.insert(id.clone(), *rank),
                None => ranks.remove(id),
            };
        }
        ranks
    }

    /// The steps that use each object of a side, by reference from the parts of the Cluster or from the owners that
    /// Cluster API has as objects of their own.
    fn users(&self, side: &Side) -> BTreeMap<ObjectId, BTreeSet<usize>> {
        let mut users: BTreeMap<ObjectId, BTreeSet<usize>> = BTreeMap::new();
        for (rank, from, mut open) in self.roots(side, &mut users) {
            let mut seen = BTreeSet::new();
            let mut from = vec![from; open.len()];
            while let (Some(reference), Some(namespace)) = (open.pop(), from.pop()) {
                let found = side.objects().find(|(id, _)| reference.means(&namespace, id));
                if let Some((id, node)) = found.filter(|(id, _)| !self.is_owner(id))
                    && seen.insert(id.clone())
                {
                    users.entry(id.clone()).or_default().insert(rank);
                    let further = references(node);
                    from.extend(vec![id.namespace.clone().unwrap_or_default(); further.len()]);
                    open.extend(further);
                }
            }
        }
        for (id, node) in side.objects().filter(|(id, _)| !self.is_owner(id)) {
            if !users.contains_key(id)
                && let Some(rank) = self.rank_of_group(side, id, node)
            {
                users.insert(id.clone(), BTreeSet::from([rank]));
            }
        }
        users
    }

    /// The parts that other objects are used by: the step of each, its namespace and what it refers to.
    fn roots(
        &self,
        side: &Side,
        users: &mut BTreeMap<ObjectId, BTreeSet<usize>>,
    ) -> Vec<(usize, String, Vec<Reference>)> {
        let mut roots = Vec::new();
        let control_plane = self.rank_of(&SpecStage::ControlPlane);
        for (id, node) in side.objects() {
            let namespace = id.namespace.clone().unwrap_or_default();
            if *id == self.cluster {
                let Some(spec) = node.get("spec") else { continue };
                let etcd = spec.get(ETCD).map(references).unwrap_or_default();
                roots.push((self.rank_of(&SpecStage::Etcd), namespace.clone(), etcd));
                let plane = spec.get("controlPlaneConfiguration").map(references).unwrap_or_default();
                roots.push((control_plane, namespace.clone(), plane));
                for item in self.group_lists().iter().filter_map(|path| node.at(path)?.as_sequence()).flatten() {
                    let Some(name) = group_name(item) else { continue };
                    roots.push((self.rank_of(&SpecStage::Workers(name)), namespace.clone(), references(item)));
                }
                continue;
            }
            if !has_group_objects(self.kind) {
                continue;
            }
            let rank = match id.kind.as_str() {
                "EtcdadmCluster" => self.rank_of(&SpecStage::Etcd),
                "KubeadmControlPlane" => control_plane,
                kind if is_worker_group(&id.group, kind) => self.rank_of(&SpecStage::Workers(group_of(node, &id.name))),
                _ => continue,
            };
            users.entry(id.clone()).or_default().insert(rank);
            roots.push((rank, namespace, references(node)));
        }
        roots
    }

    /// Whether an object has a step of its own, whoever refers to it.
    fn is_owner(&self, id: &ObjectId) -> bool {
        *id == self.cluster || (has_group_objects(self.kind) && is_worker_group(&id.group, &id.kind))
    }

    /// The step of the worker group that an object is about, by its labels, its selector or a reference: health checks, autoscalers.
    fn rank_of_group(&self, side: &Side, id: &ObjectId, node: &Node) -> Option<usize> {
        let labels = [node.at(&["spec", "selector", "matchLabels"]), node.at(&["metadata", "labels"])];
        let named = labels.into_iter().flatten().find_map(|labels| {
            let mut names = GROUP_LABELS.iter().filter_map(|label| labels.get(label)?.as_str());
            names.next().map(str::to_owned)
        });
        let referred = || {
            let namespace = id.namespace.as_deref().unwrap_or_default();
            let is_group = |(id, _): &(&ObjectId, &Node)| is_worker_group(&id.group, &id.kind);
            let groups: Vec<(&ObjectId, &Node)> = side.objects().filter(is_group).collect();
            let mut found = references(node).into_iter();
            found.find_map(|reference| {
                let group = groups.iter().find(|(id, _)| reference.means(namespace, id));
                group.map(|(id, node)| group_of(node, &id.name))
            })
        };
        let stage = SpecStage::Workers(named.or_else(referred)?);
        self.stages.iter().position(|known| *known == stage)
    }

    /// What the Cluster object says in step `rank`.
    pub fn composite(&self, old: &Node, new: &Node, rank: usize) -> Node {
        let moved = self.control_plane_moved(rank);
        let mut root = if moved { new.clone() } else { old.clone() };
        if self.kind == ClusterKind::EksAnywhere && !moved && rank >= self.rank_of(&SpecStage::Etcd) {
            let target = new.at(&["spec", ETCD]).cloned();
            if let Some(spec) = root.get_mut("spec").and_then(Node::as_mapping_mut) {
                match target {
                    Some(etcd) => drop(spec.insert(ETCD, etcd)),
                    None => drop(spec.remove(ETCD)),
                }
            }
        }
        for path in self.group_lists() {
            let items = self.group_items(path, old, new, rank);
            if root.at(path).is_some() || !items.is_empty() {
                set(&mut root, path, Node::from(items));
            }
        }
        root
    }

    /// The worker groups of the list at `path` in step `rank`.
    fn group_items(&self, path: &[&str], old: &Node, new: &Node, rank: usize) -> Vec<Node> {
        let list = |node: &Node| node.at(path).and_then(Node::as_sequence).unwrap_or_default().to_vec();
        let (before, after) = (list(old), list(new));
        let moved = self.control_plane_moved(rank);
        let (base, other) = if moved { (&after, &before) } else { (&before, &after) };
        let mut items = Vec::new();
        let of = |list: &[Node]| list.iter().filter_map(group_name).collect::<Vec<String>>();
        let names = merged(&of(base), &of(other));
        for name in names {
            let staged = self.rank_of(&SpecStage::Workers(name.clone())) <= rank;
            let side = if staged { &after } else { &before };
            let Some(item) = side.iter().find(|item| group_name(item).as_deref() == Some(&name)) else { continue };
            items.push(self.held(item, staged, moved));
        }
        items
    }

    /// Whether a group must be held at its version while the Cluster is at the other.
    pub fn must_hold(&self, item: &Node, staged: bool, moved: bool) -> bool {
        if self.old_version == self.new_version || staged == moved {
            return false;
        }
        if self.is_class() {
            return !staged && item.at(&["metadata", "annotations", DEFER]).is_none();
        }
        item.get("kubernetesVersion").is_none_or(Node::is_null)
    }

    fn held(&self, item: &Node, staged: bool, moved: bool) -> Node {
        let mut item = item.clone();
        if !self.must_hold(&item, staged, moved) {
            return item;
        }
        if self.is_class() {
            set(&mut item, &["metadata", "annotations", DEFER], Node::from(""));
        } else if let Some(mapping) = item.as_mapping_mut() {
            let version = if staged { &self.new_version } else { &self.old_version };
            mapping.insert("kubernetesVersion", version.as_str());
        }
        item
    }
}

fn version_path(kind: ClusterKind) -> &'static [&'static str] {
    match kind {
        ClusterKind::EksAnywhere => &["spec", "kubernetesVersion"],
        ClusterKind::ClusterClass => &["spec", "topology", "version"],
        ClusterKind::ClusterApi | ClusterKind::Tanzu | ClusterKind::Eksctl => &[],
    }
}

/// The names of the groups of a side, in its order.
fn group_names(kind: ClusterKind, cluster: &ObjectId, side: &Side) -> Vec<String> {
    let cluster = side.objects().find(|(id, _)| *id == cluster).map(|(_, node)| node);
    let lists = cluster.into_iter().flat_map(|node| group_lists(kind).iter().filter_map(|path| node.at(path)));
    let listed = lists.filter_map(Node::as_sequence).flatten().filter_map(group_name);
    let objects = side.objects().filter(|(id, _)| has_group_objects(kind) && is_worker_group(&id.group, &id.kind));
    listed.chain(objects.map(|(id, node)| group_of(node, &id.name))).collect()
}

/// Whether worker groups of such a cluster are objects of its files: of a topology, those that it has besides its own.
fn has_group_objects(kind: ClusterKind) -> bool {
    match kind {
        ClusterKind::ClusterApi | ClusterKind::ClusterClass => true,
        ClusterKind::EksAnywhere | ClusterKind::Tanzu | ClusterKind::Eksctl => false,
    }
}

fn group_lists(kind: ClusterKind) -> &'static [ListPath] {
    match kind {
        ClusterKind::EksAnywhere => EKS_ANYWHERE,
        ClusterKind::ClusterClass => TOPOLOGY,
        ClusterKind::ClusterApi | ClusterKind::Tanzu | ClusterKind::Eksctl => &[],
    }
}

/// The names of `base`, each name that only `other` has behind its neighbour there.
pub(super) fn merged(base: &[String], other: &[String]) -> Vec<String> {
    let mut names = base.to_vec();
    let mut before: Option<&String> = None;
    for name in other {
        if !names.contains(name) {
            let at = before.and_then(|before| names.iter().position(|known| known == before)).map_or(0, |at| at + 1);
            names.insert(at, name.clone());
        }
        before = Some(name);
    }
    names
}

pub(super) fn group_name(item: &Node) -> Option<String> {
    item.get("name").and_then(Node::as_str).map(str::to_owned)
}

/// Sets the value at `path`, making the mappings on the way.
fn set(root: &mut Node, path: &[&str], value: Node) {
    let Some((last, folders)) = path.split_last() else { return };
    let mut node = root;
    for key in folders {
        if node.as_mapping().is_none() {
            node.value = Value::Mapping(Mapping::new());
        }
        let Some(mapping) = node.as_mapping_mut() else { return };
        node = mapping.get_or_insert_with(key, || Node::from(Mapping::new()));
    }
    if node.as_mapping().is_none() {
        node.value = Value::Mapping(Mapping::new());
    }
    if let Some(mapping) = node.as_mapping_mut() {
        mapping.insert(*last, value);
    }
}

/// The version of the control plane that a Cluster of Cluster API refers to; empty where that is not there.
fn control_plane_version(cluster: &ObjectId, side: &Side) -> String {
    let version = || {
        let reference = side.node_of(cluster)?.at(&["spec", "controlPlaneRef"])?;
        let text = |name: &str| reference.get(name)?.as_str();
        let (kind, name) = (text("kind")?, text("name")?);
        let (_, node) = side.objects().find(|(id, _)| id.kind == kind && id.name == name)?;
        node.at(&["spec", "version"])?.as_str().map(str::to_owned)
    };
    version().unwrap_or_default()
}

/// Whether `new` is a lower Kubernetes version than `old`.
fn is_lower(new: &str, old: &str) -> bool {
    match (new.parse::<bundles::KubernetesVersion>(), old.parse::<bundles::KubernetesVersion>()) {
        (Ok(new), Ok(old)) => new.order(&old).is_lt(),
        _ => false,
    }
}
