//! Nodes and the control plane's virtual address.

use kube::core::DynamicObject;
use rollout::{ConditionStatus, Node, NodeOrigin, VirtualAddress};

use crate::objects::fields::{conditions, count, flag, label, name, text, time};

/// Labels with the release of `VMware`'s distribution: of all releases, and of the newer ones.
const RELEASES: [&str; 2] = ["run.tanzu.vmware.com/kubernetesDistributionVersion", "run.tanzu.vmware.com/tkr"];

/// Labels with the name of a node group: of every one that eksctl makes, and of every managed one.
const GROUPS: [&str; 2] = ["alpha.eksctl.io/nodegroup-name", "eks.amazonaws.com/nodegroup"];

/// The taint of a node that is unschedulable.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions that are well while they are False.
const PRESSURES: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"];

/// A Node. Without a `Ready` condition its readiness is unknown.
pub(crate) fn node(object: &DynamicObject) -> Node {
    let conditions = conditions(&object.data, &["status", "conditions"]);
    Node {
        name: name(object),
        ready: conditions.get("Ready").map_or(ConditionStatus::Unknown, |ready| ready.status),
        pressures: PRESSURES
            .into_iter()
            .filter(|name| conditions.get(*name).is_some_and(|known| known.status == ConditionStatus::True))
            .map(str::to_owned)
            .collect(),
        unschedulable: flag(&object.data, &["spec", "unschedulable"]).unwrap_or_default(),
        unschedulable_since: unschedulable_since(object),
        control_plane: object
            .metadata
            .labels
            .as_ref()
            // The value of this label is empty, so its presence counts.
            .is_some_and(|labels| labels.contains_key("node-role.kubernetes.io/control-plane")),
        kubelet_version: text(&object.data, &["status", "nodeInfo", "kubeletVersion"]),
        origin: origin(object),
        release: RELEASES.iter().find_map(|name| label(object, name)).map(str::to_owned),
    }
}

/// When the taint of an unschedulable node was set.
fn unschedulable_since(object: &DynamicObject) -> Option<jiff::Timestamp> {
    let taints = object.data.pointer("/spec/taints").and_then(serde_json::Value::as_array)?;
    let text = |taint: &serde_json::Value, key: &str| taint.get(key)?.as_str().map(str::to_owned);
    let taint = taints.iter().find(|taint| text(taint, "key").as_deref() == Some(UNSCHEDULABLE))?;
    text(taint, "timeAdded")?.parse().ok()
}

/// What made a node of EKS, by the labels that EKS, eksctl and Karpenter set.
fn origin(object: &DynamicObject) -> Option<NodeOrigin> {
    let group = GROUPS.iter().find_map(|name| label(object, name));
    let karpenter = label(object, "karpenter.sh/nodepool").map(|_| "karpenter");
    match (label(object, "eks.amazonaws.com/compute-type"), group) {
        (Some("fargate"), _) => Some(NodeOrigin::Fargate),
        (_, Some(group)) => Some(NodeOrigin::Group(group.to_owned())),
        (Some(other), None) => Some(NodeOrigin::Other(other.to_owned())),
        (None, None) => karpenter.map(|name| NodeOrigin::Other(name.to_owned())),
    }
}

/// The holder of kube-vip's Lease.
pub(crate) fn virtual_address(lease: &DynamicObject) -> VirtualAddress {
    VirtualAddress {
        holder: text(&lease.data, &["spec", "holderIdentity"]),
        renewed_at: time(&lease.data, &["spec", "renewTime"]),
        transitions: count(&lease.data, &["spec", "leaseTransitions"]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_read_with_its_role_and_kubelet() {
        let read = |data: serde_json::Value| node(&serde_json::from_value(data).unwrap());
        let control_plane = read(json!({
            "metadata": {"name": "a", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": true, "taints": [
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"},
                {"type": "PIDPressure", "status": "False"}], "nodeInfo": {"kubeletVersion": "v1.34.1-eks-1"}}
        }));
        assert_eq!(control_plane.pressures, ["DiskPressure"]);
        assert_eq!(control_plane.unschedulable_since, Some("2026-01-02T03:04:05Z".parse().unwrap()));
        assert!(control_plane.control_plane && control_plane.unschedulable);
        assert_eq!(control_plane.ready, ConditionStatus::True);
        assert_eq!(control_plane.kubelet_version.as_deref(), Some("v1.34.1-eks-1"));
        let silent = read(json!({"metadata": {"name": "b"}, "status": {"nodeInfo": {"kubeletVersion": ""}}}));
        assert_eq!(
            (silent.ready, silent.kubelet_version, silent.control_plane),
            (ConditionStatus::Unknown, None, false)
        );
    }

    #[test]
    fn the_lease_names_the_holder_of_the_address() {
        let lease = serde_json::from_value(json!({
            "metadata": {"name": "plndr-cp-lock", "namespace": "kube-system"},
            "spec": {"holderIdentity": "cp-2", "renewTime": "2026-01-02T03:04:05.000000Z"}
        }));
        let address = virtual_address(&lease.unwrap());
        assert_eq!(address.holder.as_deref(), Some("cp-2"));
        assert_eq!(address.renewed_at, Some("2026-01-02T03:04:05Z".parse().unwrap()));
    }
}
