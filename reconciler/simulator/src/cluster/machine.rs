//! Machines and the nodes they become, with the conditions that recorded upgrades show.

use std::{collections::BTreeMap, time::Duration};

use rollout::{Condition, ConditionStatus, Marked};

use super::{Event, State, condition, upgrades::NodeTruth};
use crate::{
    clock::Moment,
    desired::DesiredMachines,
    fault::Fault,
    pace::{MachineKind, Pace},
};

/// A machine's spec does not change during its life, once its provider has filled it in.
const GENERATION: Option<i64> = Some(3);

/// What owns a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    ControlPlane,
    /// The MachineDeployment at this index.
    Workers(usize),
    Etcd,
}

/// How far a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Just created: no status at all.
    Created,
    /// Its owner has written the first conditions.
    Known,
    /// Its bootstrap data is being made.
    Pending,
    Provisioning,
    /// The infrastructure is up, the node is not.
    Provisioned,
    /// The node is up; on a control plane its etcd member and static pods are missing.
    Joined,
    /// Those pods are there and not healthy.
    Unhealthy,
    Running,
    /// Being deleted: its etcd member and pods are gone.
    Leaving,
    /// Being deleted: its infrastructure is gone.
    Gone,
}

#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) owner: Owner,
    pub(super) version: String,
    pub(super) template: String,
    /// kube-vip's image on a control-plane machine.
    pub(super) kube_vip: Option<String>,
    pub(super) phase: Phase,
    pub(super) deleting: bool,
    /// What its condition `UpToDate` says: set by its owner's turn, not by the truth.
    pub(super) up_to_date: bool,
    /// Its node has stopped reporting.
    pub(super) lost: bool,
    /// Its etcd member runs and never becomes healthy.
    pub(super) broken: bool,
    /// Left behind by etcd's rollout, with no owner any more.
    pub(super) orphaned: bool,
    /// It goes before others.
    pub(super) delete_first: Option<Marked>,
    /// It is not drained.
    pub(super) brake: Option<Marked>,
    /// The rollout that Stepgate has written on it.
    pub(super) rollout: Option<String>,
    pub(super) born: Moment,
    /// When its next step is due; an event of another moment is out of date.
    due: Option<Moment>,
    pub(super) kubelet: String,
    /// What upgrades in place make of its node.
    pub(super) node: NodeTruth,
}

impl Machine {
    pub(super) fn has_node(&self) -> bool {
        self.owner != Owner::Etcd && (Phase::Joined..Phase::Gone).contains(&self.phase)
    }

    pub(super) fn is_ready(&self) -> bool {
        let is_up = !self.lost && !self.node.away && !self.node.restarting && !self.node.missing;
        self.phase == Phase::Running && !self.deleting && is_up && !self.node.updating
    }

    /// What its kubelet says of its version.
    pub(super) fn kubelet(&self) -> &str {
        &self.kubelet
    }

    /// Whether its node runs the version of the machine, and takes Pods.
    pub(super) fn runs_what_it_says(&self) -> bool {
        let is_of_node = self.owner != Owner::Etcd;
        let is_stayed = self.kubelet == kubelet_version(&self.version);
        !is_of_node || (is_stayed && self.node.cordon.is_none() && !self.node.is_under_way())
    }

    /// Whether its node reports.
    fn is_heard(&self) -> bool {
        !self.lost && !self.node.away && !self.node.restarting
    }

    /// `Ready` is not known yet.
    pub(super) fn is_unknown(&self, now: Moment) -> bool {
        self.phase <= Phase::Pending
            || (self.phase == Phase::Provisioning && now.since(self.born) < Duration::from_secs(6))
    }

    /// Its etcd member and control-plane pods are missing or unhealthy while its node is there.
    pub(super) fn harms_control_plane(&self) -> bool {
        matches!(self.phase, Phase::Unhealthy | Phase::Leaving | Phase::Gone) || self.node.away || self.node.restarting
    }

    /// Is from now on, and has always been, what the branch says.
    pub(super) fn give_way(&mut self, spec: &DesiredMachines) {
        self.version.clone_from(&spec.version);
        self.template.clone_from(&spec.template);
        self.kubelet = kubelet_version(&spec.version);
    }

    /// Whether it is what its owner wants.
    pub(super) fn is(&self, version: &str, template: &str) -> bool {
        self.version == version && self.template == template
    }

