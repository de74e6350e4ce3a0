//! An external etcd (`EtcdadmCluster`): new members first, and the old ones stay until the control plane has moved.

use std::{collections::BTreeMap, time::Duration};

use rollout::{Condition, ConditionStatus, EtcdAct, EtcdHealth, EtcdMember, EtcdMembership};

use super::{
    Event, State, condition,
    deployment::number,
    machine::{Machine, MachineSpec, Owner, Phase},
};
use crate::{desired::DesiredMachines, fault::Fault};

/// How long old members stay when no control plane moves after them.
const OLD_MEMBERS_STAY: Duration = Duration::from_secs(600);

/// Where a member listens.
fn address(machine: &Machine) -> String {
    format!("192.0.2.{}", machine.id)
}

#[derive(Debug, Clone)]
pub(super) struct EtcdadmCluster {
    pub(super) spec: DesiredMachines,
    /// What its status says, as of its controller's last turn.
    published: rollout::EtcdadmCluster,
}

impl EtcdadmCluster {
    /// A cluster whose members all exist.
    pub(super) fn settled(spec: DesiredMachines, cluster: &str) -> Self {
        let published = rollout::EtcdadmCluster {
            namespace: spec.namespace.clone(),
            name: spec.name.clone(),
            cluster: cluster.to_owned(),
            generation: 1,
            spec_replicas: Some(spec.replicas),
            infrastructure_template: Some(spec.template.clone()),
            version: Some(spec.version.clone()),
            ..rollout::EtcdadmCluster::default()
        };
        Self { spec, published }
    }

    /// The object as the API server shows it.
    pub(super) fn observed(&self) -> rollout::EtcdadmCluster {
        self.published.clone()
    }

    /// Whether its status says that it is ready.
    pub(super) fn is_settled(&self) -> bool {
        self.published.observed_generation == Some(self.published.generation) && self.published.ready == Some(true)
    }
}

impl State {
    /// The object gets a new spec; its controller notices a moment later.
    pub(super) fn change_etcd(&mut self, spec: DesiredMachines) {
        let Some(etcd) = &mut self.etcd else { return };
        if etcd.spec == spec {
            return;
        }
        etcd.published.generation += 1;
        etcd.published.spec_replicas = Some(spec.replicas);
        etcd.published.infrastructure_template = Some(spec.template.clone());
        etcd.published.version = Some(spec.version.clone());
        etcd.spec = spec;
        let notices_in = self.random.between(Duration::from_millis(200), Duration::from_millis(1000));
        self.plan_in(notices_in, Event::Etcd);
    }

    /// The object as the API server shows it, with what its members say when they are asked.
    pub(super) fn observed_etcd(&self) -> Option<rollout::EtcdadmCluster> {
        let mut observed = self.etcd.as_ref()?.observed();
        let members = self.machines.iter().filter(|machine| machine.owner == Owner::Etcd).filter_map(|machine| {
            let member = EtcdMember {
                id: format!("{:x}", machine.id),
                name: machine.name.clone(),
                hosts: vec![address(machine)],
                learner: false,
                health: self.health(machine),
                version: Some(machine.version.clone()).filter(|_| machine.phase >= Phase::Running),
            };
            (machine.phase >= Phase::Provisioned && machine.phase < Phase::Leaving).then_some(member)
        });
        let mut members: Vec<EtcdMember> = members.collect();
        if self.is_active(Fault::EtcdOrphan) {
            members.push(EtcdMember {
                id: "dead".to_owned(),
                name: "left".to_owned(),
                hosts: vec!["198.51.100.99".to_owned()],
                learner: false,
                health: EtcdHealth::Unknown { reason: "no machine has its address, so it is not asked".to_owned() },
                version: None,
            });
        }
        observed.membership = Some(EtcdMembership::Known { members });
        Some(observed)
    }

    fn health(&self, machine: &Machine) -> EtcdHealth {
        if self.is_active(Fault::EtcdQuorumLost) || machine.broken {
            return EtcdHealth::Unhealthy { reason: "RAFT NO LEADER".to_owned() };
        }
        match machine.phase {
            Phase::Running => EtcdHealth::Healthy,
            _ => EtcdHealth::Down { reason: "connection refused".to_owned() },
        }
    }

    /// A machine as the API server shows it: one of etcd names the object that it is or was a
    /// member of.
    pub(super) fn observed_member(&self, machine: &Machine, observed: rollout::Machine) -> rollout::Machine {
        let etcd = self.etcd.as_ref().filter(|_| machine.owner == Owner::Etcd);
        rollout::Machine {
            etcd_cluster: etcd.map(|etcd| etcd.spec.name.clone()),
            addresses: etcd
                .filter(|_| machine.phase >= Phase::Provisioned)
                .map(|_| address(machine))
                .into_iter()
                .collect(),
            ..observed
        }
    }

    /// Machines that were made for one target of etcd, or of the control plane behind it.
    pub(super) fn made_anew(&self) -> Vec<(String, u32, u32)> {
        let Some(etcd) = &self.etcd else { return Vec::new() };
        let wanted = |owner: Owner| match owner {
            Owner::Etcd => Some(etcd.spec.replicas),
            Owner::ControlPlane => self.control_plane.as_ref().map(|known| known.spec.replicas),
            Owner::Workers(_) => None,
        };
        let mut counted: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for (owner, version, template) in &self.made {
            let Some(wanted) = wanted(*owner) else { continue };
            let known = counted.entry(format!("{owner:?} {version} {template}")).or_insert((0, wanted));
            known.0 = known.0.saturating_add(1);
        }
        counted.into_iter().map(|(object, (made, wanted))| (object, made, wanted)).collect()
    }

