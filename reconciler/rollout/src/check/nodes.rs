//! Whether nodes are fit to take what is moved to them.

use crate::observation::{ConditionStatus, Node};
use policy::CheckName;

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};

pub(super) const CHECK: Check = Check {
    name: CheckName::Nodes,
    looks_at: "nodes: Ready, cordoned, under pressure",
    severity: CheckSeverity::Blocking,
    remedy: "kubectl get nodes",
    judge,
};

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let observation = judged.observation;
    if let Some(reason) = observation.unread.get("Node") {
        return vec![CheckFinding::unknown(format!("nodes could not be read: {reason}"))];
    }
    observation.nodes.iter().flat_map(of_node).collect()
}

fn of_node(node: &Node) -> Vec<CheckFinding> {
    let object = || FoundObject { kind: "Node".to_owned(), namespace: None, name: node.name.clone() };
    let describe = format!("kubectl describe node {}", node.name);
    let mut findings = Vec::new();
    if node.ready != ConditionStatus::True {
        let message = format!("Ready is {}, so it takes no pod", node.ready);
        findings.push(CheckFinding::fail(message).on(object()).remedy(&describe));
    }
    for pressure in &node.pressures {
        let message = format!("{pressure} is True: its kubelet evicts pods, or none can run there");
        findings.push(CheckFinding::fail(message).on(object()).remedy(&describe));
    }
    if node.unschedulable {
        let message = "is cordoned, so pods that are moved away from other nodes do not come here";
        let remedy = format!("kubectl uncordon {}, where nobody works on it any more", node.name);
        findings.push(CheckFinding::warn(message).on(object()).remedy(remedy));
    }
    findings
}
