//! Entries of `labels`.

use super::field_spec;
use crate::error::BuildError;
use crate::kustomization::fields::Fields;
use crate::schema::FieldSpec;

/// An entry of `labels`.
#[derive(Debug, Clone, Default)]
pub(crate) struct LabelEntry {
    pub(crate) pairs: Vec<(String, String)>,
    pub(crate) include_selectors: bool,
    pub(crate) include_templates: bool,
    pub(crate) fields: Vec<FieldSpec>,
}

pub(crate) fn label_entry(fields: &Fields<'_>) -> Result<LabelEntry, BuildError> {
    Ok(LabelEntry {
        pairs: fields.map("pairs")?,
        include_selectors: fields.flag("includeSelectors")?,
        include_templates: fields.flag("includeTemplates")?,
        fields: fields.objects("fields", field_spec)?,
    })
}
