//! The KubeadmControlPlane: one machine more, one old machine fewer, until none is old.
//!
//! Its controller writes the status it saw before it acts, about a second after each change: so the status is that of
//! recorded upgrades, stale moments included.

use std::{collections::BTreeMap, time::Duration};

use rollout::{Condition, ConditionStatus};

use super::{
    Event, State, condition,
    deployment::number,
    machine::{Machine, MachineSpec, Owner, Phase},
    upgrades::Way,
};
use crate::{desired::DesiredMachines, fault::Fault};

#[derive(Debug, Clone)]
pub(super) struct ControlPlane {
    pub(super) spec: DesiredMachines,
    pub(super) kube_vip: Option<String>,
    /// What its status says, as of its controller's last turn.
    published: rollout::ControlPlane,
}

impl ControlPlane {
    /// A control plane whose machines all exist.
    pub(super) fn settled(spec: DesiredMachines, kube_vip: Option<String>, cluster: &str) -> Self {
        let published = rollout::ControlPlane {
            namespace: spec.namespace.clone(),
            name: spec.name.clone(),
            cluster: cluster.to_owned(),
            generation: 1,
            spec_version: spec.version.clone(),
            spec_replicas: Some(spec.replicas),
            infrastructure_template: Some(spec.template.clone()),
            ..rollout::ControlPlane::default()
        };
        Self { spec, kube_vip, published }
    }

    /// Somebody writes on it which rollout changed it last.
    pub(super) fn sign(&mut self, rollout: &domain::RolloutId) {
        self.published.rollout = Some(rollout.to_string());
    }

    /// The object as the API server shows it.
    pub(super) fn observed(&self, paused: bool, paused_in_place: bool) -> rollout::ControlPlane {
        rollout::ControlPlane { paused: paused || paused_in_place, paused_in_place, ..self.published.clone() }
    }

    /// Whether its status says that it is rolled out.
    pub(super) fn is_settled(&self) -> bool {
        let wanted = Some(self.spec.replicas);
        self.published.observed_generation == Some(self.published.generation)
            && self.published.replicas == wanted
            && self.published.up_to_date_replicas == wanted
            && self.published.ready_replicas == wanted
    }
}

impl State {
    /// The object gets a new spec, unless that is refused; its controller notices a moment later.
    pub(super) fn change_control_plane(&mut self, spec: DesiredMachines, kube_vip: Option<String>) -> bool {
        if !self.admits(Owner::ControlPlane, &spec) {
            return false;
        }
        let Some(control_plane) = &mut self.control_plane else { return true };
        if control_plane.spec == spec && control_plane.kube_vip == kube_vip {
            return true;
        }
        control_plane.published.generation += 1;
        control_plane.published.spec_version.clone_from(&spec.version);
        control_plane.published.spec_replicas = Some(spec.replicas);
        control_plane.published.infrastructure_template = Some(spec.template.clone());
        control_plane.spec = spec;
        control_plane.kube_vip = kube_vip;
        // The only moment in which status of the generation before stands beside the new spec.
        let notices_in = self.random.between(Duration::from_millis(200), Duration::from_millis(1000));
        self.plan_in(notices_in, Event::ControlPlane);
        true
    }

    /// One turn of the KubeadmControlPlane's controller.
    pub(super) fn reconcile_control_plane(&mut self) {
        let ours = self.control_plane.as_ref().is_some_and(|known| self.is_paused_in_place(&known.spec.name));
        if ours || self.is_active(Fault::ControlPlanePaused) || self.is_cluster_paused() {
            if let Some(control_plane) = &mut self.control_plane {
                let generation = Some(control_plane.published.generation);
                control_plane.published.conditions.extend([condition(
                    "Paused",
                    ConditionStatus::True,
                    "Paused",
                    generation,
                )]);
            }
            return;
        }
        let Some(control_plane) = &self.control_plane else { return };
        let (spec, kube_vip) = (control_plane.spec.clone(), control_plane.kube_vip.clone());
        for machine in self.machines.iter_mut().filter(|machine| machine.owner == Owner::ControlPlane) {
            machine.up_to_date = machine.is(&spec.version, &spec.template);
        }
        // Now and then a deleting machine whose infrastructure is gone is counted as up to date.
        let blip = self.random.chance(1, 3);
        self.publish_control_plane(blip);
        let machines: Vec<&Machine> =
            self.machines.iter().filter(|machine| machine.owner == Owner::ControlPlane).collect();
        // The controller's preflight: nothing goes on while one machine is missing, sick or being deleted.
        if machines.iter().any(|machine| !machine.is_ready()) {
            return;
        }
        let wanted = usize::try_from(spec.replicas).unwrap_or(usize::MAX);
        let outdated: Vec<&&Machine> =
            machines.iter().filter(|machine| !machine.is(&spec.version, &spec.template)).collect();
        let old = outdated.iter().find(|machine| machine.delete_first.is_some()).or(outdated.first()).copied();
        let (old, last, count) = (old.map(|old| old.id), machines.last().map(|last| last.id), machines.len());
        if let Some(id) = old.filter(|_| count <= wanted)
            && self.update_in_place(Owner::ControlPlane, id) == Way::Stays
        {
            return;
        }
        if (old.is_some() && count <= wanted) || count < wanted {
            let prefix = spec.name.clone();
            self.create_machine(
                MachineSpec {
                    owner: Owner::ControlPlane,
                    prefix,
                    version: spec.version,
                    template: spec.template,
                    kube_vip,
                },
                Phase::Created,
            );
            self.plan_in(Duration::from_secs(1), Event::ControlPlane);
        } else if let Some(id) = old.or(last.filter(|_| count > wanted)) {
            self.delete_machine(id);
            self.plan_in(Duration::from_secs(1), Event::ControlPlane);
        } else {
            self.control_plane_settled();
        }
    }

