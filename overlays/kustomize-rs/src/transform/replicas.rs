//! `replicas`.

use yaml::Value;

use super::field::{Create, apply, set_value};
use crate::error::BuildError;
use crate::resource::Resources;
use crate::schema::{FieldSpec, Schema};

/// Sets the count of the objects that have or had the name.
pub(crate) fn set(
    resources: &mut Resources,
    name: &str,
    count: i64,
    fields: &[FieldSpec],
    schema: &Schema,
) -> Result<(), BuildError> {
    let mut found = false;
    for spec in fields {
        for index in resources.matching_any_id(schema, |id| id.name == name && id.gvk.is_selected(&spec.gvk)) {
            found = true;
            if let Some(resource) = resources.items.get_mut(index) {
                let gvk = resource.gvk();
                let set = &mut |node: &mut _| set_value(node, Value::Int(count));
                apply(resource, &gvk, spec, Create::Scalar, set)?;
            }
        }
    }
    if found {
        return Ok(());
    }
    let mut kinds: Vec<&str> = fields.iter().map(|spec| spec.gvk.kind.as_str()).collect();
    kinds.dedup();
    let message = format!("`replicas` names `{name}`, but there is no such {}", kinds.join(", "));
    Err(BuildError::transform(message))
}
