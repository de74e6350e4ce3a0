//! `labels` and `commonLabels`.

use super::field::{Create, apply, set_entry};
use crate::error::BuildError;
use crate::resources::Resources;
use crate::schema::FieldSpec;
use crate::yaml::{Node, Style, Value};

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
            let (mut added, mut style) = (0, None);
            for spec in fields {
                let set = &mut |node: &mut Node| {
                    if set_entry(node, key, value, number)? {
                        added += 1;
                    } else {
                        style = node.get(key).map(Node::style);
                    }
                    Ok(())
                };
                apply(resource, &gvk, spec, Create::Mapping, set)
                    .map_err(|error| error.at(&resource.origin.file.clone(), resource.node.span))?;
            }
            // A value takes over how the one before was written, and it is one in all places.
            if let Some(style) = style.filter(|style| added > 0 && *style != Style::Plain) {
                set_style(&mut resource.node, number, style);
            }
            if added > 1 {
                resource.shared.remember(number, value);
            }
        }
    }
    Ok(())
}

fn set_style(node: &mut Node, shared: u32, style: Style) {
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().for_each(|item| set_style(item, shared, style)),
        Value::Mapping(mapping) => mapping.iter_mut().for_each(|entry| set_style(&mut entry.value, shared, style)),
        _ if node.shared == shared => node.set_style(style),
        _ => {}
    }
}
