//! `labels` and `commonLabels`.

use super::field::{Create, apply, set_entry};
use crate::error::BuildError;
use crate::resources::Resources;
use crate::schema::FieldSpec;

/// Adds `pairs` to all maps that `fields` lead to.
pub(crate) fn add(
    resources: &mut Resources,
    pairs: &[(String, String)],
    fields: &[FieldSpec],
) -> Result<(), BuildError> {
    if pairs.is_empty() {
        return Ok(());
    }
    let mut pairs: Vec<&(String, String)> = pairs.iter().collect();
    pairs.sort();
    for resource in &mut resources.items {
        let gvk = resource.gvk();
        for (key, value) in &pairs {
            for spec in fields {
                apply(&mut resource.node, &gvk, spec, Create::Mapping, &mut |node| set_entry(node, key, value))
                    .map_err(|error| error.at(&resource.origin.file.clone(), resource.node.span))?;
            }
        }
    }
    Ok(())
}
