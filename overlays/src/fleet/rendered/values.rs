//! Values of variables that Flux takes from `ConfigMaps`, as far as those are in git.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use yaml::{Limits, Node};

use super::super::objects::FoundObject;
use super::build::ConfigMaps;
use super::sources::FluxKustomization;
use super::tree::Tree;
use domain::RepoPath;

/// Files larger than this hold no values.
const MOST_BYTES: u64 = 1 << 20;

/// `ConfigMaps` that some `substituteFrom` names.
#[derive(Default)]
pub(super) struct Values {
    pub config_maps: ConfigMaps,
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
            values.config_maps.extend(documents.iter().filter_map(|document| config_map(&document.root)));
            values.files.insert(entry.path.clone());
        }
        values
    }
}

/// Namespace, name and values of a `ConfigMap`.
pub(super) fn config_map(node: &Node) -> Option<((String, String), BTreeMap<String, String>)> {
    let text = |path: &[&str]| node.at(path).and_then(Node::as_str).unwrap_or_default();
    if (text(&["apiVersion"]), text(&["kind"])) != ("v1", "ConfigMap") {
        return None;
    }
    let data = node.get("data").and_then(Node::as_mapping).into_iter().flatten();
    let values = data.map(|entry| (entry.key.to_string(), entry.value.as_str().unwrap_or_default().to_owned()));
    let id = (text(&["metadata", "namespace"]).to_owned(), text(&["metadata", "name"]).to_owned());
    Some((id, values.collect()))
}
