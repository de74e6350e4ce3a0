//! `patches`, `patchesStrategicMerge` and `patchesJson6902`.

use foldhash::{HashSet, HashSetExt as _};
use yaml::{Limits, Mapping};

use crate::error::BuildError;
use crate::id::SameObject;
use crate::kustomization::spec::Selector;
use crate::merge::{json6902, strategic};
use crate::object::round_trip::write_and_read;
use crate::object::type_mismatch;
use crate::resource::{Resource, Resources};
use crate::schema::Schema;

/// What a patch is, after reading its text.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// Objects to merge; none for an empty file.
    Strategic(Vec<Resource>),
    /// Operations.
    Json(Vec<json6902::Operation>),
}

/// One entry of `patches`.
#[derive(Debug, Clone)]
pub(crate) struct Patch {
    pub(crate) content: Content,
    pub(crate) target: Option<Selector>,
    /// File and line for errors.
    pub(crate) file: String,
}

impl Patch {
    pub(crate) fn apply(&self, resources: &mut Resources, schema: &Schema, limits: &Limits) -> Result<(), BuildError> {
        let result = match (&self.content, &self.target) {
            (Content::Strategic(patches), None) => {
                patches.iter().try_for_each(|patch| apply_by_name(resources, patch.clone(), schema, &self.file))
            }
            (Content::Strategic(patches), Some(target)) => match patches.as_slice() {
                [] => Ok(()),
                [patch] => apply_to_target(resources, patch, target, schema),
                _ => Err(BuildError::syntax("a patch with a `target` holds more than one object")
                    .hint("give each object an entry of its own, or leave the target out")),
            },
            (Content::Json(operations), Some(target)) => {
                apply_json(resources, operations, target, schema, limits, true)
            }
            (Content::Json(operations), None) if operations.is_empty() => Ok(()),
            (Content::Json(_), None) => Err(BuildError::syntax("a JSON patch needs a `target`")),
        };
        result.map_err(|error| error.in_file(&self.file))
    }
}

/// Merges a patch into the one object that has or had its name.
pub(crate) fn apply_by_name(
    resources: &mut Resources,
    patch: Resource,
    schema: &Schema,
    file: &str,
) -> Result<(), BuildError> {
    let id = patch.original_id(schema);
    let index = resources
        .unique(&id, schema)
        .map_err(|error| error.context("a patch finds no target").at(file, patch.node.span))?;
    merge_into(resources, index, patch, schema)?;
    drop_deleted(resources);
    Ok(())
}

/// Merges a patch into all objects that the target selects; its own name does not count.
fn apply_to_target(
    resources: &mut Resources,
    patch: &Resource,
    target: &Selector,
    schema: &Schema,
) -> Result<(), BuildError> {
    let selector = target.compile()?;
    resources.budget.spend(resources.len() * Resources::LOOK)?;
    // Go collects the names first, and patches every object that has one of them.
    let mut selected = HashSet::new();
    for resource in &resources.items {
        if selector.selects(resource, schema)? {
            selected.insert(SameObject(resource.id(schema)));
        }
    }
    for index in 0..resources.items.len() {
        let Some(resource) = resources.items.get(index) else {
            continue;
        };
        if selected.contains(&SameObject(resource.id(schema))) {
            let mut patch = patch.clone();
            patch.rewrite_metadata()?;
            let name = patch.name();
            patch.set_metadata("name", &name);
            let (gvk, kind) = (resource.gvk(), patch.kind());
            patch.set_top("apiVersion", &gvk.api_version());
            patch.set_top("kind", &kind);
            merge_into(resources, index, patch, schema)?;
        }
    }
    drop_deleted(resources);
    let items = std::mem::take(&mut resources.items);
    resources.append_all(items, schema)
}

fn merge_into(resources: &mut Resources, index: usize, patch: Resource, schema: &Schema) -> Result<(), BuildError> {
    resources.budget.copy(&patch.node)?;
    let Some(resource) = resources.items.get_mut(index) else {
        return Ok(());
    };
    let (name, namespace, kind) = (resource.name(), resource.namespace(), resource.kind());
    resources.merged_by_schema |= !kind.is_empty() && !resource.gvk().api_version().is_empty();
    if patch.allow_name_change || patch.allow_kind_change {
        resource.store_previous_id(schema);
    }
    resource.show_state();
    let object = std::mem::take(&mut *resource.node);
    let span = object.span;
    // kustomize builds the replacement of a whole object, and forgets to use it.
    let merged = match patch.node.get("$patch").and_then(yaml::Node::as_str) {
        Some("replace") => {
            strategic::merge(object.clone(), patch.node.into_node(), schema, resource.shared.last())?;
            Some(object)
        }
        _ => strategic::merge(object, patch.node.into_node(), schema, resource.shared.last())?,
    };
    match merged {
        None => *resource.node = yaml::Node::default(),
        Some(node) => {
            *resource.node = node;
            resource.node.span = span;
            if !resource.hide_state() {
                resource.forget_state();
            }
            resource.allow_name_change |= patch.allow_name_change;
            resource.allow_kind_change |= patch.allow_kind_change;
            if !patch.allow_kind_change {
                resource.set_top("kind", &kind);
            }
            if !patch.allow_name_change {
                resource.set_metadata("name", &name);
            }
            resource.set_metadata("namespace", &namespace);
        }
    }
    Ok(())
}

fn drop_deleted(resources: &mut Resources) {
    let kept = |resource: &Resource| resource.node.as_mapping().is_some_and(|mapping| !mapping.is_empty());
    resources.items.retain(kept);
}

/// Applies operations to all objects that the target selects.
pub(crate) fn apply_json(
    resources: &mut Resources,
    operations: &[json6902::Operation],
    target: &Selector,
    schema: &Schema,
    limits: &Limits,
    remember: bool,
) -> Result<(), BuildError> {
    let selector = target.compile()?;
    let budget = resources.budget.clone();
    budget.spend(resources.len() * Resources::LOOK)?;
    for resource in &mut resources.items {
        if !selector.selects(resource, schema)? {
            continue;
        }
        if remember {
            resource.store_previous_id(schema);
        }
        resource.show_state();
        type_mismatch::refuse(&resource.node)?;
        // kustomize patches the object's JSON, and writes the object out for that.
        write_and_read(&mut resource.node).map_err(|error| error.in_file(&resource.origin.file))?;
        resource.node.forget_writing();
        json6902::apply(&mut resource.node, operations, limits, &budget)
            .map_err(|error| error.context(format_args!("a JSON patch on {}", resource.id(schema))))?;
        resource.node.through_json();
        // kustomize puts its own annotations back where a patch took them away, but not where the object is from.
        if !resource.hide_state() {
            resource.origin.annotation = None;
            resource.transformations.clear();
        }
        resource.finish_annotations(1)?;
        if resource.annotation("").is_some() {
            // Which kustomize cannot write, and only `patches` goes on without.
            if !remember {
                let message = format!("a JSON patch gives {} an annotation without a name", resource.id(schema));
                return Err(BuildError::transform(message));
            }
            resource.set_metadata_map("annotations", Mapping::new());
            resource.forget_state();
        }
    }
    Ok(())
}
