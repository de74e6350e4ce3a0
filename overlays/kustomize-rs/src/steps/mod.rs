//! Steps of a build: reading the files they name, then running them.

pub(crate) mod builtin;
mod each;
mod prepare;
mod validation;

use std::sync::Arc;

use crate::error::BuildError;
use crate::kustomization::spec::{PatchEntry, Replacement};
use crate::load::Loader;
use crate::merge::json6902;
use crate::resource::provenance::{self, Configured};
use crate::resource::{Resource, Resources};
use crate::schema::{FieldSpec, Schema};
use crate::transform::names;
use crate::transform::namespace::NamespaceTransformer;
use crate::transform::patches::{self, Patch};
use crate::transform::replacements;
use crate::transform::replicas;
use crate::transform::value_add::{self, ValueAddTarget};

use each::Each;

pub(crate) use validation::unchanged;

/// A step that needs no more files.
pub(crate) enum Prepared {
    Namespace(NamespaceTransformer),
    Each(Each),
    Patch(Box<Patch>),
    StrategicMerge(Vec<(Resource, String)>),
    JsonPatch { operations: Vec<json6902::Operation>, entry: Box<PatchEntry>, file: String },
    Replicas(String, i64, Arc<Vec<FieldSpec>>),
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
            Self::Namespace(transformer) => transformer.fields.as_slice(),
            Self::Replicas(_, _, fields) => fields,
            Self::Each(each) => each.fields(),
            _ => return true,
        };
        fields.iter().any(FieldSpec::leads_to_annotations)
    }
}

/// One step among others.
///
/// All steps but patches see that there are annotations where kustomize keeps its state in them.
struct Turn<'s> {
    step: &'s Prepared,
    by: Option<&'s Configured>,
    /// Whether the step looks at annotations.
    reads: bool,
    /// Whether the state is hidden again: the next step shows it otherwise.
    hides: bool,
}

impl<'s> Turn<'s> {
    fn of(steps: &'s [(Prepared, Option<Configured>)], index: usize) -> Option<Self> {
        let (step, by) = steps.get(index)?;
        let stays_shown = by.is_none() && steps.get(index + 1).is_some_and(|(next, _)| next.sees_state());
        let hides = step.sees_state() && !stays_shown;
        Some(Self { step, by: by.as_ref(), reads: step.reads_annotations(), hides })
    }

    fn each(&self) -> Option<&'s Each> {
        match self.step {
            Prepared::Each(each) => Some(each),
            _ => None,
        }
    }

    fn begin(&self, objects: &mut [Resource]) {
        if self.step.sees_state() {
            // Where there is a null instead of annotations, showing makes them.
            let shows =
                |resource: &&mut Resource| resource.has_state() && (self.reads || resource.has_null_annotations());
            objects.iter_mut().filter(shows).for_each(Resource::show_state);
        }
    }

    fn end(&self, objects: &mut [Resource]) -> Result<(), BuildError> {
        for resource in &mut *objects {
            resource.settle();
            resource.node.renew_name();
            if self.hides {
                resource.hide_state();
            }
        }
        self.by.map_or(Ok(()), |by| provenance::note(objects, by))
    }
}

/// Objects that steps go over together, so that a processor has them at hand from one step to the next.
const AT_HAND: usize = 128;

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
        let (text, fields): (usize, usize) = match step {
            Prepared::Namespace(transformer) => (transformer.namespace.len(), transformer.fields.len()),
            Prepared::Each(each) => each.cost(),
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
    pub(crate) fn run_all(
        &self,
        steps: &[(Prepared, Option<Configured>)],
        resources: &mut Resources,
    ) -> Result<(), BuildError> {
        let turns: Vec<Turn<'_>> = (0..steps.len()).filter_map(|index| Turn::of(steps, index)).collect();
        for group in turns.chunk_by(|turn, next| turn.each().and(next.each()).is_some()) {
            group.iter().try_for_each(|turn| self.charge(turn.step, resources))?;
            if group.iter().all(|turn| turn.each().is_none()) {
                for turn in group {
                    turn.begin(&mut resources.items);
                    self.run(turn.step, resources)?;
                    turn.end(&mut resources.items)?;
                }
                continue;
            }
            for objects in resources.items.chunks_mut(AT_HAND) {
                for turn in group {
                    turn.begin(objects);
                    turn.each().map_or(Ok(()), |each| each.run(objects, self.schema))?;
                    turn.end(objects)?;
                }
            }
        }
        Ok(())
    }

    fn run(&self, step: &Prepared, resources: &mut Resources) -> Result<(), BuildError> {
        let schema = self.schema;
        let limits = &self.loader.limits;
        match step {
            Prepared::Namespace(transformer) => transformer.transform(resources, schema),
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
            Prepared::Replacements(list) => replacements::replace(resources, list, schema),
            Prepared::ValueAdd(value, targets) => value_add::add(resources, value, targets, schema),
            Prepared::Hash => names::add_hashes(resources, schema),
            Prepared::Each(each) => each.run(&mut resources.items, schema),
        }
    }
}