    /// The object as the API server shows it.
    pub(super) fn observed(&self, namespace: &str, cluster: &str, owner: Option<String>) -> rollout::Machine {
        let node = self.has_node() && !self.node.missing || self.phase == Phase::Gone && self.owner != Owner::Etcd;
        rollout::Machine {
            uid: Some(super::acting::uid_of(self.id)),
            created_at: Some(self.born.timestamp()),
            rollout: self.rollout.clone(),
            certificates_end: None,
            deleted_at: None,
            namespace: namespace.to_owned(),
            name: self.name.clone(),
            cluster: cluster.to_owned(),
            control_plane: self.owner == Owner::ControlPlane,
            generation: GENERATION,
            owner: owner.filter(|_| !self.orphaned),
            etcd_cluster: None,
            addresses: Vec::new(),
            pool: None,
            deleting: self.deleting,
            spec_version: (self.owner != Owner::Etcd).then(|| self.version.clone()),
            infrastructure_template: Some(self.template.clone()),
            node: node.then(|| self.name.clone()),
            kubelet_version: node.then(|| self.kubelet.clone()),
            phase: self.phase_text().map(str::to_owned),
            delete_first: self.delete_first.clone(),
            brake: self.brake.clone(),
            hardware: None,
            conditions: self.conditions(),
        }
    }

    /// The node as the API server shows it.
    pub(super) fn observed_node(&self) -> Option<rollout::Node> {
        self.has_node().then(|| rollout::Node {
            release: None,
            origin: None,
            unschedulable_since: None,
            name: self.name.clone(),
            ready: match self.is_heard() {
                true => ConditionStatus::True,
                false => ConditionStatus::Unknown,
            },
            unschedulable: self.deleting || self.node.cordon.is_some(),
            pressures: Vec::new(),
            control_plane: self.owner == Owner::ControlPlane,
            kubelet_version: Some(self.kubelet.clone()),
        })
    }

    /// kube-vip's pod on this machine, as the API server shows it.
    pub(super) fn observed_kube_vip(&self) -> Option<rollout::Pod> {
        let image = self.kube_vip.as_ref().filter(|_| self.has_node())?;
        let name = format!("kube-vip-{}", self.name);
        let ready = self.phase == Phase::Running && self.is_heard();
        Some(rollout::Pod {
            namespace: "kube-system".to_owned(),
            name: name.clone(),
            application: "kube-vip".to_owned(),
            node: Some(self.name.clone()),
            ready,
            running: vec![rollout::RunningImage {
                pod: name,
                container: "kube-vip".to_owned(),
                image: image.clone(),
                digest: super::pod::running_digest(image),
                ready,
                waiting: None,
                deleting: false,
            }],
        })
    }

    fn phase_text(&self) -> Option<&'static str> {
        match self.phase {
            _ if self.deleting => Some("Deleting"),
            Phase::Created | Phase::Known => None,
            Phase::Pending => Some("Pending"),
            Phase::Provisioning => Some("Provisioning"),
            Phase::Provisioned => Some("Provisioned"),
            Phase::Joined | Phase::Unhealthy | Phase::Running | Phase::Leaving | Phase::Gone => Some("Running"),
        }
    }

    fn conditions(&self) -> BTreeMap<String, Condition> {
        use ConditionStatus::{False, True, Unknown};
        let yes = |holds: bool| if holds { True } else { False };
        if self.phase == Phase::Created {
            return BTreeMap::new();
        }
        let mut conditions =
            BTreeMap::from([condition("UpToDate", yes(self.up_to_date && !self.node.updating), "", GENERATION)]);
        if self.phase > Phase::Known {
            let node = match self.phase {
                Phase::Gone => False,
                _ if !self.is_heard() || self.node.missing => Unknown,
                phase if phase >= Phase::Joined => True,
                _ => Unknown,
            };
            // Nobody can look at a node before there is one.
            let inspected = if node == Unknown && self.is_heard() { "InspectionFailed" } else { "" };
            conditions.extend([
                condition("Available", yes(self.is_ready()), "", GENERATION),
                condition("Ready", yes(self.is_ready()), "", GENERATION),
                condition("BootstrapConfigReady", yes(self.phase > Phase::Pending), "", GENERATION),
                condition(
                    "InfrastructureReady",
                    yes((Phase::Unhealthy..Phase::Gone).contains(&self.phase)),
                    "",
                    GENERATION,
                ),
                condition("NodeHealthy", node, inspected, GENERATION),
                condition("NodeReady", node, inspected, GENERATION),
                match self.node.updating {
                    true => condition("Updating", True, "InPlaceUpdating", GENERATION),
                    false => condition("Updating", False, "NotUpdating", GENERATION),
                },
                condition("Deleting", yes(self.deleting), "", GENERATION),
                condition("Paused", False, "NotPaused", GENERATION),
            ]);
        }
        if self.owner == Owner::ControlPlane {
            let pods = match self.phase {
                _ if self.node.away || self.node.restarting => False,
                Phase::Running => True,
                Phase::Unhealthy | Phase::Leaving | Phase::Gone => False,
                _ => Unknown,
            };
            for name in [
                "APIServerPodHealthy",
                "ControllerManagerPodHealthy",
                "SchedulerPodHealthy",
                "EtcdPodHealthy",
                "EtcdMemberHealthy",
            ] {
                conditions.extend([condition(name, pods, "", GENERATION)]);
            }
        }
        conditions
    }
}

