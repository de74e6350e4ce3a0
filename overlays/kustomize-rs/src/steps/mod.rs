//! Steps of a build: reading the files they name, then running them.

mod prepare;
mod validation;

use std::sync::Arc;

use crate::error::BuildError;
use crate::kustomization::PatchEntry;
use crate::loader::Loader;
use crate::merge::json6902;
use crate::provenance::{self, Configured};
use crate::resource::Resource;
use crate::resources::Resources;
use crate::schema::{FieldSpec, Schema};
use crate::transform::images::{self, Image};
use crate::transform::names::{self, End};
use crate::transform::namespace::NamespaceTransformer;
use crate::transform::patches::{self, Patch};
use crate::transform::replacements::{self, Replacement};
use crate::transform::value_add::{self, ValueAddTarget};
use crate::transform::{annotations, labels, replicas};

pub(crate) use validation::unchanged;

/// A step that needs no more files.
pub(crate) enum Prepared {
    Namespace(NamespaceTransformer),
    Name(End, String, Arc<Vec<FieldSpec>>),
    Labels(Vec<(String, String)>, Arc<Vec<FieldSpec>>),
    Annotations(Vec<(String, String)>, Arc<Vec<FieldSpec>>),
    Patch(Box<Patch>),
    StrategicMerge(Vec<(Resource, String)>),
    JsonPatch { operations: Vec<json6902::Operation>, entry: Box<PatchEntry>, file: String },
    Replicas(String, i64, Arc<Vec<FieldSpec>>),
    Images(Vec<Image>, Arc<Vec<FieldSpec>>),
    Replacements(Vec<Replacement>),
    ValueAdd(String, Vec<ValueAddTarget>),
    Hash,
}

impl Prepared {
    fn sees_state(&self) -> bool {
        !matches!(self, Self::Patch(_) | Self::StrategicMerge(_) | Self::JsonPatch { .. })
    }

    /// Says whether the step looks at annotations, as few do.
    fn reads_annotations(&self) -> bool {
        let fields = match self {
            Self::Namespace(transformer) => &transformer.fields,
            Self::Name(_, _, fields)
            | Self::Labels(_, fields)
            | Self::Annotations(_, fields)
            | Self::Replicas(_, _, fields)
            | Self::Images(_, fields) => fields,
            _ => return true,
        };
        fields.iter().any(FieldSpec::leads_to_annotations)
    }
}

/// Longer texts than names and labels are watched.
const LONG_TEXT: usize = 512;

/// What steps of one kustomization share.
pub(crate) struct Context<'a, 'b> {
    pub(crate) loader: &'a Loader<'b>,
    pub(crate) schema: &'a Schema,
    /// The kustomization file, for errors.
    pub(crate) file: &'a str,
}

impl Context<'_, '_> {
    /// Takes what a step costs that goes over all objects, and refuses texts that could fill the memory.
    fn charge(&self, step: &Prepared, resources: &Resources) -> Result<(), BuildError> {
        let pairs = |pairs: &[(String, String)]| pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
        let (text, fields): (usize, usize) = match step {
            Prepared::Namespace(transformer) => (transformer.namespace.len(), transformer.fields.len()),
            Prepared::Name(_, text, fields) => (text.len(), fields.len()),
            Prepared::Labels(labels, fields) => (pairs(labels), fields.len()),
            Prepared::Annotations(annotations, fields) => (pairs(annotations), fields.len()),
            Prepared::Images(images, fields) => {
                let places = fields.len().saturating_mul(images.len());
                (images.iter().map(Image::longest).max().unwrap_or(0), places)
            }
            Prepared::ValueAdd(value, targets) => (value.len(), targets.len()),
            // These take what they cost themselves.
            Prepared::Patch(_)
            | Prepared::StrategicMerge(_)
            | Prepared::JsonPatch { .. }
            | Prepared::Replicas(..)
            | Prepared::Replacements(_)
            | Prepared::Hash => (0, 1),
        };
        let budget = &self.loader.budget;
        budget.spend(resources.len().saturating_mul(Resources::LOOK + fields))?;
        if text > LONG_TEXT {
            let places = resources.iter().map(|resource| resource.node.count()).sum();
            budget.fits(text, places)?;
        }
        Ok(())
    }

    /// Runs steps on the objects, one after the other, and notes on them what configured the steps.
    ///
    /// All steps but patches see that there are annotations where kustomize keeps its state in them.
    pub(crate) fn run_all(
        &self,
        steps: &[(Prepared, Option<Configured>)],
        resources: &mut Resources,
    ) -> Result<(), BuildError> {
        let mut is_shown = false;
        for (index, (step, by)) in steps.iter().enumerate() {
            if step.sees_state() {
                let reads = step.reads_annotations();
                // Where there is a null instead of annotations, showing makes them.
                let shows = |resource: &&mut Resource| reads || resource.has_null_annotations();
                resources.items.iter_mut().filter(shows).for_each(Resource::show_state);
                is_shown = true;
            }
            self.run(step, resources)?;
            resources.items.iter_mut().for_each(Resource::settle);
            let stays_shown = by.is_none() && steps.get(index + 1).is_some_and(|(next, _)| next.sees_state());
            if is_shown && !stays_shown {
                for resource in &mut resources.items {
                    resource.hide_state();
                }
                is_shown = false;
            }
            if let Some(by) = by {
                provenance::note(&mut resources.items, by)?;
            }
        }
        Ok(())
    }

    fn run(&self, step: &Prepared, resources: &mut Resources) -> Result<(), BuildError> {
        let schema = self.schema;
        let limits = &self.loader.limits;
        self.charge(step, resources)?;
        match step {
            Prepared::Namespace(transformer) => transformer.transform(resources, schema),
            Prepared::Name(end, text, fields) => names::add(resources, *end, text, fields, schema),
            Prepared::Labels(pairs, fields) => labels::add(resources, pairs, fields),
            Prepared::Annotations(pairs, fields) => annotations::add(resources, pairs, fields),
            Prepared::Patch(patch) => patch.apply(resources, schema, limits),
            Prepared::StrategicMerge(all) => all.iter().try_for_each(|(patch, file)| {
                let mut patch = patch.clone();
                patch.rewrite_metadata()?;
                patch.rewrite_type();
                patches::apply_by_name(resources, patch, schema, file)
            }),
            Prepared::JsonPatch { operations, entry, file } => {
                let Some(target) = &entry.target else {
                    return Ok(());
                };
                patches::apply_json(resources, operations, target, schema, limits, false)
                    .map_err(|error| error.in_file(file))
            }
            Prepared::Replicas(name, count, fields) => replicas::set(resources, name, *count, fields, schema),
            Prepared::Images(images, fields) => images::change(resources, images, fields),
            Prepared::Replacements(list) => replacements::replace(resources, list, schema),
            Prepared::ValueAdd(value, targets) => value_add::add(resources, value, targets, schema),
            Prepared::Hash => names::add_hashes(resources, schema),
        }
    }
}
