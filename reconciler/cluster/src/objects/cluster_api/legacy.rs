//! What v1beta2 would say of Cluster API objects below 1.9, which report v1beta1's status alone.
//!
//! A condition that v1beta1 has no equivalent for is derived from what it does have and marked `Derived`; where there is
//! nothing to derive it from it stays absent, and its gate waits.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use rollout::{Condition, ConditionStatus, ControlPlane, MachineDeployment};
use serde_json::Value;

use crate::objects::fields::{annotation, at, conditions, count, derived};

const REMEDIATION_IN_PROGRESS: &str = "controlplane.cluster.x-k8s.io/remediation-in-progress";

/// A mark in the conditions of a Machine that was read this way.
const MARK: &str = "stepgate.dev/V1Beta1";

/// Completes a KubeadmControlPlane whose names and specification are read already.
pub(in crate::objects) fn control_plane(read: ControlPlane, object: &DynamicObject) -> ControlPlane {
    let data = &object.data;
    let old = conditions(data, &["status", "conditions"]);
    let mut new = BTreeMap::new();
    for name in ["MachinesReady", "CertificatesAvailable", "EtcdClusterHealthy", "ControlPlaneComponentsHealthy"] {
        copy(&old, name, &mut new, name);
    }
    let status = at(data, &["status"]).unwrap_or(&Value::Null);
    let (replicas, up_to_date) = (counted(status, "replicas"), counted(status, "updatedReplicas"));
    copy(&old, "MachinesSpecUpToDate", &mut new, "MachinesUpToDate");
    match old.get("MachinesSpecUpToDate").map(|condition| condition.status) {
        Some(ConditionStatus::Unknown) => {}
        Some(up_to_date) => {
            let rolling_out = up_to_date == ConditionStatus::False;
            new.insert(String::from("RollingOut"), derived(rolling_out, "from MachinesSpecUpToDate"));
        }
        // It is written when a rollout begins: a control plane that never rolled has its counts alone.
        None => add_counted_rollout(replicas, up_to_date, &mut new),
    }
    match old.get("Resized") {
        Some(resized) if resized.status == ConditionStatus::Unknown => {}
        Some(resized) => {
            for name in ["ScalingUp", "ScalingDown"] {
                let scaling = resized.status == ConditionStatus::False && resized.reason == name;
                new.insert(name.to_owned(), derived(scaling, "from Resized"));
            }
        }
        None => add_counted_scaling(replicas, read.spec_replicas, &mut new),
    }
    if let Some(available) = old.get("Available") {
        // v1beta1 calls a control plane available once it is initialised; v1beta2 asks for etcd's quorum and components too.
        let sick = ["EtcdClusterHealthy", "ControlPlaneComponentsHealthy"]
            .iter()
            .any(|name| is(&old, name, ConditionStatus::False));
        let condition = if sick { derived(false, "etcd or components are not healthy") } else { available.clone() };
        new.insert(String::from("Available"), condition);
    }
    let remediating = annotation(object, REMEDIATION_IN_PROGRESS).is_some();
    new.insert(String::from("Remediating"), derived(remediating, "from the annotation of a remediation in progress"));
    new.insert(String::from("Deleting"), derived(read.deleting, "from metadata.deletionTimestamp"));
    new.insert(String::from("Paused"), derived(read.paused, "from the pause annotation"));
    ControlPlane {
        replicas,
        up_to_date_replicas: up_to_date,
        ready_replicas: counted(status, "readyReplicas"),
        available_replicas: Option::zip(replicas, counted(status, "unavailableReplicas"))
            .map(|(replicas, unavailable)| replicas.saturating_sub(unavailable)),
        conditions: new,
        ..read
    }
}

