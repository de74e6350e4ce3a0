//! What Stepgate does to a Cluster while its machines are made.

use jiff::Timestamp;
use rollout::{ClusterAct, MachineId, MachineOwner};

use super::{SimulatedCluster, State, machine::Owner};

impl SimulatedCluster {
    /// Does this to the Cluster at `at`.
    pub fn act(&mut self, act: &ClusterAct, at: Timestamp) {
        self.advance(at);
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            state.act(act);
        }
    }
}

impl State {
    fn act(&mut self, act: &ClusterAct) {
        match act {
            ClusterAct::GiveUp { attempts, machines, .. } => {
                self.attempts = Some(attempts.clone());
                let is_meant = |id: u64| machines.iter().any(|MachineId { uid, .. }| *uid == uid_of(id));
                let without_node = self.machines.iter().filter(|machine| !machine.has_node() && !machine.deleting);
                let gone: Vec<u64> = without_node.map(|machine| machine.id).filter(|id| is_meant(*id)).collect();
                for id in gone {
                    self.delete_machine(id);
                }
            }
            ClusterAct::Sign { rollout, machines, owners, .. } => {
                for owner in owners {
                    match owner {
                        MachineOwner::KubeadmControlPlane(_) => {
                            self.control_plane.iter_mut().for_each(|plane| plane.sign(rollout));
                        }
                        MachineOwner::MachineDeployment(name) => {
                            let named = self.workers.iter_mut().filter(|workers| workers.spec.name == *name);
                            named.for_each(|workers| workers.sign(rollout));
                        }
                    }
                }
                let is_meant = |id: u64| machines.iter().any(|MachineId { uid, .. }| *uid == uid_of(id));
                for machine in self.machines.iter_mut().filter(|machine| is_meant(machine.id)) {
                    machine.rollout = Some(rollout.to_string());
                }
            }
            ClusterAct::Pause { lease, .. } => self.lease = Some(lease.clone()),
            ClusterAct::Resume { .. } => {
                self.lease = None;
                self.resume_machines();
                for owner in [Owner::ControlPlane].into_iter().chain((0..self.workers.len()).map(Owner::Workers)) {
                    self.wake_owner(owner);
                }
            }
        }
    }
}

/// The UID of a machine.
pub(super) fn uid_of(id: u64) -> String {
    format!("machine-{id}")
}
