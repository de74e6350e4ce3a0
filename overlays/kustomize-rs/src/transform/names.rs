//! `namePrefix`, `nameSuffix` and the hash of generated objects.

use super::field::{Create, apply, set_plain};
use crate::error::BuildError;
use crate::id::Gvk;
use crate::resource::{Resource, Resources};
use crate::schema::{FieldSpec, Schema};

/// Which end of a name is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Prefix,
    Suffix,
}

/// Adds `text` to the names of all objects but those whose names have a meaning.
pub(crate) fn add(
    objects: &mut [Resource],
    end: End,
    text: &str,
    fields: &[FieldSpec],
    schema: &Schema,
) -> Result<(), BuildError> {
    for resource in objects {
        let original = resource.original_id(schema);
        let original = &original.gvk;
        if keeps_name(original) {
            continue;
        }
        for spec in fields.iter().filter(|spec| original.is_selected(&spec.gvk)) {
            if spec.path == "metadata/name" && !text.is_empty() {
                resource.begin_state();
                let layers = match end {
                    End::Prefix => &mut resource.prefixes,
                    End::Suffix => &mut resource.suffixes,
                };
                layers.reserve_exact(1);
                layers.push(text.into());
                resource.store_previous_id(schema);
            }
            let gvk = resource.gvk();
            apply(resource, &gvk, spec, Create::Scalar, &mut |node| {
                // Of a null too, as it is written.
                let old = node.scalar_text().unwrap_or_default();
                let name = match end {
                    End::Prefix => [text, &old].concat(),
                    End::Suffix => [&old, text].concat(),
                };
                drop(old);
                set_plain(node, &name)
            })?;
        }
    }
    Ok(())
}

fn keeps_name(gvk: &Gvk) -> bool {
    matches!(gvk.kind.as_str(), "CustomResourceDefinition" | "Namespace")
        || (gvk.kind == "APIService" && gvk.group == "apiregistration.k8s.io")
}

/// Adds the hash of its content to the name of every generated object that wants it.
pub(crate) fn add_hashes(resources: &mut Resources, schema: &Schema) -> Result<(), BuildError> {
    for resource in resources.items.iter_mut().filter(|resource| resource.needs_hash) {
        let hash = crate::transform::hash::of(&resource.node).map_err(|error| error.in_file(&resource.origin.file))?;
        resource.store_previous_id(schema);
        let name = format!("{}-{hash}", resource.name());
        resource.set_metadata("name", &name);
    }
    Ok(())
}