/// What a kubelet of this machine says of itself. EKS-D's kubelets name a commit where the machine names a release.
pub(super) fn kubelet_version(version: &str) -> String {
    match version.split_once("-eks-") {
        Some((kubernetes, release)) => {
            let commit = release.bytes().fold(0_u64, |state, byte| crate::random::mix(state ^ u64::from(byte)));
            format!("{kubernetes}-eks-{:07x}", commit & 0x0fff_ffff)
        }
        None => version.to_owned(),
    }
}

/// What a new machine is made of.
#[derive(Debug, Clone)]
pub(super) struct MachineSpec {
    pub(super) owner: Owner,
    /// The beginning of its name.
    pub(super) prefix: String,
    pub(super) version: String,
    pub(super) template: String,
    pub(super) kube_vip: Option<String>,
}

impl State {
    /// Creates a machine and sets it going; a running one when the cluster is being set up.
    pub(super) fn create_machine(&mut self, spec: MachineSpec, phase: Phase) {
        self.last_id += 1;
        let id = self.last_id;
        let name = format!("{}-{}", spec.prefix, self.random.suffix(5));
        let kubelet = kubelet_version(&spec.version);
        if phase != Phase::Running {
            self.made.push((spec.owner, spec.version.clone(), spec.template.clone()));
            if spec.owner != Owner::Etcd {
                self.machine_is_made(&name);
            }
        }
        let broken = spec.owner == Owner::Etcd && phase != Phase::Running && self.is_active(Fault::EtcdMemberBroken);
        self.machines.push(Machine {
            id,
            name,
            owner: spec.owner,
            version: spec.version,
            template: spec.template,
            kube_vip: spec.kube_vip,
            phase,
            deleting: false,
            up_to_date: true,
            lost: false,
            broken,
            orphaned: false,
            delete_first: None,
            brake: None,
            rollout: None,
            born: self.now,
            due: None,
            kubelet,
            node: NodeTruth::default(),
        });
        if phase != Phase::Running {
            self.plan_machine(id, Duration::from_secs(1));
        }
    }

    /// Plans the next step of a machine, in place of any planned before.
    pub(super) fn plan_machine(&mut self, id: u64, delay: Duration) {
        let due = self.now + delay;
        if let Some(machine) = self.machines.iter_mut().find(|machine| machine.id == id) {
            machine.due = Some(due);
            self.schedule.plan(due, Event::Machine(id));
        }
    }

    /// Marks a machine as being deleted.
    pub(super) fn delete_machine(&mut self, id: u64) {
        if let Some(machine) = self.machines.iter_mut().find(|machine| machine.id == id) {
            machine.deleting = true;
            self.plan_machine(id, Duration::from_secs(1));
        }
    }

