//! Values of variables that Flux takes from `ConfigMaps`, as far as those are in git.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kustomize_rs::flux::Kustomization;
use yaml::{Limits, Node};

use super::super::objects::FoundObject;
use super::build::ConfigMaps;
use super::sources::FluxKustomization;
use super::tree::Tree;
use domain::RepoPath;

/// Files larger than this hold no values.
const MOST_BYTES: u64 = 1 << 20;

/// One `ConfigMap` of the repository.
#[derive(Clone)]
pub(super) struct Candidate {
    id: (String, String),
    /// The folder that it is applied from.
    home: String,
    values: BTreeMap<String, String>,
}

/// `ConfigMaps` that some `substituteFrom` names.
#[derive(Default)]
pub(super) struct Values {
    pub candidates: Vec<Candidate>,
    /// The files that hold them, or make them.
    pub files: BTreeSet<RepoPath>,
}

impl Values {
    /// Looks through the repository where anything is named.
    pub fn read(tree: &Tree<'_>, objects: &[Arc<FoundObject>], synced: &[FluxKustomization]) -> Self {
        let declared = objects.iter().filter_map(|object| FluxKustomization::of(object));
        let all: Vec<FluxKustomization> = synced.iter().cloned().chain(declared).collect();
        let references = all.iter().filter_map(|flux| flux.node.at(&["spec", "postBuild", "substituteFrom"]));
        let items = references.filter_map(Node::as_sequence).flatten();
        let names: BTreeSet<&str> = items.filter_map(|item| item.get("name")?.as_str()).collect();
        let mut values = Self::default();
        if names.is_empty() {
            return values;
        }
        let entries = tree.entries().iter().filter(|entry| entry.path.is_yaml() && entry.size <= MOST_BYTES);
        for entry in entries {
            let Some(text) = tree.text(&entry.path) else { continue };
            let is_map = ["ConfigMap", "configMapGenerator"].iter().any(|word| text.contains(word));
            if !is_map || !names.iter().any(|name| text.contains(name)) {
                continue;
            }
            let documents = yaml::parse(&text, &Limits::default()).unwrap_or_default();
            let home = entry.path.parent().map(|parent| parent.to_string()).unwrap_or_default();
            values.candidates.extend(documents.iter().filter_map(|document| Candidate::of(&document.root, &home)));
            values.files.insert(entry.path.clone());
        }
        values
    }
}

impl Candidate {
    /// A `ConfigMap` that is applied from the folder `home`.
    pub fn of(node: &Node, home: &str) -> Option<Self> {
        let text = |path: &[&str]| node.at(path).and_then(Node::as_str).unwrap_or_default();
        if (text(&["apiVersion"]), text(&["kind"])) != ("v1", "ConfigMap") {
            return None;
        }
        let data = node.get("data").and_then(Node::as_mapping).into_iter().flatten();
        let values = data.map(|entry| (entry.key.to_string(), entry.value.as_str().unwrap_or_default().to_owned()));
        let id = (text(&["metadata", "namespace"]).to_owned(), text(&["metadata", "name"]).to_owned());
        Some(Self { id, home: home.to_owned(), values: values.collect() })
    }

    /// How many folders it shares with another home.
    fn nearness(&self, home: &str) -> usize {
        self.home.split('/').zip(home.split('/')).take_while(|(left, right)| left == right).count()
    }
}

/// The values of what a Kustomization in the folder `home` names. Where several management clusters have a `ConfigMap` of one name, the
/// nearest one counts; where that cannot be told, none does.
pub(super) fn resolve(candidates: &[Candidate], object: &Kustomization, home: &str) -> ConfigMaps {
    let references = object.post_build.iter().flat_map(|post_build| &post_build.substitute_from);
    let ids = references.map(|reference| (object.namespace.clone(), reference.name.clone()));
    let found = ids.filter_map(|id| {
        let named: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.id == id).collect();
        let best = named.iter().map(|candidate| candidate.nearness(home)).max()?;
        let mut nearest = named.into_iter().filter(|candidate| candidate.nearness(home) == best);
        let first = nearest.next()?;
        nearest.all(|other| other.values == first.values).then(|| (id, first.values.clone()))
    });
    found.collect()
}
