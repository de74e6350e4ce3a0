//! Templates that are edited in place and that no webhook refuses.
//!
//! A MachineDeployment and a control plane are rolled when their template has another *name* (Cluster API's contract of machine templates):
//! an edit in place is stored and reaches only machines that are made later. With a `ClusterClass` the templates are its own, and their edits
//! are rolled.

use super::evaluate::{leaves, value};
use super::{Object, cluster_api, plural, problem};
use crate::{ClusterKind, ClusterSpec, Files};
use domain::{Problem, Severity};

/// The warning for such a template.
pub(super) fn problem_of(object: &Object<'_>, cluster: &ClusterSpec, files: &dyn Files) -> Option<Problem> {
    let (group, kind) = (object.id.group.as_str(), object.id.kind.as_str());
    let is_machine_template = group.ends_with(cluster_api::INFRASTRUCTURE) && kind.ends_with("MachineTemplate");
    let is_bootstrap_template = group == "bootstrap.cluster.x-k8s.io" && kind.ends_with("Template");
    let is_known = cluster_api::RULES.iter().any(|rule| rule.group == group && rule.kind == kind);
    if !(is_machine_template || is_bootstrap_template) || is_known || cluster.kind != ClusterKind::ClusterApi {
        return None;
    }
    // Another version of the API may have other fields for the same.
    if object.before.get("apiVersion") != object.after.get("apiVersion") {
        return None;
    }
    let spec = ["spec", "template", "spec"];
    let [before, after] = [object.before, object.after].map(|node| value(node.at(&spec)));
    let changes = leaves("spec.template.spec", before.as_ref(), after.as_ref());
    let first = changes.first()?;
    let more = changes.len() - 1;
    let and = if more > 0 { format!(" and {more} more field{}", plural(more)) } else { String::new() };
    let message = format!(
        "{}: {}{and} differ{} in a template of the same name: no machine is rolled, and only machines that are made later get it",
        object.id,
        first.field,
        if more > 0 { "" } else { "s" }
    );
    let problem = problem(object, cluster, files, &changes, message).severity(Severity::Warning);
    Some(problem.hint(format!("make a new {kind} of another name with it, and refer to that one")))
}
