//! Puts what was rendered in the place of the objects that were found.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::objects::{FoundObject, is_of_clusters};
use super::build::{BuiltObject, Outcome};
use super::closure::Kustomizations;
use super::composed::{ComposedFile, Layer, compose};
use super::root::{Failure, Root, RootResult};
use super::tree::Tree;
use super::{Rendered, variables};
use domain::{Problem, ProblemCode, RepoPath, Severity};
use kustomize_rs::FILE_NAMES;

impl Rendered {
    pub(super) fn take(
        &mut self,
        roots: &[Root],
        tree: &Tree<'_>,
        kustomizations: &Kustomizations<'_>,
        objects: Vec<Arc<FoundObject>>,
        wanted: &BTreeSet<RepoPath>,
    ) {
        let found: BTreeSet<&RepoPath> = objects.iter().map(|object| &object.path).collect();
        let mut consumed = kustomizations.patches();
        let mut kept: BTreeSet<RepoPath> = BTreeSet::new();
        let mut applied: BTreeSet<String> = BTreeSet::new();
        let mut names: BTreeSet<(String, String)> = BTreeSet::new();
        let (flux, tops): (Vec<&Root>, Vec<&Root>) = roots.iter().partition(|root| root.flux.is_some());
        for root in flux.into_iter().chain(tops) {
            consumed.extend(root.closure.others.iter().cloned());
            if let Some(failure) = &root.as_a_whole {
                let message = format!(
                    "{} cannot be rendered as a whole, and Flux applies nothing of it: {}",
                    root.label(),
                    failure.message
                );
                self.problems.push(told(root, failure, message).severity(Severity::Warning));
            }
            match &root.result {
                RootResult::Plain | RootResult::Foreign => {
                    self.problems.extend(elsewhere(root));
                    self.applications.add(root, root.closure.resources.iter().cloned(), false);
                    kept.extend(root.closure.resources.iter().cloned());
                }
                RootResult::Failed(failure) => self.fail(root, failure, tree, &mut kept, &mut consumed),
                RootResult::Built(outcome) => {
                    let objects_of_clusters = parts(outcome, &found);
                    match variables::judge(root, outcome, &objects_of_clusters) {
                        Ok(problems) => self.problems.extend(problems),
                        Err(failure) => {
                            self.fail(root, &failure, tree, &mut kept, &mut consumed);
                            continue;
                        }
                    }
                    let mut name = root.name();
                    while !names.insert((root.folder.clone(), name.clone())) {
                        name.push('+');
                    }
                    let composed = compose_root(root, &name, &objects_of_clusters, tree);
                    if self.is_shadowed(root, &composed, &applied) {
                        consumed.extend(root.closure.resources.iter().cloned());
                        continue;
                    }
                    if root.flux.is_some() {
                        let clusters = composed.iter().flat_map(ComposedFile::objects).filter(|it| it.is_cluster());
                        applied.extend(clusters.map(|object| object.name.clone()));
                    }
                    let made: BTreeSet<&RepoPath> = composed.iter().map(|file| &file.origin).collect();
                    let lost = |path: &RepoPath| wanted.contains(path) && !made.contains(path);
                    let is_unchanged =
                        composed.iter().all(|file| file.is_unchanged) && !root.closure.resources.iter().any(lost);
                    if is_unchanged {
                        self.applications.add(root, root.closure.resources.iter().cloned(), false);
                        kept.extend(root.closure.resources.iter().cloned());
                        continue;
                    }
                    self.applications.add(root, composed.iter().map(|file| file.path.clone()), false);
                    consumed.extend(root.closure.resources.iter().cloned());
                    for file in composed {
                        self.objects.extend(file.objects());
                        self.labels.insert(file.path.clone(), root.label());
                        self.files.insert(file.path.clone(), file);
                    }
                }
            }
        }
        self.unlisted(kustomizations, roots, &kept, &mut consumed, &objects);
        self.lone_components(kustomizations, roots, &mut consumed, &objects);
        consumed.retain(|path| !kept.contains(path));
        self.objects.extend(objects.into_iter().filter(|object| !consumed.contains(&object.path)));
        self.objects
            .sort_by(|left, right| (&left.path, left.node.span.start()).cmp(&(&right.path, right.node.span.start())));
        self.applied = kept.into_iter().chain(self.files.keys().cloned()).collect();
        self.consumed = consumed;
    }

