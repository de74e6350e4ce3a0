//! `replacements`: values of one object written into fields of others.

mod structured;
mod targets;

use std::sync::Arc;

use yaml::{Node, Style};

use super::path::{look_up, split};
use crate::error::BuildError;
use crate::id::ResourceId;
use crate::kustomization::spec::{Replacement, Selector, Source, Target};
use crate::resource::{Resource, Resources};
use crate::schema::Schema;
use crate::select::CompiledSelector;
use targets::{Make, targets};

const DEFAULT_FIELD: &str = "metadata.name";

/// Works off all entries in order.
pub(crate) fn replace(
    resources: &mut Resources,
    replacements: &[Replacement],
    schema: &Schema,
) -> Result<(), BuildError> {
    for replacement in replacements {
        let Some(targets) = &replacement.targets else {
            return Err(BuildError::syntax("a replacement has no `targets`"));
        };
        let mut value = match (&replacement.source, &replacement.source_value) {
            (Some(source), None) => source.find(resources, schema)?,
            (None, Some(text)) => {
                let mut value = Node::plain_scalar(text);
                value.set_style(Style::Untyped);
                Found { value, place: None }
            }
            (Some(_), Some(_)) => return Err(BuildError::syntax("a replacement has both `source` and `sourceValue`")),
            (None, None) => return Err(BuildError::syntax("a replacement has no `source`")),
        };
        resources.budget.spend((targets.len() + 2).saturating_mul(resources.len() * Resources::LOOK))?;
        for target in targets {
            target.write(resources, &mut value, schema)?;
        }
    }
    Ok(())
}

/// A value to write.
struct Found {
    value: Node,
    /// The object and the path it was read from, unless it is only a part of what is there. A target that writes there
    /// changes the value for all that come later.
    place: Option<(usize, Vec<String>)>,
}

impl Found {
    fn is_in(&self, resource: usize) -> bool {
        self.place.as_ref().is_some_and(|(index, _)| *index == resource)
    }

    fn read_again(&mut self, resources: &Resources) {
        let Some((index, path)) = &self.place else {
            return;
        };
        let Some(resource) = resources.items.get(*index) else {
            return;
        };
        if let Ok(Some(node)) = look_up(&resource.node, path) {
            self.value = node.clone();
            resource.reveal_state(&mut self.value);
        }
    }
}

/// All names of an object with the namespaces as they are written.
fn names(resource: &Resource, schema: &Schema) -> Vec<ResourceId> {
    let as_written = |id: Arc<ResourceId>| ResourceId { cluster_scoped: false, ..Arc::unwrap_or_clone(id) };
    resource.all_ids(schema).into_iter().map(as_written).collect()
}

impl Source {
    fn find(&self, resources: &Resources, schema: &Schema) -> Result<Found, BuildError> {
        let is_selected = |resource: &Resource| names(resource, schema).iter().any(|id| id.is_selected_by(&self.id));
        let matches: Vec<(usize, &Resource)> =
            resources.items.iter().enumerate().filter(|(_, resource)| is_selected(resource)).collect();
        let [(index, resource)] = matches.as_slice() else {
            let count = matches.len();
            let message = format!("the source {} of a replacement fits {count} objects, not one", self.id);
            return Err(BuildError::transform(message));
        };
        let path = if self.field_path.is_empty() { DEFAULT_FIELD } else { &self.field_path };
        let describe = || format!("the field `{path}` of the source {}", self.id);
        let parts = split(path);
        let found = look_up(&resource.node, &parts).map_err(|error| error.context(describe()))?;
        let is_empty = |node: &Node| match &node.value {
            yaml::Value::Null => true,
            yaml::Value::Sequence(items) => items.is_empty(),
            yaml::Value::Mapping(mapping) => mapping.is_empty(),
            _ => false,
        };
        let Some(found) = found.filter(|node| !is_empty(node)) else {
            return Err(BuildError::transform(format!("{} is missing or empty", describe())));
        };
        let whole = self.options.delimiter.is_empty();
        let place = if whole { Some((*index, super::path::place(&resource.node, &parts)?)) } else { None };
        let mut value = self.refine(found)?;
        resource.reveal_state(&mut value);
        Ok(Found { value, place })
    }

    fn refine(&self, found: &Node) -> Result<Node, BuildError> {
        if self.options.delimiter.is_empty() {
            return Ok(found.clone());
        }
        let Some(text) = found.scalar_text() else {
            return Err(BuildError::transform("`delimiter` needs a scalar"));
        };
        let parts: Vec<&str> = text.split(&self.options.delimiter).collect();
        let part = usize::try_from(self.options.index).ok().and_then(|index| parts.get(index));
        match part {
            Some(part) => {
                let mut node = found.clone();
                structured::set_text(&mut node, part, false);
                Ok(node)
            }
            None => {
                let message =
                    format!("`{text}` has no part {} between `{}`", self.options.index, self.options.delimiter);
                Err(BuildError::transform(message))
            }
        }
    }
}

