//! The builtin `ValueAddTransformer`: sets or extends one field of some objects.

use super::field::{Create, apply, set_plain};
use super::namespace::NamespaceTransformer;
use crate::error::BuildError;
use crate::resources::Resources;
use crate::schema::{FieldSpec, Schema};
use crate::selector::Selector;
use crate::yaml::Node;

/// One target of the transformer.
#[derive(Debug, Clone, Default)]
pub(crate) struct ValueAddTarget {
    pub(crate) selector: Selector,
    pub(crate) field_path: String,
    /// With file paths: which part the value goes before.
    pub(crate) file_path_position: i64,
}

/// Sets `value` in the fields of all targets.
pub(crate) fn add(
    resources: &mut Resources,
    value: &str,
    targets: &[ValueAddTarget],
    schema: &Schema,
) -> Result<(), BuildError> {
    for target in targets {
        let selector = target.selector.compile()?;
        let spec = FieldSpec::new(crate::id::Gvk::default(), &target.field_path, true);
        for resource in &mut resources.items {
            if !selector.selects(resource, schema)? {
                continue;
            }
            if target.field_path == "metadata/namespace" {
                let namespace = value.to_owned();
                NamespaceTransformer { namespace, ..NamespaceTransformer::default() }.one(resource, schema)?;
                continue;
            }
            let gvk = resource.gvk();
            apply(resource, &gvk, &spec, Create::Scalar, &mut |node: &mut Node| {
                if target.file_path_position <= 0 {
                    return set_plain(node, value);
                }
                let old = node.scalar_text().unwrap_or_default().into_owned();
                set_plain(node, &insert_part(&old, value, target.file_path_position))
            })?;
        }
    }
    Ok(())
}

/// Puts `value` before the part number `position` (1-based) of a slash-separated path.
fn insert_part(path: &str, value: &str, position: i64) -> String {
    if path.is_empty() {
        return value.to_owned();
    }
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let at = usize::try_from(position - 1).unwrap_or(0).min(parts.len());
    parts.insert(at, value);
    format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"))
}
