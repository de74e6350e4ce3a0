//! Fields that a Supervisor's webhook `default.validating.tanzukubernetescluster.run.tanzu.vmware.com` refuses.

use yaml::Node;

use super::rule::Check::{BetweenValues, ValuesOfList};
use super::rule::Remedy::NewCluster;
use super::rule::{Check, Rule, When};
use super::{Change, Object, problem, told};
use crate::tanzu::{control_plane, is_cluster};
use crate::{ClusterSpec, Files};
use domain::Problem;

const fn rule(field: &'static str, check: Check) -> Rule {
    Rule {
        group: "run.tanzu.vmware.com",
        kind: "TanzuKubernetesCluster",
        field,
        check,
        when: When::Always,
        remedy: NewCluster,
    }
}

pub(super) const RULES: &[Rule] = &[
    rule("spec.settings.network.pods.cidrBlocks", ValuesOfList),
    rule("spec.settings.network.services.cidrBlocks", ValuesOfList),
    rule("spec.settings.network.serviceDomain", BetweenValues),
    rule("spec.settings.network.cni.name", BetweenValues),
];

/// A control plane that loses machines.
pub(super) fn smaller_control_plane(object: &Object<'_>, cluster: &ClusterSpec, files: &dyn Files) -> Option<Problem> {
    if !is_cluster(object.after) {
        return None;
    }
    let field = |node: &Node| {
        let key = if node.at(&["spec", "topology", "controlPlane", "count"]).is_some() { "count" } else { "replicas" };
        format!("spec.topology.controlPlane.{key}")
    };
    // Nothing said means one machine.
    let count = |node: &Node| control_plane(node).replicas.unwrap_or(1);
    let (old, new) = (count(object.before), count(object.after));
    if new >= old {
        return None;
    }
    let changes = [Change { field: field(object.after), old: Some(old.into()), new: Some(new.into()) }];
    let message =
        format!("{}: {}, and a Supervisor takes no machine out of a control plane", object.id, told(&changes));
    let hint = format!("put the field back to {old}; only a new cluster can have fewer");
    Some(problem(object, cluster, files, &changes, message).hint(hint))
}
