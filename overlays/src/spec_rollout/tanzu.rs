//! The one step of a `TanzuKubernetesCluster`: its controllers go through add-ons, control plane and node pools by themselves.
//!
//! The first stage that the change concerns commits the whole of it, as one JSON Patch would; the others follow by gates of
//! their own.

use super::side::Side;
use super::{ClusterStage, SpecStage, change};
use crate::object::object_id;
use crate::tanzu::{control_plane, node_pools, release_of, settings};
use crate::{ClusterSpec, RenderedTree};
use yaml::Node;

pub(super) fn stages(
    spec: &ClusterSpec,
    (old, new): (&Side, &Side),
    order: &[&str],
    back: bool,
    (before, target): (&RenderedTree, RenderedTree),
) -> Vec<ClusterStage> {
    let id = object_id(&spec.node);
    let node = |side: &Side| id.as_ref().and_then(|id| side.node_of(id).cloned());
    let (Some(old), Some(new)) = (node(old), node(new)) else { return vec![super::whole(before, target)] };
    let mut concerned = concerned(&old, &new, order, back).into_iter();
    let stage = concerned.next().unwrap_or(SpecStage::ControlPlane);
    let changes = change::between(before, &target);
    vec![ClusterStage { stage, tree: target, changes, moves: concerned.collect() }]
}

/// The stages that a change concerns, in the order in which they go.
fn concerned(old: &Node, new: &Node, order: &[&str], back: bool) -> Vec<SpecStage> {
    let (before, after) = (release_of(old), release_of(new));
    let goes_down = matches!((&before, &after), (Some(before), Some(after)) if after.order(before).is_lt());
    let settings_differ = settings(old) != settings(new);
    let addons = (before != after).then_some(SpecStage::Addons);
    let plane = control_plane(old) != control_plane(new) || settings_differ;
    let plane = plane.then_some(SpecStage::ControlPlane);
    let (before, after) = (node_pools(old), node_pools(new));
    let of = |pools: &[(String, crate::tanzu::MachineGroup)], name: &str| {
        pools.iter().find(|(known, _)| known == name).map(|(_, pool)| pool.clone())
    };
    let mut names: Vec<&str> = order.to_vec();
    names.extend(after.iter().chain(&before).map(|(name, _)| name.as_str()).filter(|name| !order.contains(name)));
    let mut workers: Vec<SpecStage> = Vec::new();
    for name in names {
        let stage = SpecStage::Workers(name.to_owned());
        // What every node is set up with is in the nodes of pools too.
        let differs = of(&before, name) != of(&after, name) || settings_differ;
        if differs && !workers.contains(&stage) {
            workers.push(stage);
        }
    }
    if back || goes_down {
        workers.into_iter().chain(plane).chain(addons).collect()
    } else {
        addons.into_iter().chain(plane).chain(workers).collect()
    }
}

#[cfg(test)]
#[path = "tanzu_tests.rs"]
mod tests;