    fn publish_control_plane(&mut self, blip: bool) {
        use ConditionStatus::{False, True, Unknown};
        let now = self.now;
        let yes = |holds: bool| if holds { True } else { False };
        let machines: Vec<&Machine> =
            self.machines.iter().filter(|machine| machine.owner == Owner::ControlPlane).collect();
        let stacked = self.stacked_etcd;
        let Some(control_plane) = &mut self.control_plane else { return };
        let counts_as_current = |machine: &Machine| machine.up_to_date || (blip && machine.phase == Phase::Gone);
        let current = machines.iter().filter(|machine| counts_as_current(machine)).count();
        let ready = machines.iter().filter(|machine| machine.is_ready()).count();
        let wanted = usize::try_from(control_plane.spec.replicas).unwrap_or(usize::MAX);
        let all_ready = if machines.iter().any(|machine| machine.is_unknown(now) && !machine.deleting) {
            Unknown
        } else {
            yes(ready == machines.len())
        };
        let healthy = yes(!machines.iter().any(|machine| machine.harms_control_plane() || machine.lost));
        let all_current = current == machines.len();
        let published = &mut control_plane.published;
        let generation = Some(published.generation);
        published.observed_generation = generation;
        published.status_version =
            machines.iter().map(|machine| machine.version.clone()).min_by_key(|version| version_order(version));
        published.replicas = Some(number(machines.len()));
        published.up_to_date_replicas = Some(number(current));
        published.ready_replicas = Some(number(ready));
        published.available_replicas = Some(number(ready));
        published.conditions = BTreeMap::<String, Condition>::from([
            condition("Available", yes(ready > 0), "", generation),
            condition("Initialized", True, "Initialized", generation),
            condition("CertificatesAvailable", True, "Available", generation),
            condition("EtcdClusterHealthy", if stacked { healthy } else { True }, "", generation),
            condition("ControlPlaneComponentsHealthy", healthy, "", generation),
            condition("MachinesReady", all_ready, "", generation),
            condition("MachinesUpToDate", yes(all_current), "", generation),
            condition("RollingOut", yes(!all_current), "", generation),
            condition("ScalingUp", yes(machines.len() < wanted), "", generation),
            condition("ScalingDown", yes(machines.len() > wanted), "", generation),
            condition("Remediating", False, "NotRemediating", generation),
            condition("Deleting", False, "NotDeleting", generation),
            condition("Paused", False, "NotPaused", generation),
        ]);
    }

    /// The lowest version of a machine of the control plane.
    pub(super) fn control_plane_version(&self) -> Option<Vec<u64>> {
        self.machines
            .iter()
            .filter(|machine| machine.owner == Owner::ControlPlane)
            .map(|machine| version_order(&machine.version))
            .min()
    }

    /// The virtual address leaves a machine that is going away, and finds another.
    pub(super) fn address_moves(&mut self, leaving: u64) {
        let holds = self
            .machines
            .iter()
            .any(|machine| machine.id == leaving && self.address_holder.as_ref() == Some(&machine.name));
        if holds {
            self.address_holder = None;
            let found_in = self.random.between(Duration::from_secs(2), Duration::from_secs(5));
            self.plan_in(found_in, Event::AddressHolder);
        }
    }

    /// Some node of the control plane takes the virtual address.
    pub(super) fn elect_address_holder(&mut self) {
        if self.address_holder.is_some() {
            return;
        }
        let candidates: Vec<String> = self
            .machines
            .iter()
            .filter(|machine| machine.owner == Owner::ControlPlane && machine.is_ready())
            .map(|machine| machine.name.clone())
            .collect();
        self.address_holder = self.random.choose(&candidates).cloned();
        self.address_transitions += u32::from(self.address_holder.is_some());
        if self.address_holder.is_none() {
            self.plan_in(Duration::from_secs(5), Event::AddressHolder);
        }
    }
}

/// Numbers of a version, in order: enough to find the lower of two versions of one distribution.
pub(super) fn version_order(version: &str) -> Vec<u64> {
    version.split(|character: char| !character.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_numbers_are_compared_as_numbers() {
        for (lower, higher) in
            [("v1.34.0", "v1.35.0"), ("v1.9.0", "v1.10.0"), ("v1.32.5-eks-1-32-9", "v1.32.5-eks-1-32-10")]
        {
            assert!(version_order(lower) < version_order(higher), "{lower} {higher}");
        }
    }
}
