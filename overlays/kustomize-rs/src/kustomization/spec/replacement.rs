//! Entries of `replacements`.

use super::gvk;
use super::selector::{Selector, selector};
use crate::error::BuildError;
use crate::id::ResourceId;
use crate::kustomization::fields::Fields;

/// How a field is split and joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldOptions {
    pub(crate) delimiter: String,
    pub(crate) index: i64,
    pub(crate) create: bool,
}

/// Where a value comes from.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Source {
    pub(crate) id: ResourceId,
    pub(crate) field_path: String,
    pub(crate) options: FieldOptions,
}

/// Where it goes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Target {
    pub(crate) select: Option<Selector>,
    pub(crate) reject: Vec<Selector>,
    pub(crate) field_paths: Vec<String>,
    pub(crate) options: FieldOptions,
}

/// One entry of `replacements`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Replacement {
    pub(crate) source: Option<Source>,
    pub(crate) source_value: Option<String>,
    pub(crate) targets: Option<Vec<Target>>,
}

/// An entry of `replacements`: a file or a replacement.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplacementEntry {
    pub(crate) path: String,
    pub(crate) replacement: Replacement,
}

fn field_options(fields: &Fields<'_>) -> Result<FieldOptions, BuildError> {
    fields.text("encoding")?;
    Ok(FieldOptions {
        delimiter: fields.text("delimiter")?,
        index: fields.number("index")?,
        create: fields.flag("create")?,
    })
}

fn source(fields: &Fields<'_>) -> Result<Source, BuildError> {
    let id = ResourceId {
        gvk: gvk(fields)?.into(),
        name: fields.text("name")?.into(),
        namespace: fields.text("namespace")?.into(),
        cluster_scoped: false,
    };
    let options = fields.object("options", field_options)?.unwrap_or_default();
    Ok(Source { id, field_path: fields.text("fieldPath")?, options })
}

fn target(fields: &Fields<'_>) -> Result<Target, BuildError> {
    Ok(Target {
        select: fields.object("select", selector)?,
        reject: fields.objects("reject", selector)?,
        field_paths: fields.texts("fieldPaths")?,
        options: fields.object("options", field_options)?.unwrap_or_default(),
    })
}

pub(crate) fn replacement(fields: &Fields<'_>) -> Result<Replacement, BuildError> {
    let has_targets = fields.get("targets").is_some();
    let targets = fields.objects("targets", target)?;
    Ok(Replacement {
        source: fields.object("source", source)?,
        source_value: fields.optional_text("sourceValue")?,
        targets: has_targets.then_some(targets),
    })
}

pub(crate) fn replacement_entry(fields: &Fields<'_>) -> Result<ReplacementEntry, BuildError> {
    let entry = ReplacementEntry { path: fields.text("path")?, replacement: replacement(fields)? };
    let inline =
        entry.replacement.source.is_some() || entry.replacement.targets.as_ref().is_some_and(|t| !t.is_empty());
    if !entry.path.is_empty() && inline {
        return Err(BuildError::syntax("a replacement has both a `path` and a replacement of its own"));
    }
    Ok(entry)
}
