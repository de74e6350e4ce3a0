//! What was decided, done: twice, it is as if done once.

use std::time::Duration;

use in_place::{
    objects::{GroupUpgrade, NamedObject, NodeUpgrade, NodeUpgradeSpec, NodeUpgradeStatus},
    order::{Action, Driver, Pause, PodPurpose, World},
};

use super::{Event, State, UpgradeDefect, node::Upgrader};
use crate::cluster::machine::{Machine, Owner};

impl State {
    pub(super) fn perform_upgrade(&mut self, world: &World, action: Action) {
        let Some(upgrades) = &mut self.upgrades else { return };
        match action {
            Action::PauseOwner { owner, lease, .. } => {
                if upgrades.pauses.get(&owner.name) != Some(&Pause::Others) {
                    upgrades.pauses.insert(owner.name, Pause::Ours(lease));
                }
            }
            Action::ResumeOwner { owner, .. } => {
                upgrades.pauses.insert(owner.name, Pause::None);
                self.look_at_machines();
            }
            Action::PauseHealthCheck { name, lease } => upgrades.set_check(&name, &Pause::Ours(lease)),
            Action::ResumeHealthCheck { name } => upgrades.set_check(&name, &Pause::None),
            Action::SkipRemediation { machine, on } => {
                self.change_node(&machine, |machine| machine.node.is_kept = on);
            }
            Action::CreateGroup { kind, spec } => {
                let (name, uid) = (spec.object_name(), upgrades.uid());
                if upgrades.groups.iter().all(|known| known.name != name) {
                    let (generation, status) = (Some(1), Default::default());
                    upgrades.groups.push(GroupUpgrade { name, uid, generation, kind, spec: *spec, status });
                }
            }
            Action::DeleteGroup { group, .. } => upgrades.groups.retain(|known| known.uid != group.uid),
            Action::WriteGroup { group, status, .. } => {
                let known = upgrades.groups.iter_mut().find(|known| known.uid == group.uid);
                known.into_iter().for_each(|known| known.status = (*status).clone());
            }
            Action::CreateNode { spec } => self.create_node_upgrade(*spec),
            Action::DeleteNode { upgrade } => upgrades.nodes.retain(|known| known.uid != upgrade.uid),
            Action::WriteNode { upgrade, status } => self.write_node_upgrade(&upgrade, *status),
            Action::EnsurePod { upgrade, purpose, .. } => self.make_upgrader(&upgrade, purpose),
            Action::DeletePod { upgrade } => {
                if world.unreachable.is_none()
                    && let Some(pod) = upgrades.pods.get_mut(&upgrade.name)
                {
                    pod.pod.deleting = true;
                    let event = Event::Upgrader(pod.pod.upgrade_uid.as_str().into());
                    self.plan_in(Duration::from_secs(2), event);
                }
            }
            Action::Adopt { owner, machine, version, .. } => self.adopt(&owner, &machine, version.as_str()),
            Action::AdoptTemplate { owner } => {
                upgrades.adopted.insert(owner.name, true);
            }
        }
    }

    fn change_node(&mut self, named: &NamedObject, change: impl FnOnce(&mut Machine)) {
        let is_it = |machine: &&mut Machine| super::world::named(machine) == *named;
        if let Some(machine) = self.machines.iter_mut().find(is_it) {
            change(machine);
        }
    }

    /// What its node runs and its owner wants is what a machine says.
    fn adopt(&mut self, owner: &NamedObject, machine: &NamedObject, version: &str) {
        let specs = [Owner::ControlPlane].into_iter().chain((0..self.workers.len()).map(Owner::Workers));
        let spec = specs.filter_map(|owner| self.owner_spec(owner)).find(|spec| spec.name == owner.name).cloned();
        let mut untrue = None;
        self.change_node(machine, |machine| {
            if machine.kubelet() != crate::cluster::machine::kubelet_version(version) {
                untrue = Some(format!("{} says {version}, and its kubelet {}", machine.name, machine.kubelet()));
            }
            version.clone_into(&mut machine.version);
            if let Some(spec) = spec.filter(|spec| spec.version == version) {
                machine.template.clone_from(&spec.template);
            }
        });
        self.upgrades.iter_mut().for_each(|upgrades| upgrades.violations.extend(untrue.take()));
    }

    fn create_node_upgrade(&mut self, spec: NodeUpgradeSpec) {
        let first = self.goes_before(&spec);
        let Some(upgrades) = &mut self.upgrades else { return };
        let (name, uid) = (spec.object_name(), upgrades.uid());
        if upgrades.nodes.iter().any(|known| known.name == name) {
            return;
        }
        if let Some(other) = first.filter(|_| upgrades.driver == Driver::Controller) {
            upgrades.violations.push(format!("{} goes before {other}, which is free to go", spec.machine.name));
        }
        let (generation, deleting, retry, status) = (Some(1), false, None, NodeUpgradeStatus::default());
        upgrades.nodes.push(NodeUpgrade { name, uid, generation, deleting, retry, spec, status });
    }

