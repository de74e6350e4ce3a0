//! From the files of a directory to the objects that are applied, in the order in which they are.

use kustomize_rs::{MemoryFileSystem, flux};
use serde_json::Value;

use super::ApplyError;
use super::inventory::Entry;
use crate::client::error::RequestError;
use crate::client::request::Address;
use crate::{ApplySet, objects};

/// The order of applying: what others need comes first; webhooks come last, when what answers them is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Definitions,
    Namespaces,
    Permissions,
    Rest,
    Webhooks,
}

impl Phase {
    pub(super) fn of(kind: &str) -> Self {
        match kind {
            "CustomResourceDefinition" => Self::Definitions,
            "Namespace" => Self::Namespaces,
            "ServiceAccount" | "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => Self::Permissions,
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => Self::Webhooks,
            _ => Self::Rest,
        }
    }
}

/// An object to apply, and where it stands.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) phase: Phase,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) object: Value,
}

impl Manifest {
    /// Group and kind of what a definition defines.
    pub(super) fn defines(&self) -> Option<(String, String)> {
        let text = |path: &[&str]| path.iter().try_fold(&self.object, |value, key| value.get(key))?.as_str();
        let defined = Some((text(&["spec", "group"])?.to_owned(), text(&["spec", "names", "kind"])?.to_owned()));
        defined.filter(|_| self.phase == Phase::Definitions)
    }

    /// The namespace that it goes to. As with kubectl, a namespaced object that names none goes to `default`.
    pub(super) fn place(&self, address: &Address) -> Option<&str> {
        address.namespaced.then(|| self.namespace.as_deref().unwrap_or("default"))
    }

    /// A request about it that failed.
    pub(super) fn failed(&self, source: RequestError) -> ApplyError {
        ApplyError::Request { path: self.path.clone(), line: self.line, source: Box::new(source) }
    }

    /// What the inventory keeps of it.
    pub(super) fn entry(&self, namespace: Option<&str>) -> Entry {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        Entry {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: self.kind.clone(),
            namespace: namespace.map(str::to_owned),
            name: self.name.clone(),
            uid: None,
        }
    }
}

/// What Flux would apply of a directory, sorted by phase; within a phase the order is that of the build.
pub(super) fn read(set: &ApplySet) -> Result<Vec<Manifest>, ApplyError> {
    if set.files.is_empty() {
        return Ok(Vec::new());
    }
    let mut files = MemoryFileSystem::new();
    for (path, bytes) in &set.files {
        files.insert(path, bytes.to_vec());
    }
    let kustomization = flux::Kustomization {
        name: set.kustomization.name.clone(),
        namespace: set.kustomization.namespace.clone(),
        path: set.folder.clone(),
        ..flux::Kustomization::default()
    };
    let resources = flux::build(&files, &kustomization, &flux::Options::default())
        .map_err(|source| ApplyError::Build { folder: set.folder.clone(), source })?;
    let mut manifests = Vec::with_capacity(resources.len());
    for resource in resources.iter() {
        let origin = resource.origin();
        manifests.push(manifest(&origin.file, origin.line, objects::from_yaml(resource.node()))?);
    }
    manifests.sort_by_key(|manifest| manifest.phase);
    Ok(manifests)
}

fn manifest(path: &str, line: usize, object: Value) -> Result<Manifest, ApplyError> {
    let text = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let missing = |field| ApplyError::NotAnObject { path: path.to_owned(), line, field };
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let kind = text(&object, "kind").ok_or_else(|| missing("kind"))?;
    Ok(Manifest {
        path: path.to_owned(),
        line,
        phase: Phase::of(&kind),
        api_version: text(&object, "apiVersion").ok_or_else(|| missing("apiVersion"))?,
        namespace: text(metadata, "namespace"),
        name: text(metadata, "name").ok_or_else(|| missing("metadata.name"))?,
        kind,
        object,
    })
}
