//! MachineDeployments: a new machine, then an old one fewer, until none is old.
//!
//! Conditions are written from the machines' own condition `UpToDate`, counts from what the MachineSets said a turn
//! earlier. Right after a bump the status is that of the new generation and says that nothing is to do: the lie
//! that real MachineDeployments tell for about a second.

use std::{collections::BTreeMap, time::Duration};

use domain::GroupName;
use rollout::{Condition, ConditionStatus};

use super::{
    Event, State, condition,
    control_plane::version_order,
    deployment::number,
    machine::{Machine, MachineSpec, Owner, Phase},
    upgrades::Way,
};
use crate::desired::DesiredMachines;

#[derive(Debug, Clone)]
pub(super) struct Workers {
    pub(super) group: GroupName,
    pub(super) spec: DesiredMachines,
    /// Whether it is being deleted: it goes with its last machine, and keeps its place in the list, by which machines know it.
    pub(super) deleting: bool,
    /// Turns since the spec changed.
    turn: u32,
    /// Whether this bump is one of the five in six that are followed by a lying second.
    lies: bool,
    /// What the MachineSets said at the turn before.
    counted: Counts,
    /// What its status says, as of its controller's last turn.
    published: rollout::MachineDeployment,
    sets: Vec<rollout::MachineSet>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    replicas: u32,
    current: u32,
    ready: u32,
}

impl Workers {
    /// A group whose machines all exist.
    pub(super) fn settled(group: GroupName, spec: DesiredMachines, cluster: &str) -> Self {
        let published = rollout::MachineDeployment {
            namespace: spec.namespace.clone(),
            name: spec.name.clone(),
            cluster: cluster.to_owned(),
            group: Some(group.clone()),
            generation: 1,
            spec_version: Some(spec.version.clone()),
            spec_replicas: Some(spec.replicas),
            infrastructure_template: Some(spec.template.clone()),
            bootstrap_template: spec.bootstrap_template.clone(),
            ..rollout::MachineDeployment::default()
        };
        let counted = Counts { replicas: spec.replicas, current: spec.replicas, ready: spec.replicas };
        Self { group, spec, deleting: false, turn: u32::MAX, lies: false, counted, published, sets: Vec::new() }
    }

    /// Somebody writes on it which rollout changed it last.
    pub(super) fn sign(&mut self, rollout: &domain::RolloutId) {
        self.published.rollout = Some(rollout.to_string());
    }

    /// The object as the API server shows it.
    pub(super) fn observed(&self, paused_in_place: bool) -> rollout::MachineDeployment {
        rollout::MachineDeployment { paused: paused_in_place, paused_in_place, ..self.published.clone() }
    }

    /// Its MachineSets as the API server shows them.
    pub(super) fn observed_sets(&self) -> &[rollout::MachineSet] {
        &self.sets
    }

    /// Whether its status says that it is rolled out: upstream's `DeploymentComplete`, which Flux believes.
    pub(super) fn is_settled(&self) -> bool {
        let wanted = Some(self.spec.replicas);
        self.published.observed_generation == Some(self.published.generation)
            && self.published.replicas == wanted
            && self.published.up_to_date_replicas == wanted
            && self.published.available_replicas == wanted
    }
}

impl State {
    /// The object gets a new spec, unless that is refused; its controller notices a moment later.
    pub(super) fn change_workers(&mut self, index: usize, spec: DesiredMachines) -> bool {
        if !self.admits(Owner::Workers(index), &spec) {
            return false;
        }
        let lies = self.random.chance(5, 6);
        let Some(workers) = self.workers.get_mut(index) else { return true };
        workers.deleting = false;
        if workers.spec == spec {
            return true;
        }
        workers.published.generation += 1;
        workers.published.spec_version = Some(spec.version.clone());
        workers.published.spec_replicas = Some(spec.replicas);
        workers.published.infrastructure_template = Some(spec.template.clone());
        workers.published.bootstrap_template.clone_from(&spec.bootstrap_template);
        workers.spec = spec;
        workers.turn = 0;
        workers.lies = lies;
        let notices_in = self.random.between(Duration::from_millis(100), Duration::from_millis(400));
        self.plan_in(notices_in, Event::Workers(index));
        true
    }

    /// The object is deleted: its machines go first.
    pub(super) fn delete_workers(&mut self, index: usize) {
        let Some(workers) = self.workers.get(index).filter(|workers| !workers.deleting) else { return };
        let none = DesiredMachines { replicas: 0, ..workers.spec.clone() };
        self.change_workers(index, none);
        if let Some(workers) = self.workers.get_mut(index) {
            workers.deleting = true;
        }
    }

    /// Those that are there.
    pub(super) fn present_workers(&self) -> impl Iterator<Item = &Workers> {
        let has_machines = |index: usize| self.machines.iter().any(|machine| machine.owner == Owner::Workers(index));
        let present = self.workers.iter().enumerate();
        present.filter(move |(index, workers)| !workers.deleting || has_machines(*index)).map(|(_, workers)| workers)
    }

