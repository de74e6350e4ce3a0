//! What the controller reads of the cluster.

use std::collections::BTreeMap;

use in_place::{
    objects::NamedObject,
    order::{self, Architecture, Component, Cordon, HealthCheck, Mark, OwnerKind, Pause, Release, Settings, World},
};

use super::{State, UpgradeDefect, node::Upgrader};
use crate::{
    cluster::machine::{Machine, Owner, Phase},
    fault::Fault,
};

/// The `MachineHealthChecks` of every cluster: of its control plane, and of its workers.
pub(super) const CHECKS: [&str; 2] = ["control-plane-unhealthy", "workers-unhealthy"];

const COMPONENTS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

pub(super) fn named(machine: &Machine) -> NamedObject {
    NamedObject { name: machine.name.clone(), uid: format!("uid-{}", machine.id) }
}

pub(super) fn check_of(machine: &Machine) -> &'static str {
    let [control_plane, workers] = CHECKS;
    if machine.owner == Owner::ControlPlane { control_plane } else { workers }
}

impl State {
    /// Everything that is decided on; none where machines are not upgraded in place.
    pub(super) fn upgrade_world(&self) -> Option<World> {
        let upgrades = self.upgrades.as_ref()?;
        let machines: Vec<order::Machine> = self
            .machines
            .iter()
            .filter(|machine| machine.owner != Owner::Etcd)
            .map(|machine| self.upgrade_machine(machine))
            .collect();
        let mut owners: Vec<order::Owner> = self.upgrade_owner(Owner::ControlPlane).into_iter().collect();
        owners.extend((0..self.workers.len()).filter_map(|index| self.upgrade_owner(Owner::Workers(index))));
        let wanted = owners.iter().filter_map(|owner| owner.version.as_ref());
        let begun = upgrades.nodes.iter().map(|upgrade| &upgrade.spec.kubernetes_version);
        let said = machines.iter().filter_map(|machine| machine.version.as_ref());
        let releases: BTreeMap<String, Release> =
            wanted.chain(begun).chain(said).map(|version| (version.to_string(), release(version.as_str()))).collect();
        let checks = CHECKS.into_iter().map(|name| HealthCheck {
            name: name.to_owned(),
            pause: upgrades.checks.get(name).cloned().unwrap_or(Pause::None),
            machines: self
                .machines
                .iter()
                .filter(|machine| machine.owner != Owner::Etcd && check_of(machine) == name)
                .map(|machine| machine.name.clone())
                .collect(),
        });
        let settings = match upgrades.defect {
            Some(UpgradeDefect::SkipsSoak) => Settings { soak: jiff::SignedDuration::ZERO, ..Settings::default() },
            _ => Settings::default(),
        };
        Some(World {
            cluster: self.cluster.clone(),
            paused: self.is_cluster_paused(),
            stacked_etcd: self.stacked_etcd,
            unreachable: self.own_server_is_away(),
            owners,
            machines,
            node_upgrades: upgrades.nodes.clone(),
            group_upgrades: upgrades.groups.clone(),
            health_checks: checks.collect(),
            pods: upgrades.pods.iter().map(|(name, pod): (_, &Upgrader)| (name.clone(), pod.pod.clone())).collect(),
            address_holder: self.address_holder.clone().into(),
            etcd_leader: upgrades.etcd_leader.clone().filter(|_| self.stacked_etcd).into(),
            releases,
            settings,
        })
    }

    /// Why the cluster's own API server does not answer; none where one of them does.
    pub(super) fn own_server_is_away(&self) -> Option<String> {
        let answers = |machine: &Machine| {
            machine.owner == Owner::ControlPlane
                && matches!(machine.phase, Phase::Unhealthy | Phase::Running)
                && !machine.lost
                && !machine.node.away
                && !machine.node.restarting
        };
        let any = self.machines.iter().any(answers);
        (!any).then(|| String::from("connection refused"))
    }

    fn upgrade_owner(&self, owner: Owner) -> Option<order::Owner> {
        let spec = self.owner_spec(owner)?;
        let upgrades = self.upgrades.as_ref()?;
        let (kind, up_to_date, deleting) = match owner {
            Owner::ControlPlane => (OwnerKind::ControlPlane, self.control_plane.as_ref()?.is_settled(), false),
            Owner::Workers(index) => {
                let workers = self.workers.get(index)?;
                (OwnerKind::Workers, workers.is_settled(), workers.deleting)
            }
            Owner::Etcd => return None,
        };
        let by_somebody = kind == OwnerKind::ControlPlane && self.is_active(Fault::ControlPlanePaused);
        let ours = upgrades.pauses.get(&spec.name).cloned().unwrap_or(Pause::None);
        Some(order::Owner {
            object: NamedObject { name: spec.name.clone(), uid: format!("uid-{}", spec.name) },
            kind,
            driver: upgrades.driver,
            version: spec.version.parse().ok(),
            cluster_configuration: None,
            replicas: Some(spec.replicas),
            pause: if by_somebody && ours == Pause::None { Pause::Others } else { ours },
            up_to_date,
            template_matches: upgrades.adopted.get(&spec.name).copied().unwrap_or(true),
            deleting,
            declined: Vec::new(),
        })
    }

    fn upgrade_machine(&self, machine: &Machine) -> order::Machine {
        let spec = self.owner_spec(machine.owner);
        let is_at = spec.is_some_and(|spec| spec.version == machine.version);
        order::Machine {
            object: named(machine),
            owner: spec.map(|spec| spec.name.clone()),
            control_plane: machine.owner == Owner::ControlPlane,
            version: machine.version.parse().ok(),
            files: Vec::new(),
            configuration_matches: !is_at || spec.is_some_and(|spec| spec.template == machine.template),
            created: Some(machine.born.timestamp()),
            deleting: machine.deleting,
            updated_by_hook: machine.node.updating,
            skips_remediation: if machine.node.is_kept { Mark::Ours } else { Mark::None },
            node: (machine.has_node() && !machine.node.missing).then(|| self.upgrade_node(machine)),
        }
    }

    fn upgrade_node(&self, machine: &Machine) -> order::Node {
        let is_up = machine.phase == Phase::Running && !machine.lost && !machine.node.away && !machine.node.restarting;
        let components = COMPONENTS.into_iter().filter(|name| *name != "etcd" || self.stacked_etcd);
        let components = components.map(|name| Component { name: name.to_owned(), ready: is_up });
        order::Node {
            name: machine.name.clone(),
            ready: is_up,
            disk_pressure: false,
            kubelet_version: machine.kubelet().to_owned(),
            operating_system: String::from("linux"),
            os_image: String::from("Ubuntu 24.04"),
            architecture: String::from("amd64"),
            cordon: match &machine.node.cordon {
                Some(version) if !self.has_upgrade_defect(UpgradeDefect::ForgetsUncordon) => {
                    Cordon::Ours(version.clone())
                }
                Some(_) | None => Cordon::None,
            },
            components: if machine.owner == Owner::ControlPlane { components.collect() } else { Vec::new() },
        }
    }
}

fn release(version: &str) -> Release {
    Release { image: format!("registry.example/node-upgrader:{version}"), architectures: vec![Architecture::Amd64] }
}
