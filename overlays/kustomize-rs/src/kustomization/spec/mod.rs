//! What a kustomization declares: the types of its fields, and how each is read. Builtin transformers are configured with
//! the same ones.

pub(crate) mod chart;
mod generator;
mod image;
mod label;
mod order;
mod patch;
mod replacement;
mod selector;
mod variable;

use yaml::Text;

pub(crate) use chart::Chart;
pub(crate) use generator::{Generator, GeneratorOptions, config_map_generator, generator_options, secret_generator};
pub(crate) use image::{Image, image};
pub(crate) use label::{LabelEntry, label_entry};
pub(crate) use order::{LegacyOrder, SortOptions, sort_options};
pub(crate) use patch::{PatchEntry, patch_entry};
pub(crate) use replacement::{Replacement, ReplacementEntry, Source, Target, replacement, replacement_entry};
pub(crate) use selector::{Selector, selector};
pub(crate) use variable::{Variable, variable};

use super::fields::Fields;
use crate::error::BuildError;
use crate::id::Gvk;
use crate::schema::FieldSpec;

pub(crate) fn gvk(fields: &Fields<'_>) -> Result<Gvk, BuildError> {
    let part = |name| fields.text(name).map(Text::from);
    Ok(Gvk { group: part("group")?, version: part("version")?, kind: part("kind")? })
}

pub(crate) fn field_spec(fields: &Fields<'_>) -> Result<FieldSpec, BuildError> {
    Ok(FieldSpec::new(gvk(fields)?, &fields.text("path")?, fields.flag("create")?))
}
