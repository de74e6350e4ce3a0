//! Walking the files of a commit and telling what each is.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bundles::Manifest;
use yaml::Limits;

use super::component_overlays::{is_component, overlay_of, unknown_overlays};
use super::makers::{self, Maker};
use super::objects::FoundObject;
use super::rendered::KnownBuilds;
use super::{BundleFile, EksaReleaseFile, EksdReleaseFile};
use super::{ignored, template};
use crate::{ContentId, EntryKind, FileEntry, Files, ReadError, Remembered, Unusable, UnusablePath};
use domain::{Problem, ProblemCode, RepoPath, Severity};
use policy::Policy;

/// Files larger than this are not read: no real manifest is, and a 100 MB file must not cost memory.
const MAXIMUM_BYTES: u64 = 32 << 20;

/// Text that stands in every file that is looked for.
const GROUPS: [&str; 9] = [
    "anywhere.eks.amazonaws.com",
    "distro.eks.amazonaws.com",
    "cluster.x-k8s.io",
    "run.tanzu.vmware.com",
    "kubernetes.vmware.com",
    "vmoperator.vmware.com",
    "eksctl.io",
    "toolkit.fluxcd.io",
    "fluxcd.controlplane.io",
];

/// What is kept of files that are no cluster's may have this many times the nodes of what is kept of a cluster's.
const OF_NOBODY: usize = 4;

/// What files hold, put together.
#[derive(Clone, Default)]
pub(super) struct Found {
    /// YAML nodes of what is kept.
    nodes: usize,
    pub bundles: Vec<Arc<BundleFile>>,
    pub eksa_releases: Vec<Arc<EksaReleaseFile>>,
    pub eksd_releases: Vec<Arc<EksdReleaseFile>>,
    pub objects: Vec<Arc<FoundObject>>,
    pub problems: Vec<Problem>,
    /// Folders with a kustomization.
    pub kustomized: BTreeSet<String>,
    /// What comes near to a cluster and is none: file and reason.
    pub near_misses: Vec<(RepoPath, String)>,
    /// Objects that other programs make clusters of, or may.
    pub makers: Vec<Maker>,
}

impl Found {
    fn add(&mut self, other: &Self) {
        self.nodes += other.nodes;
        self.bundles.extend(other.bundles.iter().cloned());
        self.eksa_releases.extend(other.eksa_releases.iter().cloned());
        self.eksd_releases.extend(other.eksd_releases.iter().cloned());
        self.objects.extend(other.objects.iter().cloned());
        self.problems.extend(other.problems.iter().cloned());
        self.near_misses.extend(other.near_misses.iter().cloned());
        self.makers.extend(other.makers.iter().cloned());
    }

    fn add_manifest(&mut self, path: &RepoPath, bytes: &Arc<[u8]>, manifest: Manifest) {
        let (path, bytes) = (path.clone(), Arc::clone(bytes));
        match manifest {
            Manifest::Bundles(bundles) => {
                self.nodes += bundles.node.count();
                self.bundles.push(Arc::new(BundleFile { path, bytes, bundles }));
            }
            Manifest::EksaRelease(release) => self.eksa_releases.push(Arc::new(EksaReleaseFile { path, release })),
            Manifest::EksdRelease(release) => {
                self.eksd_releases.push(Arc::new(EksdReleaseFile { path, bytes, release }));
            }
        }
    }
}

/// What was read from files before, by path and content. A fleet that is read again costs its changed files.
pub struct ReadFiles {
    known: Mutex<Remembered<(RepoPath, ContentId, Place), Arc<Found>>>,
    nodes: usize,
    pub(super) builds: KnownBuilds,
}

/// Memory that a parsed file takes for each of its bytes, about.
const PARSED: usize = 16;

impl ReadFiles {
    /// Remembers what files hold, as long as that takes less than about `bytes` bytes of memory.
    pub fn new(bytes: usize) -> Self {
        Self { known: Mutex::new(Remembered::new(bytes)), nodes: 250_000, builds: KnownBuilds::new(bytes / 4) }
    }

    /// Keeps of one cluster's files what has at most so many YAML nodes together.
    #[must_use]
    pub fn with_nodes(self, nodes: usize) -> Self {
        Self { nodes, ..self }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Remembered<(RepoPath, ContentId, Place), Arc<Found>>> {
        // What is remembered is whole at every point where a panic could happen.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ReadFiles {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("ReadFiles").field(&self.known().len()).finish()
    }
}

/// What a path is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// Under `bundles/` or `clusters/`: whatever is there must be readable.
    Ours,
    /// Anywhere else: read when it looks like ours.
    Elsewhere,
    /// Beside the file of a cluster: read, since whatever is applied together with the cluster belongs to it.
    Beside,
    /// Never read for specifications: overlays, rendered files, Flux's own folder.
    Left,
}

