//! Entries of `patches` and `patchesJson6902`.

use yaml::Span;

use super::selector::{Selector, selector};
use crate::error::BuildError;
use crate::kustomization::fields::Fields;

/// An entry of `patches` or `patchesJson6902`.
#[derive(Debug, Clone, Default)]
pub(crate) struct PatchEntry {
    pub(crate) path: String,
    pub(crate) patch: String,
    pub(crate) target: Option<Selector>,
    pub(crate) allow_name_change: bool,
    pub(crate) allow_kind_change: bool,
    pub(crate) span: Span,
}

pub(crate) fn patch_entry(fields: &Fields<'_>) -> Result<PatchEntry, BuildError> {
    let options =
        fields.object("options", |options| Ok((options.flag("allowNameChange")?, options.flag("allowKindChange")?)))?;
    let (allow_name_change, allow_kind_change) = options.unwrap_or_default();
    Ok(PatchEntry {
        path: fields.text("path")?,
        patch: fields.text("patch")?,
        target: fields.object("target", selector)?,
        allow_name_change,
        allow_kind_change,
        span: fields.span(),
    })
}
