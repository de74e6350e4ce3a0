//! External etcd: what moves together with the control plane, and what keeps the control plane from
//! rolling twice.
//!
//! A new member changes the endpoints that the control plane is made with, so that whatever rolls
//! etcd rolls the control plane too. EKS Anywhere sees to the order itself
//! (`pkg/controller/clusters/controlplane.go`), and one field moves both: they move in one step. Of
//! Cluster API's own objects the `EtcdadmCluster` moves first; until its step is done a
//! KubeadmControlPlane that went on would roll once for the endpoints and once for its own change.
//! So it is paused in the step of etcd, in the way of EKS Anywhere's controller, and the step of
//! the control plane brings people's text.

use yaml::{Mapping, Node, Value, emit};

use super::SpecStage;
use super::composite::Move;
use super::side::{PRINTED, Side};
use crate::edit::{self, insert_after};
use crate::object::ObjectId;
use crate::{ClusterKind, ClusterSpec};

/// The group of `EtcdadmCluster`.
const ETCD_GROUP: &str = "etcdcluster.cluster.x-k8s.io";
/// etcdadm-controller takes it away when every member is new; until then a KubeadmControlPlane
/// takes no endpoints over.
const UPGRADING: &str = "etcdcluster.cluster.x-k8s.io/upgrading";
const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Keeps Cluster API from ending the pause by itself when etcd is ready, before the control plane's
/// own change is there.
const SKIP_PAUSE: &str = "cluster.x-k8s.io/skip-pause-cp-managed-etcd";
/// Who has paused the control plane, and why.
const REASON: &str = "stepgate: external etcd is replaced first";

/// Fields of EKS Anywhere's `Cluster` that no member of etcd is made from. Of any other a change
/// counts.
const APART_FROM_ETCD: [&str; 11] = [
    "clusterNetwork",
    "controlPlaneConfiguration",
    "etcdEncryption",
    "gitOpsRef",
    "identityProviderRefs",
    "licenseToken",
    "machineHealthCheck",
    "managementCluster",
    "packages",
    "podIamConfig",
    "workerNodeGroupConfigurations",
];

/// How external etcd moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EtcdMove {
    /// It does not, or it moves by itself.
    Apart,
    /// The step of etcd has everything of the control plane's step too.
    WithControlPlane,
    /// The control plane is paused in the step of etcd.
    Guarded,
}

impl EtcdMove {
    pub fn of(spec: &ClusterSpec, movement: &Move, old: &Side, new: &Side) -> Self {
        match spec.kind {
            ClusterKind::EksAnywhere if spec.external_etcd.is_some() && may_roll(movement, old, new) => {
                Self::WithControlPlane
            }
            ClusterKind::ClusterApi if differs(movement, old, new) || is_left(old, new) => Self::Guarded,
            ClusterKind::EksAnywhere
            | ClusterKind::ClusterApi
            | ClusterKind::ClusterClass
            | ClusterKind::Tanzu
            | ClusterKind::Eksctl => Self::Apart,
        }
    }
}

fn is_etcd(id: &ObjectId) -> bool {
    id.group == ETCD_GROUP && id.kind == "EtcdadmCluster"
}

/// Whether an object of etcd's step changes, apart from the marks of that step.
fn differs(movement: &Move, old: &Side, new: &Side) -> bool {
    let rank = movement.rank_of(&SpecStage::Etcd);
    let is_of_etcd = |id: &&ObjectId| movement.rank(id) == rank;
    let bare = |side: &Side, id: &ObjectId| side.node_of(id).map(without_mark);
    let has_etcd = new.ids().any(is_etcd);
    has_etcd && old.ids().chain(new.ids()).filter(is_of_etcd).any(|id| bare(old, id) != bare(new, id))
}

fn without_mark(node: &Node) -> Node {
    let mut node = node.clone();
    let Some(metadata) = node.get_mut("metadata").and_then(Node::as_mapping_mut) else { return node };
    let mut is_empty = false;
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Node::as_mapping_mut) {
        is_empty = annotations.remove(UPGRADING).is_some() && annotations.is_empty();
    }
    if is_empty {
        metadata.remove("annotations");
    }
    node
}

/// Whether the step of etcd is what is deployed: its mark is nothing that people wrote.
fn is_left(old: &Side, new: &Side) -> bool {
    let is_marked =
        |side: &Side, id: &ObjectId| side.node_of(id).is_some_and(|node| annotation(node, UPGRADING).is_some());
    old.ids().filter(|id| is_etcd(id)).any(|id| is_marked(old, id) && !is_marked(new, id))
}