fn place(path: &RepoPath, policy: &Policy) -> Place {
    if policy.deploy.path.as_ref().is_some_and(|deploy| path.is_below(deploy.as_str())) {
        return Place::Left;
    }
    let mut segments = path.segments();
    let first = segments.next().unwrap_or_default();
    let overlay = overlay_of(path);
    let is_ignored = policy.ignore.iter().any(|pattern| pattern.matches(path));
    if overlay.is_some_and(is_component) || first.starts_with('.') || is_ignored {
        return Place::Left;
    }
    match first {
        _ if overlay.is_some() => Place::Elsewhere,
        "bundles" | "clusters" if path.segments().count() > 1 => Place::Ours,
        _ => Place::Elsewhere,
    }
}

/// The cluster that a path belongs to by its folder: `clusters/<name>/…`, or
/// `clusters/<management>/<name>/eksa-system/…` of EKS Anywhere.
pub(super) fn cluster_of_path(path: &RepoPath) -> Option<String> {
    cluster_of(&path.segments().collect::<Vec<_>>())
}

fn cluster_of(segments: &[&str]) -> Option<String> {
    if let Some(at) = segments.iter().position(|segment| *segment == "eksa-system")
        && at > 0
    {
        return segments.get(at - 1).map(|name| (*name).to_owned());
    }
    let at = segments.iter().position(|segment| *segment == "clusters")?;
    (segments.len() > at + 2).then(|| segments.get(at + 1).map(|name| (*name).to_owned()))?
}

/// A path that is not read concerns its cluster, where it is in the folder of one: what it would say is not known.
fn unusable(path: &UnusablePath) -> Problem {
    let segments: Vec<&str> = path.path.split('/').collect();
    let problem = match &path.reason {
        Unusable::Name => {
            let message = "the path is not UTF-8, is too long, or has a segment that cannot be used; it is not read";
            Problem::new(ProblemCode::BadPath, message).hint("rename it")
        }
        Unusable::Unreadable { message, hint } => {
            let problem = Problem::new(ProblemCode::Unreadable, message.as_str());
            problem.hint(hint.as_deref().unwrap_or("store it again"))
        }
    };
    // The folder itself may be what cannot be read.
    let cluster = match segments.as_slice() {
        [.., "clusters", name] | [.., name, "eksa-system"] => Some((*name).to_owned()),
        _ => cluster_of(&segments),
    };
    let problem = problem.shown_path(&path.path);
    match cluster {
        Some(cluster) => problem.cluster(cluster),
        None => problem,
    }
}

pub(super) fn scoped(problem: Problem, path: &RepoPath) -> Problem {
    match cluster_of_path(path) {
        Some(cluster) => problem.cluster(cluster),
        None => problem,
    }
}

pub(super) fn scan(files: &dyn Files, policy: &Policy, known: &ReadFiles) -> Found {
    let mut found = Found::default();
    found.problems.extend(files.unusable_paths().iter().map(unusable));
    let entries = files.paths();
    for entry in entries.iter().filter(|entry| kustomize_rs::FILE_NAMES.contains(&entry.path.file_name())) {
        let folder = entry.path.parent();
        found.kustomized.insert(folder.map(|folder| folder.as_str().to_owned()).unwrap_or_default());
    }
    let mut budget = Nodes { allowed: known.nodes, used: HashMap::new() };
    for entry in entries.iter() {
        match &entry.kind {
            EntryKind::File => {
                let place = place(&entry.path, policy);
                file(files, place, entry, known, &mut budget, &mut found);
            }
            EntryKind::Symlink { target } => symlink(&entry.path, target, policy, &mut found),
            EntryKind::Submodule => {
                let ours = place(&entry.path, policy) != Place::Elsewhere;
                let severity = if ours { Severity::Error } else { Severity::Note };
                let message = "it is a submodule; its files are not read";
                let problem = Problem::new(ProblemCode::Submodule, message).path(&entry.path).severity(severity);
                found.problems.push(scoped(problem.hint("copy the files into this repository"), &entry.path));
            }
        }
    }
    let beside = beside(&found);
    let read: HashSet<RepoPath> = match beside.is_empty() {
        true => HashSet::new(),
        false => found.objects.iter().map(|object| object.path.clone()).collect(),
    };
    let is_manifest = |entry: &&FileEntry| entry.path.is_yaml() || entry.path.is_json();
    let entries_beside = entries.iter().filter(|entry| !beside.is_empty() && entry.kind == EntryKind::File);
    for entry in entries_beside.filter(is_manifest) {
        let is_beside = entry.path.parent().is_some_and(|folder| beside.contains(folder.as_str()));
        if is_beside && place(&entry.path, policy) == Place::Elsewhere && !read.contains(&entry.path) {
            file(files, Place::Beside, entry, known, &mut budget, &mut found);
        }
    }
    unknown_overlays(&entries, policy, &mut found);
    found.problems.extend(ignored::unused_patterns(files, &entries, policy));
    found
}

