//! The controller of a `ClusterClass` has carried out the topology that Flux applied.

use crate::gate::findings::{Findings, describe};
use crate::observation::{ConditionStatus, MachineTopology};
use crate::verdict::Reason;

/// Reasons of `TopologyReconciled` False with which every object is written, but for parts that wait for their turn to be upgraded. Whether
/// that is the part in question shows in its own `spec.version`.
const WRITTEN: [&str; 7] = [
    "ClusterUpgrading",
    "MachineDeploymentsCreatePending",
    "MachineDeploymentsUpgradePending",
    "MachineDeploymentsUpgradeDeferred",
    "MachinePoolsCreatePending",
    "MachinePoolsUpgradePending",
    "MachinePoolsUpgradeDeferred",
];

/// `status.observedGeneration` of a Cluster moves without any progress of its topology; the condition's own does not
/// (`kubernetes-sigs/cluster-api` #11292).
pub(in crate::gate) fn check(subject: &str, cluster: &MachineTopology, help: &str, findings: &mut Findings) {
    if cluster.topology_version.is_none() {
        return;
    }
    let field = "status.conditions[TopologyReconciled]";
    let Some(condition) = cluster.conditions.get("TopologyReconciled") else {
        findings.wait(Reason::on(subject, "not reported").field(field).help(help));
        return;
    };
    let written = condition.status == ConditionStatus::True
        || condition.status == ConditionStatus::False && WRITTEN.contains(&condition.reason.as_str());
    if !written {
        let message = format!("{}, True expected", describe(condition));
        findings.wait(Reason::on(subject, message).field(field).help(help));
    } else if let (Some(observed), Some(generation)) = (condition.observed_generation, cluster.generation)
        && observed != generation
    {
        let message = format!("of generation {observed}, but the object is at generation {generation}");
        findings.wait(Reason::on(subject, message).field(field).help(help));
    }
}
