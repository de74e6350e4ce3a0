//! In which order the parts of a `ClusterConfig` go.

use yaml::Node;

use super::{addons, node_groups, stem};
use crate::SpecStage;

/// Add-ons that speak to the API server on every node go before those that people see.
const FIRST: [&str; 3] = ["kube-proxy", "vpc-cni", "coredns"];

/// Every stage of a `ClusterConfig`: control plane, add-ons, then each node group followed by those that it replaces; on the
/// way `down` the node groups, the add-ons and the control plane, since nothing is newer than its API server.
///
/// `order` are its node groups as the policy orders them, `old` those that it has no longer.
#[must_use]
pub fn sequence(root: &Node, order: &[&str], old: &[&str], down: bool) -> Vec<SpecStage> {
    let mut groups: Vec<SpecStage> = Vec::new();
    let mut left: Vec<&str> = old.iter().copied().filter(|name| !order.contains(name)).collect();
    for name in order {
        groups.push(SpecStage::Workers((*name).to_owned()));
        let own = stem(root, name);
        let (replaced, others): (Vec<&str>, Vec<&str>) = left.into_iter().partition(|old| stem(root, old) == own);
        groups.extend(replaced.into_iter().map(|old| SpecStage::Workers(old.to_owned())));
        left = others;
    }
    groups.extend(left.into_iter().map(|old| SpecStage::Workers(old.to_owned())));
    let mut names: Vec<&str> = addons(root).map(|(name, _)| name).collect();
    names.sort_by_key(|name| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    let control_plane = std::iter::once(SpecStage::ControlPlane);
    let addons = names.into_iter().map(|name| SpecStage::Addon(name.to_owned()));
    match down {
        true => groups.into_iter().chain(addons).chain(control_plane).collect(),
        false => control_plane.chain(addons).chain(groups).collect(),
    }
}

/// The names of the node groups of a `ClusterConfig`.
pub(crate) fn names(root: &Node) -> Vec<String> {
    node_groups(root).map(|(_, name, _)| name.to_owned()).collect()
}