/// Folders outside of `clusters/` that hold the file of a cluster, or of what several clusters choose.
fn beside(found: &Found) -> BTreeSet<String> {
    let wanted = found.objects.iter().filter(|object| object.is_cluster() || object.kind == "ClusterResourceSet");
    wanted.filter_map(|object| object.path.parent()).map(|folder| folder.as_str().to_owned()).collect()
}

/// Whether a link of that text in the folder of `path` leaves the repository.
pub(crate) fn leaves_repository(path: &RepoPath, target: &str) -> bool {
    if target.starts_with('/') || target.contains('\\') {
        return true;
    }
    let mut depth = path.segments().count().saturating_sub(1);
    for segment in target.split('/') {
        match segment {
            "" | "." => {}
            ".." => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return true,
            },
            ".git" => return true,
            _ => depth += 1,
        }
    }
    false
}

fn symlink(path: &RepoPath, target: &str, policy: &Policy, found: &mut Found) {
    let place = place(path, policy);
    let problem = if leaves_repository(path, target) {
        let message = format!("it is a symbolic link out of the repository, to {target:?}");
        Problem::new(ProblemCode::Symlink, message).hint("store the file itself in the repository")
    } else {
        let severity = if place == Place::Ours { Severity::Warning } else { Severity::Note };
        let message = format!("it is a symbolic link to {target:?}; links are not followed");
        Problem::new(ProblemCode::Symlink, message).severity(severity).hint("store the file itself")
    };
    found.problems.push(scoped(problem.path(path), path));
}

/// How many nodes are kept of each cluster's files, and of those of nobody.
struct Nodes {
    allowed: usize,
    used: HashMap<Option<String>, usize>,
}

impl Nodes {
    /// Whether nothing more is read of this file's cluster: too much of it was found before.
    fn are_used_up(&self, path: &RepoPath) -> bool {
        self.used.get(&cluster_of_path(path)) == Some(&usize::MAX)
    }

    /// Takes what a file holds, unless that makes too much of its cluster's: then nothing more is read of that.
    fn take(&mut self, path: &RepoPath, own: &Found, found: &mut Found) -> bool {
        let cluster = cluster_of_path(path);
        let allowed = if cluster.is_some() { self.allowed } else { self.allowed.saturating_mul(OF_NOBODY) };
        let used = self.used.entry(cluster).or_default();
        if used.saturating_add(own.nodes) <= allowed {
            *used += own.nodes;
            found.add(own);
            return true;
        }
        *used = usize::MAX;
        let message = format!(
            "up to here the files of its folder have more than {allowed} YAML nodes, which is the limit; the rest is not read"
        );
        let problem = Problem::new(ProblemCode::TooLarge, message).path(path);
        let hint = "where that is as it should be, --repo-limit nodes=NUMBER (STEPGATE_REPO_LIMITS) raises the limit";
        found.problems.push(scoped(problem.hint(hint), path));
        false
    }
}

fn file(files: &dyn Files, place: Place, entry: &FileEntry, known: &ReadFiles, budget: &mut Nodes, found: &mut Found) {
    let path = &entry.path;
    let is_manifest = path.is_yaml() || path.is_json();
    if !is_manifest || place == Place::Left || path.as_str() == super::POLICY {
        return;
    }
    if entry.size > MAXIMUM_BYTES {
        let message = format!("it has {} bytes; files over {MAXIMUM_BYTES} bytes are not read", entry.size);
        let severity = if place == Place::Ours { Severity::Error } else { Severity::Note };
        let problem = Problem::new(ProblemCode::TooLarge, message).path(path).severity(severity);
        found.problems.push(scoped(problem.hint("split it, or move it elsewhere"), path));
        return;
    }
    if budget.are_used_up(path) {
        return;
    }
    let key = entry.id.map(|id| (path.clone(), id, place));
    if let Some(known) = key.as_ref().and_then(|key| known.known().get(key)) {
        budget.take(path, &known, found);
        return;
    }
    match files.read(path) {
        Ok(bytes) => {
            let mut own = Found::default();
            contents(path, place, &bytes, &mut own);
            if let (true, Some(key)) = (budget.take(path, &own, found), key) {
                known.known().insert(key, Arc::new(own), bytes.len() * PARSED + path.as_str().len() + 256);
            }
        }
        Err(error) => found.problems.push(scoped(unreadable(path, error), path)),
    }
}