    /// A machine takes its next step, unless a fault keeps it where it is.
    pub(super) fn step_machine(&mut self, id: u64) {
        let now = self.now;
        if !self.machines.iter().any(|machine| machine.id == id && machine.due == Some(now)) {
            return;
        }
        let blocked = self.is_active(Fault::DrainBlocked);
        let stuck_owner = |owner: Owner| match owner {
            Owner::ControlPlane => Fault::ControlPlaneStuck,
            Owner::Workers(_) => Fault::MachineStuck,
            Owner::Etcd => Fault::EtcdStuck,
        };
        let stuck = self
            .machines
            .iter()
            .find(|machine| machine.id == id)
            .is_some_and(|machine| self.is_active(stuck_owner(machine.owner)));
        let paused = self.is_cluster_paused();
        let pace = self.pace_of(id);
        let startup = self.random.between(pace.shortest, pace.longest);
        let pods = self.random.between(Duration::from_secs(3), Duration::from_secs(6));
        let Some(position) = self.machines.iter().position(|machine| machine.id == id) else { return };
        let Some(machine) = self.machines.get_mut(position) else { return };
        let owner = machine.owner;
        let second = Duration::from_secs(1);
        let (phase, next) = if paused {
            (machine.phase, None)
        } else if machine.deleting {
            match machine.phase {
                Phase::Leaving => (Phase::Gone, Some(second)),
                Phase::Gone => {
                    self.machines.remove(position);
                    self.wake_owner(owner);
                    return;
                }
                // The drain is where a disruption budget holds a machine.
                _ if blocked || machine.brake.is_some() => (machine.phase, None),
                _ => (Phase::Leaving, Some(second * 3)),
            }
        } else {
            match machine.phase {
                Phase::Created => (Phase::Known, Some(second)),
                Phase::Known => (Phase::Pending, Some(second * 2)),
                Phase::Pending => (Phase::Provisioning, Some(startup)),
                Phase::Provisioning if stuck => (Phase::Provisioning, None),
                Phase::Provisioning => (Phase::Provisioned, Some(second)),
                Phase::Provisioned if owner == Owner::ControlPlane => (Phase::Joined, Some(second)),
                Phase::Joined if owner == Owner::ControlPlane => (Phase::Unhealthy, Some(pods)),
                Phase::Provisioned | Phase::Joined | Phase::Unhealthy => (Phase::Running, None),
                Phase::Running | Phase::Leaving | Phase::Gone => (machine.phase, None),
            }
        };
        machine.phase = phase;
        machine.due = None;
        if let Some(next) = next {
            self.plan_machine(id, next);
        }
        if matches!(phase, Phase::Leaving | Phase::Gone) {
            self.address_moves(id);
        }
        if matches!(phase, Phase::Joined | Phase::Running | Phase::Gone) {
            self.nodes_changed();
        }
        self.wake_owner(owner);
    }

    fn pace_of(&self, id: u64) -> Pace {
        let machine = self.machines.iter().find(|machine| machine.id == id);
        let kind = machine.and_then(|machine| match machine.owner {
            Owner::ControlPlane => Some(MachineKind::ControlPlane),
            Owner::Workers(index) => self.workers.get(index).map(|workers| MachineKind::Workers(workers.group.clone())),
            Owner::Etcd => Some(MachineKind::Etcd),
        });
        kind.and_then(|kind| self.paces.get(&kind)).copied().unwrap_or_default()
    }

    /// Sets every machine going again that a fault held.
    pub(super) fn resume_machines(&mut self) {
        let waiting: Vec<u64> = self
            .machines
            .iter()
            .filter(|machine| machine.due.is_none() && (machine.deleting || machine.phase != Phase::Running))
            .map(|machine| machine.id)
            .collect();
        for id in waiting {
            self.plan_machine(id, Duration::from_secs(2));
        }
    }

    /// Whether nothing of Cluster API acts on the cluster.
    pub(super) fn is_cluster_paused(&self) -> bool {
        self.lease.is_some() || self.is_active(Fault::ClusterPaused)
    }

    pub(super) fn wake_owner(&mut self, owner: Owner) {
        let soon = self.random.between(Duration::from_millis(500), Duration::from_millis(1000));
        self.plan_in(
            soon,
            match owner {
                Owner::ControlPlane => Event::ControlPlane,
                Owner::Workers(index) => Event::Workers(index),
                Owner::Etcd => Event::Etcd,
            },
        );
    }

    /// Names of the nodes of the cluster.
    pub(super) fn node_names(&self) -> Vec<String> {
        self.machines.iter().filter(|machine| machine.has_node()).map(|machine| machine.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_of_eks_d_does_not_repeat_the_release() {
        let kubelet = kubelet_version("v1.30.14-eks-1-30-58");
        assert!(kubelet.starts_with("v1.30.14-eks-") && kubelet.len() == "v1.30.14-eks-".len() + 7, "{kubelet}");
        assert_ne!(kubelet, kubelet_version("v1.30.14-eks-1-30-59"));
        assert_eq!(kubelet_version("v1.35.0"), "v1.35.0");
    }
}
