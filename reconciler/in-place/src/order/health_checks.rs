//! `MachineHealthChecks` are paused while one of their machines is under way, and never longer. A machine that has
//! failed is kept from remediation instead: replacing it is not what was asked for.

use jiff::Timestamp;

use super::owner::is_begun;
use super::{Action, Mark, Pause, World, starting};
use crate::objects::{Lease, NodePhase, NodeUpgrade};

pub(super) fn decide(world: &World, now: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    // What was begun before its object was deleted is as fragile as what is under way.
    let is_begun = |upgrade: &NodeUpgrade| upgrade.status.phase == NodePhase::Pending && is_begun(world, upgrade);
    let busy: Vec<(&str, &str)> = world
        .node_upgrades
        .iter()
        .filter(|upgrade| (upgrade.status.phase.is_active() || is_begun(upgrade)) && !upgrade.deleting)
        .chain(starting(world))
        .map(|upgrade| (upgrade.spec.machine.name.as_str(), upgrade.spec.node.as_str()))
        .collect();
    for check in &world.health_checks {
        let of = busy.iter().find(|(machine, _)| check.machines.iter().any(|known| known == machine));
        let name = check.name.clone();
        match (&check.pause, of) {
            (Pause::None, Some((_, node))) => {
                let lease = Lease::new(format!("node {node} is upgraded in place"), now);
                actions.push(Action::PauseHealthCheck { name, lease });
            }
            (Pause::Ours(lease), Some(_)) if lease.is_short(now) => {
                let lease = Lease::new(lease.reason.clone(), now);
                actions.push(Action::PauseHealthCheck { name, lease });
            }
            (Pause::Ours(_), None) => actions.push(Action::ResumeHealthCheck { name }),
            (Pause::None | Pause::Others, None) | (Pause::Ours(_) | Pause::Others, Some(_)) => {}
        }
    }
    for machine in &world.machines {
        let has_failed = world.node_upgrades.iter().any(|upgrade| {
            upgrade.spec.machine == machine.object
                && !upgrade.deleting
                && matches!(upgrade.status.phase, NodePhase::Failed | NodePhase::RollingBack)
        });
        let on = match machine.skips_remediation {
            Mark::None if has_failed => true,
            Mark::Ours if !has_failed => false,
            Mark::None | Mark::Ours | Mark::Others => continue,
        };
        actions.push(Action::SkipRemediation { machine: machine.object.clone(), on });
    }
    actions
}
