//! What is read of a cluster, and what goes wrong with reading.

use std::time::Duration;

use jiff::Timestamp;
use rollout::{
    EKSA_CLUSTERS, FluxObservation, Identification, Inspection, MachineTopology, Observation, Reachability,
    SidecarReading, Survey, VirtualAddress,
};

use super::{Conditions, State, condition, workers::Workers};
use crate::{clock::Moment, fault::Fault, random::Random};

/// How far behind the other API server is under [`Fault::StaleReads`].
const LAG: Duration = Duration::from_secs(120);
/// How often a watch lists everything under [`Fault::LostEvents`].
const LIST_INTERVAL: Duration = Duration::from_secs(300);
/// How far ahead the clock is under [`Fault::ClockSkew`].
const SKEW: Duration = Duration::from_secs(600);

/// Kinds that are read apart from each other.
const KINDS: [&str; 12] = [
    "Kustomization",
    "Deployment",
    "DaemonSet",
    "CustomResourceDefinition",
    "KubeadmControlPlane",
    "MachineDeployment",
    "MachineSet",
    "Machine",
    "EtcdadmCluster",
    "Node",
    "Pod",
    EKSA_CLUSTERS,
];

/// The reader's side: what it remembers of earlier reads, and the dice of its faults.
#[derive(Debug, Clone)]
pub(super) struct View {
    random: Random,
    /// The cluster as the API server behind knows it.
    shadow: Option<Box<State>>,
    /// The last full list, when it was made, and the kinds whose events are lost since.
    listed: Option<(Moment, Box<Observation>, u64)>,
}

impl View {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(!seed), shadow: None, listed: None }
    }

    pub(super) fn shadow(&mut self) -> Option<&mut State> {
        self.shadow.as_deref_mut()
    }

    /// A reading from a watch's cache.
    pub(super) fn cached(&mut self, state: &State) -> Observation {
        let mut observation = self.read(state);
        observation.confirmed = false;
        if observation.reachable != Reachability::Reachable {
            return observation;
        }
        if state.is_active(Fault::StaleReads) {
            let shadow = self.shadow.get_or_insert_with(|| Box::new(state.clone()));
            shadow.advance(state.now.before(LAG));
            let behind = shadow.read(observation.read_at);
            mix(&mut observation, &behind, self.random.next_number());
        } else {
            self.shadow = None;
        }
        if state.is_active(Fault::LostEvents) {
            let expired =
                self.listed.as_ref().is_none_or(|(listed_at, ..)| state.now.since(*listed_at) >= LIST_INTERVAL);
            if expired {
                self.listed = Some((state.now, Box::new(observation.clone()), self.random.next_number()));
            }
            if let Some((_, listed, lost)) = &self.listed {
                mix(&mut observation, listed, *lost);
            }
        } else {
            self.listed = None;
        }
        observation
    }

    /// A reading by fresh requests.
    pub(super) fn fresh(&mut self, state: &State) -> Observation {
        self.read(state)
    }

    fn read(&mut self, state: &State) -> Observation {
        let skew = if state.is_active(Fault::ClockSkew) { SKEW } else { Duration::ZERO };
        let stamp = (state.now + skew).timestamp();
        if state.is_active(Fault::ApiOutage) {
            let reason = "dial tcp 10.96.0.1:443: connect: connection refused".to_owned();
            return Observation { reachable: Reachability::Unreachable { reason }, ..Observation::empty(stamp) };
        }
        let mut observation = state.read(stamp);
        if state.is_active(Fault::PartialReads)
            && let Some(kind) = self.random.choose(&KINDS)
        {
            mix_kind(&mut observation, &Observation::empty(stamp), kind);
            observation.unread.insert(
                (*kind).to_owned(),
                "the server was unable to return a response in the time allotted".to_owned(),
            );
        }
        observation
    }
}

/// Replaces the kinds whose bit is set in `chosen` by what `other` has of them.
fn mix(observation: &mut Observation, other: &Observation, chosen: u64) {
    for (index, kind) in KINDS.iter().enumerate() {
        if chosen >> index & 1 == 1 {
            mix_kind(observation, other, kind);
        }
    }
}

fn mix_kind(observation: &mut Observation, other: &Observation, kind: &str) {
    match kind {
        "Kustomization" => observation.flux.kustomizations.clone_from(&other.flux.kustomizations),
        "Deployment" => observation.deployments.clone_from(&other.deployments),
        "DaemonSet" => observation.daemon_sets.clone_from(&other.daemon_sets),
        "CustomResourceDefinition" => {
            observation.custom_resource_definitions.clone_from(&other.custom_resource_definitions);
        }
        "KubeadmControlPlane" => observation.control_planes.clone_from(&other.control_planes),
        "MachineDeployment" => observation.machine_deployments.clone_from(&other.machine_deployments),
        "MachineSet" => observation.machine_sets.clone_from(&other.machine_sets),
        "Machine" => observation.machines.clone_from(&other.machines),
        "EtcdadmCluster" => observation.etcd_clusters.clone_from(&other.etcd_clusters),
        "Node" => observation.nodes.clone_from(&other.nodes),
        EKSA_CLUSTERS => observation.eksa_clusters.clone_from(&other.eksa_clusters),
        _ => observation.pods.clone_from(&other.pods),
    }
}

