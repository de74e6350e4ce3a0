//! `sortOptions`.

use crate::error::BuildError;
use crate::kustomization::fields::Fields;

/// What `sortOptions` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SortOptions {
    Fifo,
    Legacy(Option<LegacyOrder>),
}

/// Kinds that go first and last, in place of the default ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LegacyOrder {
    pub(crate) first: Vec<String>,
    pub(crate) last: Vec<String>,
}

fn legacy_order(fields: &Fields<'_>) -> Result<LegacyOrder, BuildError> {
    Ok(LegacyOrder { first: fields.texts("orderFirst")?, last: fields.texts("orderLast")? })
}

pub(crate) fn sort_options(fields: &Fields<'_>) -> Result<SortOptions, BuildError> {
    let legacy = fields.object("legacySortOptions", legacy_order)?;
    match fields.text("order")?.as_str() {
        "legacy" => Ok(SortOptions::Legacy(legacy)),
        "fifo" if legacy.is_none() => Ok(SortOptions::Fifo),
        "fifo" => Err(BuildError::syntax("`sortOptions` has `legacySortOptions`, but its order is fifo")),
        other => Err(BuildError::syntax(format!("`sortOptions.order` is `{other}`, it should be legacy or fifo"))),
    }
}
