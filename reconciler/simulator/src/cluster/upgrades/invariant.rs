//! What must never be so while nodes are upgraded, looked at after every event.

use std::time::Duration;

use in_place::{
    objects::{GroupUpgrade, NodeUpgrade},
    order::Pause,
};

use super::State;
use crate::cluster::machine::Machine;

/// How long a node may be cordoned, or looked at, without anybody who says why: some turns of the controller.
const PATIENCE: Duration = Duration::from_secs(120);

impl State {
    /// Keeps what should not have been seen.
    pub(in crate::cluster) fn check_upgrades(&mut self) {
        let now = self.now;
        let Some(upgrades) = &mut self.upgrades else { return };
        let answers = upgrades.answers(now);
        let mut found = Vec::new();
        let has_pod = |name: &str| upgrades.pods.values().any(|known| known.is_of(name));
        let is_touched =
            |known: &Machine| known.node.is_under_way() && (known.node.cordon.is_some() || has_pod(&known.name));
        let under_way: Vec<String> =
            self.machines.iter().filter(|known| is_touched(known)).map(|known| known.name.clone()).collect();
        if under_way.len() > 1 {
            found.push(format!("two nodes at once: {}", under_way.join(", ")));
        }
        for machine in &mut self.machines {
            let (name, check) = (machine.name.clone(), super::world::check_of(machine));
            let node = &mut machine.node;
            if let Some(version) = node.is_upgraded_twice() {
                found.push(format!("{name} was upgraded to {version} twice"));
            }
            let tells = |upgrade: &NodeUpgrade| {
                upgrade.spec.machine.name == name && !upgrade.status.completed && !upgrade.status.message.is_empty()
            };
            // A Machine that does not know its Node is named by its group.
            let names = |group: &GroupUpgrade| !group.status.ready && group.status.message.contains(&name);
            let is_told = upgrades.nodes.iter().any(tells) || upgrades.groups.iter().any(names);
            let is_explained = node.cordon.is_none() || !answers || is_told;
            node.unexplained_since = (!is_explained).then(|| node.unexplained_since.unwrap_or(now));
            if node.unexplained_since.is_some_and(|since| now.since(since) > PATIENCE) {
                found.push(format!("{name} is cordoned, and nothing says why"));
            }
            let is_looked_at = upgrades.checks.get(check).is_none_or(|pause| *pause == Pause::None);
            // A check finds nothing sick at a Machine that knows no Node.
            let is_looked_at = is_looked_at && !node.missing;
            let is_watched = under_way.contains(&name) && is_looked_at && !node.is_kept && answers;
            node.watched_since = is_watched.then(|| node.watched_since.unwrap_or(now));
            if node.watched_since.is_some_and(|since| now.since(since) > PATIENCE) {
                found.push(format!("{name} is under way, and {check} would have it replaced"));
            }
        }
        for violation in found {
            if !upgrades.violations.contains(&violation) {
                upgrades.violations.push(violation);
            }
        }
    }

    /// A machine is made in a cluster whose machines stay.
    pub(in crate::cluster) fn machine_is_made(&mut self, name: &str) {
        if let Some(upgrades) = self.upgrades.as_mut().filter(|upgrades| !upgrades.replaces) {
            upgrades.violations.push(format!("machine {name} was made, though machines stay"));
        }
    }

    /// Somebody deletes machines: others take their place.
    pub(in crate::cluster) fn may_replace(&mut self) {
        self.upgrades.iter_mut().for_each(|upgrades| upgrades.replaces = true);
    }

    /// What is left over once everything is done.
    pub(in crate::cluster) fn unfinished_upgrades(&self) -> Vec<String> {
        let Some(upgrades) = &self.upgrades else { return Vec::new() };
        let mut left = Vec::new();
        for (name, pause) in upgrades.pauses.iter().filter(|(_, pause)| **pause != Pause::None) {
            left.push(format!("{name} is paused: {pause:?}"));
        }
        for (name, pause) in upgrades.checks.iter().filter(|(_, pause)| **pause != Pause::None) {
            left.push(format!("MachineHealthCheck {name} is paused: {pause:?}"));
        }
        for machine in &self.machines {
            if let Some(version) = &machine.node.cordon {
                left.push(format!("node {} is cordoned for {version}", machine.name));
            }
            if machine.node.updating {
                left.push(format!("Cluster API waits for Machine {}", machine.name));
            }
            if machine.node.is_kept {
                left.push(format!("Machine {} is kept from remediation", machine.name));
            }
        }
        left.extend(upgrades.pods.keys().map(|name| format!("the Pod of {name} is there")));
        let open = upgrades.nodes.iter().filter(|upgrade| !upgrade.status.completed);
        left.extend(open.map(|upgrade| format!("{}: {}", upgrade.name, upgrade.status.message)));
        let groups = upgrades.groups.iter().filter(|group| !group.status.ready);
        left.extend(groups.map(|group| format!("{}: {}", group.name, group.status.message)));
        left
    }
}
