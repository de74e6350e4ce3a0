//! A state of before as the target of a plan: its files as they were, cut into parts that go back the other way round.

mod doors;

use std::sync::Arc;

use domain::{ClusterName, RepoPath};
use overlays::{
    ClusterSpec, ComponentName, ObjectSummary, RenderedCluster, RenderedComponent, RenderedTree, facts, objects_of,
};
use rollout::{Block, Rollback};
use yaml::Node;

pub use doors::doors;

use crate::directory::{ClusterDirectory, flux_folder};

/// The directory of before in the form of a rendered one: what is compared are two states of the deploy branch.
pub fn target(cluster: &ClusterName, deployed: &ClusterDirectory, before: &ClusterDirectory) -> RenderedCluster {
    let (home, wanted) = (deployed.deployed(cluster), before.deployed(cluster));
    let mut rendered = RenderedCluster::default();
    for name in ComponentName::ALL {
        let (now, tree) = match name {
            ComponentName::CiliumPreflight => continue,
            ComponentName::FluxObjects => (flux_objects(cluster, deployed), flux_objects(cluster, before)),
            _ => (home.below(name.directory()), wanted.below(name.directory())),
        };
        if tree.is_empty() {
            continue;
        }
        let objects = nodes(&tree);
        let comparison = facts::compare(&nodes(&now), &objects);
        let component = RenderedComponent {
            name,
            version: None,
            objects: objects.iter().filter_map(ObjectSummary::of).collect(),
            notes: comparison.notes,
            removed_versions: comparison.removed_versions,
            hops: Vec::new(),
            missing_hops: Vec::new(),
            tree,
        };
        rendered.components.insert(name, Ok(component));
    }
    rendered
}

fn flux_objects(cluster: &ClusterName, directory: &ClusterDirectory) -> RenderedTree {
    let folder = flux_folder(cluster);
    let inside = |(path, bytes): (&RepoPath, &Arc<[u8]>)| Some((path.strip_prefix(&folder)?, Arc::clone(bytes)));
    directory.files.files.iter().filter_map(inside).collect()
}

fn nodes(tree: &RenderedTree) -> Vec<Node> {
    let files = tree.files.iter().filter(|(path, _)| path.is_yaml());
    files.flat_map(|(_, bytes)| objects_of(bytes)).collect()
}

/// The cluster of before. Who manages it is what the source branch says now.
pub fn cluster_of(before: &RenderedTree, cluster: &ClusterSpec) -> Option<ClusterSpec> {
    let spec = crate::facts::deployed_cluster(before, cluster)?;
    Some(ClusterSpec { management: cluster.management.clone(), ..spec })
}

/// What forbids to rest on the state of before: it is not the one that was recorded, or nobody has proven that it held.
pub fn untrusted(rollback: &Rollback, before: &ClusterDirectory) -> Option<Block> {
    let digest = before.files.digest();
    let recorded = before.ledger().is_some_and(|ledger| ledger.tree == digest && ledger.rollout == rollback.rollout);
    (digest != rollback.tree || !recorded).then(|| Block {
        code: Block::ROLLBACK_TARGET.to_owned(),
        stage: None,
        message: format!("commit {} does not hold the state that was recorded as {rollback}", rollback.to),
        help: "end the rollback by `stepgate rollback CLUSTER --end --yes`, and choose another state".to_owned(),
    })
}
