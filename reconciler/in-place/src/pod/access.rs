//! What the Pods of nodes may do in their cluster, and nothing else.

use serde_json::{Value, json};

/// The namespace of the Pods, in the cluster whose nodes are upgraded.
pub const NAMESPACE: &str = "stepgate-nodes";

/// Who the Pods are for the API server.
pub const SERVICE_ACCOUNT: &str = "stepgate-node";

/// What is applied to the cluster of the nodes before the first Pod, in order.
#[must_use]
pub fn access() -> Vec<Value> {
    let labels = json!({"app.kubernetes.io/managed-by": "stepgate", "app.kubernetes.io/name": "stepgate-node"});
    let mut namespace_labels = labels.clone();
    if let Some(labels) = namespace_labels.as_object_mut() {
        // The Pods replace programs of the node.
        labels.insert(String::from("pod-security.kubernetes.io/enforce"), json!("privileged"));
    }
    let subjects = json!([{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}]);
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": namespace_labels}}),
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": SERVICE_ACCOUNT, "namespace": NAMESPACE, "labels": labels},
            "automountServiceAccountToken": false,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": SERVICE_ACCOUNT, "labels": labels},
            "rules": [
                // Cordon and uncordon; the proof.
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
                // The drain: as budgets let it, never by force.
                {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": SERVICE_ACCOUNT, "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SERVICE_ACCOUNT},
            "subjects": subjects,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": SERVICE_ACCOUNT, "namespace": "kube-system", "labels": labels},
            "rules": [
                // Which images kubeadm will start, to have them on the node before it is drained.
                {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["kubeadm-config"], "verbs": ["get"]},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": SERVICE_ACCOUNT, "namespace": "kube-system", "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": SERVICE_ACCOUNT},
            "subjects": subjects,
        }),
    ]
}
