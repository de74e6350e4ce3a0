//! Nodes and their upgraders: what `stepgate-node` does, seen from outside.

use std::{collections::BTreeMap, time::Duration};

use in_place::{
    objects::{NodeUpgrade, Role},
    order::{Container, ContainerState, Failure, Pod, PodPurpose},
    pod::NodeStep,
};

use super::{Event, State, UpgradeDefect};
use crate::{
    clock::Moment,
    cluster::machine::{Machine, Owner, kubelet_version},
    fault::Fault,
};

/// An attempt that fails as often is the last one.
const MOST_ATTEMPTS: u32 = 3;

/// What is true of a node, whatever anybody says of it.
#[derive(Debug, Clone, Default)]
pub(in crate::cluster) struct NodeTruth {
    /// The version that an upgrade has cordoned it for.
    pub(in crate::cluster) cordon: Option<String>,
    /// It has no power.
    pub(in crate::cluster) away: bool,
    /// kubelet and static Pods start again.
    pub(in crate::cluster) restarting: bool,
    /// Its Machine does not know it.
    pub(in crate::cluster) missing: bool,
    /// Cluster API waits for our hook.
    pub(in crate::cluster) updating: bool,
    /// Its Machine is kept from remediation.
    pub(super) is_kept: bool,
    journal: Option<Journal>,
    /// The next step that begins fails, so often.
    pub(super) failures: u32,
    /// The next call is killed.
    pub(super) is_killed: bool,
    /// It cannot be taken back.
    pub(super) is_stuck: bool,
    /// How often kubelet was replaced, by version.
    replaced: BTreeMap<String, u32>,
    undone: u32,
    /// Since when it has a cordon that nobody explains.
    pub(super) unexplained_since: Option<Moment>,
    /// Since when it is worked on while a `MachineHealthCheck` looks.
    pub(super) watched_since: Option<Moment>,
}

#[derive(Debug, Clone)]
struct Journal {
    target: String,
    /// Steps that are done.
    done: usize,
    /// Failed attempts of the step that is next.
    attempts: u32,
    kubelet_before: String,
}

impl NodeTruth {
    /// Whether it is neither what it was nor what it is to be.
    pub(in crate::cluster) fn is_under_way(&self) -> bool {
        let between = 1..NodeStep::ALL.len();
        self.journal.as_ref().is_some_and(|journal| journal.done > 1 && between.contains(&journal.done))
    }

    /// Whether it was taken to one target more often than it was taken back.
    pub(super) fn is_upgraded_twice(&self) -> Option<&String> {
        self.replaced.iter().find(|(_, count)| **count > 1 + self.undone).map(|(version, _)| version)
    }
}

impl Machine {
    /// Somebody puts right whatever is wrong with its node, of which these upgrades are known.
    pub(super) fn repair(&mut self, targets: &[String]) {
        let node = &mut self.node;
        (node.failures, node.is_killed, node.is_stuck) = (0, false, false);
        // `stepgate-node rollback` of what nothing asks for any more, as the refused step says.
        let is_left = |journal: &mut Journal| journal.done < NodeStep::ALL.len() && !targets.contains(&journal.target);
        if let Some(journal) = node.journal.take_if(is_left) {
            node.undone += 1;
            node.cordon = None;
            self.kubelet = journal.kubelet_before;
        }
        if let Some(journal) = &mut node.journal {
            journal.attempts = 0;
        }
    }
}

/// A Pod of an upgrader.
#[derive(Debug, Clone)]
pub(super) struct Upgrader {
    pub(super) pod: Pod,
    machine: String,
    target: String,
    role: Role,
}