    /// What Stepgate does by hand: its controller stands still, machines are its own again, others
    /// go; or it goes on.
    pub(super) fn act_on_etcd(&mut self, act: &EtcdAct) {
        let Some(etcd) = &mut self.etcd else { return };
        match act {
            EtcdAct::Resume { .. } => {
                (etcd.published.paused, etcd.published.paused_by_us) = (false, false);
                self.plan_in(Duration::from_secs(1), Event::Etcd);
            }
            EtcdAct::TakeBack { before, give_back, delete, .. } => {
                (etcd.published.paused, etcd.published.paused_by_us) = (true, true);
                let is_there = |name: &String| self.machines.iter().any(|known| known.name == *name && !known.deleting);
                if !before.iter().all(is_there) {
                    return;
                }
                for machine in self.machines.iter_mut().filter(|machine| give_back.contains(&machine.name)) {
                    machine.orphaned = false;
                }
                let gone: Vec<u64> =
                    self.machines.iter().filter(|known| delete.contains(&known.name)).map(|known| known.id).collect();
                for id in gone {
                    self.is_taken_back(id);
                    self.delete_machine(id);
                }
            }
        }
    }

    /// A machine that is taken back may be made once more for the same target.
    fn is_taken_back(&mut self, id: u64) {
        let Some(machine) = self.machines.iter().find(|machine| machine.id == id && !machine.deleting) else { return };
        let is_it = |(owner, version, template): &(Owner, String, String)| {
            *owner == machine.owner && machine.is(version, template)
        };
        if let Some(place) = self.made.iter().position(is_it) {
            self.made.remove(place);
        }
    }

    /// One turn of the EtcdadmCluster's controller.
    pub(super) fn reconcile_etcd(&mut self) {
        if self.etcd.as_ref().is_some_and(|etcd| etcd.published.paused) {
            return;
        }
        let is_healthy = |machine: &Machine| machine.is_ready() && self.health(machine) == EtcdHealth::Healthy;
        let healthy: Vec<u64> =
            self.machines.iter().filter(|machine| is_healthy(machine)).map(|machine| machine.id).collect();
        let Some(etcd) = &mut self.etcd else { return };
        let spec = etcd.spec.clone();
        // What stays behind in a turn: the counts of the turn before, under the new generation already.
        let stale = etcd.published.observed_generation != Some(etcd.published.generation);
        etcd.published.observed_generation = Some(etcd.published.generation);
        if stale && etcd.published.ready.is_some() {
            self.plan_in(Duration::from_secs(1), Event::Etcd);
            return;
        }
        let members: Vec<&Machine> =
            self.machines.iter().filter(|machine| machine.owner == Owner::Etcd && !machine.orphaned).collect();
        let current: Vec<&Machine> =
            members.iter().copied().filter(|machine| machine.is(&spec.version, &spec.template)).collect();
        let (all, ready) = (current.len(), current.iter().filter(|machine| healthy.contains(&machine.id)).count());
        let wanted = usize::try_from(spec.replicas).unwrap_or(usize::MAX);
        let well = ready == wanted && all == wanted;
        let leftover =
            members.len() > all || self.machines.iter().any(|machine| machine.owner == Owner::Etcd && machine.orphaned);
        let yes = |holds: bool| if holds { ConditionStatus::True } else { ConditionStatus::False };
        etcd.published.ready_replicas = Some(number(ready));
        etcd.published.ready = Some(well);
        etcd.published.creation_complete = Some(well);
        etcd.published.conditions = BTreeMap::<String, Condition>::from([
            condition("EtcdMachinesSpecUpToDate", yes(well), "", None),
            condition("EtcdClusterResizeCompleted", yes(well), "", None),
            condition("EtcdCertificatesAvailable", ConditionStatus::True, "", None),
            condition("EtcdEndpointsAvailable", ConditionStatus::True, "", None),
            condition("Initialized", ConditionStatus::True, "", None),
            condition("EtcdClusterHasNoOutdatedMachines", yes(!leftover), "", None),
            condition("Ready", yes(well && !leftover), "", None),
        ]);
        if well {
            let mut orphans = false;
            for machine in self
                .machines
                .iter_mut()
                .filter(|machine| machine.owner == Owner::Etcd && !machine.is(&spec.version, &spec.template))
            {
                orphans |= !machine.orphaned;
                machine.orphaned = true;
            }
            if orphans {
                self.plan_in(OLD_MEMBERS_STAY, Event::EtcdLeftovers);
            }
        } else if ready == all {
            // One member at a time.
            let prefix = spec.name.clone();
            self.create_machine(
                MachineSpec {
                    owner: Owner::Etcd,
                    prefix,
                    version: spec.version,
                    template: spec.template,
                    kube_vip: None,
                },
                Phase::Created,
            );
            self.plan_in(Duration::from_secs(1), Event::Etcd);
        }
    }

    /// The control plane has moved to the new members: the old ones may go.
    pub(super) fn control_plane_settled(&mut self) {
        if self.machines.iter().any(|machine| machine.orphaned && !machine.deleting) {
            self.plan_in(Duration::from_secs(5), Event::EtcdLeftovers);
        }
    }

    /// Deletes the members that etcd's rollout left behind.
    pub(super) fn delete_etcd_leftovers(&mut self) {
        let old: Vec<u64> = self
            .machines
            .iter()
            .filter(|machine| machine.orphaned && !machine.deleting)
            .map(|machine| machine.id)
            .collect();
        for id in old {
            self.delete_machine(id);
        }
    }
}