/// Completes a MachineDeployment whose names and specification are read already.
pub(in crate::objects) fn machine_deployment(read: MachineDeployment, object: &DynamicObject) -> MachineDeployment {
    let status = at(&object.data, &["status"]).unwrap_or(&Value::Null);
    let (replicas, up_to_date) = (counted(status, "replicas"), counted(status, "updatedReplicas"));
    let ready = counted(status, "readyReplicas");
    let mut new = BTreeMap::new();
    copy(&conditions(status, &["conditions"]), "Available", &mut new, "Available");
    add_counted_rollout(replicas, up_to_date, &mut new);
    if let Some((replicas, ready)) = Option::zip(replicas, ready) {
        new.insert(String::from("MachinesReady"), derived(ready == replicas, "from status.readyReplicas"));
    }
    add_counted_scaling(replicas, read.spec_replicas, &mut new);
    new.insert(String::from("Deleting"), derived(read.deleting, "from metadata.deletionTimestamp"));
    new.insert(String::from("Paused"), derived(read.paused, "from the pause annotation"));
    // A MachineDeployment of v1beta1 does not say that it remediates; its Machines' OwnerRemediated does, and is read there.
    new.insert(String::from("Remediating"), derived(false, "not reported by v1beta1"));
    MachineDeployment {
        replicas,
        up_to_date_replicas: up_to_date,
        ready_replicas: ready,
        available_replicas: counted(status, "availableReplicas"),
        conditions: new,
        ..read
    }
}

/// The conditions of a Machine, whose names are mostly the same in both.
pub(in crate::objects) fn machine_conditions(object: &DynamicObject) -> BTreeMap<String, Condition> {
    let mut conditions = conditions(&object.data, &["status", "conditions"]);
    if let Some(ready) = conditions.get("Ready").cloned() {
        conditions.entry(String::from("Available")).or_insert(ready);
    }
    if let Some(bootstrap) = conditions.remove("BootstrapReady") {
        conditions.insert(String::from("BootstrapConfigReady"), bootstrap);
    }
    conditions.insert(MARK.to_owned(), derived(true, "read through v1beta1"));
    conditions
}

/// Whether a Machine's conditions were read this way.
pub(in crate::objects) fn is_legacy(conditions: &BTreeMap<String, Condition>) -> bool {
    conditions.contains_key(MARK)
}

/// Whether machines are replaced, from how many are up to date.
pub(in crate::objects) fn add_counted_rollout(
    replicas: Option<u32>,
    up_to_date: Option<u32>,
    conditions: &mut BTreeMap<String, Condition>,
) {
    let Some((replicas, up_to_date)) = Option::zip(replicas, up_to_date) else { return };
    for (name, holds) in [("MachinesUpToDate", up_to_date == replicas), ("RollingOut", up_to_date != replicas)] {
        let condition = derived(holds, "from the count of machines that are up to date");
        conditions.entry(name.to_owned()).or_insert(condition);
    }
}

/// Whether machines are added or taken away, from how many there are.
fn add_counted_scaling(replicas: Option<u32>, desired: Option<u32>, conditions: &mut BTreeMap<String, Condition>) {
    let Some((replicas, desired)) = Option::zip(replicas, desired) else { return };
    for (name, holds) in [("ScalingUp", replicas < desired), ("ScalingDown", replicas > desired)] {
        conditions.entry(name.to_owned()).or_insert(derived(holds, "from status.replicas"));
    }
}

fn copy(old: &BTreeMap<String, Condition>, from: &str, new: &mut BTreeMap<String, Condition>, to: &str) {
    if let Some(condition) = old.get(from) {
        new.insert(to.to_owned(), condition.clone());
    }
}

fn is(conditions: &BTreeMap<String, Condition>, name: &str, status: ConditionStatus) -> bool {
    conditions.get(name).is_some_and(|condition| condition.status == status)
}

/// A count that v1beta1 leaves out when it is zero. Before the first reconcile nothing is known.
fn counted(status: &Value, field: &str) -> Option<u32> {
    at(status, &["observedGeneration"])?;
    Some(count(status, &[field]).unwrap_or_default())
}
