//! From recorded samples to observations.

use std::collections::{BTreeMap, BTreeSet};

use domain::GroupName;
use jiff::{SignedDuration, Timestamp};
use rollout::{
    Condition, ControlPlane, Identification, Machine, MachineDeployment, MachineTopology, Observation, Reachability,
};

use super::sample::{RecordedCluster, RecordedMachine, RecordedOwner, Sample, status_and_reason};
use crate::objects;

/// The namespace that recorded objects are given: recordings carry none.
pub const RECORDED_NAMESPACE: &str = "default";

/// The annotation that pauses an object of Cluster API.
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Reads samples in order and remembers what a single sample does not say: which clusters there are.
///
/// Recordings name no owners, so objects are told apart by their names, as Cluster API makes them: `<cluster>-…` for what belongs to a
/// cluster, `<owner>-…` for the machines of an owner; the longest name that fits wins. Where the recording has the fields `cluster`
/// and `owner`, these decide. An object that fits no cluster belongs to the only one there is, else to the cluster without a name.
#[derive(Debug, Default)]
pub struct RecordedClusters {
    names: BTreeSet<String>,
}

impl RecordedClusters {
    /// The observation of `sample`. A failed sample is an unreachable cluster.
    pub fn observe(&mut self, sample: &Sample) -> Observation {
        let mut observation = Observation::empty(read_at(sample.t));
        observation.identity = Identification::without_server("recording");
        if let Some(error) = &sample.err {
            let reason = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            observation.reachable = Reachability::Unreachable { reason };
            return observation;
        }
        self.names.extend(sample.clusters.iter().map(|cluster| cluster.name.clone()));
        let owners = || sample.control_planes.iter().chain(&sample.machine_deployments);
        self.names.extend(owners().filter_map(|owner| owner.cluster.clone()));
        observation.clusters = sample.clusters.iter().map(topology).collect();
        observation.control_planes = sample.control_planes.iter().map(|owner| self.control_plane(owner)).collect();
        observation.machine_deployments =
            sample.machine_deployments.iter().map(|owner| self.machine_deployment(owner)).collect();
        observation.machines = sample.machines.iter().map(|machine| self.machine(machine, sample)).collect();
        observation
    }

    /// The clusters seen so far.
    #[must_use]
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    fn cluster_of(&self, name: &str, recorded: Option<&String>) -> String {
        if let Some(cluster) = recorded {
            return cluster.clone();
        }
        let only = || self.names.iter().next().filter(|_| self.names.len() == 1);
        longest_prefix(name, self.names.iter()).or_else(only).cloned().unwrap_or_default()
    }

    fn control_plane(&self, owner: &RecordedOwner) -> ControlPlane {
        ControlPlane {
            namespace: RECORDED_NAMESPACE.to_owned(),
            name: owner.name.clone(),
            cluster: self.cluster_of(&owner.name, owner.cluster.as_ref()),
            generation: owner.generation.unwrap_or_default(),
            observed_generation: owner.observed_generation,
            paused: is_paused(owner),
            deleting: owner.deleting,
            spec_version: owner.desired_version.clone().unwrap_or_default(),
            status_version: owner.version.clone(),
            spec_replicas: count(owner.desired_replicas),
            replicas: count(owner.replicas),
            up_to_date_replicas: count(owner.up_to_date_replicas),
            ready_replicas: count(owner.ready_replicas),
            available_replicas: count(owner.available_replicas),
            conditions: conditions(&owner.conditions, &owner.messages),
            ..ControlPlane::default()
        }
    }

    fn machine_deployment(&self, owner: &RecordedOwner) -> MachineDeployment {
        MachineDeployment {
            namespace: RECORDED_NAMESPACE.to_owned(),
            name: owner.name.clone(),
            cluster: self.cluster_of(&owner.name, owner.cluster.as_ref()),
            rollout: None,
            group: group(owner),
            generation: owner.generation.unwrap_or_default(),
            observed_generation: owner.observed_generation,
            paused: is_paused(owner),
            paused_in_place: false,
            deleting: owner.deleting,
            spec_version: owner.desired_version.clone(),
            spec_replicas: count(owner.desired_replicas),
            replicas: count(owner.replicas),
            up_to_date_replicas: count(owner.up_to_date_replicas),
            ready_replicas: count(owner.ready_replicas),
            available_replicas: count(owner.available_replicas),
            conditions: conditions(&owner.conditions, &owner.messages),
            infrastructure_template: None,
            bootstrap_template: None,
        }
    }

