//! What nodes, Cluster API, bad luck and people do meanwhile.

use in_place::objects::NodeUpgrade;
use in_place::order::{ContainerState, Cordon, Failure, Holder, Machine, Pause, PodPurpose};
use jiff::SignedDuration;

use super::{Faults, Model, STEPS};

impl Model {
    /// What the nodes and Cluster API do meanwhile.
    pub(super) fn pass(&mut self) {
        self.world.pods.retain(|_, pod| !pod.deleting);
        let names: Vec<String> = self.world.pods.keys().cloned().collect();
        for name in names {
            self.work(&name);
        }
        for (name, real) in &mut self.real {
            real.away = real.away.saturating_sub(1);
            let mut machines = self.world.machines.iter_mut();
            let machine = machines.find(|machine| &machine.object.name == name).unwrap();
            machine.node.as_mut().unwrap().ready = real.away == 0;
        }
        self.cluster_api();
    }

    fn cluster_api(&mut self) {
        let (machines, hooks) = (&mut self.world.machines, self.hooks);
        for owner in self.world.owners.iter_mut().filter(|owner| owner.pause == Pause::None) {
            let is_outdated = |machine: &&mut Machine| {
                machine.owner.as_ref() == Some(&owner.object.name) && machine.version != owner.version
            };
            let updating =
                machines.iter().any(|it| it.updated_by_hook && it.owner.as_ref() == Some(&owner.object.name));
            let next = machines.iter_mut().find(is_outdated);
            match next {
                Some(machine) if hooks => {
                    if !updating {
                        (machine.version, machine.updated_by_hook) = (owner.version.clone(), true);
                    }
                }
                Some(machine) => panic!("Cluster API replaces {}", machine.object.name),
                None => (owner.up_to_date, owner.template_matches) = (!updating, true),
            }
        }
        for machine in self.world.machines.iter_mut().filter(|machine| machine.updated_by_hook) {
            let (object, version) = (&machine.object, machine.version.clone().unwrap());
            let answer =
                in_place::objects::answer(&self.world.node_upgrades, &object.name, Some(&object.uid), &version);
            machine.updated_by_hook = answer != in_place::objects::NodeAnswer::Done;
        }
    }

    /// The containers of a Pod go one step on.
    fn work(&mut self, name: &str) {
        let mut pod = self.world.pods.remove(name).unwrap();
        let upgrade = self.world.node_upgrades.iter().find(|upgrade| upgrade.uid == pod.upgrade_uid).cloned();
        let (started, finished) = (Some(self.now), Some(self.now));
        let next = pod.containers.iter().position(|known| !matches!(known.state, ContainerState::Succeeded { .. }));
        if let (Some(upgrade), Some(index)) = (upgrade, next) {
            let exit = match pod.purpose {
                PodPurpose::Upgrade => self.step(&upgrade, index),
                PodPurpose::Rollback => self.roll_back(&upgrade),
            };
            let container = &mut pod.containers[index];
            match exit {
                Some(0) => container.state = ContainerState::Succeeded { started, finished, message: String::new() },
                Some(exit_code) => {
                    container.failures += 1;
                    container.state = ContainerState::Waiting("CrashLoopBackOff".to_owned());
                    container.last_failure = Some(Failure { exit_code, finished, message: "it broke".to_owned() });
                }
                None => container.state = ContainerState::Running { started: Some(self.now) },
            }
            pod.succeeded = pod.containers.iter().all(|it| matches!(it.state, ContainerState::Succeeded { .. }));
        }
        self.world.pods.insert(name.to_owned(), pod);
    }

