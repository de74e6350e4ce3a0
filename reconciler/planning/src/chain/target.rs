//! A fleet in which a cluster is to be at one target of its chain: its files say so, and everything else is as people wrote it.

use std::sync::Arc;

use overlays::edit::{EditError, set_in_object};
use overlays::object::object_id;
use overlays::{BundleReference, ClusterSpec, Fleet, SpecFile};
use policy::BundleSelection;
use rollout::{Block, ChainTarget};
use yaml::Node;

use super::course::Course;

/// A version that cannot be written into the files of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {value} cannot be written into {path}: {reason}")]
pub struct Unwritable {
    field: String,
    value: String,
    path: String,
    reason: String,
}

impl Unwritable {
    /// What it forbids.
    #[must_use]
    pub fn block(&self) -> Block {
        Block {
            code: Course::BROKEN_CHAIN.to_owned(),
            stage: None,
            message: self.to_string(),
            help: "write the field as a plain value on one line, or push the versions in between one after another"
                .to_owned(),
        }
    }
}

/// The fleet with the cluster at this target.
///
/// # Errors
/// [`Unwritable`] where a field stands behind an alias, or over several lines.
pub fn fleet_at(fleet: &Fleet, cluster: &ClusterSpec, target: &ChainTarget) -> Result<Fleet, Unwritable> {
    let written = written(cluster, target)?;
    let mut fleet = fleet.clone();
    if let Some(known) = fleet.clusters.iter_mut().find(|known| known.name == cluster.name) {
        *known = written;
    }
    // Where the specification names no bundle, or the policy another one, the policy does.
    let own = fleet.policy.clusters.entry(cluster.name.clone()).or_default();
    own.own.bundle = Some(BundleSelection::Name(target.bundle.clone()));
    Ok(fleet)
}

fn written(cluster: &ClusterSpec, target: &ChainTarget) -> Result<ClusterSpec, Unwritable> {
    let mut cluster = cluster.clone();
    let id = object_id(&cluster.node);
    let own = |file: &SpecFile| overlays::objects_of(&file.bytes).into_iter().find(|node| object_id(node) == id);
    let Some(index) = cluster.files.iter().position(|file| own(file).is_some()) else { return Ok(cluster) };
    let mut writing = Writing { index, cluster: &mut cluster };
    if writing.cluster.kubernetes_minor() != target.kubernetes {
        writing.set(&["spec", "kubernetesVersion"], &target.kubernetes)?;
        writing.cluster.kubernetes_version.clone_from(&target.kubernetes);
    }
    match writing.cluster.bundle_reference.clone() {
        Some(BundleReference::EksaVersion(old)) => {
            if let Some(version) = target.eksa.as_ref().filter(|version| **version != old) {
                writing.set(&["spec", "eksaVersion"], version)?;
                writing.cluster.bundle_reference = Some(BundleReference::EksaVersion(version.clone()));
            }
        }
        Some(BundleReference::Bundles(old)) if old != target.bundle => {
            writing.set(&["spec", "bundlesRef", "name"], &target.bundle)?;
            writing.cluster.bundle_reference = Some(BundleReference::Bundles(target.bundle.clone()));
        }
        Some(BundleReference::Bundles(_)) | None => {}
    }
    for (place, group) in cluster.worker_groups.clone().iter().enumerate() {
        let version = group.name.parse().ok().and_then(|name| target.workers.get(&name));
        let version = if group.own_kubernetes_version { version } else { Some(&target.kubernetes) };
        let Some(version) = version.filter(|version| **version != group.kubernetes_version) else { continue };
        if group.own_kubernetes_version {
            let path = ["spec", "workerNodeGroupConfigurations", &place.to_string(), "kubernetesVersion"];
            Writing { index, cluster: &mut cluster }.set(&path, version)?;
        }
        if let Some(group) = cluster.worker_groups.get_mut(place) {
            group.kubernetes_version.clone_from(version);
        }
    }
    let node: Option<Node> = cluster.files.get(index).and_then(own);
    if let Some(node) = node {
        cluster.node = Arc::new(node);
    }
    Ok(cluster)
}

/// The file that holds the object of a cluster.
struct Writing<'a> {
    index: usize,
    cluster: &'a mut ClusterSpec,
}

impl Writing<'_> {
    fn set(&mut self, field: &[&str], value: &str) -> Result<(), Unwritable> {
        let Some(file) = self.cluster.files.get_mut(self.index) else { return Ok(()) };
        let edited = set_in_object(&file.bytes, &self.cluster.node, field, value);
        let text = edited.map_err(|error: EditError| Unwritable {
            field: field.join("."),
            value: value.to_owned(),
            path: file.path.to_string(),
            reason: error.to_string(),
        })?;
        file.bytes = text.into_bytes().into();
        Ok(())
    }
}