impl Upgrader {
    pub(super) fn new(upgrade: &NodeUpgrade, purpose: PodPurpose) -> Self {
        let container = |name: &str| Container {
            name: name.to_owned(),
            state: ContainerState::Waiting(String::from("PodInitializing")),
            failures: 0,
            last_failure: None,
        };
        let containers = match purpose {
            PodPurpose::Upgrade => NodeStep::ALL.iter().map(|step| container(step.as_str())).collect(),
            PodPurpose::Rollback => vec![container("rollback")],
        };
        let upgrade_uid = upgrade.uid.clone();
        let (deleting, succeeded, failed) = (false, false, false);
        Self {
            pod: Pod { purpose, upgrade_uid, deleting, succeeded, failed, containers },
            machine: upgrade.spec.machine.name.clone(),
            target: upgrade.spec.kubernetes_version.to_string(),
            role: upgrade.spec.role,
        }
    }

    /// Whether it works on the node of this machine.
    pub(super) fn is_of(&self, machine: &str) -> bool {
        self.machine == machine
    }
}

/// How a call of `stepgate-node` ends.
enum Outcome {
    Goes,
    Ends,
    Exits(i32, String),
}

impl State {
    /// The Pod of an upgrade goes one step on.
    pub(in crate::cluster) fn step_upgrader(&mut self, uid: &str) {
        let now = self.now;
        let Some(upgrades) = &mut self.upgrades else { return };
        upgrades.pods.retain(|_, known| known.pod.upgrade_uid != uid || !known.pod.deleting);
        let found = upgrades.pods.iter().find(|(_, known)| known.pod.upgrade_uid == uid);
        let Some((name, mut upgrader)) = found.map(|(name, known)| (name.clone(), known.clone())) else { return };
        let is_it = |machine: &Machine| machine.name == upgrader.machine;
        let Some(machine) = self.machines.iter().find(|machine| is_it(machine)) else {
            upgrades.pods.remove(&name);
            return;
        };
        // What a node without power does, it does again once it is back.
        if machine.node.away {
            return;
        }
        let is_next = |known: &Container| !matches!(known.state, ContainerState::Succeeded { .. });
        let Some(index) = upgrader.pod.containers.iter().position(is_next) else { return };
        let mut outcome = None;
        if let Some(container) = upgrader.pod.containers.get_mut(index) {
            let at = Some(now.timestamp());
            if let ContainerState::Running { started } = container.state {
                outcome = Some(match upgrader.pod.purpose {
                    PodPurpose::Upgrade => self.call(&upgrader.machine, &upgrader.target, upgrader.role, index),
                    PodPurpose::Rollback => self.take_back(&upgrader.machine, &upgrader.target),
                });
                match &outcome {
                    Some(Outcome::Ends) => {
                        let message = String::new();
                        container.state = ContainerState::Succeeded { started, finished: at, message };
                    }
                    Some(Outcome::Exits(exit_code, message)) => {
                        container.failures += 1;
                        container.state = ContainerState::Waiting(String::from("CrashLoopBackOff"));
                        let (exit_code, message) = (*exit_code, message.clone());
                        container.last_failure = Some(Failure { exit_code, finished: at, message });
                    }
                    Some(Outcome::Goes) | None => {}
                }
            } else {
                container.state = ContainerState::Running { started: at };
            }
        }
        let is_done = |known: &Container| matches!(known.state, ContainerState::Succeeded { .. });
        upgrader.pod.succeeded = upgrader.pod.containers.iter().all(is_done);
        let goes_on = !upgrader.pod.succeeded;
        if let Some(upgrades) = &mut self.upgrades {
            upgrades.pods.insert(name, upgrader);
        }
        if goes_on {
            let (least, most) = match outcome {
                Some(Outcome::Exits(..)) => (10, 60),
                Some(Outcome::Goes) => (15, 30),
                Some(Outcome::Ends) | None => (2, 15),
            };
            let goes_on_in = self.random.between(Duration::from_secs(least), Duration::from_secs(most));
            self.plan_in(goes_on_in, Event::Upgrader(uid.into()));
        }
    }