    /// Files beside a kustomization that does not name them are applied by nobody.
    fn unlisted(
        &mut self,
        kustomizations: &Kustomizations<'_>,
        roots: &[Root],
        kept: &BTreeSet<RepoPath>,
        consumed: &mut BTreeSet<RepoPath>,
        objects: &[Arc<FoundObject>],
    ) {
        let used: BTreeSet<&RepoPath> = roots.iter().flat_map(|root| &root.closure.kustomizations).collect();
        for object in objects {
            if kept.contains(&object.path) || consumed.contains(&object.path) {
                continue;
            }
            let folder = object.path.parent().map(|parent| parent.to_string()).unwrap_or_default();
            let Some(kustomization) = kustomizations.file_of(&folder).filter(|path| used.contains(path)) else {
                continue;
            };
            let is_lost = objects.iter().any(|other| other.path == object.path && other.is_cluster());
            if is_lost {
                let message = format!("{kustomization} does not name this file: nobody applies it, and it is left out");
                let problem = Problem::new(ProblemCode::Skipped, message).severity(Severity::Warning);
                let problem = problem.path(&object.path).at(1, 1);
                self.problems.push(problem.hint("name it under `resources` there, or take it away"));
                consumed.insert(object.path.clone());
            }
        }
    }

    /// Whether a kustomization that Flux does not apply makes a cluster that Flux applies otherwise.
    fn is_shadowed(&mut self, root: &Root, composed: &[ComposedFile], applied: &BTreeSet<String>) -> bool {
        if root.flux.is_some() {
            return false;
        }
        let objects = composed.iter().flat_map(ComposedFile::objects);
        let twin = objects.filter(|object| object.is_cluster()).find(|object| applied.contains(&object.name));
        let Some(twin) = twin else { return false };
        let message =
            format!("{} makes cluster {:?} too, and Flux applies another one; it is left out", root.label(), twin.name);
        let problem = told(root, &Failure::new(""), message).severity(Severity::Warning);
        self.problems
            .push(Problem { code: ProblemCode::Skipped, ..problem }.hint("take it away, or let Flux apply it instead"));
        true
    }

    /// Components that nothing builds are no clusters.
    fn lone_components(
        &mut self,
        kustomizations: &Kustomizations<'_>,
        roots: &[Root],
        consumed: &mut BTreeSet<RepoPath>,
        objects: &[Arc<FoundObject>],
    ) {
        let reached: BTreeSet<&String> = roots.iter().flat_map(|root| &root.closure.folders).collect();
        for folder in kustomizations.tops() {
            if !kustomizations.is_component(&folder) || reached.contains(&folder) {
                continue;
            }
            let closure = kustomizations.closure(&folder, &[]);
            if let Some(object) =
                objects.iter().find(|object| object.is_cluster() && closure.resources.contains(&object.path))
            {
                let message = format!("{folder} is a Component that no kustomization names; its clusters are left out");
                let place = object.place_of(&["metadata", "name"]);
                let problem = Problem::new(ProblemCode::Skipped, message).severity(Severity::Warning);
                let problem = problem.path(&place.path).at(place.line, place.column);
                self.problems.push(problem.hint("name it under `components` of a kustomization"));
            }
            consumed.extend(closure.resources);
        }
    }

    /// Tells of a root that cannot be rendered: its clusters cannot be used, and are read by nobody else.
    fn fail(
        &mut self,
        root: &Root,
        failure: &Failure,
        tree: &Tree<'_>,
        kept: &mut BTreeSet<RepoPath>,
        consumed: &mut BTreeSet<RepoPath>,
    ) {
        self.applications.add(root, [], true);
        let message = format!("{} cannot be rendered: {}", root.label(), failure.message);
        let problem = told(root, failure, message);
        let clusters: BTreeSet<String> =
            root.closure.resources.iter().flat_map(|path| clusters_in(tree, path)).collect();
        let names: Vec<&String> = clusters.iter().filter(|name| super::super::objects::naming::is_name(name)).collect();
        let resources = root.closure.resources.iter().cloned();
        if clusters.is_empty() {
            self.problems.push(problem.severity(Severity::Warning));
            kept.extend(resources);
            return;
        }
        consumed.extend(resources);
        if names.is_empty() {
            self.problems.push(problem);
        } else {
            self.problems.extend(names.into_iter().map(|name| problem.clone().cluster(name.as_str())));
        }
    }
}