    /// The machine that has to go first, where this one holds the address or leads etcd. What was begun is finished first.
    fn goes_before(&self, spec: &NodeUpgradeSpec) -> Option<String> {
        let leader = self.upgrades.as_ref().and_then(|upgrades| upgrades.etcd_leader.as_ref());
        let is_special =
            |machine: &&Machine| self.address_holder.as_ref() == Some(&machine.name) || leader == Some(&machine.name);
        let is_it = |machine: &&Machine| super::world::named(machine) == spec.machine;
        let of_control_plane = || self.machines.iter().filter(|machine| machine.owner == Owner::ControlPlane);
        of_control_plane().find(is_it).filter(is_special).filter(|machine| machine.node.cordon.is_none())?;
        let wanted = self.owner_spec(Owner::ControlPlane)?;
        let is_outdated = |machine: &&Machine| machine.version != wanted.version;
        let mut others = of_control_plane().filter(|machine| !is_it(machine)).filter(is_outdated);
        others.find(|machine| !is_special(machine)).map(|machine| machine.name.clone())
    }

    fn write_node_upgrade(&mut self, named: &NamedObject, status: NodeUpgradeStatus) {
        let now = self.now;
        let Some(upgrades) = &mut self.upgrades else { return };
        let Some(known) = upgrades.nodes.iter_mut().find(|known| known.uid == named.uid) else { return };
        if status.completed && !known.status.completed {
            let healthy = status.healthy_since.or(known.status.healthy_since).map(crate::clock::Moment::of);
            let soaked = healthy.is_some_and(|since| now.since(since) >= Duration::from_secs(60));
            if !soaked {
                upgrades.violations.push(format!("{} counts as proven without a soak", known.spec.machine.name));
            }
        }
        known.status = status;
    }

    fn make_upgrader(&mut self, named: &NamedObject, purpose: PodPurpose) {
        if self.own_server_is_away().is_some() {
            return;
        }
        let Some(upgrades) = &mut self.upgrades else { return };
        let Some(upgrade) = upgrades.nodes.iter().find(|known| known.uid == named.uid).cloned() else { return };
        if upgrades.pods.contains_key(&upgrade.name) {
            return;
        }
        upgrades.pods.insert(upgrade.name.clone(), Upgrader::new(&upgrade, purpose));
        let starts_in = self.random.between(Duration::from_secs(2), Duration::from_secs(10));
        self.plan_in(starts_in, Event::Upgrader(upgrade.uid.as_str().into()));
    }

    /// What a wrong controller makes of a decision.
    pub(super) fn distort_upgrades(&self, world: &World, actions: &mut Vec<Action>) {
        match self.upgrades.as_ref().and_then(|upgrades| upgrades.defect) {
            Some(UpgradeDefect::LeavesHealthChecks) => {
                let without = World { health_checks: Vec::new(), ..world.clone() };
                *actions = in_place::order::decide(&without, self.now.timestamp());
            }
            Some(UpgradeDefect::UpgradesTwoAtOnce) => {
                let mut without = world.clone();
                let active = without.node_upgrades.extract_if(.., |upgrade| upgrade.status.phase.is_active());
                for upgrade in active {
                    without.pods.remove(&upgrade.name);
                    let is_it = |machine: &&mut in_place::order::Machine| machine.object == upgrade.spec.machine;
                    let Some(machine) = without.machines.iter_mut().find(is_it) else { continue };
                    machine.version = Some(upgrade.spec.kubernetes_version);
                    if let Some(node) = &mut machine.node {
                        (node.cordon, node.ready) = (in_place::order::Cordon::None, true);
                        node.components.iter_mut().for_each(|known| known.ready = true);
                    }
                }
                actions.extend(in_place::order::decide(&without, self.now.timestamp()));
            }
            Some(UpgradeDefect::ResumesEarly) => {
                let mut without = world.clone();
                for machine in &mut without.machines {
                    let owner = without.owners.iter().find(|owner| machine.owner.as_ref() == Some(&owner.object.name));
                    let wanted = owner.and_then(|owner| owner.version.clone());
                    let runs = |wanted: &bundles::KubernetesVersion| {
                        machine.node.as_ref().is_some_and(|node| wanted.is_met_by_kubelet(&node.kubelet_version))
                    };
                    if wanted.as_ref().is_some_and(runs) {
                        machine.version = wanted;
                    }
                }
                *actions = in_place::order::decide(&without, self.now.timestamp());
            }
            Some(UpgradeDefect::SkipsSoak | UpgradeDefect::ForgetsUncordon | UpgradeDefect::KeepsLeader) | None => {}
        }
    }
}

impl super::Upgrades {
    fn set_check(&mut self, name: &str, pause: &Pause) {
        for (known, value) in &mut self.checks {
            if *known == name {
                value.clone_from(pause);
            }
        }
    }
}