    /// A call of `stepgate-node` for a step.
    fn call(&mut self, machine: &str, target: &str, role: Role, index: usize) -> Outcome {
        let is_blocked = self.is_active(Fault::DrainBlocked);
        let several = self.machines.iter().filter(|known| known.owner == Owner::ControlPlane).count() > 1;
        let holds = self.address_holder.as_deref() == Some(machine);
        let keeps_cordon = self.has_upgrade_defect(UpgradeDefect::ForgetsUncordon);
        let is_away = self.own_server_is_away();
        let Some(known) = self.machines.iter_mut().find(|known| known.name == machine) else {
            return Outcome::Exits(3, String::from("the node is gone"));
        };
        let (id, owner) = (known.id, known.owner);
        let Some(step) = NodeStep::ALL.get(index).copied() else { return Outcome::Ends };
        let node = &mut known.node;
        if std::mem::take(&mut node.is_killed) {
            return Outcome::Exits(137, String::new());
        }
        // An upgrade that has changed the node is finished or taken back before another one begins.
        let is_of_another = |journal: &Journal| journal.target != target;
        if let Some(journal) = node.journal.as_ref().filter(|journal| is_of_another(journal)) {
            if (2..NodeStep::ALL.len()).contains(&journal.done) {
                return Outcome::Exits(3, format!("an upgrade to {} is not finished", journal.target));
            }
            node.journal = None;
        }
        let kubelet_before = known.kubelet.clone();
        let journal = node.journal.get_or_insert_with(|| Journal {
            target: target.to_owned(),
            done: 0,
            attempts: 0,
            kubelet_before,
        });
        if index < journal.done && step != NodeStep::Uncordon {
            return Outcome::Ends;
        }
        if node.failures > 0 {
            node.failures -= 1;
            journal.attempts += 1;
            if journal.attempts >= MOST_ATTEMPTS {
                node.failures = u32::MAX;
            }
            let is_last = journal.attempts >= MOST_ATTEMPTS;
            return Outcome::Exits(if is_last { 4 } else { 1 }, format!("{} failed: the disk is full", step.as_str()));
        }
        let asks = matches!(step, NodeStep::Drain | NodeStep::Uncordon | NodeStep::Verify);
        if is_away.is_some() && asks {
            return Outcome::Goes;
        }
        match step {
            NodeStep::Copy | NodeStep::Containerd | NodeStep::CniPlugins => {}
            NodeStep::Drain => {
                node.cordon = Some(target.to_owned());
                if is_blocked {
                    journal.done = journal.done.max(2);
                    return Outcome::Goes;
                }
            }
            NodeStep::Kubeadm => node.restarting |= role != Role::Worker,
            NodeStep::Kubelet => {
                let kubelet = kubelet_version(target);
                if known.kubelet != kubelet {
                    *node.replaced.entry(target.to_owned()).or_default() += 1;
                    known.kubelet = kubelet;
                }
                node.restarting = true;
            }
            NodeStep::Verify if node.restarting => return Outcome::Goes,
            NodeStep::Verify => {}
            NodeStep::Uncordon if keeps_cordon => {}
            NodeStep::Uncordon => node.cordon = None,
        }
        journal.done = journal.done.max(index + 1);
        journal.attempts = 0;
        let restarts = node.restarting;
        if step == NodeStep::Kubeadm && owner == Owner::ControlPlane {
            self.hand_over(machine);
        }
        if restarts {
            let back_in = self.random.between(Duration::from_secs(5), Duration::from_secs(25));
            self.plan_in(back_in, Event::NodeStarted(id));
            self.member_restarts(machine);
            self.look_at_machines();
        }
        if step == NodeStep::Drain && owner == Owner::ControlPlane && holds && several {
            self.address_moves(id);
        }
        Outcome::Ends
    }

