//! Entries of `vars`.

use yaml::Text;

use super::gvk;
use crate::error::BuildError;
use crate::id::{Gvk, ResourceId};
use crate::kustomization::fields::Fields;

/// One entry of `vars`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) object: ResourceId,
    pub(crate) field_path: String,
}

pub(crate) fn variable(fields: &Fields<'_>) -> Result<Variable, BuildError> {
    let object = fields.object("objref", |object| {
        let api_version = object.text("apiVersion")?;
        let mut gvk = gvk(object)?;
        if !api_version.is_empty() {
            gvk = Gvk::new(&api_version, &gvk.kind);
        }
        let part = |name| object.text(name).map(Text::from);
        Ok(ResourceId { gvk: gvk.into(), name: part("name")?, namespace: part("namespace")?, cluster_scoped: false })
    })?;
    let field_path = fields.object("fieldref", |field| field.text("fieldPath"))?.unwrap_or_default();
    Ok(Variable {
        name: fields.text("name")?,
        object: object.unwrap_or_default(),
        field_path: if field_path.is_empty() { "metadata.name".into() } else { field_path },
    })
}
