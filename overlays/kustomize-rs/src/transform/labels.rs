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
            let number = resource.shared.next();
            let mut added = 0;
            for spec in fields {
                let set = &mut |node: &mut _| {
                    added += usize::from(set_entry(node, key, value, number)?);
                    Ok(())
                };
                apply(&mut resource.node, &gvk, spec, Create::Mapping, set)
                    .map_err(|error| error.at(&resource.origin.file.clone(), resource.node.span))?;
            }
            if added > 1 {
                resource.shared.remember(number, value);
            }
        }
    }
    Ok(())
}
