//! Which objects a patch or replacement means: by kind and name, labels and annotations.

use crate::error::BuildError;
use crate::id::{Gvk, ResourceId};
use crate::kustomization::spec::Selector;
use crate::resource::Resource;
use crate::schema::Schema;
use crate::select::pattern::Pattern;
use crate::select::requirement::{Requirement, requirements};

/// A selector ready for use.
#[derive(Debug)]
pub(crate) struct CompiledSelector {
    group: Option<Pattern>,
    version: Option<Pattern>,
    kind: Option<Pattern>,
    name: Option<Pattern>,
    namespace: Option<Pattern>,
    /// A selector that is wrong is an error only where an object is compared with it.
    labels: Result<Vec<Requirement>, BuildError>,
    annotations: Result<Vec<Requirement>, BuildError>,
    names_nothing: bool,
    has_no_metadata: bool,
}

impl Selector {
    pub(crate) fn compile(&self) -> Result<CompiledSelector, BuildError> {
        let part = |text: &str| if text.is_empty() { Ok(None) } else { Pattern::new(text).map(Some) };
        Ok(CompiledSelector {
            group: part(&self.gvk.group)?,
            version: part(&self.gvk.version)?,
            kind: part(&self.gvk.kind)?,
            name: part(&self.name)?,
            namespace: part(&self.namespace)?,
            labels: requirements(&self.label_selector),
            annotations: requirements(&self.annotation_selector),
            has_no_metadata: self.label_selector.is_empty() && self.annotation_selector.is_empty(),
            names_nothing: self.gvk == Gvk::default() && self.name.is_empty() && self.namespace.is_empty(),
        })
    }
}

fn fits(pattern: Option<&Pattern>, text: &str) -> bool {
    pattern.is_none_or(|pattern| pattern.is_match(text))
}

impl CompiledSelector {
    pub(crate) fn fits_gvk(&self, gvk: &Gvk) -> bool {
        fits(self.group.as_ref(), &gvk.group)
            && fits(self.version.as_ref(), &gvk.version)
            && fits(self.kind.as_ref(), &gvk.kind)
    }

    /// Says whether the selector gives no part of a name.
    pub(crate) fn names_nothing(&self) -> bool {
        self.names_nothing
    }

    /// Says whether it gives neither labels nor annotations.
    pub(crate) fn has_no_metadata(&self) -> bool {
        self.has_no_metadata
    }

    pub(crate) fn fits_id(&self, id: &ResourceId) -> bool {
        self.fits_gvk(&id.gvk) && fits(self.name.as_ref(), &id.name) && fits(self.namespace.as_ref(), &id.namespace)
    }

    pub(crate) fn fits_metadata(&self, resource: &Resource) -> Result<bool, BuildError> {
        let all = |requirements: &Result<Vec<Requirement>, BuildError>, field: &str| {
            let requirements = requirements.as_ref().map_err(Clone::clone)?;
            Ok(requirements.is_empty() || {
                let pairs = resource.metadata_map(field);
                requirements.iter().all(|requirement| requirement.fits(&pairs))
            })
        };
        Ok(all(&self.labels, "labels")? && all(&self.annotations, "annotations")?)
    }

    /// Says whether a patch with this target means the object: original or current name and namespace.
    pub(crate) fn selects(&self, resource: &Resource, schema: &Schema) -> Result<bool, BuildError> {
        if !self.fits_gvk(&resource.gvk()) {
            return Ok(false);
        }
        let (current, original) = (resource.id(schema), resource.original_id(schema));
        let either = |pattern: Option<&Pattern>, a: &str, b: &str| fits(pattern, a) || fits(pattern, b);
        let named = either(self.namespace.as_ref(), original.effective_namespace(), current.effective_namespace())
            && either(self.name.as_ref(), &original.name, &current.name);
        Ok(named && self.fits_metadata(resource)?)
    }
}