fn annotation<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    node.at(&["metadata", "annotations"])?.get(name)
}

/// Whether EKS Anywhere may make new members of what changes.
fn may_roll(movement: &Move, old: &Side, new: &Side) -> bool {
    let rank = movement.rank_of(&SpecStage::Etcd);
    let is_made_from = |id: &&ObjectId| {
        **id != movement.cluster && (movement.rank(id) == rank || id.kind.ends_with("DatacenterConfig"))
    };
    let specification = |side: &Side, id: &ObjectId| side.node_of(id).and_then(|node| node.get("spec")).cloned();
    if old.ids().chain(new.ids()).filter(is_made_from).any(|id| specification(old, id) != specification(new, id)) {
        return true;
    }
    let fields = |side: &Side| {
        let specification = specification(side, &movement.cluster).unwrap_or_default();
        let mut fields = specification.as_mapping().cloned().unwrap_or_default();
        for name in APART_FROM_ETCD {
            fields.remove(name);
        }
        fields
    };
    fields(old) != fields(new)
}

/// What an object is in the step of etcd, where that has marks: its text, from the one that it
/// would have without.
pub(super) fn marked(id: &ObjectId, text: &str) -> Option<String> {
    let marks: &[(&str, &str)] = if is_etcd(id) {
        &[(UPGRADING, "true")]
    } else if id.kind == "KubeadmControlPlane" {
        &[(PAUSED, REASON), (SKIP_PAUSE, "true")]
    } else {
        return None;
    };
    let (_, node) = edit::documents(text).ok()?.into_iter().next()?;
    let missing: Vec<(&str, &str)> =
        marks.iter().filter(|(name, _)| annotation(&node, name).is_none()).copied().collect();
    if missing.is_empty() {
        return Some(text.to_owned());
    }
    let wanted = with_annotations(&node, &missing);
    let edited = edited(text, &node, &missing, &wanted);
    Some(edited.unwrap_or_else(|| format!("{PRINTED}{}", emit(&wanted))))
}

fn with_annotations(node: &Node, marks: &[(&str, &str)]) -> Node {
    let mut wanted = node.clone();
    let Some(root) = wanted.as_mapping_mut() else { return wanted };
    let metadata = root.get_or_insert_with("metadata", || Node::from(Mapping::new()));
    let Some(metadata) = metadata.as_mapping_mut() else { return wanted };
    let annotations = metadata.get_or_insert_with("annotations", || Node::from(Mapping::new()));
    if annotations.as_mapping().is_none() {
        annotations.value = Value::Mapping(Mapping::new());
    }
    for (name, value) in marks {
        if let Some(annotations) = annotations.as_mapping_mut() {
            annotations.insert(*name, *value);
        }
    }
    wanted
}

/// The marks behind the last annotation, or behind the object's name, on lines of their own or
/// behind commas; `None` where neither says what it should.
fn edited(text: &str, node: &Node, marks: &[(&str, &str)], wanted: &Node) -> Option<String> {
    let pairs: Vec<String> = marks.iter().map(|(name, value)| format!("{name}: \"{value}\"")).collect();
    let annotations = node.at(&["metadata", "annotations"]);
    let last = annotations.and_then(Node::as_mapping).and_then(|known| known.iter().last());
    let written = match last {
        Some(last) => {
            let indent = " ".repeat(last.key_span.column().saturating_sub(1));
            [pairs.join(&format!("\n{indent}")), pairs.join(", ")]
                .map(|pairs| insert_after(text, last.key_span, last.value.span, &pairs))
        }
        None if annotations.is_some() => return None,
        None => {
            let entry = node.get("metadata")?.as_mapping()?.entry("name")?;
            let indent = " ".repeat(entry.key_span.column().saturating_sub(1));
            let lines: String = pairs.iter().map(|pair| format!("\n{indent}  {pair}")).collect();
            [format!("annotations:{lines}"), format!("annotations: {{{}}}", pairs.join(", "))]
                .map(|annotations| insert_after(text, entry.key_span, entry.value.span, &annotations))
        }
    };
    let says = |edited: &String| {
        edit::documents(edited).is_ok_and(|found| matches!(found.as_slice(), [(_, found)] if found == wanted))
    };
    written.into_iter().find(says)
}
