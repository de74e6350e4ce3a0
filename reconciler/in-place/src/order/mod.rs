//! Which machine goes when, and what is done about it: [`decide`] takes what was read and returns what to do.
//!
//! Architecture Invariant: every action is as if done once when it is done twice, and what is next follows from what was
//! read alone. A process may be killed between any two of them.
//!
//! One machine of a cluster at a time. Nothing of a group begins before all of it is understood; what fails stops its
//! group, and an owner stays paused as long as it would find a machine outdated.

mod action;
mod bootstrap_config;
mod cluster_configuration;
mod health_checks;
mod inputs;
mod node;
mod owner;
mod precheck;
mod proof;
mod releases;
mod steps;
mod world;

use jiff::Timestamp;

use crate::objects::{NamedObject, NodePhase, NodeUpgrade, StepState};

pub use action::{Action, PodPurpose};
pub use bootstrap_config::kubeadm_config;
pub use cluster_configuration::cluster_configuration;
pub use releases::releases;
pub use world::{
    Architecture, Component, Container, ContainerState, Cordon, Driver, Failure, HealthCheck, Holder, Machine, Mark,
    Node, Owner, OwnerKind, Pause, Pod, Release, Settings, World,
};

/// What to do now, in this order.
#[must_use]
pub fn decide(world: &World, now: Timestamp) -> Vec<Action> {
    let mut actions = health_checks::decide(world, now);
    for upgrade in &world.node_upgrades {
        actions.extend(node::decide(world, upgrade, now));
    }
    for owner in &world.owners {
        actions.extend(owner::decide(world, owner, now));
    }
    actions.extend(owner::decide_hooks(world));
    actions.extend(orphans(world));
    actions
}

/// Pods of upgrades that are gone.
fn orphans(world: &World) -> impl Iterator<Item = Action> {
    let is_known = |name: &String| world.node_upgrades.iter().any(|upgrade| upgrade.name == *name);
    let orphans = world.pods.iter().filter(move |(name, pod)| !pod.deleting && !is_known(name));
    orphans.map(|(name, pod)| Action::DeletePod {
        upgrade: NamedObject { name: name.clone(), uid: pod.upgrade_uid.clone() },
    })
}

/// The upgrade that keeps those of all other machines waiting; none where the next one may begin. A node that is neither
/// upgraded nor undone is one that the cluster has to do without.
fn busy<'a>(world: &'a World, machine: Option<&NamedObject>) -> Option<&'a NodeUpgrade> {
    let is_stuck = |upgrade: &NodeUpgrade| {
        let cannot_go = match upgrade.status.phase {
            NodePhase::Failed => true,
            NodePhase::Pending => !can_go(world, upgrade),
            _ => false,
        };
        machine != Some(&upgrade.spec.machine) && cannot_go && may_be_begun(world, upgrade)
    };
    let is_busy = |upgrade: &&NodeUpgrade| upgrade.status.phase.is_active() || is_stuck(upgrade);
    world.node_upgrades.iter().find(is_busy)
}

/// Whether its node is cordoned for it. Of a Machine that does not know its Node that is unknown: what was done to it counts.
fn may_be_begun(world: &World, upgrade: &NodeUpgrade) -> bool {
    let status = &upgrade.status;
    let was_begun = || status.retried.is_some() || status.steps.iter().any(|it| it.state == StepState::Succeeded);
    let is_unknown = world.machine(&upgrade.spec.machine).is_some_and(|machine| machine.node.is_none());
    owner::is_begun(world, upgrade) || is_unknown && was_begun()
}

/// What is said of it.
fn busy_with(upgrade: &NodeUpgrade) -> String {
    let node = &upgrade.spec.node;
    match upgrade.status.phase {
        NodePhase::Failed | NodePhase::Pending => format!("node {node} is neither upgraded nor undone"),
        _ => format!("node {node} is under way"),
    }
}

/// The upgrade that begins now; none where one is under way, or none may begin.
fn starting(world: &World) -> Option<&NodeUpgrade> {
    let upgrade = first_pending(world).filter(|next| busy(world, Some(&next.spec.machine)).is_none())?;
    let machine = world.machine(&upgrade.spec.machine).filter(|machine| !machine.deleting)?;
    let version = &upgrade.spec.kubernetes_version;
    let may = precheck::why_not_now(world, machine, version).is_none();
    (may && !world.pods.contains_key(&upgrade.name)).then_some(upgrade)
}

/// Whether nothing of its machine keeps it from going there.
fn can_go(world: &World, upgrade: &NodeUpgrade) -> bool {
    let machine = world.machine(&upgrade.spec.machine);
    machine.is_none_or(|machine| inputs::why_not(world, machine, &upgrade.spec.kubernetes_version).is_none())
}

/// The upgrade whose turn is next of those that nothing was begun of.
fn first_pending(world: &World) -> Option<&NodeUpgrade> {
    let pending = world.node_upgrades.iter().filter(|upgrade| upgrade.status.phase == NodePhase::Pending);
    // One that cannot go there keeps no other waiting.
    let can = |upgrade: &&NodeUpgrade| !upgrade.deleting && can_go(world, upgrade);
    pending.filter(can).min_by_key(|upgrade| {
        let machine = world.machine(&upgrade.spec.machine);
        // What was begun before its object was deleted is finished first.
        let node = machine.and_then(|machine| machine.node.as_ref());
        let begun = node.is_some_and(precheck::is_cordoned_by_us);
        let control_plane = machine.is_some_and(|machine| machine.control_plane);
        (!begun, !control_plane, &upgrade.name)
    })
}