impl Target {
    fn write(&self, resources: &mut Resources, value: &mut Found, schema: &Schema) -> Result<(), BuildError> {
        let Some(select) = &self.select else {
            return Err(BuildError::syntax("a target of a replacement has no `select`"));
        };
        let select = select.compile()?;
        let reject = self.reject.iter().map(Selector::compile).collect::<Result<Vec<CompiledSelector>, _>>()?;
        let default = [DEFAULT_FIELD.to_owned()];
        let paths = if self.field_paths.is_empty() { &default[..] } else { &self.field_paths };
        for index in 0..resources.items.len() {
            let Some(resource) = resources.items.get(index) else {
                continue;
            };
            if !select.fits_metadata(resource)? {
                continue;
            }
            let mut rejected = false;
            for reject in reject.iter().filter(|reject| !reject.has_no_metadata()) {
                rejected = rejected || reject.fits_metadata(resource)?;
            }
            if rejected {
                continue;
            }
            let ids = names(resource, schema);
            let rejected = |id: &ResourceId| reject.iter().any(|reject| !reject.names_nothing() && reject.fits_id(id));
            if ids.iter().any(rejected) || !ids.iter().any(|id| select.fits_id(id)) {
                continue;
            }
            for path in paths {
                value.read_again(resources);
                let written = self.write_field(resources, index, path, value);
                let Some(resource) = resources.items.get_mut(index) else {
                    continue;
                };
                written.map_err(|error| error.context(format_args!("a replacement into {}", resource.id(schema))))?;
                // kustomize keeps its own state in the annotations, and loses it with them.
                if matches!(path.as_str(), "metadata" | "metadata.annotations") && resource.has_lost_state() {
                    resource.forget_state();
                }
                resource.settle();
            }
        }
        Ok(())
    }

    fn write_field(
        &self,
        resources: &mut Resources,
        index: usize,
        path: &str,
        value: &mut Found,
    ) -> Result<(), BuildError> {
        let budget = resources.budget.clone();
        let Some(resource) = resources.items.get_mut(index) else {
            return Ok(());
        };
        let in_field = |error: BuildError| error.context(format_args!("the field `{path}`"));
        let make = self.options.create.then(|| Make::like(&value.value));
        let parts = split(path);
        budget.copy(&value.value)?;
        if parts.len() > 1 && structured::set(&mut resource.node, &parts, &value.value, make, &budget)? {
            return Ok(());
        }
        let targets = targets(&mut resource.node, &parts, make, None).map_err(in_field)?;
        if targets.is_empty() {
            let verb = if self.options.create { "found or made" } else { "found" };
            let error = BuildError::transform(format!("the field `{path}` cannot be {verb}"));
            let hint = "set `options.create: true` to make it";
            return Err(if self.options.create { error } else { error.hint(hint) });
        }
        for target in &targets.found {
            // What was made or set may be in the value itself.
            if value.is_in(index) {
                value.read_again(resources);
            }
            let node =
                resources.items.get_mut(index).and_then(|resource| resource.node.at_indices_mut(&target.indices));
            let Some(node) = node else { continue };
            let text = node.scalar_text().map_or(0, |text| text.len());
            // The text is taken apart and put together again.
            budget.grow(value.value.size() + 3 * text).map_err(in_field)?;
            budget.spend(1 + text / 8).map_err(in_field)?;
            self.set(node, &value.value, target.is_new).map_err(in_field)?;
        }
        Ok(())
    }

    fn set(&self, node: &mut Node, value: &Node, is_new: bool) -> Result<(), BuildError> {
        if self.options.delimiter.is_empty() {
            structured::set_value(node, value, is_new);
            return Ok(());
        }
        let Some(text) = node.scalar_text() else {
            return Err(BuildError::transform("`delimiter` needs a scalar"));
        };
        let text = if is_new { String::new() } else { text.into_owned() };
        let mut parts: Vec<String> = text.split(&self.options.delimiter).map(str::to_owned).collect();
        let new = value.scalar_text().unwrap_or_default().into_owned();
        match usize::try_from(self.options.index) {
            Err(_) => parts.insert(0, new),
            Ok(index) => match parts.get_mut(index) {
                Some(part) => *part = new,
                None => parts.push(new),
            },
        }
        structured::set_value(node, &Node::from(parts.join(&self.options.delimiter)), is_new);
        Ok(())
    }
}
