//! Variables of Flux whose values are not in git.

use std::collections::BTreeSet;

use kustomize_rs::flux::SubstituteReference;

use super::build::{BuiltObject, Outcome};
use super::root::{Failure, Root};
use domain::{Problem, ProblemCode, Severity};

/// What follows from variables of these objects that nothing in git sets.
///
/// # Errors
/// When what sets them has to be in the cluster, and is not in git: what Flux applies is not known then.
pub(super) fn judge(root: &Root, outcome: &Outcome, objects: &[&BuiltObject]) -> Result<Vec<Problem>, Failure> {
    let unset: BTreeSet<&str> = objects.iter().flat_map(|object| &object.unset).map(String::as_str).collect();
    let Some(flux) = root.flux.as_ref().filter(|_| !unset.is_empty()) else { return Ok(Vec::new()) };
    let names: BTreeSet<&str> = unset.iter().map(|name| name.trim_end_matches(":=")).collect();
    let listed =
        |names: &BTreeSet<&str>| names.iter().map(|name| format!("${{{name}}}")).collect::<Vec<_>>().join(", ");
    let label = |reference: &SubstituteReference| format!("{} {}/{}", reference.kind, flux.namespace, reference.name);
    let problem = |message: String| {
        let problem = Problem::new(ProblemCode::UnsetVariable, message).path(&flux.path).at(flux.line, 1);
        problem.severity(Severity::Warning)
    };
    let (optional, needed): (Vec<_>, Vec<_>) = outcome.unknown.iter().partition(|reference| reference.optional);
    if !needed.is_empty() {
        let needed: Vec<String> = needed.into_iter().map(label).collect();
        let message = format!(
            "its clusters use {}, which may come from {}, and its values are not known from git",
            listed(&names),
            needed.join(", ")
        );
        let hint = "write these values under postBuild.substitute, or into a ConfigMap of this repository";
        return Err(Failure {
            hint: Some(hint.to_owned()),
            path: Some(flux.path.clone()),
            line: flux.line,
            ..Failure::new(message)
        });
    }
    if !optional.is_empty() {
        let optional: Vec<String> = optional.into_iter().map(label).collect();
        let message = format!(
            "{} of {} is optional and not in git: {} count as not set",
            optional.join(", "),
            root.label(),
            listed(&names)
        );
        let hint = "where the cluster has it, what is recorded differs: write the values under postBuild.substitute";
        return Ok(vec![problem(message).hint(hint)]);
    }
    let empty: BTreeSet<&str> = unset.into_iter().filter(|name| !name.ends_with(":=")).collect();
    if empty.is_empty() {
        return Ok(Vec::new());
    }
    let message = format!("nothing sets {}, and Flux puts nothing in its place for {}", listed(&empty), root.label());
    Ok(vec![problem(message).hint("set it under postBuild.substitute, or write `$${` where it is meant as text")])
}
