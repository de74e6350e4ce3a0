//! The specification that a cluster is to have: its node groups under the names that its version asks for.

use std::sync::Arc;

use yaml::{Node, Span};

use super::{Succession, VersionedName, is_same_cluster, minor_of, node_groups, succession};
use crate::edit;
use crate::{ClusterKind, ClusterSpec, RenderedTree, SpecFile};

/// A node group whose name cannot be written anew in its file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node group {group} cannot be renamed to {name} in {path}: {reason}")]
pub struct Unnameable {
    /// The group.
    pub group: String,
    /// The name that it is to have.
    pub name: String,
    /// The file.
    pub path: String,
    /// What is in the way.
    pub reason: String,
}

/// The cluster with each node group under the name that its version asks for, where `deployed` holds a record of it; none
/// where all names are as they are to be. Everything else of the files stays as it is written.
///
/// Before a cluster is recorded its groups are called what they are called.
///
/// # Errors
/// [`Unnameable`] where a name stands behind an alias, or over several lines.
pub fn eksctl_target(cluster: &ClusterSpec, deployed: &RenderedTree) -> Result<Option<ClusterSpec>, Unnameable> {
    if cluster.kind != ClusterKind::Eksctl || deployed.below("cluster").is_empty() {
        return Ok(None);
    }
    let mut target = cluster.clone();
    let mut is_changed = false;
    for file in &mut target.files {
        let Some(renamed) = renamed(file, cluster)? else { continue };
        *file = SpecFile { path: file.path.clone(), bytes: renamed.0.into_bytes().into() };
        target.node = Arc::new(renamed.1);
        is_changed = true;
    }
    if !is_changed {
        return Ok(None);
    }
    target.worker_groups = super::worker_groups(&target.node, &target.kubernetes_version);
    Ok(Some(target))
}

/// The name that a node group is to have; none where it has it.
fn successor(root: &Node, group: &str, minor: u32) -> Option<String> {
    match succession(root, group) {
        Succession::Versioned(name) if name.minor != minor => Some(VersionedName::first(&name.stem, minor).to_string()),
        Succession::Versioned(_) | Succession::Kept | Succession::Undecided => None,
    }
}

/// A file with the names replaced, and the `ClusterConfig` in it as it is then.
fn renamed(file: &SpecFile, cluster: &ClusterSpec) -> Result<Option<(String, Node)>, Unnameable> {
    let Some(minor) = minor_of(&cluster.kubernetes_version) else { return Ok(None) };
    let Ok(text) = yaml::decode(&file.bytes) else { return Ok(None) };
    let mut text = text.into_owned();
    let Some(root) = config(&text, cluster) else { return Ok(None) };
    let mut names: Vec<(Span, String, String)> = node_groups(&root)
        .filter_map(|(_, group, item)| {
            Some((item.get("name")?.span, group.to_owned(), successor(&root, group, minor)?))
        })
        .collect();
    if names.is_empty() {
        return Ok(None);
    }
    names.sort_by_key(|(span, ..)| std::cmp::Reverse(span.start()));
    for (span, group, name) in names {
        text = edit::replace_scalar(&text, span, &name).map_err(|error| Unnameable {
            group,
            name,
            path: file.path.to_string(),
            reason: error.to_string(),
        })?;
    }
    Ok(config(&text, cluster).map(|root| (text, root)))
}

fn config(text: &str, cluster: &ClusterSpec) -> Option<Node> {
    let documents = edit::documents(text).ok()?;
    documents.into_iter().map(|(_, root)| root).find(|root| is_same_cluster(root, &cluster.node))
}
