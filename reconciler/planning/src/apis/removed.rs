//! What of a target tree is written for API versions that are not served at the end of the rollout.

use std::collections::BTreeMap;

use overlays::{CrdSummary, ObjectSummary};
use rollout::ObjectReference;
use rollout::check::{RemovedApis, minor_of, removal_of};

use crate::stage_tree::StageTree;

/// What checks are asked about it; none where the minor that the cluster goes to is not known.
#[must_use]
pub fn removed_apis(parts: &[StageTree], deployed: Option<&str>, target: &str) -> Option<RemovedApis> {
    let target = minor_of(target)?;
    let objects: Vec<ObjectSummary> = parts.iter().flat_map(objects).collect();
    let definitions: BTreeMap<(&str, &str), &CrdSummary> = objects
        .iter()
        .filter_map(|object| object.crd.as_ref())
        .map(|definition| ((definition.group.as_str(), definition.kind.as_str()), definition))
        .collect();
    let mut rendered: Vec<(ObjectReference, String)> =
        objects.iter().filter_map(|object| Some((reference(object), advice(object, target, &definitions)?))).collect();
    rendered.sort();
    rendered.dedup();
    Some(RemovedApis { deployed: deployed.and_then(minor_of), target, rendered })
}

/// The objects that a part leaves; those of the specification are not gathered for gates.
fn objects(part: &StageTree) -> Vec<ObjectSummary> {
    if part.component.is_some() {
        return part.objects.clone();
    }
    let files = part.after.files.iter().filter(|(path, _)| path.is_yaml());
    files.flat_map(|(_, bytes)| overlays::objects_of(bytes)).filter_map(|node| ObjectSummary::of(&node)).collect()
}

/// What to do about an object whose version is not served; none where it is.
fn advice(object: &ObjectSummary, target: u32, definitions: &BTreeMap<(&str, &str), &CrdSummary>) -> Option<String> {
    if let Some(removal) = removal_of(&object.api_version, &object.kind).filter(|removal| removal.removed <= target) {
        return Some(removal.advice());
    }
    let (group, version) = object.api_version.split_once('/')?;
    let definition = definitions.get(&(group, object.kind.as_str()))?;
    let served: Vec<&str> =
        definition.versions.iter().filter(|known| known.served).map(|known| known.name.as_str()).collect();
    (!served.contains(&version)).then(|| format!("use {group}/{}", served.join(&format!(" or {group}/"))))
}

fn reference(object: &ObjectSummary) -> ObjectReference {
    ObjectReference {
        api_version: object.api_version.clone(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use overlays::{ComponentName, RenderedTree};
    use rollout::StageName;

    use super::*;

    fn part(component: Option<ComponentName>, text: &str) -> StageTree {
        let path = domain::RepoPath::new("clusters/a/cluster/all.yaml").unwrap();
        let after = RenderedTree { files: [(path, std::sync::Arc::from(text.as_bytes()))].into() };
        let objects = overlays::objects_of(text.as_bytes()).iter().filter_map(ObjectSummary::of).collect();
        let unchanged = StageTree::unchanged(StageName::Capi.into(), ComponentName::Capi, after);
        StageTree { component, objects, ..unchanged }
    }

    fn told(parts: &[StageTree], target: &str) -> Vec<String> {
        let asked = removed_apis(parts, Some("1.24"), target).unwrap();
        assert_eq!(asked.deployed, Some(24));
        asked.rendered.iter().map(|(object, advice)| format!("{object}: {advice}")).collect()
    }

    #[test]
    fn manifests_are_told_that_the_target_does_not_serve() {
        let budget = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: b, namespace: n}\n";
        for component in [Some(ComponentName::Capi), None] {
            let parts = [part(component, budget)];
            assert_eq!(told(&parts, "1.24"), [""; 0]);
            assert_eq!(told(&parts, "v1.25.3"), ["PodDisruptionBudget n/b: use policy/v1"]);
        }
        assert_eq!(removed_apis(&[], None, "another"), None);
    }

    #[test]
    fn objects_are_told_whose_definition_does_not_serve_their_version() {
        let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\n\
                          spec:\n  group: example.com\n  names: {kind: A, plural: as}\n  versions:\n\
                          \x20 - {name: v1, served: true, storage: true}\n  - {name: v1beta1, served: false, storage: false}\n";
        let object = |version: &str| format!("apiVersion: example.com/{version}\nkind: A\nmetadata: {{name: a}}\n");
        let of = |version: &str| [part(Some(ComponentName::Capi), definition), part(None, &object(version))];
        assert_eq!(told(&of("v1"), "1.34"), [""; 0]);
        assert_eq!(told(&of("v1beta1"), "1.34"), ["A a: use example.com/v1"]);
        assert_eq!(told(&of("v1alpha1"), "1.34"), ["A a: use example.com/v1"]);
    }
}
