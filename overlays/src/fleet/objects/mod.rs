//! Objects found in the repository, and how they are looked up.

pub(super) mod local;
pub(super) mod naming;
mod reference;

pub(crate) use reference::{Reference, references};

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use yaml::{Node, Span};

use crate::Place;
use crate::fleet::FluxVersionInUse;
use domain::{Problem, ProblemCode, RepoPath};

/// One object of a file.
pub(super) struct FoundObject {
    pub path: RepoPath,
    pub bytes: Arc<[u8]>,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub node: Arc<Node>,
    /// Whether it is an item of a List, and no document by itself.
    pub is_listed: bool,
    /// Whether nobody applies it.
    pub is_local: bool,
}

impl FoundObject {
    /// The objects of a document: itself, or the items of a List; none for a document without kind.
    pub fn all(path: &RepoPath, bytes: &Arc<[u8]>, node: Node) -> Vec<Self> {
        match crate::object::items(&node) {
            Some(items) => items.into_iter().filter_map(|item| Self::of(path, bytes, item, true)).collect(),
            None => Self::new(path, bytes, node).into_iter().collect(),
        }
    }

    /// `None` for a document without kind.
    pub fn new(path: &RepoPath, bytes: &Arc<[u8]>, node: Node) -> Option<Self> {
        Self::of(path, bytes, node, false)
    }

    fn of(path: &RepoPath, bytes: &Arc<[u8]>, node: Node, is_listed: bool) -> Option<Self> {
        let text = |path: &[&str]| node.at(path).and_then(scalar).unwrap_or_default();
        let kind = text(&["kind"]);
        if kind.is_empty() {
            return None;
        }
        let api_version = text(&["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        Some(Self {
            path: path.clone(),
            bytes: Arc::clone(bytes),
            group: group.to_owned(),
            version: version.to_owned(),
            kind,
            name: text(&["metadata", "name"]),
            namespace: text(&["metadata", "namespace"]),
            is_local: local::is_local(&node),
            node: Arc::new(node),
            is_listed,
        })
    }

    pub fn place(&self, span: Span) -> Place {
        Place { path: self.path.clone(), line: span.line().max(1), column: span.column().max(1) }
    }

    /// The place of the field at `path`, or of the object.
    pub fn place_of(&self, path: &[&str]) -> Place {
        self.place(self.node.at(path).unwrap_or(&self.node).span)
    }

    pub fn problem(&self, path: &[&str], cluster: &str, message: impl Into<String>) -> Problem {
        let place = self.place_of(path);
        let problem = Problem::new(ProblemCode::BadCluster, message).path(&place.path).at(place.line, place.column);
        if cluster.is_empty() { problem } else { problem.cluster(cluster) }
    }

    /// Whether it is the specification of a cluster.
    pub fn is_cluster(&self) -> bool {
        let is_kind = matches!(
            (self.group.as_str(), self.kind.as_str()),
            ("anywhere.eks.amazonaws.com" | "cluster.x-k8s.io", "Cluster")
                | ("run.tanzu.vmware.com", "TanzuKubernetesCluster")
                | ("eksctl.io", "ClusterConfig")
        );
        is_kind && !self.is_local
    }

    /// Whether objects of its API group make up clusters.
    pub fn is_of_clusters(&self) -> bool {
        is_of_clusters(&self.group)
    }

    /// Whether an object of that namespace is in the same one, as far as both say.
    pub fn is_beside(&self, namespace: &str) -> bool {
        let known = |namespace: &str| if namespace.is_empty() { "default" } else { namespace }.to_owned();
        self.namespace.is_empty() || namespace.is_empty() || known(&self.namespace) == known(namespace)
    }
}

/// All objects, with the ways in which they are looked up.
pub(super) struct Objects<'a> {
    by_name: HashMap<(&'a str, &'a str), Vec<&'a FoundObject>>,
    by_path: HashMap<&'a RepoPath, Vec<&'a FoundObject>>,
    workers: HashMap<String, Vec<&'a FoundObject>>,
    /// Objects by the cluster that they name, each with the namespace that it names.
    naming: HashMap<String, Vec<(&'a FoundObject, Option<String>)>>,
    /// Objects that choose clusters by labels.
    selecting: Vec<(&'a FoundObject, &'a Node)>,
}

impl<'a> Objects<'a> {
    pub fn new(all: &'a [Arc<FoundObject>]) -> Self {
        let mut objects = Self {
            by_name: HashMap::new(),
            by_path: HashMap::new(),
            workers: HashMap::new(),
            naming: HashMap::new(),
            selecting: Vec::new(),
        };
        for object in all {
            objects.by_path.entry(&object.path).or_default().push(object);
            if object.is_local {
                continue;
            }
            objects.by_name.entry((&object.kind, &object.name)).or_default().push(object);
            if is_worker_group(&object.group, &object.kind)
                && let Some(cluster) = field(&object.node, &["spec", "clusterName"])
            {
                objects.workers.entry(cluster).or_default().push(object);
            }
            for (name, namespace) in naming::named(object) {
                objects.naming.entry(name).or_default().push((object, namespace));
            }
            objects.selecting.extend(naming::selector(object).map(|selector| (object.as_ref(), selector)));
        }
        objects
    }

