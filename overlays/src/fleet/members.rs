//! Which objects belong to a cluster.
//!
//! Those that it refers to, in any depth; those that name it by field, label, selector or reference; and whatever is in its own file or
//! folder, as that is applied together with it. What several clusters use belongs to each of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::objects::{FoundObject, Objects, Reference, field, is_worker_group, local, references};
use crate::{SpecFile, WorkerGroup};
use domain::{Problem, ProblemCode, RepoPath, Severity};

/// Where clusters and kustomizations are: what decides whose a folder is.
pub(super) struct Folders<'a> {
    /// The objects that are clusters, in order of path: those of a folder are side by side.
    clusters: Vec<&'a FoundObject>,
    /// The same by name.
    names: HashMap<&'a str, Vec<&'a FoundObject>>,
    /// All objects in order of path, each with its place among all.
    objects: Vec<(usize, &'a FoundObject)>,
    kustomized: &'a Kustomized<'a>,
}

/// What kustomizations say of files.
pub(super) struct Kustomized<'a> {
    /// Folders with a kustomization: which of their files are objects, that says.
    pub folders: &'a BTreeSet<String>,
    /// Files that one names, or that were made.
    pub applied: &'a BTreeSet<RepoPath>,
}

impl<'a> Folders<'a> {
    pub fn new(all: &[&'a FoundObject], kustomized: &'a Kustomized<'a>) -> Self {
        let mut objects: Vec<(usize, &'a FoundObject)> = all.iter().copied().enumerate().collect();
        objects.sort_by_key(|(place, object)| (&object.path, *place));
        let clusters: Vec<&'a FoundObject> =
            objects.iter().map(|(_, object)| *object).filter(|object| object.is_cluster()).collect();
        let mut names: HashMap<&'a str, Vec<&'a FoundObject>> = HashMap::new();
        for cluster in &clusters {
            names.entry(&cluster.name).or_default().push(cluster);
        }
        Self { clusters, names, objects, kustomized }
    }

    /// Whether no other cluster is below `folder`.
    fn is_alone_below(&self, cluster: &FoundObject, folder: &str) -> bool {
        below(&self.clusters, |other| &other.path, folder).iter().all(|other| std::ptr::eq(*other, cluster))
    }

    /// Whether no other cluster is in the same file.
    fn is_alone_in_file(&self, cluster: &FoundObject) -> bool {
        let start = self.clusters.partition_point(|other| other.path < cluster.path);
        let same = self.clusters.iter().skip(start).take_while(|other| other.path == cluster.path);
        same.into_iter().all(|other| std::ptr::eq(*other, cluster))
    }

    /// The objects in the file of a cluster and below a folder, in the order of all objects.
    fn near(&self, cluster: &FoundObject, folder: Option<&str>) -> Vec<&'a FoundObject> {
        let start = self.objects.partition_point(|(_, object)| object.path < cluster.path);
        let beside = self.objects.iter().skip(start).take_while(|(_, object)| object.path == cluster.path);
        let inside = folder.map(|folder| below(&self.objects, |(_, object)| &object.path, folder)).unwrap_or_default();
        let near: BTreeMap<usize, &'a FoundObject> = beside.chain(inside).copied().collect();
        near.into_values().collect()
    }

    /// Whether a file is in the folder of a kustomization, below `above`, that does not name it.
    fn is_left(&self, path: &RepoPath, above: &str) -> bool {
        if self.kustomized.applied.contains(path) {
            return false;
        }
        let mut folder = path.parent();
        while let Some(current) = folder {
            if self.kustomized.folders.contains(current.as_str()) {
                return true;
            }
            if current.as_str() == above {
                return false;
            }
            folder = current.parent();
        }
        self.kustomized.folders.contains("")
    }

    /// The cluster's own folder, and whether all below it is meant: `clusters/<name>`, else the folder of its file alone.
    fn of(&self, cluster: &FoundObject) -> Option<(String, bool)> {
        let segments: Vec<&str> = cluster.path.segments().collect();
        if let ["clusters", name, _, ..] = segments.as_slice() {
            let folder = format!("clusters/{name}");
            if self.is_alone_below(cluster, &folder) {
                return Some((folder, true));
            }
        }
        let folder = cluster.path.parent()?;
        let is_alone = self.is_alone_below(cluster, folder.as_str());
        (is_alone && folder.as_str() != "clusters").then(|| (folder.as_str().to_owned(), false))
    }

    /// Whether an object is a group of workers of one of the other clusters.
    fn is_of_another(&self, cluster: &FoundObject, object: &FoundObject) -> bool {
        let Some(name) = named_cluster(object) else { return false };
        let mut others = self.names.get(name.as_str()).into_iter().flatten();
        others.any(|other| !std::ptr::eq(*other, cluster) && other.is_beside(&object.namespace))
    }

    /// Whether an object is in the file or folder of a cluster, and of no other one.
    fn holds(&self, cluster: &FoundObject, own: Option<&(String, bool)>, object: &FoundObject) -> bool {
        if object.path == cluster.path {
            return self.is_alone_in_file(cluster);
        }
        let Some((folder, is_deep)) = own else { return false };
        let is_below = object.path.is_below(folder);
        let is_in = is_below && (*is_deep || object.path.parent().is_some_and(|parent| parent.as_str() == folder));
        is_in && !self.is_left(&object.path, folder)
    }
}

/// Those of items in order of path whose path lies below `folder`.
fn below<'s, T>(items: &'s [T], path: impl Fn(&T) -> &RepoPath, folder: &str) -> &'s [T] {
    let first = format!("{folder}/");
    let start = items.partition_point(|item| path(item).as_str() < first.as_str());
    let rest = items.get(start..).unwrap_or_default();
    let end = rest.partition_point(|item| path(item).is_below(folder));
    rest.get(..end).unwrap_or_default()
}

