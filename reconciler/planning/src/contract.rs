//! What a plan says of a control plane that is known by Cluster API's contract alone.

use overlays::{ClusterKind, ClusterSpec};
use rollout::{Risk, RiskKind};
use yaml::Node;

const KUBEADM: &str = "KubeadmControlPlane";

/// API groups that the `ClusterRole` of an installation lets Stepgate read.
const READABLE: [&str; 2] = ["controlplane.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"];

/// What its gate cannot tell, where the control plane is of another kind than Cluster API's own.
pub(crate) fn risks(cluster: &ClusterSpec, objects: &[Node]) -> Vec<Risk> {
    let Some((group, kind)) = kind(cluster, objects).filter(|(_, kind)| kind != KUBEADM) else { return Vec::new() };
    let judged = format!(
        "{kind} is judged by Cluster API's contract: version, counts, conditions and machines that it reports; \
         etcd, certificates and components are not looked at"
    );
    let mut risks = vec![Risk::new(RiskKind::GateReach, judged)];
    if !READABLE.contains(&group.as_str()) {
        let unreadable = format!(
            "{kind} is of API group {group}, which the ClusterRole stepgate does not cover: add a rule with get and list for it"
        );
        risks.push(Risk::new(RiskKind::Unreadable, unreadable));
    }
    risks
}

/// API group and kind of its control plane, where the specification tells.
fn kind(cluster: &ClusterSpec, objects: &[Node]) -> Option<(String, String)> {
    match cluster.kind {
        ClusterKind::ClusterApi => referred(cluster.node.at(&["spec", "controlPlaneRef"])?),
        ClusterKind::ClusterClass => {
            let text = |path: &[&str]| cluster.node.at(path)?.as_str();
            let class =
                text(&["spec", "topology", "class"]).or_else(|| text(&["spec", "topology", "classRef", "name"]))?;
            let class = objects.iter().find(|node| {
                node.get("kind").and_then(Node::as_str) == Some("ClusterClass")
                    && node.at(&["metadata", "name"]).and_then(Node::as_str) == Some(class)
            })?;
            let template = class.at(&["spec", "controlPlane"])?;
            let (group, kind) = referred(template.get("templateRef").or_else(|| template.get("ref"))?)?;
            Some((group, kind.trim_end_matches("Template").to_owned()))
        }
        ClusterKind::EksAnywhere | ClusterKind::Tanzu | ClusterKind::Eksctl => None,
    }
}

fn referred(reference: &Node) -> Option<(String, String)> {
    let text = |name: &str| reference.get(name).and_then(Node::as_str);
    let group = text("apiGroup").or_else(|| Some(text("apiVersion")?.split_once('/')?.0));
    Some((group.unwrap_or("controlplane.cluster.x-k8s.io").to_owned(), text("kind")?.to_owned()))
}