    /// What a step exits with; nothing while it runs.
    fn step(&mut self, upgrade: &NodeUpgrade, index: usize) -> Option<i32> {
        let version = upgrade.spec.kubernetes_version.as_str().to_owned();
        let name = upgrade.spec.machine.name.clone();
        if self.faults == Faults::All && self.random.u8(..3) == 0 {
            return None;
        }
        let fails = self.faults == Faults::All && self.random.u8(..60) == 0;
        let real = self.real.get_mut(&name).unwrap();
        if fails && real.broken.is_none() {
            real.broken = Some(index);
            real.stuck = self.random.u8(..3) == 0;
        }
        if real.broken == Some(index) {
            return Some(if self.random.bool() { 1 } else { 4 });
        }
        let node =
            self.world.machines.iter_mut().find(|machine| machine.object.name == name).unwrap().node.as_mut().unwrap();
        // An upgrade that has changed the node is finished or rolled back before another one begins.
        if real.journal.as_ref().is_some_and(|(known, done)| *known != version && (2..STEPS.len()).contains(done)) {
            return Some(3);
        }
        if real.journal.as_ref().is_none_or(|(known, _)| *known != version) {
            real.journal = Some((version.clone(), 0));
            real.before.clone_from(&node.kubelet_version);
        }
        let done = real.journal.as_ref().map_or(0, |(_, done)| *done);
        if index < done && STEPS[index] != "uncordon" {
            return Some(0);
        }
        if STEPS[index] == "kubeadm" && self.world.etcd_leader.is(&name) {
            // `stepgate-node` hands the lead over before kubeadm.
            let mut others = (0..3).map(|number| format!("cp-{number}")).filter(|other| *other != name);
            self.world.etcd_leader = others.next_back().into();
        }
        match STEPS[index] {
            "drain" => node.cordon = Cordon::Ours(version.clone()),
            "kubelet" if node.kubelet_version != version => {
                node.kubelet_version.clone_from(&version);
                *real.replaced.entry(version.clone()).or_default() += 1;
            }
            "uncordon" => node.cordon = Cordon::None,
            _ => {}
        }
        real.journal = Some((version, index + 1));
        Some(0)
    }

    fn roll_back(&mut self, upgrade: &NodeUpgrade) -> Option<i32> {
        let name = upgrade.spec.machine.name.clone();
        let real = self.real.get_mut(&name).unwrap();
        if real.stuck {
            return Some(4);
        }
        let node =
            self.world.machines.iter_mut().find(|machine| machine.object.name == name).unwrap().node.as_mut().unwrap();
        if real.journal.take().is_some() {
            node.kubelet_version.clone_from(&real.before);
            real.undone += 1;
        }
        node.cordon = Cordon::None;
        Some(0)
    }

    /// Something goes wrong, or somebody does something.
    pub(super) fn misfortune(&mut self) {
        let which = self.random.u8(..120);
        let index = self.random.usize(..self.world.machines.len());
        let name = self.world.machines[index].object.name.clone();
        match which {
            0 => self.world.pods.clear(),
            1 => self.world.address_holder = Holder::Known(format!("node-cp-{}", self.random.u8(..3))),
            2 if self.world.etcd_leader != Holder::Nobody => {
                self.world.etcd_leader = match self.random.u8(..4) {
                    3 => Holder::Unknown("no such host".to_owned()),
                    number => Holder::Known(format!("cp-{number}")),
                };
            }
            3 => self.real.get_mut(&name).unwrap().away = self.random.u32(1..8),
            4 => self.world.unreachable = Some("connection refused".to_owned()),
            5 => {
                let upgrades = &mut self.world.node_upgrades;
                if !upgrades.is_empty() {
                    let at = self.random.usize(..upgrades.len());
                    upgrades.remove(at);
                }
            }
            6 => self.now += SignedDuration::from_mins(10),
            _ => self.world.unreachable = None,
        }
        if self.random.u8(..15) == 0 {
            self.repair();
        }
    }

    /// Somebody looks at what has failed, puts it right, and says so.
    fn repair(&mut self) {
        let now = self.now;
        let failed = self.world.node_upgrades.iter_mut().filter(|upgrade| upgrade.status.phase.has_failed());
        for upgrade in failed {
            assert!(!upgrade.status.message.is_empty());
            let real = self.real.get_mut(&upgrade.spec.machine.name).unwrap();
            (real.broken, real.stuck) = (None, false);
            // `stepgate-node rollback` of an upgrade whose object is gone, as the refused step says.
            let target = upgrade.spec.kubernetes_version.as_str();
            real.journal.take_if(|(known, done)| known != target && *done < STEPS.len());
            upgrade.retry = Some(now.to_string());
        }
    }
}