/// Objects that are no part of a cluster, wherever they are: other clusters, what Stepgate reads or writes itself, and Flux's own.
pub(super) fn is_apart(object: &FoundObject) -> bool {
    object.is_local
        || local::is_of_tool(object)
        || super::kinds::is_record(object)
        || object.is_cluster()
        || matches!(object.kind.as_str(), "Bundles" | "EKSARelease")
        || object.group == "distro.eks.amazonaws.com"
        || object.group == "kustomize.config.k8s.io"
        || object.group == "kustomize.toolkit.fluxcd.io"
        || object.group == "fluxcd.controlplane.io"
        || object.path.file_name().starts_with("gotk-")
        || object.path.segments().any(|segment| segment == "flux-system")
}

/// Everything that belongs to a cluster, beginning with what its reader found.
pub(super) fn members<'a>(
    cluster: &'a FoundObject,
    seeds: Vec<&'a FoundObject>,
    objects: &Objects<'a>,
    folders: &Folders<'a>,
) -> Vec<&'a FoundObject> {
    let own = folders.of(cluster);
    let mut members: Vec<&'a FoundObject> = Vec::new();
    let add = |object: &'a FoundObject, members: &mut Vec<&'a FoundObject>| {
        let is_known = members.iter().any(|known| std::ptr::eq(*known, object));
        if !is_known && (std::ptr::eq(object, cluster) || !is_apart(object)) {
            members.push(object);
        }
    };
    for object in seeds.into_iter().chain(objects.naming(cluster)) {
        add(object, &mut members);
    }
    for object in folders.near(cluster, own.as_ref().map(|(folder, _)| folder.as_str())) {
        if folders.holds(cluster, own.as_ref(), object) && !folders.is_of_another(cluster, object) {
            add(object, &mut members);
        }
    }
    let namespace = Reference {
        group: Some(String::new()),
        kind: "Namespace".to_owned(),
        namespace: None,
        name: cluster.namespace.clone(),
    };
    if let Some(object) = objects.referred(cluster, &namespace) {
        add(object, &mut members);
    }
    let mut index = 0;
    while let Some(member) = members.get(index).copied() {
        index += 1;
        for reference in references(&member.node) {
            if let Some(object) = objects.referred(member, &reference) {
                add(object, &mut members);
            }
        }
    }
    members
}

/// The cluster that a group of workers names.
fn named_cluster(object: &FoundObject) -> Option<String> {
    is_worker_group(&object.group, &object.kind).then(|| field(&object.node, &["spec", "clusterName"]))?
}

/// Why a group of workers among the members of a cluster is none of its worker groups, and what helps: it would be committed with the
/// control plane, and roll with it.
fn stray_workers(cluster: &FoundObject, member: &FoundObject) -> (String, &'static str) {
    let (kind, name, own) = (&member.kind, &member.name, &cluster.name);
    match named_cluster(member) {
        None => (
            format!("{kind} {name:?} is in the files of cluster {own:?}, and names no cluster"),
            "write the name of its cluster into spec.clusterName",
        ),
        Some(other) if other == *own => (
            format!(
                "{kind} {name:?} names cluster {own:?}, and is in namespace {:?}, the cluster in {:?}",
                member.namespace, cluster.namespace
            ),
            "write the namespace of its cluster into its metadata: Cluster API looks for the cluster there",
        ),
        Some(other) => (
            format!(
                "{kind} {name:?} is in the files of cluster {own:?}, and names cluster {other:?}, which is not in this \
                 repository"
            ),
            "correct spec.clusterName, or move it out of the files of the cluster",
        ),
    }
}

