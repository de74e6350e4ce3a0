//! Puts what was rendered in the place of the objects that were found.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::objects::FoundObject;
use super::build::{BuiltObject, Outcome};
use super::closure::Kustomizations;
use super::composed::{ComposedFile, Layer, compose};
use super::roots::{Failure, Root, RootResult};
use super::tree::Tree;
use super::{Rendered, is_cluster, is_part, variables};
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
        for root in roots {
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
                    self.applications.add(root, root.closure.resources.iter().cloned(), false);
                    kept.extend(root.closure.resources.iter().cloned());
                }
                RootResult::Failed(failure) => self.fail(root, failure, &objects, &mut kept, &mut consumed),
                RootResult::Built(outcome) => {
                    let wanted_objects = outcome.objects.iter().filter(|object| is_kept(object, &found)).collect();
                    match variables::judge(root, outcome, wanted_objects) {
                        Ok(problems) => self.problems.extend(problems),
                        Err(failure) => {
                            self.fail(root, &failure, &objects, &mut kept, &mut consumed);
                            continue;
                        }
                    }
                    let composed = self.compose(root, outcome, tree, &found);
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
        self.lone_components(kustomizations, roots, &mut consumed, &objects);
        consumed.retain(|path| !kept.contains(path));
        self.objects.extend(objects.into_iter().filter(|object| !consumed.contains(&object.path)));
        self.objects
            .sort_by(|left, right| (&left.path, left.node.span.start()).cmp(&(&right.path, right.node.span.start())));
        self.consumed = consumed;
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
                objects.iter().find(|object| is_cluster(object) && closure.resources.contains(&object.path))
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

    fn compose(
        &self,
        root: &Root,
        outcome: &Outcome,
        tree: &Tree<'_>,
        found: &BTreeSet<&RepoPath>,
    ) -> Vec<ComposedFile> {
        let objects: Vec<&BuiltObject> = outcome.objects.iter().filter(|object| is_kept(object, found)).collect();
        let flux = root.flux.as_ref().map(|flux| &flux.path);
        let files = flux.into_iter().chain(&root.closure.kustomizations).chain(&root.closure.others);
        let layers = files.filter_map(|path| Some(Layer { path: path.clone(), text: tree.text(path)? }));
        let layers: Arc<[Layer]> = layers.collect();
        compose(&root.name(), &root.folder, &objects, &|path| tree.read(path).ok(), &layers)
    }

    /// Tells of a root that cannot be rendered: its clusters cannot be used, and are read by nobody else.
    fn fail(
        &mut self,
        root: &Root,
        failure: &Failure,
        objects: &[Arc<FoundObject>],
        kept: &mut BTreeSet<RepoPath>,
        consumed: &mut BTreeSet<RepoPath>,
    ) {
        self.applications.add(root, [], true);
        let message = format!("{} cannot be rendered: {}", root.label(), failure.message);
        let problem = told(root, failure, message);
        let of_root = |object: &&Arc<FoundObject>| root.closure.resources.contains(&object.path);
        let clusters: Vec<_> = objects.iter().filter(|object| is_cluster(object)).filter(of_root).collect();
        let names: BTreeSet<&str> = clusters.iter().map(|object| object.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| super::super::clusters::is_name(name)).collect();
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
            self.problems.extend(names.into_iter().map(|name| problem.clone().cluster(name)));
        }
    }
}

/// Whether an object that was made may be part of a cluster: by its kind, or by the file that it was read from.
fn is_kept(object: &BuiltObject, found: &BTreeSet<&RepoPath>) -> bool {
    let version = object.node.get("apiVersion").and_then(yaml::Node::as_str).unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let file = object.file.as_ref();
    is_part(group) || file.is_some_and(|file| found.contains(file) || FILE_NAMES.contains(&file.file_name()))
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
