//! The `NetworkPolicy` objects that EKS Anywhere adds to Cilium in policy mode `always`, so that its own parts can still talk.

use yaml::{Mapping, Node};

use super::RenderRequest;
use crate::Provider;

/// The namespaces of the management components; those of a workload cluster end with the first.
const NAMESPACES: [&str; 8] = [
    "kube-system",
    "eksa-system",
    "capi-system",
    "cert-manager",
    "capi-kubeadm-bootstrap-system",
    "capi-kubeadm-control-plane-system",
    "etcdadm-bootstrap-provider-system",
    "etcdadm-controller-system",
];

/// One policy that allows everything for each namespace of the cluster's components; none unless the specification says
/// `policyEnforcementMode: always`. The namespaces themselves belong to the components.
pub(super) fn policies(request: &RenderRequest<'_>) -> Vec<Node> {
    let mode = request.cluster.node.at(&["spec", "clusterNetwork", "cniConfig", "cilium", "policyEnforcementMode"]);
    if mode.and_then(Node::as_str) != Some("always") {
        return Vec::new();
    }
    if !request.cluster.is_management() {
        return NAMESPACES.iter().take(1).map(|namespace| policy(namespace)).collect();
    }
    let provider = match &request.cluster.provider {
        Provider::Docker => Some("capd-system"),
        Provider::VSphere => Some("capv-system"),
        Provider::Tinkerbell => Some("capt-system"),
        Provider::Nutanix => Some("capx-system"),
        Provider::Snow => Some("capas-system"),
        Provider::CloudStack => Some("capc-system"),
        Provider::Other(_) => None,
    };
    let flux = request.fleet.policy.flux.namespace.as_str();
    NAMESPACES.into_iter().chain(provider).chain([flux]).map(policy).collect()
}

fn policy(namespace: &str) -> Node {
    let map = |entries: Vec<(&str, Node)>| {
        Node::from(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Mapping>())
    };
    let everything = || Node::from(vec![map(Vec::new())]);
    map(vec![
        ("apiVersion", Node::from("networking.k8s.io/v1")),
        ("kind", Node::from("NetworkPolicy")),
        (
            "metadata",
            map(vec![("name", Node::from(format!("allow-all-{namespace}"))), ("namespace", Node::from(namespace))]),
        ),
        (
            "spec",
            map(vec![
                ("podSelector", map(Vec::new())),
                ("ingress", everything()),
                ("egress", everything()),
                ("policyTypes", Node::from(vec![Node::from("Ingress"), Node::from("Egress")])),
            ]),
        ),
    ])
}
