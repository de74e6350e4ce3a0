//! What gates read of an object, as one number.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use kube::core::{ApiResource, DynamicObject};
use serde::Serialize;

use crate::objects::{self, Contract};

/// The digest of the fields that gates read of this object; of a kind that they read no fields of, whether it is there and changed.
pub(super) fn of(resource: &ApiResource, object: &DynamicObject) -> u64 {
    let contract = Contract::of(&resource.version);
    match (resource.group.as_str(), resource.kind.as_str()) {
        // The two count their pods alike.
        ("apps", "Deployment" | "StatefulSet") => of_value(&objects::deployment(object, &[])),
        ("apps", "DaemonSet") => of_value(&objects::daemon_set(object, &[])),
        ("", "Pod") => of_value(&objects::pod(object, "")),
        ("", "Node") => of_value(&objects::node(object)),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => of_value(&objects::custom_resource_definition(object)),
        ("cluster.x-k8s.io", "Cluster") => of_value(&objects::cluster(object, contract)),
        ("cluster.x-k8s.io", "MachineDeployment") => of_value(&objects::machine_deployment(object, contract)),
        ("cluster.x-k8s.io", "MachinePool") => of_value(&objects::machine_pool(object)),
        ("cluster.x-k8s.io", "MachineSet") => of_value(&objects::machine_set(object)),
        ("cluster.x-k8s.io", "Machine") => of_value(&objects::machine(object, contract, &[], &[])),
        ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane") => of_value(&objects::control_plane(object, contract)),
        ("etcdcluster.cluster.x-k8s.io", "EtcdadmCluster") => of_value(&objects::etcdadm_cluster(object)),
        ("anywhere.eks.amazonaws.com", "Cluster") => of_value(&objects::eksa_cluster(object)),
        ("kustomize.toolkit.fluxcd.io", "Kustomization") => of_value(&objects::kustomization(object)),
        ("helm.toolkit.fluxcd.io", "HelmRelease") => of_value(&objects::helm_release(object)),
        ("source.toolkit.fluxcd.io", kind) => of_value(&objects::source(object, kind.to_owned().into())),
        _ => of_value(&(object.metadata.generation, object.metadata.deletion_timestamp.is_some())),
    }
}

fn of_value(value: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    // What cannot be written differs from everything that can; it is then a change once.
    serde_json::to_vec(value).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::client::kind::{DEPLOYMENT, MACHINE_POOL, NODE, STATEFUL_SET};

    fn digest(resource: &ApiResource, object: Value) -> u64 {
        of(resource, &serde_json::from_value(object).unwrap())
    }

    #[test]
    fn only_what_gates_read_is_a_change() {
        let node = NODE.resource("v1");
        let at = |heartbeat: &str, ready: &str| {
            digest(
                &node,
                json!({"metadata": {"name": "a", "resourceVersion": heartbeat},
                "status": {"conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}]}}),
            )
        };
        assert_eq!(at("1", "True"), at("2", "True"));
        assert_ne!(at("1", "True"), at("1", "False"));
        for workload in [DEPLOYMENT.resource("v1"), STATEFUL_SET.resource("v1")] {
            let with = |annotation: &str, ready: u32| {
                digest(
                    &workload,
                    json!({"metadata": {"name": "a", "annotations": {"leader": annotation}}, "status": {"readyReplicas": ready}}),
                )
            };
            assert_eq!(with("a", 1), with("b", 1));
            assert_ne!(with("a", 1), with("a", 2));
        }
        let pool = MACHINE_POOL.resource("v1beta2");
        let in_phase = |phase: &str| digest(&pool, json!({"metadata": {"name": "a"}, "status": {"phase": phase}}));
        assert_ne!(in_phase("Running"), in_phase("Failed"));
    }
}
