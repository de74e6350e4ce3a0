//! Faults begin and end.

use std::{collections::BTreeSet, time::Duration};

use super::{Event, State, machine::Owner, pod::PodState};
use crate::fault::Fault;

impl State {
    /// Whether a fault is there now.
    pub(super) fn is_active(&self, fault: Fault) -> bool {
        self.active.contains(&fault)
    }

    /// Every image that any pod is meant to run.
    pub(super) fn live_images(&self) -> BTreeSet<String> {
        let deployments =
            self.deployments.iter().filter(|deployment| !deployment.deleted).map(|deployment| &deployment.spec.images);
        let daemon_sets =
            self.daemon_sets.iter().filter(|daemon_set| !daemon_set.deleted).map(|daemon_set| &daemon_set.spec.images);
        deployments.chain(daemon_sets).flatten().cloned().collect()
    }

    /// A fault begins; one that is there already goes on.
    pub(super) fn begin(&mut self, fault: Fault, lasts: Option<Duration>) {
        if let Some(lasts) = lasts {
            self.plan_in(lasts, Event::FaultEnds(fault));
        }
        if self.is_active(fault) {
            return;
        }
        self.active.push(fault);
        match fault {
            Fault::SlowImage | Fault::FailingPod => self.known_images = self.live_images(),
            Fault::NodeNotReady => self.lose_node(),
            Fault::FluxSuspended => self.suspend_kustomizations(true),
            Fault::ClusterPaused => self.look_at_machines(),
            Fault::EtcdQuorumLost => self.plan_in(Duration::from_millis(500), Event::Etcd),
            Fault::ControlPlaneMachineDeleted => self.lose_machine(|owner| owner == Owner::ControlPlane),
            Fault::MachineDeleted => self.lose_machine(|owner| matches!(owner, Owner::Workers(_))),
            // These are asked for where they matter.
            Fault::StaleReads
            | Fault::LostEvents
            | Fault::PartialReads
            | Fault::ApiOutage
            | Fault::ClockSkew
            | Fault::ControlPlaneStuck
            | Fault::ControlPlanePaused
            | Fault::MachineStuck
            | Fault::DrainBlocked
            | Fault::ControllerSlow
            | Fault::EtcdStuck
            | Fault::EtcdMemberBroken
            | Fault::EtcdOrphan
            | Fault::WebhookDown
            | Fault::FluxError
            | Fault::SourceError
            | Fault::CertificatesLost
            | Fault::BackupFailed => {}
        }
    }

    /// A fault ends, and what it held goes on.
    pub(super) fn end(&mut self, fault: Fault) {
        if !self.is_active(fault) {
            return;
        }
        self.active.retain(|active| *active != fault);
        match fault {
            Fault::SlowImage | Fault::FailingPod => self.resume_pods(),
            Fault::ControlPlaneStuck | Fault::MachineStuck | Fault::EtcdStuck | Fault::DrainBlocked => {
                self.resume_machines();
            }
            Fault::EtcdMemberBroken => {
                for machine in &mut self.machines {
                    machine.broken = false;
                }
                self.plan_in(Duration::from_secs(1), Event::Etcd);
            }
            Fault::EtcdQuorumLost => self.plan_in(Duration::from_secs(1), Event::Etcd),
            Fault::ClusterPaused => {
                self.resume_machines();
                self.look_at_machines();
            }
            // Its status stays stale for two seconds more.
            Fault::ControlPlanePaused => self.plan_in(Duration::from_millis(2500), Event::ControlPlane),
            Fault::NodeNotReady => self.find_nodes(),
            Fault::FluxSuspended => self.suspend_kustomizations(false),
            Fault::CertificatesLost => self.restored = true,
            Fault::StaleReads
            | Fault::LostEvents
            | Fault::PartialReads
            | Fault::ApiOutage
            | Fault::ClockSkew
            | Fault::ControllerSlow
            | Fault::EtcdOrphan
            | Fault::WebhookDown
            | Fault::FluxError
            | Fault::SourceError
            | Fault::BackupFailed
            // What is deleted does not come back; its owner has made another.
            | Fault::ControlPlaneMachineDeleted
            | Fault::MachineDeleted => {}
        }
    }

    /// Somebody deletes a machine that runs.
    fn lose_machine(&mut self, is_of: impl Fn(Owner) -> bool) {
        let machine = self.machines.iter().find(|machine| is_of(machine.owner) && machine.is_ready());
        if let Some(id) = machine.map(|machine| machine.id) {
            self.may_replace();
            self.delete_machine(id);
            self.look_at_machines();
        }
    }

    /// One node stops reporting: a worker's, where there is one.
    fn lose_node(&mut self) {
        let worker =
            self.machines.iter().position(|machine| matches!(machine.owner, Owner::Workers(_)) && machine.is_ready());
        let position =
            worker.or_else(|| self.machines.iter().position(|machine| machine.has_node() && machine.is_ready()));
        let Some(machine) = position.and_then(|position| self.machines.get_mut(position)) else { return };
        machine.lost = true;
        let node = machine.name.clone();
        self.set_pods_of(&node, PodState::Ready, PodState::Lost);
        self.look_at_machines();
    }

    fn find_nodes(&mut self) {
        let lost: Vec<String> =
            self.machines.iter().filter(|machine| machine.lost).map(|machine| machine.name.clone()).collect();
        for machine in &mut self.machines {
            machine.lost = false;
        }
        for node in lost {
            self.set_pods_of(&node, PodState::Lost, PodState::Ready);
        }
        self.look_at_machines();
    }

    fn set_pods_of(&mut self, node: &str, from: PodState, to: PodState) {
        for pod in self.daemon_sets.iter_mut().flat_map(|daemon_set| &mut daemon_set.pods) {
            if pod.node.as_deref() == Some(node) && pod.state == from {
                pod.state = to;
            }
        }
        self.nodes_changed();
    }

    pub(super) fn look_at_machines(&mut self) {
        self.plan_in(Duration::from_millis(500), Event::ControlPlane);
        for index in 0..self.workers.len() {
            self.plan_in(Duration::from_millis(500), Event::Workers(index));
        }
    }
}
