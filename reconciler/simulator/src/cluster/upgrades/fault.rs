//! What goes wrong with upgrades in place, and what people do about it.

use std::time::Duration;

use in_place::objects::NodePhase;
use jiff::Timestamp;

use super::{Event, State, UpgradeDefect};
use crate::{SimulatedCluster, clock::Moment, cluster::machine::Owner, random::Random};

/// Something that goes wrong with an upgrade in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpgradeFault {
    /// A step fails once.
    StepFails,
    /// A step fails as often as it is tried; the node can be taken back.
    StepBreaks,
    /// A step fails as often as it is tried, and the node cannot be taken back.
    NodeBreaks,
    /// A call of `stepgate-node` is killed.
    StepKilled,
    /// A node has no power for some minutes.
    PowerLost,
    /// Extension and controller are away for some minutes.
    ExtensionDown,
    /// The controller is killed between two actions, and another one comes.
    ControllerKilled,
    /// A Machine does not know its Node for some minutes.
    NodeMissing,
    /// Another node takes the virtual address.
    AddressMoves,
    /// Another member of etcd leads.
    LeaderMoves,
    /// Somebody deletes the Pod of an upgrader.
    PodDeleted,
    /// Somebody deletes the upgrade of a node.
    UpgradeDeleted,
}

impl UpgradeFault {
    /// Every fault, in the order of this documentation.
    pub const ALL: [Self; 12] = [
        Self::StepFails,
        Self::StepBreaks,
        Self::NodeBreaks,
        Self::StepKilled,
        Self::PowerLost,
        Self::ExtensionDown,
        Self::ControllerKilled,
        Self::NodeMissing,
        Self::AddressMoves,
        Self::LeaderMoves,
        Self::PodDeleted,
        Self::UpgradeDeleted,
    ];
}

impl SimulatedCluster {
    /// Something goes wrong with upgrades in place at `at`, on a machine that chance names.
    pub fn disturb(&mut self, fault: UpgradeFault, at: Timestamp) {
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            state.schedule.plan(Moment::of(at), Event::UpgradeFault(fault));
        }
    }

    /// Somebody looks at nodes whose upgrade has failed at `at`, puts them right, and says so.
    pub fn repair_nodes(&mut self, at: Timestamp) {
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            state.schedule.plan(Moment::of(at), Event::NodesRepaired);
        }
    }

    /// A controller that does something wrong.
    pub fn with_upgrade_defect(&mut self, defect: UpgradeDefect) {
        self.state.upgrades.iter_mut().for_each(|upgrades| upgrades.defect = Some(defect));
    }

    /// What should never have been seen of upgrades in place.
    #[must_use]
    pub fn upgrade_violations(&self) -> &[String] {
        self.state.upgrades.as_ref().map_or(&[], |upgrades| &upgrades.violations)
    }
}

fn minutes(random: &mut Random, least: u64, most: u64) -> Duration {
    random.between(Duration::from_secs(least * 60), Duration::from_secs(most * 60))
}

impl State {
    pub(in crate::cluster) fn disturb(&mut self, fault: UpgradeFault) {
        let now = self.now;
        let Some(upgrades) = &mut self.upgrades else { return };
        let nodes: Vec<u64> =
            self.machines.iter().filter(|known| known.owner != Owner::Etcd).map(|known| known.id).collect();
        let busy = upgrades.nodes.iter().find(|upgrade| upgrade.status.phase.is_active());
        let busy = busy.and_then(|busy| self.machines.iter().find(|known| known.name == busy.spec.machine.name));
        // What is under way is hit more often.
        let busy = busy.map(|known| known.id).filter(|_| self.random.chance(2, 3));
        let chosen = busy.or_else(|| self.random.choose(&nodes).copied());
        let Some(machine) = self.machines.iter_mut().find(|known| Some(known.id) == chosen) else { return };
        match fault {
            UpgradeFault::StepFails => machine.node.failures = 1,
            UpgradeFault::StepBreaks => machine.node.failures = 3,
            UpgradeFault::NodeBreaks => (machine.node.failures, machine.node.is_stuck) = (3, true),
            UpgradeFault::StepKilled => machine.node.is_killed = true,
            UpgradeFault::PowerLost => {
                machine.node.away = true;
                let (id, name) = (machine.id, machine.name.clone());
                let back_in = minutes(&mut self.random, 1, 6);
                self.plan_in(back_in, Event::NodeStarted(id));
                self.member_restarts(&name);
                self.look_at_machines();
            }
            UpgradeFault::ExtensionDown => {
                upgrades.away_until = Some(now + minutes(&mut self.random, 1, 8));
            }
            UpgradeFault::ControllerKilled => {
                upgrades.killed_after = usize::try_from(self.random.below(4)).ok();
            }
            UpgradeFault::NodeMissing => {
                machine.node.missing = true;
                let id = machine.id;
                let found_in = minutes(&mut self.random, 1, 5);
                self.plan_in(found_in, Event::NodeFound(id));
            }
            UpgradeFault::AddressMoves => {
                if machine.owner == Owner::ControlPlane && machine.is_ready() && self.address_holder.is_some() {
                    self.address_holder = Some(machine.name.clone());
                }
            }
            UpgradeFault::LeaderMoves => {
                let leader = upgrades.etcd_leader.clone().unwrap_or_default();
                self.elect_etcd_leader(&leader);
            }
            UpgradeFault::PodDeleted => upgrades.pods.clear(),
            UpgradeFault::UpgradeDeleted => {
                let count = u64::try_from(upgrades.nodes.len()).unwrap_or_default();
                if count > 0 {
                    let at = usize::try_from(self.random.below(count)).unwrap_or_default();
                    upgrades.nodes.remove(at);
                }
            }
        }
    }

    /// A Machine knows its Node again.
    pub(in crate::cluster) fn node_found(&mut self, id: u64) {
        let machine = self.machines.iter_mut().find(|known| known.id == id);
        machine.into_iter().for_each(|machine| machine.node.missing = false);
        self.look_at_machines();
    }

    /// Whoever repairs nodes says so at each upgrade that has failed.
    pub(in crate::cluster) fn repair_nodes(&mut self) {
        let now = self.now.timestamp();
        let Some(upgrades) = &mut self.upgrades else { return };
        for upgrade in upgrades.nodes.iter_mut().filter(|upgrade| upgrade.status.phase.has_failed()) {
            if upgrade.status.message.is_empty() {
                upgrades.violations.push(format!("{} has failed, and says nothing", upgrade.name));
            }
            upgrade.retry = Some(now.to_string());
        }
        let failed = |name: &String| {
            let of_it = upgrades.nodes.iter().filter(|upgrade| upgrade.spec.machine.name == *name);
            of_it.map(|upgrade| upgrade.spec.kubernetes_version.to_string()).collect::<Vec<String>>()
        };
        let is_busy = |name: &String| {
            let mut of_it = upgrades.nodes.iter().filter(|upgrade| upgrade.spec.machine.name == *name);
            of_it.any(|upgrade| matches!(upgrade.status.phase, NodePhase::RollingBack))
        };
        for machine in &mut self.machines {
            let targets = failed(&machine.name);
            if !is_busy(&machine.name) {
                machine.repair(&targets);
            }
        }
    }
}