    fn machine(&self, machine: &RecordedMachine, sample: &Sample) -> Machine {
        let control_planes = || sample.control_planes.iter().map(|owner| &owner.name);
        let deployments = || sample.machine_deployments.iter().map(|owner| &owner.name);
        let owner = machine.owner.as_ref().or_else(|| match machine.control_plane {
            Some(true) => longest_prefix(&machine.name, control_planes()),
            Some(false) => longest_prefix(&machine.name, deployments()),
            None => longest_prefix(&machine.name, control_planes().chain(deployments())),
        });
        let of_control_plane = || owner.is_some_and(|owner| control_planes().any(|name| name == owner));
        Machine {
            uid: None,
            created_at: None,
            rollout: None,
            certificates_end: None,
            deleted_at: None,
            namespace: RECORDED_NAMESPACE.to_owned(),
            name: machine.name.clone(),
            cluster: self.cluster_of(&machine.name, machine.cluster.as_ref()),
            control_plane: machine.control_plane.unwrap_or_else(of_control_plane),
            owner: owner.cloned(),
            etcd_cluster: None,
            addresses: Vec::new(),
            pool: None,
            generation: machine.generation,
            deleting: machine.deleting,
            spec_version: machine.version.clone(),
            infrastructure_template: None,
            node: machine.node.clone().filter(|node| !node.is_empty()),
            kubelet_version: machine.kubelet_version.clone().filter(|version| !version.is_empty()),
            phase: machine.phase.clone(),
            delete_first: None,
            brake: None,
            hardware: None,
            conditions: conditions(&machine.conditions, &machine.messages),
        }
    }
}

/// The worker group of a recorded MachineDeployment: its own name, as recordings keep no labels.
pub(super) fn group(owner: &RecordedOwner) -> Option<GroupName> {
    owner.name.parse().ok()
}

/// Samples count seconds from the start of the recording; observations are put on a clock that starts at the epoch.
fn read_at(seconds: f64) -> Timestamp {
    SignedDuration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|since| Timestamp::UNIX_EPOCH.checked_add(since).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

fn topology(cluster: &RecordedCluster) -> MachineTopology {
    MachineTopology {
        namespace: RECORDED_NAMESPACE.to_owned(),
        name: cluster.name.clone(),
        generation: cluster.generation,
        paused: cluster.paused || cluster.conditions.get("Paused").is_some_and(|paused| paused.starts_with("True")),
        deleting: cluster.deleting,
        lease: None,
        attempts: None,
        topology_version: cluster.topology_version.clone(),
        control_plane: None,
        conditions: conditions(&cluster.conditions, &cluster.messages),
    }
}

fn is_paused(owner: &RecordedOwner) -> bool {
    owner.paused
        || owner.annotations.iter().any(|annotation| annotation.split('=').next() == Some(PAUSED))
        || owner.conditions.get("Paused").is_some_and(|paused| paused.starts_with("True"))
}

fn conditions(recorded: &BTreeMap<String, String>, messages: &BTreeMap<String, String>) -> BTreeMap<String, Condition> {
    let read = |(name, text): (&String, &String)| {
        let (status, reason) = status_and_reason(text);
        let condition = Condition {
            status: objects::status(status)?,
            reason: reason.to_owned(),
            message: messages.get(name).cloned().unwrap_or_default(),
            observed_generation: None,
        };
        Some((name.clone(), condition))
    };
    recorded.iter().filter_map(read).collect()
}

fn count(number: Option<i64>) -> Option<u32> {
    number?.try_into().ok()
}

/// The longest of `candidates` that `name` is equal to or continues after a dash.
fn longest_prefix<'a>(name: &str, candidates: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    candidates
        .filter(|candidate| {
            name.strip_prefix(candidate.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
        .max_by_key(|candidate| candidate.len())
}

#[cfg(test)]
#[path = "observation_tests.rs"]
mod tests;
