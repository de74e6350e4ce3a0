//! How the definitions of custom resources change with a plan, as far as stored versions and objects are touched.

mod schema;

use std::collections::BTreeMap;

use rollout::check::{DefinitionChange, NarrowedVersion};
use serde_json::Value;

use crate::stage_tree::StageTree;
use overlays::RenderedTree;

const KIND: &str = "CustomResourceDefinition";

/// The definitions that these parts change, by name, each once.
#[must_use]
pub fn changes(parts: &[StageTree]) -> Vec<DefinitionChange> {
    let mut found: BTreeMap<String, DefinitionChange> = BTreeMap::new();
    for part in parts.iter().filter(|part| part.component.is_some() && part.before != part.after) {
        let before = definitions(&part.before, &part.after);
        for (name, new) in definitions(&part.after, &part.before) {
            let Some(mut change) = change(&name, before.get(&name), &new) else { continue };
            // Of several steps the last one says which versions there are.
            if let Some(known) = found.remove(&name) {
                change.narrowed.splice(0..0, known.narrowed);
            }
            found.insert(name, change);
        }
    }
    found.into_values().collect()
}

/// Those in files of one tree that the other has not, or has otherwise.
fn definitions(tree: &RenderedTree, other: &RenderedTree) -> BTreeMap<String, Value> {
    let differs =
        |path: &domain::RepoPath, bytes: &[u8]| other.files.get(path).is_none_or(|other| other.as_ref() != bytes);
    let files = tree.files.iter().filter(|(path, bytes)| path.is_yaml() && differs(path, bytes));
    let nodes = files.flat_map(|(_, bytes)| overlays::objects_of(bytes));
    let definitions = nodes.filter(|node| node.get("kind").and_then(yaml::Node::as_str) == Some(KIND));
    let named = |node: yaml::Node| {
        let value: Value = serde_json::from_str(&yaml::json::to_json(&node)).ok()?;
        let name = value.pointer("/metadata/name")?.as_str()?.to_owned();
        Some((name, value))
    };
    definitions.filter_map(named).collect()
}

/// None where nothing that is stored, and no object, can be touched.
fn change(name: &str, old: Option<&Value>, new: &Value) -> Option<DefinitionChange> {
    let text = |path: &str| new.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let versions = versions(new);
    let storage = versions.iter().find(|(_, version)| version.get("storage") == Some(&Value::Bool(true)));
    let before = old.map(self::versions).unwrap_or_default();
    let narrowed: Vec<NarrowedVersion> = versions
        .iter()
        .filter_map(|(version, new)| {
            let old = before.get(version)?.pointer(SCHEMA)?;
            let narrowings = schema::narrowings(old, new.pointer(SCHEMA)?);
            (!narrowings.is_empty()).then(|| NarrowedVersion { version: version.clone(), narrowings })
        })
        .collect();
    let removes = before.keys().any(|version| !versions.contains_key(version));
    if old.is_some() && !removes && narrowed.is_empty() {
        return None;
    }
    Some(DefinitionChange {
        name: name.to_owned(),
        group: text("/spec/group"),
        kind: text("/spec/names/kind"),
        plural: text("/spec/names/plural"),
        storage: storage.map(|(name, _)| name.clone()).unwrap_or_default(),
        versions: versions.into_keys().collect(),
        narrowed,
    })
}

const SCHEMA: &str = "/schema/openAPIV3Schema";

fn versions(definition: &Value) -> BTreeMap<String, Value> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let named = |version: &Value| Some((version.get("name")?.as_str()?.to_owned(), version.clone()));
    versions.filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> RenderedTree {
        let path = domain::RepoPath::new("clusters/a/capi/all.yaml").unwrap();
        RenderedTree { files: [(path, std::sync::Arc::from(text.as_bytes()))].into() }
    }

    fn definition(versions: &[(&str, &str)]) -> String {
        let versions: String = versions
            .iter()
            .enumerate()
            .map(|(index, (name, schema))| {
                format!(
                    "  - {{name: {name}, served: true, storage: {}, schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {schema}}}}}}}}}\n",
                    index == 0
                )
            })
            .collect();
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: as.example.com}}\n\
             spec:\n  group: example.com\n  names: {{kind: A, plural: as}}\n  versions:\n{versions}"
        )
    }

    fn told(before: &str, after: &str) -> Vec<String> {
        let part = StageTree {
            before: tree(before),
            after: tree(after),
            ..StageTree::unchanged(rollout::StageName::Capi.into(), overlays::ComponentName::Capi, RenderedTree::new())
        };
        let told = |change: DefinitionChange| {
            let narrowed = change
                .narrowed
                .iter()
                .flat_map(|known| known.narrowings.iter().map(|narrowing| format!("{}: {narrowing}", known.version)));
            format!("{} {} [{}]", change.name, change.versions.join(","), narrowed.collect::<Vec<_>>().join("; "))
        };
        changes(&[part]).into_iter().map(told).collect()
    }

    #[test]
    fn a_definition_is_told_that_loses_a_version_or_asks_for_more() {
        let (any, text) = ("{type: object}", "{type: object, required: [b], properties: {b: {type: string}}}");
        let two = definition(&[("v1", any), ("v1beta1", any)]);
        assert_eq!(told(&two, &definition(&[("v1", any)])), ["as.example.com v1 []"]);
        let narrower = definition(&[("v1", text), ("v1beta1", any)]);
        assert_eq!(told(&two, &narrower), ["as.example.com v1,v1beta1 [v1: spec.b is required]"]);
        assert_eq!(told(&narrower, &two), ["as.example.com v1,v1beta1 [v1: spec.b is gone]"]);
        assert_eq!(told(&two, &two.replace("served: true", "served: false")), [""; 0]);
        // What is new to git may be old to the cluster.
        assert_eq!(told("", &two), ["as.example.com v1,v1beta1 []"]);
        assert_eq!(told(&two, ""), [""; 0]);
    }
}
