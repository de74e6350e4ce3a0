//! Objects found in the repository, and how they are looked up.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use yaml::{Node, Span};

use super::FluxVersionInUse;
use crate::{Place, SpecFile};
use domain::{Problem, ProblemCode, RepoPath};

/// One document of a file.
pub(super) struct FoundObject {
    pub path: RepoPath,
    pub bytes: Arc<[u8]>,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub node: Arc<Node>,
}

impl FoundObject {
    /// `None` for a document without kind.
    pub fn new(path: &RepoPath, bytes: &Arc<[u8]>, node: Node) -> Option<Self> {
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
            node: Arc::new(node),
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
}

/// All objects, with the ways in which they are looked up.
pub(super) struct Objects<'a> {
    by_name: HashMap<(&'a str, &'a str), Vec<&'a FoundObject>>,
    by_path: HashMap<&'a RepoPath, Vec<&'a FoundObject>>,
    workers: HashMap<String, Vec<&'a FoundObject>>,
}

impl<'a> Objects<'a> {
    pub fn new(all: &'a [Arc<FoundObject>]) -> Self {
        let mut objects = Self { by_name: HashMap::new(), by_path: HashMap::new(), workers: HashMap::new() };
        for object in all {
            objects.by_name.entry((&object.kind, &object.name)).or_default().push(object);
            objects.by_path.entry(&object.path).or_default().push(object);
            if is_worker_group(&object.group, &object.kind)
                && let Some(cluster) = field(&object.node, &["spec", "clusterName"])
            {
                objects.workers.entry(cluster).or_default().push(object);
            }
        }
        objects
    }

    /// The `MachineDeployment`s and `MachinePool`s of a cluster, in order of path.
    pub fn workers(&self, cluster: &str) -> &[&'a FoundObject] {
        self.workers.get(cluster).map(Vec::as_slice).unwrap_or_default()
    }

    /// The objects of that kind and name, in order of path.
    pub fn named<'s>(&'s self, kind: &'s str, name: &'s str) -> &'s [&'a FoundObject] {
        let names: &HashMap<(&'s str, &'s str), Vec<&'a FoundObject>> = &self.by_name;
        names.get(&(kind, name)).map(Vec::as_slice).unwrap_or_default()
    }

    fn in_file(&self, path: &RepoPath) -> &[&'a FoundObject] {
        self.by_path.get(path).map(Vec::as_slice).unwrap_or_default()
    }
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

/// The files of `members` in order of path.
///
/// A file that also holds objects of another cluster is cut down to the documents of this one.
pub(super) fn files_of(cluster: &FoundObject, members: &[&FoundObject], objects: &Objects<'_>) -> Vec<SpecFile> {
    let paths: BTreeSet<&RepoPath> = members.iter().map(|member| &member.path).collect();
    let mut files = Vec::new();
    for path in paths {
        let Some(member) = members.iter().find(|member| member.path == *path) else { continue };
        let is_other = |object: &&&FoundObject| {
            object.kind == cluster.kind && object.group == cluster.group && !std::ptr::eq(**object, cluster)
        };
        let shared = objects.in_file(path).iter().any(|object| is_other(&object));
        let bytes = if shared { cut(member, members) } else { Arc::clone(&member.bytes) };
        files.push(SpecFile { path: path.clone(), bytes });
    }
    files
}

fn cut(member: &FoundObject, members: &[&FoundObject]) -> Arc<[u8]> {
    let Ok(text) = yaml::decode(&member.bytes) else { return Arc::clone(&member.bytes) };
    let mut kept = String::new();
    for document in crate::document::split(&text) {
        let wanted = members
            .iter()
            .any(|object| object.path == member.path && document.range.contains(&object.node.span.start()));
        if wanted {
            if !kept.is_empty() {
                kept.push_str("---\n");
            }
            kept.push_str(text.get(document.range.clone()).unwrap_or_default());
            if !kept.ends_with('\n') {
                kept.push('\n');
            }
        }
    }
    Arc::from(kept.into_bytes())
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
