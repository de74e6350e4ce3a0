//! `labels` and `commonLabels`.

use yaml::{Node, Style, Value, is_other_without_quotes};

use super::field::{Create, apply, set_entry};
use crate::error::BuildError;
use crate::resource::Resource;
use crate::schema::FieldSpec;

/// Adds `pairs` to all maps that `fields` lead to.
pub(crate) fn add(
    objects: &mut [Resource],
    pairs: &[(String, String)],
    fields: &[FieldSpec],
) -> Result<(), BuildError> {
    if pairs.is_empty() {
        return Ok(());
    }
    let mut pairs: Vec<&(String, String)> = pairs.iter().collect();
    pairs.sort();
    // In quotes if it would not be read as text without.
    let style = |value: &str| if is_other_without_quotes(value) { Style::Quoted } else { Style::Plain };
    let pairs: Vec<_> = pairs.into_iter().map(|(key, value)| (key, value, style(value))).collect();
    for resource in objects {
        let gvk = resource.gvk();
        for (key, value, own) in &pairs {
            let number = resource.shared.next();
            let (mut added, mut style) = (0, *own);
            for spec in fields {
                let set = &mut |node: &mut Node| {
                    if style == Style::Plain {
                        style = *own;
                    }
                    match set_entry(node, key, value, number)? {
                        Some(earlier) => style = earlier,
                        None => added += 1,
                    }
                    Ok(())
                };
                apply(resource, &gvk, spec, Create::Mapping, set)
                    .map_err(|error| error.at(&resource.origin.file.clone(), resource.node.span))?;
            }
            // A value takes over how the one before was written, and it is one in all places.
            if added > 0 && style != Style::Plain {
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
    let is_shared = node.shared() == shared;
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().for_each(|item| set_style(item, shared, style)),
        Value::Mapping(mapping) => mapping.iter_mut().for_each(|entry| set_style(&mut entry.value, shared, style)),
        _ if is_shared => node.set_style(style),
        _ => {}
    }
}