    /// `stepgate-node rollback`: everything back, or a cordon that stays.
    fn take_back(&mut self, machine: &str, target: &str) -> Outcome {
        let Some(known) = self.machines.iter_mut().find(|known| known.name == machine) else {
            return Outcome::Exits(3, String::from("the node is gone"));
        };
        let (id, node) = (known.id, &mut known.node);
        if std::mem::take(&mut node.is_killed) {
            return Outcome::Exits(137, String::new());
        }
        let Some(journal) = node.journal.take_if(|journal| journal.target == target) else { return Outcome::Ends };
        if journal.done <= 1 {
            return Outcome::Ends;
        }
        if node.is_stuck {
            node.cordon = Some(target.to_owned());
            node.journal = Some(journal);
            return Outcome::Exits(4, String::from("etcd does not go back over a minor version"));
        }
        node.undone += 1;
        node.cordon = None;
        node.restarting = true;
        known.kubelet = journal.kubelet_before;
        let back_in = self.random.between(Duration::from_secs(5), Duration::from_secs(25));
        self.plan_in(back_in, Event::NodeStarted(id));
        self.member_restarts(machine);
        self.look_at_machines();
        Outcome::Ends
    }

    /// kubelet and static Pods are there again, or power is.
    pub(in crate::cluster) fn node_started(&mut self, id: u64) {
        let Some(machine) = self.machines.iter_mut().find(|machine| machine.id == id) else { return };
        machine.node.restarting = false;
        let booted = std::mem::take(&mut machine.node.away);
        let name = machine.name.clone();
        if booted && let Some(upgrades) = &mut self.upgrades {
            // A sandbox that is made anew runs every container once more.
            let of_it = upgrades.pods.values_mut().filter(|known| known.machine == name);
            let mut uids = Vec::new();
            for known in of_it {
                uids.push(known.pod.upgrade_uid.clone());
                for container in &mut known.pod.containers {
                    container.state = ContainerState::Waiting(String::from("PodInitializing"));
                }
            }
            for uid in uids {
                let starts_in = self.random.between(Duration::from_secs(5), Duration::from_secs(15));
                self.plan_in(starts_in, Event::Upgrader(uid.as_str().into()));
            }
        }
        self.look_at_machines();
    }

    /// A member that stops loses its lead to another one.
    pub(super) fn member_restarts(&mut self, machine: &str) {
        let leads = self.upgrades.as_ref().is_some_and(|known| known.etcd_leader.as_deref() == Some(machine));
        if leads {
            self.elect_etcd_leader(machine);
        }
    }

    /// Before kubeadm takes a member of etcd down that leads, another one does.
    fn hand_over(&mut self, machine: &str) {
        let others = |known: &&Machine| known.owner == Owner::ControlPlane && known.name != machine && known.is_ready();
        let could = self.stacked_etcd && self.machines.iter().any(|known| others(&known));
        let leads = |state: &Self| {
            state.upgrades.as_ref().is_some_and(|upgrades| upgrades.etcd_leader.as_deref() == Some(machine))
        };
        if could && leads(self) && !self.has_upgrade_defect(UpgradeDefect::KeepsLeader) {
            self.elect_etcd_leader(machine);
        }
        if could && leads(self) {
            let told = format!("kubeadm runs on {machine} while it leads etcd");
            self.upgrades.iter_mut().for_each(|upgrades| upgrades.violations.push(told.clone()));
        }
    }

    /// Some other member of a stacked etcd leads.
    pub(in crate::cluster) fn elect_etcd_leader(&mut self, but: &str) {
        let is_free = |known: &&Machine| known.owner == Owner::ControlPlane && known.name != but && known.is_ready();
        let members: Vec<String> = self.machines.iter().filter(is_free).map(|known| known.name.clone()).collect();
        let leader = self.random.choose(&members).cloned();
        if let (Some(upgrades), Some(leader)) = (&mut self.upgrades, leader) {
            upgrades.etcd_leader = Some(leader);
        }
    }

    pub(super) fn has_upgrade_defect(&self, defect: UpgradeDefect) -> bool {
        self.upgrades.as_ref().is_some_and(|upgrades| upgrades.defect == Some(defect))
    }
}
