//! Kustomizations of Flux as a build takes them, and as one makes them.

use std::sync::Arc;

use kustomize_rs::flux::Kustomization;
use yaml::{Node, Value};

use super::build::BuiltObject;
use super::root::Failure;
use super::sources::{FluxKustomization, is_kustomization};

/// The Kustomization of Flux that an object is.
pub(super) fn made_kustomization(object: &BuiltObject) -> Option<FluxKustomization> {
    let path = object.file.clone()?;
    let text = |path: &[&str]| object.node.at(path).and_then(Node::as_str).unwrap_or_default();
    let group = text(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    is_kustomization(group, text(&["kind"])).then(|| FluxKustomization {
        namespace: match text(&["metadata", "namespace"]) {
            "" => "flux-system".to_owned(),
            namespace => namespace.to_owned(),
        },
        name: text(&["metadata", "name"]).to_owned(),
        node: Arc::clone(&object.node),
        path,
        line: object.line.max(1),
        home: String::new(),
        is_of_instance: false,
    })
}

/// The object as far as a build goes; what older versions of the API called otherwise is refused.
pub(super) fn object_of(flux: &FluxKustomization) -> Result<Kustomization, Failure> {
    let mut node = Node::clone(&flux.node);
    if let Some(mapping) = node.as_mapping_mut() {
        mapping.insert("apiVersion", "kustomize.toolkit.fluxcd.io/v1");
        mapping.remove("status");
        if let Some(Value::Mapping(spec)) = mapping.get_mut("spec").map(|spec| &mut spec.value) {
            spec.retain(|entry| entry.key.as_str() != "validation");
        }
    }
    let object = Kustomization::from_node(&node, flux.path.as_str()).map_err(|error| Failure {
        hint: error.hint.clone(),
        path: Some(flux.path.clone()),
        line: if error.line > 0 { error.line } else { flux.line },
        column: error.column.max(1),
        ..Failure::new(error.message)
    })?;
    Ok(Kustomization { namespace: flux.namespace.clone(), ..object })
}