    /// One turn of the MachineDeployment's controller.
    pub(super) fn reconcile_workers(&mut self, index: usize) {
        let now = self.now;
        let lowest = self.control_plane_version();
        let name = self.workers.get(index).map(|workers| workers.spec.name.clone()).unwrap_or_default();
        let paused = self.is_cluster_paused() || self.is_paused_in_place(&name);
        let is_other = self.has_another_template(&name);
        let Some(workers) = self.workers.get_mut(index) else { return };
        if paused {
            let generation = Some(workers.published.generation);
            workers.published.conditions.extend([condition("Paused", ConditionStatus::True, "Paused", generation)]);
            return;
        }
        workers.turn = workers.turn.saturating_add(1);
        let (spec, turn, lies) = (workers.spec.clone(), workers.turn, workers.lies);
        for machine in self.machines.iter_mut().filter(|machine| machine.owner == Owner::Workers(index)) {
            machine.up_to_date = machine.is(&spec.version, &spec.template);
        }
        workers.published.observed_generation = Some(workers.published.generation);
        if turn == 1 && lies {
            for condition in workers.published.conditions.values_mut() {
                condition.observed_generation = Some(workers.published.generation);
            }
            self.plan_in(Duration::from_secs(1), Event::Workers(index));
            return;
        }
        let machines: Vec<&Machine> =
            self.machines.iter().filter(|machine| machine.owner == Owner::Workers(index)).collect();
        if workers.publish(&machines, now) {
            // Counts are a turn behind: look again until they stand still.
            self.schedule.plan(now + Duration::from_secs(1), Event::Workers(index));
        }
        // Every machine has to be well, and no kubelet may be newer than the control plane's oldest.
        let too_new = lowest.is_some_and(|lowest| version_order(&spec.version) > lowest);
        if machines.iter().any(|machine| !machine.is_ready()) {
            return;
        }
        let wanted = usize::try_from(spec.replicas).unwrap_or(usize::MAX);
        let is_old = |machine: &&&Machine| is_other || !machine.is(&spec.version, &spec.template);
        let old = machines.iter().find(is_old).map(|machine| machine.id);
        let (count, last) = (machines.len(), machines.last().map(|machine| machine.id));
        if let Some(id) = old.filter(|_| count <= wanted && !too_new)
            && self.update_in_place(Owner::Workers(index), id) == Way::Stays
        {
            return;
        }
        if (old.is_some() && count <= wanted) || count < wanted {
            if too_new {
                self.plan_in(Duration::from_secs(15), Event::Workers(index));
                return;
            }
            let prefix = spec.name.clone();
            self.create_machine(
                MachineSpec {
                    owner: Owner::Workers(index),
                    prefix,
                    version: spec.version,
                    template: spec.template,
                    kube_vip: None,
                },
                Phase::Created,
            );
            self.plan_in(Duration::from_secs(1), Event::Workers(index));
        } else if let Some(id) = old.or(last.filter(|_| count > wanted)) {
            self.delete_machine(id);
            self.plan_in(Duration::from_secs(1), Event::Workers(index));
        }
    }
}

impl Workers {
    /// Writes the status. Says whether the counts have to be written once more.
    fn publish(&mut self, machines: &[&Machine], now: crate::clock::Moment) -> bool {
        use ConditionStatus::{False, True, Unknown};
        let yes = |holds: bool| if holds { True } else { False };
        let counts = self.counted;
        let all_current = machines.iter().all(|machine| machine.up_to_date);
        let all_ready = if machines.iter().any(|machine| machine.is_unknown(now) && !machine.deleting) {
            Unknown
        } else {
            yes(machines.iter().all(|machine| machine.is_ready()))
        };
        let generation = Some(self.published.generation);
        self.published.replicas = Some(counts.replicas);
        self.published.up_to_date_replicas = Some(counts.current);
        self.published.ready_replicas = Some(counts.ready);
        self.published.available_replicas = Some(counts.ready);
        self.published.conditions = BTreeMap::<String, Condition>::from([
            condition("Available", yes(counts.ready >= self.spec.replicas), "", generation),
            condition("RollingOut", yes(!all_current), "", generation),
            condition("MachinesUpToDate", yes(all_current), "", generation),
            condition("MachinesReady", all_ready, "", generation),
            condition("ScalingUp", yes(counts.replicas < self.spec.replicas), "", generation),
            condition("ScalingDown", yes(counts.replicas > self.spec.replicas), "", generation),
            condition("Remediating", False, "NotRemediating", generation),
            condition("Deleting", False, "NotDeleting", generation),
            condition("Paused", False, "NotPaused", generation),
        ]);
        self.counted = Counts {
            replicas: number(machines.len()),
            current: number(
                machines.iter().filter(|machine| machine.is(&self.spec.version, &self.spec.template)).count(),
            ),
            ready: number(machines.iter().filter(|machine| machine.is_ready()).count()),
        };
        self.publish_sets(machines);
        self.counted != counts
    }

    fn publish_sets(&mut self, machines: &[&Machine]) {
        let current = (self.spec.version.clone(), self.spec.template.clone());
        let mut kinds = vec![current];
        for machine in machines {
            let kind = (machine.version.clone(), machine.template.clone());
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        self.sets = kinds
            .into_iter()
            .map(|(version, template)| {
                let of_set = || machines.iter().filter(|machine| machine.is(&version, &template));
                let digest = version
                    .bytes()
                    .chain(template.bytes())
                    .fold(0_u64, |state, byte| crate::random::mix(state ^ u64::from(byte)));
                rollout::MachineSet {
                    namespace: self.spec.namespace.clone(),
                    name: format!("{}-{:05x}", self.spec.name, digest & 0xf_ffff),
                    machine_deployment: Some(self.spec.name.clone()),
                    spec_replicas: Some(number(of_set().filter(|machine| !machine.deleting).count())),
                    replicas: Some(number(of_set().count())),
                    spec_version: Some(version.clone()),
                    infrastructure_template: Some(template.clone()),
                    bootstrap_template: None,
                }
            })
            .collect();
    }
}
