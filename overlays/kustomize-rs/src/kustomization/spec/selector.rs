//! `target`, `select` and `reject`: which objects are meant.

use super::gvk;
use crate::error::BuildError;
use crate::id::Gvk;
use crate::kustomization::fields::Fields;

/// A selector as written in a kustomization. Empty parts select everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// Regular expressions for group, version and kind.
    pub gvk: Gvk,
    /// Regular expression for the name.
    pub name: String,
    /// Regular expression for the namespace.
    pub namespace: String,
    /// Kubernetes label selector on annotations.
    pub annotation_selector: String,
    /// Kubernetes label selector.
    pub label_selector: String,
}

pub(crate) fn selector(fields: &Fields<'_>) -> Result<Selector, BuildError> {
    Ok(Selector {
        gvk: gvk(fields)?,
        name: fields.text("name")?,
        namespace: fields.text("namespace")?,
        annotation_selector: fields.text("annotationSelector")?,
        label_selector: fields.text("labelSelector")?,
    })
}
