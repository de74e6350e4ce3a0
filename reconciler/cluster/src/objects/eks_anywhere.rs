//! EKS Anywhere's `Cluster`.

use kube::core::DynamicObject;
use rollout::EksaCluster;

use super::fields::{annotation, deleting, generation, name, namespace, number, text};

const PAUSED: &str = "anywhere.eks.amazonaws.com/paused";

/// A `Cluster` of `anywhere.eks.amazonaws.com`.
pub(crate) fn eksa_cluster(object: &DynamicObject) -> EksaCluster {
    let data = &object.data;
    EksaCluster {
        namespace: namespace(object),
        name: name(object),
        generation: generation(object),
        observed_generation: number(data, &["status", "observedGeneration"]),
        reconciled_generation: number(data, &["status", "reconciledGeneration"]),
        children_reconciled_generation: number(data, &["status", "childrenReconciledGeneration"]),
        paused: annotation(object, PAUSED).is_some_and(|value| value != "false"),
        deleting: deleting(object),
        failure: text(data, &["status", "failureMessage"]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(data: serde_json::Value) -> EksaCluster {
        eksa_cluster(&serde_json::from_value(data).unwrap())
    }

    #[test]
    fn what_the_controller_has_carried_out_is_told_apart_from_what_it_has_seen() {
        let cluster = read(json!({
            "metadata": {"name": "prod", "namespace": "default", "generation": 7},
            "status": {"observedGeneration": 7, "reconciledGeneration": 6, "childrenReconciledGeneration": 12,
                "failureMessage": "machine config prod-cp not found"}
        }));
        assert_eq!(
            (cluster.generation, cluster.observed_generation, cluster.reconciled_generation),
            (7, Some(7), Some(6))
        );
        assert_eq!(cluster.children_reconciled_generation, Some(12));
        assert_eq!(cluster.failure.as_deref(), Some("machine config prod-cp not found"));
        let silent = read(json!({"metadata": {"name": "prod", "namespace": "default", "generation": 1}}));
        assert_eq!((silent.observed_generation, silent.reconciled_generation, silent.failure), (None, None, None));
    }

    #[test]
    fn a_pause_is_an_annotation() {
        for (annotations, paused) in [
            (json!({}), false),
            (json!({"anywhere.eks.amazonaws.com/paused": "true"}), true),
            (json!({"anywhere.eks.amazonaws.com/paused": "false"}), false),
        ] {
            assert_eq!(read(json!({"metadata": {"name": "a", "annotations": annotations}})).paused, paused);
        }
    }
}
