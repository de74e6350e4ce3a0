//! What a team's overlays set, and upstream has changed since: side by side, so that neither is lost in silence.
//!
//! A component is compared four times: before and after, each without the overlays (the base) and with them. What the team set before follows
//! from the two of before, what upstream changed from the two bases, and what the team sets now from the two of after.

use std::collections::BTreeSet;

use kustomize_rs::{BuildError, Resources};
use overlays::RenderedTree;
use yaml::Node;

use crate::difference::{Change, FieldDifference, ObjectDifference, compare, is_manifest, objects_in, redacted};

/// A component before and after, without the overlays and with them.
pub struct Sides<'a> {
    /// Before, without overlays.
    pub base_before: &'a RenderedTree,
    /// Before, with the overlays of before.
    pub before: &'a RenderedTree,
    /// After, without overlays.
    pub base_after: &'a RenderedTree,
    /// After, with the overlays of now.
    pub after: &'a RenderedTree,
}

/// What upstream changed under an overlay, a line each, with its values where they are no secrets.
///
/// # Errors
/// When a side cannot be read as objects.
pub fn conflicts(sides: &Sides<'_>) -> Result<Vec<String>, BuildError> {
    let (base_before, before) = pair(sides.base_before, sides.before)?;
    let (base_after, after) = pair(sides.base_after, sides.after)?;
    let team_before = compare(&base_before, &before);
    let upstream = compare(&base_before, &base_after);
    let team_now = compare(&base_after, &after);
    let mut found = Vec::new();
    for set in team_before.iter().filter(|set| set.change == Change::Modified) {
        let Some(changed) = of_object(&upstream, set) else { continue };
        let object = named(set);
        match changed.change {
            Change::Removed => found.push(format!("{object}: {}", dropped(set, of_object(&team_now, set).is_some()))),
            Change::Modified => {
                let now = of_object(&team_now, set);
                let conflicts = set.fields.iter().filter_map(|field| conflict(field, changed, now));
                found.extend(conflicts.map(|conflict| format!("{object}: {conflict}")));
            }
            Change::Added | Change::Reordered => {}
        }
    }
    Ok(found)
}

/// A component without the overlays and with them. Where these move it to another namespace, it is compared there: it would have
/// no object in common with what it was.
fn pair(base: &RenderedTree, with_overlays: &RenderedTree) -> Result<(Resources, Resources), BuildError> {
    let (alone, with_overlays) = (read(base, None)?, read(with_overlays, None)?);
    let spread = |objects: &Resources| -> BTreeSet<String> {
        let namespaces = objects.iter().map(|object| object.namespace().to_string());
        namespaces.filter(|namespace| !namespace.is_empty()).collect()
    };
    let (before, after) = (spread(&alone), spread(&with_overlays));
    let moved = after.first().filter(|_| after.len() == 1 && before != after);
    // What cannot be moved as a whole is compared where it is.
    let base = moved.and_then(|namespace| read(base, Some(namespace)).ok()).unwrap_or(alone);
    Ok((base, with_overlays))
}

fn read(tree: &RenderedTree, namespace: Option<&str>) -> Result<Resources, BuildError> {
    let is_object = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        is_manifest(name) && !kustomize_rs::FILE_NAMES.contains(&name)
    };
    let files = tree.files.iter().filter(|(path, _)| is_object(path.as_str()));
    objects_in(files.map(|(path, bytes)| (path.to_string(), bytes.to_vec())), namespace)
}

fn of_object<'a, 'r>(
    differences: &'a [ObjectDifference<'r>],
    set: &ObjectDifference<'_>,
) -> Option<&'a ObjectDifference<'r>> {
    differences.iter().find(|other| {
        let (ours, theirs) = (set.object, other.object);
        (ours.gvk().group, ours.gvk().kind, ours.namespace(), ours.name())
            == (theirs.gvk().group, theirs.gvk().kind, theirs.namespace(), theirs.name())
    })
}

fn named(difference: &ObjectDifference<'_>) -> String {
    let object = difference.object;
    let namespace = object.namespace();
    let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    format!("{} {place}{}", object.gvk().kind, object.name())
}

/// What is said of an object that upstream no longer has.
fn dropped(set: &ObjectDifference<'_>, is_added: bool) -> String {
    let fields: Vec<&str> = set.fields.iter().map(|field| field.path.as_str()).collect();
    let then = if is_added { "the overlay adds the object by itself now" } else { "nothing takes their place" };
    format!("upstream has no such object any more, and the overlay set {} of it: {then}", fields.join(", "))
}

/// What upstream changed of a field that the team set before.
fn conflict(
    set: &FieldDifference<'_>,
    upstream: &ObjectDifference<'_>,
    now: Option<&ObjectDifference<'_>>,
) -> Option<String> {
    let changed = upstream.fields.iter().find(|field| concerns(field, set))?;
    let now = now.into_iter().flat_map(|now| &now.fields).find(|field| concerns(field, set));
    // The same field tells its values; where a field around it changed, the whole of it did.
    let is_same = changed.segments == set.segments;
    let (old, new) = (value(changed, changed.old), value(changed, changed.new));
    let upstream = match changed.change {
        Change::Removed if is_same => format!("upstream had {old} and has no such field now"),
        Change::Removed => format!("upstream has no {} any more", changed.path),
        Change::Added => format!("upstream has {new} now, and had nothing"),
        Change::Modified if is_same => format!("upstream had {old} and has {new} now"),
        Change::Modified | Change::Reordered => format!("upstream changed {}", changed.path),
    };
    let team = match now {
        // It follows what upstream says, as names of registries do.
        Some(now) if now.segments == set.segments && now.new != set.new => return None,
        Some(now) => match (now.change, set.new) {
            (Change::Removed, _) | (_, None) => "the overlay takes it away".to_owned(),
            _ => format!("the overlay sets {}", value(set, set.new)),
        },
        // Upstream says what the team wanted.
        None if is_same && changed.new == set.new => return None,
        None => format!("the overlay set {} and does not any more", value(set, set.new)),
    };
    Some(format!("{}: {upstream}; {team}", set.path))
}

