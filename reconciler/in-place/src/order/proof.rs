//! What has to be so, for a while and without a break, before a node counts as upgraded.

use super::{World, precheck};
use crate::objects::NodeUpgrade;

/// Why the node is not proven at its target; none where it is.
pub(super) fn missing(world: &World, upgrade: &NodeUpgrade) -> Option<String> {
    if let Some(reason) = &world.unreachable {
        return Some(format!("the API server of cluster {} does not answer: {reason}", world.cluster));
    }
    let target = &upgrade.spec.kubernetes_version;
    let Some(machine) = world.machine(&upgrade.spec.machine) else { return Some(String::from("its Machine is gone")) };
    let Some(node) = machine.node.as_ref().filter(|node| node.name == upgrade.spec.node) else {
        return Some(format!("node {} is not there", upgrade.spec.node));
    };
    if !target.is_met_by_kubelet(&node.kubelet_version) {
        return Some(format!("kubelet on node {} is {}, {target} expected", node.name, node.kubelet_version));
    }
    if !node.ready {
        return Some(format!("node {} is not ready", node.name));
    }
    if precheck::is_cordoned_by_us(node) {
        return Some(format!("node {} is still cordoned", node.name));
    }
    if machine.control_plane { precheck::components(world, node) } else { None }
}
