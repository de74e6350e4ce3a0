//! What a Flux object adds to a kustomization.

use yaml::{Mapping, Node, Value};

use super::kustomization::{Image, Kustomization, Patch, Target};
use crate::error::BuildError;

/// Adds the fields of `object`; `exists` says whether a component is there.
pub(super) fn merge(
    kustomization: &mut Mapping,
    object: &Kustomization,
    exists: &dyn Fn(&str) -> bool,
) -> Result<(), BuildError> {
    let replaced = [
        ("namespace", &object.target_namespace),
        ("namePrefix", &object.name_prefix),
        ("nameSuffix", &object.name_suffix),
    ];
    for (field, text) in replaced {
        if !text.is_empty() {
            kustomization.insert(field, text.as_str());
        }
    }
    extend(kustomization, "patches", object.patches.iter().map(patch).collect());
    extend(kustomization, "components", components(object, exists)?);
    for given in &object.images {
        image(kustomization, given);
    }
    if !object.build_metadata.is_empty() {
        let options: Vec<Node> = object.build_metadata.iter().map(|option| Node::from(option.as_str())).collect();
        kustomization.insert("buildMetadata", options);
    }
    Ok(())
}

/// Adds at the end of a list.
fn extend(kustomization: &mut Mapping, field: &str, items: Vec<Node>) {
    if items.is_empty() {
        return;
    }
    let list = kustomization.get_or_insert_with(field, || Vec::new().into());
    if let Some(list) = list.as_sequence_mut() {
        list.extend(items);
    }
}

/// A mapping of the texts that are not empty.
fn texts<const N: usize>(pairs: [(&str, &String); N]) -> Mapping {
    let filled = pairs.into_iter().filter(|(_, text)| !text.is_empty());
    filled.map(|(key, text)| (key.to_owned(), Node::from(text.as_str()))).collect()
}

fn patch(given: &Patch) -> Node {
    let mut mapping = texts([("patch", &given.patch)]);
    if let Some(target) = &given.target {
        mapping.insert("target", selector(target));
    }
    mapping.into()
}

fn selector(target: &Target) -> Mapping {
    texts([
        ("group", &target.group),
        ("version", &target.version),
        ("kind", &target.kind),
        ("name", &target.name),
        ("namespace", &target.namespace),
        ("annotationSelector", &target.annotation_selector),
        ("labelSelector", &target.label_selector),
    ])
}

fn components(object: &Kustomization, exists: &dyn Fn(&str) -> bool) -> Result<Vec<Node>, BuildError> {
    let mut found = Vec::new();
    for path in &object.components {
        if !is_local(path) {
            let message = format!("the component `{path}` of the Flux object must be a relative path in the source");
            return Err(BuildError::syntax(message));
        }
        if exists(path) || !object.ignore_missing_components {
            found.push(Node::from(path.as_str()));
        }
    }
    Ok(found)
}

fn is_local(path: &str) -> bool {
    const REMOTE: [&str; 8] = ["git::", "gh:", "ssh://", "https://", "http://", "git@", "github.com:", "github.com/"];
    let path = path.to_lowercase();
    let is_remote = REMOTE.iter().any(|start| path.len() > start.len() && path.starts_with(start));
    !is_remote && !path.starts_with('/') && !path.starts_with("file:///")
}

/// An image that is there already keeps what is not given. Tag and digest are one thing: a new one of either drops both.
fn image(kustomization: &mut Mapping, given: &Image) {
    let list = kustomization.get_or_insert_with("images", || Vec::new().into());
    let Some(list) = list.as_sequence_mut() else {
        return;
    };
    let has_name = |node: &&mut Node| node.get("name").and_then(Node::as_str).unwrap_or_default() == given.name;
    let new =
        [("name", &given.name), ("newName", &given.new_name), ("newTag", &given.new_tag), ("digest", &given.digest)];
    let Some(Value::Mapping(known)) = list.iter_mut().find(has_name).map(|node| &mut node.value) else {
        list.push(texts(new).into());
        return;
    };
    if !given.new_tag.is_empty() || !given.digest.is_empty() {
        known.remove("newTag");
        known.remove("digest");
    }
    for entry in texts(new) {
        known.insert(entry.key, entry.value);
    }
}
