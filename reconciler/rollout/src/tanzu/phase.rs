//! The phase of a cluster of Tanzu, in the words of its interface: derived, whoever carries the cluster out.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gate::attempts::TRIES;
use crate::gate::is_outdated;
use crate::observation::{ConditionStatus, Machine, MachineTopology, Observation};

/// How far a cluster of Tanzu is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TanzuPhase {
    /// Its control plane does not answer yet.
    Creating,
    /// Nothing of it is on its way.
    Running,
    /// Machines of it are being made or replaced.
    Updating,
    /// Machines did not come up however often they were made: people have to look.
    UpdateFailed,
    /// It is being deleted.
    Deleting,
    /// It could not be made, or a machine of it has failed for good.
    Failed,
}

impl TanzuPhase {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Running => "running",
            Self::Updating => "updating",
            Self::UpdateFailed => "updateFailed",
            Self::Deleting => "deleting",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for TanzuPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Kinds that tell it of a rendered cluster.
pub(crate) const RENDERED_KINDS: [&str; 4] = ["Cluster", "KubeadmControlPlane", "MachineDeployment", "Machine"];

/// The phase of a rendered cluster; none where what tells it was not read, or is not there.
#[must_use]
pub fn rendered_phase(namespace: &str, name: &str, observation: &Observation) -> Option<TanzuPhase> {
    if RENDERED_KINDS.iter().any(|kind| observation.unread.contains_key(*kind)) {
        return None;
    }
    let cluster = observation.clusters.iter().find(|known| known.namespace == namespace && known.name == name)?;
    let is_its = |machine: &&Machine| machine.namespace == namespace && machine.cluster == name;
    let machines: Vec<&Machine> = observation.machines.iter().filter(is_its).collect();
    let is_made = cluster.conditions.get("ControlPlaneInitialized").is_none_or(|it| it.status == ConditionStatus::True);
    let has_failed = is_used_up(cluster, &machines);
    Some(match (cluster.deleting, has_failed, is_made) {
        (true, ..) => TanzuPhase::Deleting,
        (_, true, true) => TanzuPhase::UpdateFailed,
        (_, true, false) => TanzuPhase::Failed,
        _ if machines.iter().any(|machine| machine.phase.as_deref() == Some("Failed")) => TanzuPhase::Failed,
        (.., false) => TanzuPhase::Creating,
        _ if is_on_its_way(namespace, name, &machines, observation) => TanzuPhase::Updating,
        _ => TanzuPhase::Running,
    })
}

/// Whether a machine of the last attempt is there and still has no node.
fn is_used_up(cluster: &MachineTopology, machines: &[&Machine]) -> bool {
    let failed = cluster.attempts.as_ref().map(|attempts| attempts.failed.as_slice()).unwrap_or_default();
    let last = failed.last().filter(|_| failed.len() >= TRIES);
    let is_known = |uid: &str| last.is_some_and(|last| last.machines.iter().any(|machine| machine.uid == uid));
    machines
        .iter()
        .any(|machine| machine.node.is_none() && !machine.deleting && machine.uid.as_deref().is_some_and(is_known))
}

fn is_on_its_way(namespace: &str, name: &str, machines: &[&Machine], observation: &Observation) -> bool {
    let planes =
        observation.control_planes.iter().filter(|known| known.namespace == namespace && known.cluster == name);
    let pools = observation.machine_deployments.iter();
    let pools = pools.filter(|known| known.namespace == namespace && known.cluster == name);
    let is_behind = |generation: i64, observed: Option<i64>| observed != Some(generation);
    let are_short = |wanted: Option<u32>, counts: [Option<u32>; 2]| counts.iter().any(|count| *count != wanted);
    let of_planes = planes.clone().any(|known| {
        is_behind(known.generation, known.observed_generation)
            || are_short(known.spec_replicas, [known.replicas, known.up_to_date_replicas])
    });
    let of_pools = pools.clone().any(|known| {
        is_behind(known.generation, known.observed_generation)
            || are_short(known.spec_replicas, [known.replicas, known.up_to_date_replicas])
    });
    let is_moving = |machine: &&Machine| {
        let owner = planes.clone().find(|known| machine.owner.as_deref() == Some(known.name.as_str()));
        machine.deleting || machine.node.is_none() || owner.is_some_and(|owner| is_outdated(machine, owner))
    };
    of_planes || of_pools || machines.iter().any(is_moving)
}

/// The phase of a cluster that a Supervisor carries out: what it says, unless its machines say otherwise.
#[must_use]
pub fn front_phase(namespace: &str, name: &str, observation: &Observation) -> Option<TanzuPhase> {
    let mut known = observation.tanzu_clusters.iter();
    let cluster = known.find(|known| known.namespace == namespace && known.name == name)?;
    if cluster.deleting {
        return Some(TanzuPhase::Deleting);
    }
    let is_ready = || cluster.conditions.get("Ready").map(|ready| ready.status == ConditionStatus::True);
    match cluster.phase.as_deref() {
        Some("creating") => Some(TanzuPhase::Creating),
        Some("running") => Some(TanzuPhase::Running),
        Some("updating") => Some(TanzuPhase::Updating),
        Some("updateFailed") => Some(TanzuPhase::UpdateFailed),
        Some("deleting") => Some(TanzuPhase::Deleting),
        Some("failed") => Some(TanzuPhase::Failed),
        // Later interfaces need not tell it: their conditions do.
        _ if cluster.failure.is_some() => Some(TanzuPhase::UpdateFailed),
        _ => is_ready().map(|ready| if ready { TanzuPhase::Running } else { TanzuPhase::Updating }),
    }
}