/// The names of clusters in a file, also where it is a template.
fn clusters_in(tree: &Tree<'_>, path: &RepoPath) -> Vec<String> {
    let Some(text) = tree.text(path).filter(|text| text.contains("Cluster")) else { return Vec::new() };
    let Ok(documents) = yaml::parse(&text, &yaml::Limits::default()) else {
        // No name, and a cluster nevertheless.
        let is_cluster = text.contains("kind: Cluster") && text.contains("cluster.x-k8s.io/");
        return if is_cluster { vec![String::new()] } else { Vec::new() };
    };
    let bytes: Arc<[u8]> = Arc::from(text.as_bytes());
    let objects = documents.into_iter().filter_map(|document| FoundObject::new(path, &bytes, document.root));
    objects.filter(FoundObject::is_cluster).map(|object| object.name).collect()
}

/// The files of what a root makes.
fn compose_root(root: &Root, name: &str, objects: &[&BuiltObject], tree: &Tree<'_>) -> Vec<ComposedFile> {
    let flux = root.flux.as_ref().map(|flux| &flux.path);
    let files = flux.into_iter().chain(&root.closure.kustomizations).chain(&root.closure.others);
    let layers = files.filter_map(|path| Some(Layer { path: path.clone(), text: tree.text(path)? }));
    let layers: Arc<[Layer]> = layers.collect();
    compose(name, &root.folder, objects, &|path| tree.read(path).ok(), &layers)
}

/// The objects that may be part of a cluster: by their kind, or by what is read beside them.
fn parts<'o>(outcome: &'o Outcome, found: &BTreeSet<&RepoPath>) -> Vec<&'o BuiltObject> {
    let of_cluster = |object: &&BuiltObject| {
        let version = object.node.get("apiVersion").and_then(yaml::Node::as_str).unwrap_or_default();
        is_of_clusters(version.split_once('/').map_or("", |(group, _)| group))
    };
    let files = outcome.objects.iter().filter(of_cluster).filter_map(|object| object.file.as_ref());
    let folders: BTreeSet<Option<RepoPath>> = files.map(RepoPath::parent).collect();
    let is_beside = |file: &RepoPath| {
        found.contains(file) || FILE_NAMES.contains(&file.file_name()) || folders.contains(&file.parent())
    };
    let is_kept = |object: &&BuiltObject| of_cluster(object) || object.file.as_ref().is_some_and(is_beside);
    outcome.objects.iter().filter(is_kept).collect()
}

/// What is said of a root that takes objects from elsewhere: they may be clusters.
fn elsewhere(root: &Root) -> Option<Problem> {
    let (first, kustomization) = root.closure.missing.first().zip(root.closure.kustomizations.first())?;
    // What may be a password or a token in an address is not shown.
    let address = first.split('?').next().unwrap_or_default();
    let address = address.rsplit('@').next().unwrap_or_default();
    let message = format!("{} takes {address:?}, which is not in this repository and not read", root.label());
    let problem = Problem::new(ProblemCode::NotRead, message).path(kustomization).severity(Severity::Note);
    Some(problem.hint("where that makes a cluster, it is not found: copy it into the repository"))
}

/// A problem at the place of a failure.
fn told(root: &Root, failure: &Failure, message: String) -> Problem {
    let mut problem = Problem::new(failure.code, message);
    if let Some(path) = failure.path.as_ref().or(root.closure.kustomizations.first()) {
        problem = problem.path(path).at(failure.line.max(1), failure.column.max(1));
    }
    let hint = failure.hint.clone();
    problem.hint(hint.unwrap_or_else(|| "nothing of it is recorded until it can be rendered".to_owned()))
}