impl State {
    /// Everything gates read, stamped with the reader's clock.
    fn read(&self, stamp: Timestamp) -> Observation {
        let owner_name = |owner| match owner {
            super::machine::Owner::ControlPlane => {
                self.control_plane.as_ref().map(|control_plane| control_plane.spec.name.clone())
            }
            super::machine::Owner::Workers(index) => self.workers.get(index).map(|workers| workers.spec.name.clone()),
            super::machine::Owner::Etcd => self.etcd.as_ref().map(|etcd| etcd.spec.name.clone()),
        };
        let paused = self.is_active(Fault::ControlPlanePaused);
        Observation {
            flux: FluxObservation {
                sources: vec![self.flux.source.clone()],
                kustomizations: self
                    .flux
                    .kustomizations
                    .iter()
                    .filter(|kustomization| !kustomization.deleted)
                    .map(|kustomization| kustomization.published.clone())
                    .collect(),
                releases: Vec::new(),
            },
            deployments: self
                .deployments
                .iter()
                .filter(|deployment| !deployment.deleted)
                .map(|deployment| deployment.observed())
                .collect(),
            daemon_sets: self
                .daemon_sets
                .iter()
                .filter(|daemon_set| !daemon_set.deleted)
                .map(|daemon_set| daemon_set.observed())
                .collect(),
            custom_resource_definitions: self.definitions.clone(),
            webhooks: self.probe_webhooks(stamp),
            objects: self.observed_objects(),
            taken: Vec::new(),
            control_planes: self
                .control_plane
                .iter()
                .map(|known| known.observed(paused, self.is_paused_in_place(&known.spec.name)))
                .collect(),
            machine_deployments: self
                .present_workers()
                .map(|known| known.observed(self.is_paused_in_place(&known.spec.name)))
                .collect(),
            machine_sets: self.present_workers().flat_map(Workers::observed_sets).cloned().collect(),
            machines: self
                .machines
                .iter()
                .map(|machine| {
                    let observed = machine.observed(&self.namespace, &self.cluster, owner_name(machine.owner));
                    self.observed_member(machine, observed)
                })
                .collect(),
            etcd_clusters: self.observed_etcd().into_iter().collect(),
            clusters: self.control_plane.iter().map(|_| self.observed_cluster()).collect(),
            eksa_clusters: self.observed_eksa_cluster().into_iter().collect(),
            nodes: self.machines.iter().filter_map(|machine| machine.observed_node()).collect(),
            pods: self.machines.iter().filter_map(|machine| machine.observed_kube_vip()).collect(),
            virtual_address: self.machines.iter().any(|machine| machine.kube_vip.is_some()).then(|| VirtualAddress {
                holder: self.address_holder.clone(),
                renewed_at: Some(stamp),
                transitions: Some(self.address_transitions),
            }),
            survey: Some(self.survey()),
            sidecars: Some(SidecarReading::default()),
            inspection: Some(Inspection::default()),
            backup: self.backup.clone(),
            in_place: self.observed_upgrades(),
            identity: Identification::without_server(&format!("simulation of {}", self.cluster)),
            ..Observation::empty(stamp)
        }
    }

    /// Every workload: what is not settled is broken.
    fn survey(&self) -> Survey {
        let deployments = self
            .deployments
            .iter()
            .filter(|known| !known.deleted)
            .map(|known| (format!("Deployment {}/{}", known.spec.namespace, known.spec.name), known.is_settled()));
        let daemon_sets = self
            .daemon_sets
            .iter()
            .filter(|known| !known.deleted)
            .map(|known| (format!("DaemonSet {}/{}", known.spec.namespace, known.spec.name), known.is_settled()));
        let all: Vec<(String, bool)> = deployments.chain(daemon_sets).collect();
        Survey {
            workloads: super::deployment::number(all.len()),
            broken: all.into_iter().filter(|(_, settled)| !settled).map(|(name, _)| name).collect(),
        }
    }

    fn observed_cluster(&self) -> MachineTopology {
        use rollout::ConditionStatus::{False, True};
        let paused = self.is_cluster_paused();
        let (status, reason) = if paused { (True, "Paused") } else { (False, "NotPaused") };
        MachineTopology {
            namespace: self.namespace.clone(),
            name: self.cluster.clone(),
            paused,
            lease: self.lease.clone(),
            attempts: self.attempts.clone(),
            conditions: Conditions::from([
                condition("Available", True, "Available", None),
                condition("InfrastructureReady", True, "Ready", None),
                condition("ControlPlaneInitialized", True, "Initialized", None),
                condition("Paused", status, reason, None),
            ]),
            ..MachineTopology::default()
        }
    }
}
