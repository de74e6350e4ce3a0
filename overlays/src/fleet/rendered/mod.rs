//! Specifications that kustomize or Flux make, as Flux applies them.
//!
//! This stands between the files that were found and the clusters made of them. Objects of a root that kustomize or Flux change are replaced by
//! what comes out of a build, in files of their own; patches and what only others build upon are no objects at all. When clusters have been
//! read, places in those files become places in git again.

mod applied;
mod build;
mod closure;
mod composed;
mod encrypted;
mod flux_object;
mod ignore;
mod root;
mod roots;
mod settle;
mod sources;
mod take;
#[cfg(test)]
mod tests;
mod tree;
mod values;
mod variables;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use applied::Applications;
pub(super) use build::KnownBuilds;
use closure::Kustomizations;
use composed::ComposedFile;
use roots::Search;
use sources::{OwnSources, is_kustomization, of_instances, unread_templates};
use tree::{Tree, is_of_stepgate};
use values::Values;

use super::objects::FoundObject;
use crate::{EntryKind, Files};
use domain::{Problem, RepoPath};
use ignore::Ignore;
use kustomize_rs::FILE_NAMES;
use policy::Policy;

/// The objects of a commit as they are applied.
#[derive(Default)]
pub(super) struct Rendered {
    /// In the place of those that were found.
    pub objects: Vec<Arc<FoundObject>>,
    files: BTreeMap<RepoPath, ComposedFile>,
    /// What makes each of these files.
    labels: BTreeMap<RepoPath, String>,
    pub problems: Vec<Problem>,
    /// Files that are applied: those that a kustomization names and those that were made.
    pub applied: BTreeSet<RepoPath>,
    /// Files that are no objects by themselves.
    consumed: BTreeSet<RepoPath>,
    applications: Applications,
}

/// Renders what is made by kustomize or Flux among `objects`.
pub(super) fn render(
    files: &dyn Files,
    policy: &Policy,
    objects: Vec<Arc<FoundObject>>,
    known: &KnownBuilds,
) -> Rendered {
    let entries = files.paths();
    let is_kustomized = entries.iter().any(|entry| {
        let is_file = entry.kind != EntryKind::Submodule && FILE_NAMES.contains(&entry.path.file_name());
        is_file && !is_of_stepgate(&entry.path, policy)
    });
    let is_flux = |object: &Arc<FoundObject>| {
        is_kustomization(&object.group, &object.kind) || object.group == "fluxcd.controlplane.io"
    };
    if !is_kustomized && !objects.iter().any(is_flux) {
        return Rendered { objects, ..Rendered::default() };
    }
    let mut rendered = Rendered::default();
    let synced = of_instances(&objects, &mut rendered.problems);
    rendered.problems.extend(unread_templates(&objects));
    let own = OwnSources::read(&objects, &synced, policy);
    let ignore = Ignore::read(files, &entries, &own.ignores);
    let tree = Tree::new(files, &entries, policy, &ignore);
    let kustomizations = Kustomizations::read(&tree);
    let wanted: BTreeSet<RepoPath> =
        objects.iter().filter(|object| is_wanted(object)).map(|object| object.path.clone()).collect();
    let values = Values::read(&tree, &objects, &synced);
    let sought: BTreeSet<RepoPath> = wanted.union(&values.files).cloned().collect();
    let candidates = values.candidates;
    let steps = Cell::new(0);
    let mut search =
        Search { tree: &tree, kustomizations: &kustomizations, own: &own, known, wanted: &sought, candidates, steps };
    let mut roots = search.roots(&objects, synced.clone());
    if !values.files.is_empty() {
        // Values may come from what another root makes.
        roots = search.roots(&objects, synced);
    }
    rendered.take(&roots, &tree, &kustomizations, objects, &wanted);
    rendered
}

/// Whether an object is part of a cluster, or says what is applied.
fn is_wanted(object: &FoundObject) -> bool {
    object.is_of_clusters() || is_kustomization(&object.group, &object.kind)
}