    /// The `MachineDeployment`s and `MachinePool`s of a cluster, in order of path.
    pub fn workers(&self, cluster: &FoundObject) -> Vec<&'a FoundObject> {
        let found = self.workers.get(&cluster.name).map(Vec::as_slice).unwrap_or_default();
        found.iter().copied().filter(|object| object.is_beside(&cluster.namespace)).collect()
    }

    /// The objects of that kind and name, in order of path.
    pub fn named<'s>(&'s self, kind: &'s str, name: &'s str) -> &'s [&'a FoundObject] {
        let names: &HashMap<(&'s str, &'s str), Vec<&'a FoundObject>> = &self.by_name;
        names.get(&(kind, name)).map(Vec::as_slice).unwrap_or_default()
    }

    /// The object that `from` means: in its namespace, and of several there the one that is nearest to its file.
    pub fn referred(&self, from: &FoundObject, reference: &Reference) -> Option<&'a FoundObject> {
        let found = self.named(&reference.kind, &reference.name).iter().copied().filter_map(|object| {
            let (group, kind, name) = (&object.group, &object.kind, &object.name);
            let distance = reference.distance(&from.namespace, group, kind, &object.namespace, name)?;
            Some(((distance, steps(&from.path, &object.path)), object))
        });
        found.min_by_key(|(distance, _)| *distance).map(|(_, object)| object)
    }

    /// The objects that name a cluster, or choose it by its labels.
    pub fn naming(&self, cluster: &FoundObject) -> Vec<&'a FoundObject> {
        let named = self.naming.get(&cluster.name).map(Vec::as_slice).unwrap_or_default().iter();
        let named = named.filter(|(object, namespace)| match namespace {
            Some(namespace) => cluster.is_beside(namespace),
            None => object.is_beside(&cluster.namespace),
        });
        let chosen = self.selecting.iter().filter(|(object, selector)| {
            object.is_beside(&cluster.namespace) && naming::selects(selector, &cluster.node)
        });
        named.map(|(object, _)| *object).chain(chosen.map(|(object, _)| *object)).collect()
    }

    /// The objects of a file.
    pub fn in_file(&self, path: &RepoPath) -> &[&'a FoundObject] {
        self.by_path.get(path).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Whether objects of this API group make up clusters.
pub(super) fn is_of_clusters(group: &str) -> bool {
    ["anywhere.eks.amazonaws.com", "run.tanzu.vmware.com", "eksctl.io"].contains(&group)
        || group.ends_with("cluster.x-k8s.io")
}

/// How far one file is from another: none for the same, then by the folders that they do not share.
fn steps(from: &RepoPath, to: &RepoPath) -> usize {
    if from == to {
        return 0;
    }
    let shared = from.segments().zip(to.segments()).take_while(|(one, other)| one == other).count();
    1 + from.segments().count().max(to.segments().count()) - shared
}

/// Whether an object of this group and kind is a group of workers of Cluster API. Before 1.0, pools had a group of their own.
pub(crate) fn is_worker_group(group: &str, kind: &str) -> bool {
    match kind {
        "MachineDeployment" => group == "cluster.x-k8s.io",
        "MachinePool" => matches!(group, "cluster.x-k8s.io" | "exp.cluster.x-k8s.io"),
        _ => false,
    }
}

/// A scalar as text: `1.30` stays `1.30`, null is nothing.
pub(super) fn scalar(node: &Node) -> Option<String> {
    (!node.is_null()).then(|| node.scalar_text().map(std::borrow::Cow::into_owned))?
}

pub(super) fn field(node: &Node, path: &[&str]) -> Option<String> {
    node.at(path).and_then(scalar).filter(|text| !text.is_empty())
}

pub(super) fn count(node: &Node, path: &[&str]) -> Option<u32> {
    node.at(path).and_then(Node::as_i64).and_then(|number| u32::try_from(number).ok())
}

/// The first use of every version of a Flux API in every file.
pub(super) fn flux_versions(objects: &[Arc<FoundObject>]) -> Vec<FluxVersionInUse> {
    let mut uses = BTreeSet::new();
    for object in objects.iter().filter(|object| object.group.ends_with(".toolkit.fluxcd.io")) {
        uses.insert(FluxVersionInUse {
            group: object.group.clone(),
            version: object.version.clone(),
            kind: object.kind.clone(),
            path: object.path.clone(),
            line: object.node.span.line(),
        });
    }
    uses.into_iter().collect()
}