/// Whether two fields are the same one, or one holds the other.
fn concerns(field: &FieldDifference<'_>, other: &FieldDifference<'_>) -> bool {
    field.segments.iter().zip(&other.segments).all(|(left, right)| left == right)
}

fn value(field: &FieldDifference<'_>, side: Option<&Node>) -> String {
    redacted(field, side).unwrap_or_else(|| "a value of its own".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::path;

    fn tree(documents: &[String]) -> RenderedTree {
        let text = documents.join("---\n");
        RenderedTree { files: [(path("a/x.yaml").unwrap(), Arc::from(text.as_bytes()))].into() }
    }

    fn deployment(name: &str, spec: &str) -> String {
        format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: n}}\nspec: {{{spec}}}\n")
    }

    /// What is told of `Deployment n/x` with these specifications.
    fn told(base_before: &str, before: &str, base_after: &str, after: &str) -> Vec<String> {
        let side = |spec: &str| tree(&[deployment("x", spec)]);
        let (base_before, before) = (side(base_before), side(before));
        let (base_after, after) = (side(base_after), side(after));
        let sides = Sides { base_before: &base_before, before: &before, base_after: &base_after, after: &after };
        conflicts(&sides).unwrap()
    }

    #[test]
    fn a_field_that_upstream_changed_under_a_patch_is_shown_side_by_side() {
        assert_eq!(
            told("replicas: 1", "replicas: 3", "replicas: 2", "replicas: 3"),
            ["Deployment n/x: spec.replicas: upstream had 1 and has 2 now; the overlay sets 3"]
        );
    }

    #[test]
    fn a_component_that_the_overlay_moves_to_another_namespace_is_compared_there() {
        let of = |namespace: &str, spec: &str| {
            let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\n".to_owned();
            tree(&[deployment("x", spec).replace("namespace: n", &format!("namespace: {namespace}")), role])
        };
        let (base_before, before) = (of("n", "replicas: 1"), of("team", "replicas: 3"));
        let (base_after, after) = (of("n", "replicas: 2"), of("team", "replicas: 3"));
        let sides = Sides { base_before: &base_before, before: &before, base_after: &base_after, after: &after };
        assert_eq!(
            conflicts(&sides).unwrap(),
            ["Deployment team/x: spec.replicas: upstream had 1 and has 2 now; the overlay sets 3"]
        );
    }

    #[test]
    fn a_field_that_upstream_dropped_is_told_whether_set_or_lost() {
        assert_eq!(
            told("replicas: 1", "replicas: 3", "paused: true", "replicas: 3, paused: true"),
            ["Deployment n/x: spec.replicas: upstream had 1 and has no such field now; the overlay sets 3"]
        );
        assert_eq!(
            told("replicas: 1", "replicas: 3", "paused: true", "paused: true"),
            ["Deployment n/x: spec.replicas: upstream had 1 and has no such field now; the overlay set 3 and does \
                 not any more"]
        );
    }

    #[test]
    fn a_container_that_upstream_renamed_takes_the_patch_with_it() {
        let containers = |name: &str, memory: &str| {
            format!(
                "template: {{spec: {{containers: [{{name: {name}, resources: {{limits: {{memory: {memory}}}}}}}]}}}}"
            )
        };
        let told =
            told(&containers("a", "1Gi"), &containers("a", "2Gi"), &containers("b", "1Gi"), &containers("b", "1Gi"));
        assert!(told.len() == 1 && told[0].contains("memory") && told[0].contains("does not any more"), "{told:?}");
    }

    #[test]
    fn what_does_not_meet_is_no_conflict() {
        for (base_before, before, base_after, after) in [
            // Upstream left it alone.
            ("replicas: 1", "replicas: 3", "replicas: 1, paused: true", "replicas: 3, paused: true"),
            // Upstream took it over.
            ("replicas: 1", "replicas: 3", "replicas: 3", "replicas: 3"),
            // A transformation follows what upstream says.
            ("image: 'a/x:1'", "image: 'm/x:1'", "image: 'a/x:2'", "image: 'm/x:2'"),
            // Nobody set anything.
            ("replicas: 1", "replicas: 1", "replicas: 2", "replicas: 2"),
            // Set for the first time, over what is there now.
            ("replicas: 1", "replicas: 1", "replicas: 2", "replicas: 3"),
        ] {
            assert_eq!(told(base_before, before, base_after, after), [""; 0], "{base_before} {base_after}");
        }
    }

    #[test]
    fn an_object_that_upstream_dropped_is_told_with_what_was_set() {
        let (base, set) = (deployment("old", "replicas: 1"), deployment("old", "replicas: 3"));
        let other = deployment("new", "replicas: 1");
        let (base_before, before, after) = (tree(&[base]), tree(&[set]), tree(&[other]));
        let sides = Sides { base_before: &base_before, before: &before, base_after: &after, after: &after };
        assert_eq!(
            conflicts(&sides).unwrap(),
            ["Deployment n/old: upstream has no such object any more, and the overlay set spec.replicas of it: \
                 nothing takes their place"]
        );
    }

    #[test]
    fn values_that_may_be_secret_are_not_told() {
        let told = told("token: one", "token: SECRET", "token: two", "token: SECRET");
        assert!(told.len() == 1 && !told[0].contains("SECRET") && told[0].contains("spec.token"), "{told:?}");
    }
}
