//! `MachinePool`s, in v1beta2 and in v1beta1.
//!
//! Cluster API counts the nodes of a pool under v1beta1's names in both versions; in v1beta2 these lie under `status.deprecated.v1beta1`.

use kube::core::DynamicObject;
use rollout::MachinePool;
use serde_json::Value;

use crate::objects::cluster_api::{bootstrap_template, cluster_name, infrastructure_template, is_paused};
use crate::objects::fields::{at, conditions, count, deleting, generation, label, list, name, namespace, number, text};

const TOPOLOGY_POOL_NAME: &str = "topology.cluster.x-k8s.io/pool-name";

/// A `MachinePool`.
pub(crate) fn machine_pool(object: &DynamicObject) -> MachinePool {
    let data = &object.data;
    let status = at(data, &["status"]).unwrap_or(&Value::Null);
    let [old, new] = [["deprecated", "v1beta1"].as_slice(), &["v1beta2"]].map(|path| at(status, path));
    let counted = |field: &str| count(status, &[field]).or_else(|| old.and_then(|old| count(old, &[field])));
    let failure = |field: &str| text(status, &[field]).or_else(|| text(old?, &[field]));
    let mut reported = old.map(|old| conditions(old, &["conditions"])).unwrap_or_default();
    reported.extend(conditions(status, &["conditions"]));
    reported.extend(new.map(|new| conditions(new, &["conditions"])).unwrap_or_default());
    let nodes = at(status, &["nodeRefs"]).map(|_| list(status, &["nodeRefs"]));
    MachinePool {
        namespace: namespace(object),
        name: name(object),
        cluster: text(data, &["spec", "clusterName"]).unwrap_or_else(|| cluster_name(object)),
        group: label(object, TOPOLOGY_POOL_NAME).unwrap_or(&name(object)).parse().ok(),
        generation: generation(object),
        observed_generation: number(status, &["observedGeneration"]),
        paused: is_paused(object),
        deleting: deleting(object),
        spec_version: text(data, &["spec", "template", "spec", "version"]),
        spec_replicas: count(data, &["spec", "replicas"]),
        replicas: count(status, &["replicas"]),
        ready_replicas: counted("readyReplicas"),
        up_to_date_replicas: count(status, &["upToDateReplicas"]).or_else(|| count(new?, &["upToDateReplicas"])),
        phase: text(status, &["phase"]),
        failure: failure("failureMessage").or_else(|| failure("failureReason")),
        nodes: nodes.map(|nodes| nodes.iter().filter_map(|node| text(node, &["name"])).collect()),
        conditions: reported,
        infrastructure_template: infrastructure_template(data),
        bootstrap_template: bootstrap_template(data),
    }
}
