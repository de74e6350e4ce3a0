//! Whether the nodes of a control plane that rolls carry its address as the gate expects it of new ones.
//!
//! A gate that waits for a pod or a Lease which this cluster never has could never pass.

use std::collections::BTreeSet;

use crate::expectation::ControlPlaneAddress;
use crate::gate::is_same_host;
use crate::observation::Observation;
use policy::CheckName;

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};

/// Where kube-vip runs, and its Lease is.
const SYSTEM: &str = "kube-system";

pub(super) const CHECK: Check = Check {
    name: CheckName::VirtualAddress,
    looks_at: "kube-vip on nodes of a control plane that rolls, and the Lease of its address",
    severity: CheckSeverity::Blocking,
    remedy: "kubectl get leases,pods -n kube-system -o wide",
    judge,
};

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let Some(address) = &judged.expectation.address else { return Vec::new() };
    let observation = judged.observation;
    let unread = ["Machine", "Pod", "Lease"].into_iter().find_map(|kind| {
        let reason = observation.unread.get(kind)?;
        Some(CheckFinding::unknown(format!("{kind} could not be read: {reason}")))
    });
    if let Some(unread) = unread {
        return vec![unread];
    }
    let nodes = nodes_of(address, observation);
    if nodes.is_empty() {
        let message = format!("no machine of the control plane of {} has a node", address.cluster);
        return vec![CheckFinding::unknown(message)];
    }
    let mut findings = Vec::new();
    if address.kube_vip {
        findings.extend(pods(&nodes, observation));
    }
    findings.extend(lease(address, &nodes, observation));
    findings
}

fn nodes_of<'a>(address: &ControlPlaneAddress, observation: &'a Observation) -> BTreeSet<&'a str> {
    let own = observation.machines.iter().filter(|machine| {
        machine.control_plane && machine.namespace == address.namespace && machine.cluster == address.cluster
    });
    own.filter_map(|machine| machine.node.as_deref()).collect()
}

/// kube-vip on each of them.
fn pods(nodes: &BTreeSet<&str>, observation: &Observation) -> Vec<CheckFinding> {
    let runs = |node: &str| {
        let mut pods = observation.pods.iter().filter(|pod| pod.application == "kube-vip");
        pods.any(|pod| pod.ready && pod.node.as_deref() == Some(node))
    };
    let without: Vec<&str> = nodes.iter().copied().filter(|node| !runs(node)).collect();
    if without.len() == nodes.len() {
        let message = "kube-vip, which the specification brings, is ready on no node of the control plane";
        let remedy = "kubectl get pods -n kube-system -o wide; where something else carries the address, say so: \
                      EKS Anywhere has controlPlaneConfiguration.skipLoadBalancerDeployment";
        return vec![CheckFinding::fail(message).remedy(remedy)];
    }
    let finding = |node: &str| {
        let object = FoundObject { kind: "Node".to_owned(), namespace: None, name: node.to_owned() };
        CheckFinding::warn("no pod of kube-vip is ready there").on(object)
    };
    without.into_iter().map(finding).collect()
}

/// The Lease is held by one of them.
fn lease(address: &ControlPlaneAddress, nodes: &BTreeSet<&str>, observation: &Observation) -> Option<CheckFinding> {
    let name = address.lease.as_deref()?;
    let holder = observation.virtual_address.as_ref().map(|known| known.holder.as_deref());
    let message = match holder {
        Some(Some(host)) if nodes.iter().any(|node| is_same_host(node, host)) => return None,
        Some(Some(host)) => format!("is held by {host}, which is not a node of the control plane"),
        Some(None) => "is held by nobody".to_owned(),
        None => "is not there, so nobody can tell which node holds the address".to_owned(),
    };
    let object = FoundObject { kind: "Lease".to_owned(), namespace: Some(SYSTEM.to_owned()), name: name.to_owned() };
    let remedy = if address.kube_vip {
        "kubectl get leases -n kube-system; kube-vip's vip_leasename names it".to_owned()
    } else {
        format!("kubectl get leases -n kube-system; stages.control-plane.lease in stepgate.yaml says {name}")
    };
    Some(CheckFinding::fail(message).on(object).remedy(remedy))
}