/// What is not as it should be among the members of a cluster.
pub(super) fn check(
    cluster: &FoundObject,
    groups: &[WorkerGroup],
    members: &[&FoundObject],
    objects: &Objects<'_>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let told = |object: &FoundObject, code: ProblemCode, message: String, hint: &str| {
        let place = object.place_of(&["metadata", "name"]);
        let problem = Problem::new(code, message).path(&place.path).at(place.line, place.column);
        problem.cluster(&cluster.name).severity(Severity::Warning).hint(hint)
    };
    let is_stray = |member: &FoundObject| !groups.iter().any(|group| group.object.as_ref() == Some(&member.name));
    for member in members {
        match (member.group.as_str(), member.kind.as_str()) {
            ("addons.cluster.x-k8s.io", "ClusterResourceSet") => {
                let resources = member.node.at(&["spec", "resources"]).map(references).unwrap_or_default();
                for missing in resources.iter().filter(|resource| objects.referred(member, resource).is_none()) {
                    let message = format!(
                        "{} {:?} of ClusterResourceSet {:?} is not in this repository",
                        missing.kind, missing.name, member.name
                    );
                    let hint = "where something else makes it, nothing is to do; Stepgate records what is in git";
                    problems.push(told(member, ProblemCode::MissingReference, message, hint));
                }
            }
            (group, kind)
                if cluster.group == "cluster.x-k8s.io" && is_worker_group(group, kind) && is_stray(member) =>
            {
                let (message, hint) = stray_workers(cluster, member);
                problems.push(told(member, ProblemCode::BadCluster, message, hint).severity(Severity::Error));
            }
            ("cluster.x-k8s.io", "MachineDeployment" | "MachinePool") if is_without_version(member) => {
                let message = format!(
                    "{} {:?} names no version: it keeps the one that it has when the control plane rises",
                    member.kind, member.name
                );
                let hint = "write spec.template.spec.version, or raise it where its infrastructure names one";
                problems.push(told(member, ProblemCode::BadCluster, message, hint));
            }
            ("cluster.x-k8s.io", "Machine" | "MachineSet") => {
                let message = format!(
                    "{} {:?} belongs to no MachineDeployment: no rollout replaces it, and no gate looks at it",
                    member.kind, member.name
                );
                let hint = "make a MachineDeployment of it, or replace it by hand";
                problems.push(told(member, ProblemCode::BadCluster, message, hint));
            }
            _ => {}
        }
    }
    problems
}

fn is_without_version(workers: &FoundObject) -> bool {
    field(&workers.node, &["spec", "template", "spec", "version"]).is_none()
}

/// Objects that several clusters use, as each of them records them.
pub(super) fn check_shared(users: &[(&FoundObject, Vec<&str>)]) -> Vec<Problem> {
    let shared = users.iter().filter(|(object, clusters)| {
        clusters.len() > 1 && object.kind != "Namespace" && object.group != "anywhere.eks.amazonaws.com"
    });
    let told = shared.map(|(object, clusters)| {
        let names = match clusters.as_slice() {
            [one, two, three, rest @ ..] if !rest.is_empty() => {
                format!("{one}, {two}, {three} and {} more", rest.len())
            }
            names => names.join(", "),
        };
        let message = format!(
            "{} {:?} is used by clusters {names}: each records it, and its change holds for all of them with the first",
            object.kind, object.name
        );
        let place = object.place_of(&["metadata", "name"]);
        let problem = Problem::new(ProblemCode::SharedObject, message).path(&place.path).at(place.line, place.column);
        // Templates are not changed in place.
        let is_template = object.kind.ends_with("Template");
        let severity = if is_template { Severity::Note } else { Severity::Warning };
        problem.severity(severity).hint("give what you change a new name, and let the clusters take it one by one")
    });
    told.collect()
}

/// The files of `members` in order of path.
///
/// A file that also holds objects of somebody else, or a List, is cut down to the objects of this cluster.
pub(super) fn files_of(members: &[&FoundObject], objects: &Objects<'_>) -> Vec<SpecFile> {
    let is_member = |object: &FoundObject| members.iter().any(|member| std::ptr::eq(*member, object));
    let paths: BTreeSet<&RepoPath> = members.iter().map(|member| &member.path).collect();
    let mut files = Vec::new();
    for path in paths {
        let held: Vec<&FoundObject> =
            objects.in_file(path).iter().copied().filter(|object| is_member(object)).collect();
        let Some(first) = held.first() else { continue };
        let is_whole = held.len() == objects.in_file(path).len() && !held.iter().any(|object| object.is_listed);
        let bytes = if is_whole { first.bytes.clone() } else { cut(first, &held).into_bytes().into() };
        files.push(SpecFile { path: path.clone(), bytes });
    }
    files
}

/// The documents of `held`, as people wrote them; the items of a List as documents of their own.
fn cut(first: &FoundObject, held: &[&FoundObject]) -> String {
    let Ok(text) = yaml::decode(&first.bytes) else { return String::new() };
    let documents = crate::document::split(&text);
    let mut kept = String::new();
    for object in held {
        let start = object.node.span.start();
        let document = documents.iter().find(|document| document.range.contains(&start));
        let written = match document.filter(|_| !object.is_listed) {
            Some(document) => text.get(document.range.clone()).unwrap_or_default().to_owned(),
            None => yaml::emit(&object.node),
        };
        if !kept.is_empty() {
            kept.push_str("---\n");
        }
        kept.push_str(written.trim_start_matches(['\r', '\n']));
        if !kept.ends_with('\n') {
            kept.push('\n');
        }
    }
    kept
}
