//! What every applied object has: a name, and the labels and annotations of `commonMetadata`.

use std::collections::BTreeMap;

use yaml::{Mapping, Node, Text, Value};

use super::kustomization::CommonMetadata;
use crate::error::BuildError;
use crate::resource::{Resource, Resources};

/// Flux refuses what has no name, kind or API version.
pub(super) fn check_identity(resource: &Resource) -> Result<(), BuildError> {
    let gvk = resource.gvk();
    let missing = if gvk.version.is_empty() {
        "apiVersion"
    } else if gvk.kind.is_empty() {
        "kind"
    } else if resource.name().is_empty() {
        "metadata.name"
    } else {
        return Ok(());
    };
    let error = BuildError::syntax(format!("the object has no `{missing}`, which Flux needs"));
    Err(if resource.origin.file.is_empty() { error } else { error.at(&resource.origin.file, resource.node.span) })
}

/// Flux reads what it has built once more, and passes over what then is not an object: one whose name has become a number,
/// for example. Kustomizations are not applied either.
pub(super) fn leave_out(resources: &mut Resources, warnings: &mut Vec<String>) {
    resources.items.retain(|resource| {
        let required = [&["apiVersion"][..], &["kind"], &["metadata", "name"]];
        let wrong =
            required.iter().find(|path| resource.node.at(path).and_then(Node::as_str).is_none_or(str::is_empty));
        let is_kustomization =
            resource.gvk().group == "kustomize.config.k8s.io" && resource.kind().eq_ignore_ascii_case("kustomization");
        let is_empty_list = resource.node.get("items").and_then(Node::as_sequence).is_some_and(<[Node]>::is_empty);
        let reason = match wrong {
            _ if is_empty_list => "it is a list without items".to_owned(),
            Some(path) => format!("its `{}` is not text", path.join(".")),
            None if is_kustomization => "it is a kustomization".to_owned(),
            None => return true,
        };
        let (file, line) = (&resource.origin.file, resource.origin.line);
        let what = format!("Flux leaves out the {} `{}`, because {reason}.", resource.kind(), resource.name());
        warnings.push(format!("# Warning: {file}:{line}: {what}"));
        false
    });
}

/// Sets `commonMetadata` on all objects.
pub(super) fn set_common(resources: &mut Resources, common: &CommonMetadata) {
    for resource in &mut resources.items {
        set(resource, "labels", &common.labels);
        set(resource, "annotations", &common.annotations);
    }
}

/// Sets pairs. As in Flux, null is the empty text, and a map with anything else that is not text counts as none.
fn set(resource: &mut Resource, field: &str, pairs: &BTreeMap<String, String>) {
    let Some(metadata) = resource.metadata_mut() else {
        return;
    };
    let current = metadata.get(field).and_then(Node::as_mapping);
    let known = current.map(|mapping| {
        let text = |value: &Node| match &value.value {
            Value::Null => Some(Node::with_span(Value::String(Text::default()), value.span)),
            Value::String(_) => Some(value.clone()),
            _ => None,
        };
        mapping.iter().map(|entry| Some((entry.key.clone(), text(&entry.value)?))).collect::<Option<Mapping>>()
    });
    let mut mapping = known.flatten().unwrap_or_default();
    for (key, value) in pairs {
        mapping.insert(key.as_str(), value.as_str());
    }
    if !mapping.is_empty() {
        metadata.insert(field, mapping);
    }
}
