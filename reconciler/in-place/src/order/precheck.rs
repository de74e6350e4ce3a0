//! What has to be so before a node is touched.

use bundles::KubernetesVersion;

use super::{Cordon, Machine, Node, Pod, World};

/// Static Pods that every control-plane node runs.
const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Why nothing begins on this machine now; none where it may.
pub(super) fn why_not_now(world: &World, machine: &Machine, version: &KubernetesVersion) -> Option<String> {
    if let Some(reason) = &world.unreachable {
        return Some(format!("the API server of cluster {} does not answer: {reason}", world.cluster));
    }
    if world.paused {
        return Some(format!("Cluster {} is paused", world.cluster));
    }
    let Some(node) = &machine.node else { return Some(format!("Machine {} has no Node", machine.object.name)) };
    if !node.ready {
        return Some(format!("node {} is not ready", node.name));
    }
    let is_begun =
        |known: &&Machine| known.object != machine.object && known.node.as_ref().is_some_and(is_cordoned_by_us);
    if let Some(begun) = world.machines.iter().find(is_begun) {
        return Some(format!("Machine {} is still cordoned by its upgrade", begun.object.name));
    }
    let is_left = |pod: &&Pod| world.node_upgrades.iter().all(|known| known.uid != pod.upgrade_uid);
    if world.pods.values().any(|pod| is_left(&pod)) {
        return Some(String::from("the Pod of an upgrade that was deleted has to go first"));
    }
    if node.disk_pressure {
        return Some(format!("node {} has too little disk space left", node.name));
    }
    if machine.control_plane {
        return control_plane(world, machine, version);
    }
    // kubelet may never be newer than an API server that it may reach.
    let behind = world.control_plane().find(|known| runs(known).is_none_or(|it| it.order(version).is_lt()));
    if let Some(behind) = behind {
        let seen = runs(behind).map_or_else(|| String::from("no known version"), |it| it.to_string());
        return Some(format!("control-plane Machine {} is at {seen}: workers come after it", behind.object.name));
    }
    world.control_plane().find_map(|known| unhealthy(world, known)).map(|why| format!("before a worker: {why}"))
}

/// What kubelet of a machine runs: what its API server runs is not older.
fn runs(machine: &Machine) -> Option<KubernetesVersion> {
    machine.node.as_ref()?.kubelet_version.parse().ok()
}

/// Every other member of the control plane has to carry on alone.
fn control_plane(world: &World, machine: &Machine, version: &KubernetesVersion) -> Option<String> {
    if let Some(going) = world.control_plane().find(|known| known.deleting) {
        return Some(format!("control-plane Machine {} is being deleted", going.object.name));
    }
    if let Some(why) = world.control_plane().find_map(|known| unhealthy(world, known)) {
        return Some(why);
    }
    // No API server may be more than one minor version away from another.
    let apart = world.control_plane().find(|known| {
        known.object != machine.object
            && runs(known).is_none_or(|it| {
                !version.minor().minors_above(it.minor()).is_some_and(|minors| (-1..=1).contains(&minors))
            })
    });
    apart.map(|known| format!("control-plane Machine {} is too far from {version}", known.object.name))
}

/// Why a control-plane machine is not healthy; none where it is.
pub(super) fn unhealthy(world: &World, machine: &Machine) -> Option<String> {
    let name = &machine.object.name;
    let Some(node) = &machine.node else { return Some(format!("control-plane Machine {name} has no Node")) };
    if !node.ready {
        return Some(format!("control-plane node {} is not ready", node.name));
    }
    components(world, node)
}

/// Which static Pod is not ready.
pub(super) fn components(world: &World, node: &Node) -> Option<String> {
    let etcd = world.stacked_etcd.then_some("etcd");
    let is_ready = |name: &str| node.components.iter().any(|known| known.name == name && known.ready);
    let missing = etcd.into_iter().chain(COMPONENTS).find(|name| !is_ready(name))?;
    Some(format!("{missing} on node {} is not ready", node.name))
}

/// Whether the node has a cordon of an upgrade.
pub(super) fn is_cordoned_by_us(node: &Node) -> bool {
    matches!(node.cordon, Cordon::Ours(_))
}
