//! The `namespace` field: sets the namespace of everything that may live in one.

use std::sync::{Arc, LazyLock};

use foldhash::{HashMap, HashMapExt as _};
use yaml::{Mapping, Node};

use super::field::{Create, apply, set_text};
use crate::error::BuildError;
use crate::id::{Gvk, ResourceId, SameObject};
use crate::resource::{Resource, Resources};
use crate::schema::{FieldSpec, Schema};

/// Where an object has its namespace.
static OWN_FIELD: LazyLock<FieldSpec> = LazyLock::new(|| FieldSpec::new(Gvk::default(), "metadata/namespace", true));

/// Which subjects of role bindings get the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Subjects {
    /// Those named `default`.
    #[default]
    DefaultOnly,
    /// All service accounts.
    AllServiceAccounts,
    /// None.
    None,
}

/// What the transformer is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamespaceTransformer {
    pub(crate) namespace: String,
    pub(crate) fields: Arc<Vec<FieldSpec>>,
    pub(crate) unset_only: bool,
    pub(crate) subjects: Subjects,
}

impl NamespaceTransformer {
    pub(crate) fn transform(&self, resources: &mut Resources, schema: &Schema) -> Result<(), BuildError> {
        if self.namespace.is_empty() {
            return Ok(());
        }
        let ids: Vec<Arc<ResourceId>> = resources.items.iter().map(|resource| resource.id(schema)).collect();
        let mut names: HashMap<_, usize> = HashMap::with_capacity(ids.len());
        for id in &ids {
            *names.entry(SameObject(Arc::clone(id))).or_default() += 1;
        }
        for (resource, before) in resources.items.iter_mut().zip(ids).filter(|(resource, _)| !resource.from_chart) {
            resource.store_id(&before);
            self.one(resource, schema).map_err(|error| error.at(&resource.origin.file.clone(), resource.node.span))?;
            let id = resource.id(schema);
            let (key, before) = (SameObject(Arc::clone(&id)), SameObject(before));
            if key != before {
                if let Some(count) = names.get_mut(&before) {
                    *count -= 1;
                }
                *names.entry(key.clone()).or_default() += 1;
            }
            if names.get(&key).is_some_and(|count| *count > 1) {
                return Err(BuildError::conflict(format!("the namespace gives two objects the name {id}")));
            }
        }
        Ok(())
    }

    /// Sets the namespace of one object.
    pub(crate) fn one(&self, resource: &mut Resource, schema: &Schema) -> Result<(), BuildError> {
        let id = resource.id(schema);
        let gvk = &id.gvk;
        let is_core = resource.node.get("apiVersion").and_then(Node::as_str) == Some("v1");
        if !id.cluster_scoped {
            apply(resource, gvk, &OWN_FIELD, Create::Scalar, &mut |node| self.set(node))?;
        }
        let binding = matches!(gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding");
        if binding {
            self.set_subjects(&mut resource.node)?;
        }
        for spec in self.fields.iter() {
            let handled = match spec.path.as_str() {
                "metadata/namespace" => true,
                "metadata/name" => !is_core,
                "subjects/namespace" => {
                    binding && matches!(spec.gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding")
                }
                _ => false,
            };
            if !handled {
                apply(resource, gvk, spec, Create::Scalar, &mut |node| self.set(node))?;
            }
        }
        Ok(())
    }

    fn set(&self, node: &mut Node) -> Result<(), BuildError> {
        let has_value = node.scalar_text().is_some_and(|text| !node.is_null() && !text.is_empty());
        if self.unset_only && has_value {
            return Ok(());
        }
        set_text(node, &self.namespace)
    }

    fn set_subjects(&self, object: &mut Node) -> Result<(), BuildError> {
        let field = match self.subjects {
            Subjects::None => return Ok(()),
            Subjects::DefaultOnly => ("name", "default"),
            Subjects::AllServiceAccounts => ("kind", "ServiceAccount"),
        };
        let Some(subjects) = object.get_mut("subjects").filter(|subjects| !subjects.is_null()) else {
            return Ok(());
        };
        let Some(subjects) = subjects.as_sequence_mut() else {
            return Err(BuildError::transform("`subjects` is not a list"));
        };
        for subject in subjects.iter_mut().filter(|subject| !subject.is_null()) {
            let Some(subject) = subject.as_mapping_mut() else {
                return Err(BuildError::transform("`subjects` holds something that is not a map"));
            };
            if has(subject, field.0, field.1)? {
                self.set(subject.get_or_insert_with("namespace", || Node::from("")))?;
            }
        }
        Ok(())
    }
}

fn has(subject: &Mapping, field: &str, value: &str) -> Result<bool, BuildError> {
    match subject.get(field) {
        Some(node) if !node.is_scalar() => {
            let message = format!("`{field}` of a subject is a list or a map, where a text is expected");
            Err(BuildError::transform(message))
        }
        node => Ok(node.and_then(Node::as_str) == Some(value)),
    }
}