/// The problem of a file that could not be read.
pub(super) fn unreadable(path: &RepoPath, error: ReadError) -> Problem {
    let (message, hint) = match error {
        ReadError::NotFound(_) => ("it is not there any more".to_owned(), None),
        ReadError::Failed { message, hint, .. } => (message, hint),
    };
    let problem = Problem::new(ProblemCode::Unreadable, message).path(path);
    problem.hint(hint.as_deref().unwrap_or("store it again"))
}

fn contents(path: &RepoPath, place: Place, bytes: &Arc<[u8]>, found: &mut Found) {
    // Flux's own files: gotk-sync.yaml is empty until Flux is installed, gotk-components.yaml is Flux itself.
    let of_flux = path.file_name().starts_with("gotk-");
    // JSON holds many other things too.
    let is_strict = place == Place::Ours && !path.is_json();
    let text = match yaml::decode(bytes) {
        Ok(text) => text,
        Err(error) => {
            if is_strict {
                found.problems.push(scoped(domain::yaml_problem(path, &error), path));
            }
            return;
        }
    };
    let looks_ours = GROUPS.iter().any(|group| text.contains(group));
    if !looks_ours && (place == Place::Elsewhere || (path.is_json() && !text.contains("\"kind\""))) {
        if text.lines().any(|line| line.trim_end() == "kind: Cluster") {
            found.near_misses.push((path.clone(), "a Cluster of a group that is not read".to_owned()));
        }
        found.makers.extend(makers::in_text(path, bytes, &text));
        return;
    }
    if text.trim().is_empty() {
        if !of_flux && is_strict {
            let problem = Problem::new(ProblemCode::BadYaml, "the file is empty").path(path).at(1, 1);
            found.problems.push(scoped(problem.hint("fill it or remove it"), path));
        }
        return;
    }
    if ["Bundles", "EKSARelease", "distro.eks.amazonaws.com"].iter().any(|word| text.contains(word)) {
        match bundles::parse(path.as_str(), bytes) {
            Ok(manifests) => {
                let held = !manifests.is_empty();
                for manifest in manifests {
                    found.add_manifest(path, bytes, manifest);
                }
                // A file of bundles is large and holds nothing else; only a mixed one is read twice.
                if held && !text.contains("kind: Cluster") {
                    return;
                }
            }
            Err(_) if template::is_text(&text) => {
                found.problems.push(template::of_text(path, &text));
                return;
            }
            Err(error) => {
                let problem = Problem::new(ProblemCode::BadBundle, error.message).path(path);
                let problem = problem.at(error.line, error.column).hint(error.hint);
                let weight = if place == Place::Ours { Severity::Error } else { Severity::Warning };
                found.problems.push(scoped(problem.severity(weight), path));
                return;
            }
        }
    }
    // Specifications are small: what a bundle may hold, they may not.
    let limits = Limits { nodes: 500_000, depth: 100, ..Limits::default() };
    match yaml::parse(&text, &limits) {
        Ok(documents) => {
            let mut objects = Vec::new();
            for document in documents {
                let nodes = document.root.count();
                let held = FoundObject::all(path, bytes, document.root);
                if !held.is_empty() {
                    found.nodes += nodes;
                    objects.extend(held);
                } else if is_strict && !of_flux && !kustomize_rs::FILE_NAMES.contains(&path.file_name()) {
                    let problem = Problem::new(ProblemCode::Skipped, "a document without kind is left out").path(path);
                    found.problems.push(scoped(problem.severity(Severity::Note), path));
                }
            }
            let nearly = |object: &&FoundObject| matches!(object.kind.as_str(), "Cluster" | "ClusterConfig");
            for object in objects.iter().filter(nearly).filter(|object| !object.is_cluster()) {
                let reason = match object.is_local {
                    true => format!("a {} that is marked as local configuration", object.kind),
                    false => format!("a {} of group {:?}, which is not read", object.kind, object.group),
                };
                found.near_misses.push((path.clone(), reason));
            }
            found.makers.extend(objects.iter().filter_map(Maker::of));
            found.objects.extend(objects.into_iter().map(Arc::new));
        }
        Err(_) if template::is_text(&text) => found.problems.push(template::of_text(path, &text)),
        Err(_) if place == Place::Beside && !looks_ours => {}
        Err(error) => {
            let severity = if place == Place::Ours { Severity::Error } else { Severity::Warning };
            found.problems.push(scoped(domain::yaml_problem(path, &error).severity(severity), path));
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
