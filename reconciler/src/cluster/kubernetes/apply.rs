//! Server-side apply of manifests without Flux (`apply: direct`).

use std::time::Duration;

use kube::core::DynamicObject;
use kustomize_rs::yaml::{self, Limits};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::connection::Connection;
use super::error::RequestError;
use super::kind::CUSTOM_RESOURCE_DEFINITION;
use super::request::described;
use crate::cluster::objects;
use crate::cluster::{ApplyReport, ApplyRequest};

/// How long definitions may take to be established before what depends on them is applied.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(60);
const ESTABLISHED_POLL: Duration = Duration::from_millis(500);

/// Why manifests were not applied, or not all of them. Applying is repeatable: what was applied stays.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A file is not YAML.
    #[error("{path}:{line}:{column}: {message}")]
    Syntax {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser said.
        message: String,
    },
    /// A document is no Kubernetes object.
    #[error("{path}:{line}: no Kubernetes object: {field} is missing")]
    NotAnObject {
        /// The file.
        path: String,
        /// Line where the document starts.
        line: usize,
        /// What is missing.
        field: &'static str,
    },
    /// A request failed.
    #[error("{path}:{line}: {source}")]
    Request {
        /// The file.
        path: String,
        /// Line where the document starts.
        line: usize,
        /// What went wrong.
        source: RequestError,
    },
    /// A definition was applied and did not become usable.
    #[error("CustomResourceDefinition {name} was applied but is not established after {} s; see `kubectl describe crd {name}`", after.as_secs())]
    NotEstablished {
        /// Its name.
        name: String,
        /// How long was waited.
        after: Duration,
    },
}

/// The order of applying: what others need comes first; webhooks come last, when what answers them is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Definitions,
    Namespaces,
    Permissions,
    Rest,
    Webhooks,
}

impl Phase {
    fn of(kind: &str) -> Self {
        match kind {
            "CustomResourceDefinition" => Self::Definitions,
            "Namespace" => Self::Namespaces,
            "ServiceAccount" | "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => Self::Permissions,
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => Self::Webhooks,
            _ => Self::Rest,
        }
    }
}

struct Manifest {
    path: String,
    line: usize,
    phase: Phase,
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    object: Value,
}

/// Applies every document of the files. Within a phase the order is that of the files.
pub(super) async fn apply(connection: &Connection, request: &ApplyRequest) -> Result<ApplyReport, ApplyError> {
    let mut manifests = Vec::new();
    for (path, bytes) in &request.files {
        manifests.extend(read(path, bytes)?);
    }
    manifests.sort_by_key(|manifest| manifest.phase);
    let mut report = ApplyReport::default();
    let mut definitions = Vec::new();
    for manifest in &manifests {
        if manifest.phase > Phase::Definitions && !definitions.is_empty() && !request.dry_run {
            wait_until_established(connection, &std::mem::take(&mut definitions)).await?;
        }
        report.objects.push(apply_one(connection, manifest, request.dry_run).await?);
        if manifest.phase == Phase::Definitions {
            definitions.push(manifest.name.clone());
        }
    }
    if !request.dry_run {
        wait_until_established(connection, &definitions).await?;
    }
    Ok(report)
}

async fn apply_one(connection: &Connection, manifest: &Manifest, dry_run: bool) -> Result<String, ApplyError> {
    let failed = |source| ApplyError::Request { path: manifest.path.clone(), line: manifest.line, source };
    let address = connection.address(&manifest.api_version, &manifest.kind).await.map_err(failed)?;
    let address = address.ok_or_else(|| {
        failed(RequestError::NotServed {
            attempt: format!("apply {} {}", manifest.kind, manifest.name),
            server: connection.server().to_owned(),
            kind: format!("{} of {}", manifest.kind, manifest.api_version),
        })
    })?;
    // As kubectl does: a namespaced object that names no namespace goes to `default`.
    let namespace = address.namespaced.then(|| manifest.namespace.as_deref().unwrap_or("default"));
    connection.apply(&address.resource, namespace, &manifest.name, &manifest.object, dry_run).await.map_err(failed)?;
    Ok(described(&address.resource, namespace, &manifest.name))
}

async fn wait_until_established(connection: &Connection, names: &[String]) -> Result<(), ApplyError> {
    let resource = CUSTOM_RESOURCE_DEFINITION.resource("v1");
    let deadline = Instant::now() + ESTABLISHED_WITHIN;
    for name in names {
        loop {
            let found: Result<Option<DynamicObject>, _> = connection.get(&resource, None, name).await;
            // A server that is away for a moment is asked again until the deadline.
            let established =
                found.ok().flatten().is_some_and(|object| objects::custom_resource_definition(&object).established);
            if established {
                break;
            }
            if Instant::now() >= deadline {
                return Err(ApplyError::NotEstablished { name: name.clone(), after: ESTABLISHED_WITHIN });
            }
            sleep(ESTABLISHED_POLL).await;
        }
    }
    Ok(())
}

fn read(path: &str, bytes: &[u8]) -> Result<Vec<Manifest>, ApplyError> {
    let syntax = |error: yaml::YamlError| ApplyError::Syntax {
        path: path.to_owned(),
        line: error.line,
        column: error.column,
        message: error.message,
    };
    let text = yaml::decode(bytes).map_err(syntax)?;
    let documents = yaml::parse(&text, &Limits::default()).map_err(syntax)?;
    documents
        .iter()
        .map(|document| manifest(path, document.root.span.line, objects::from_yaml(&document.root)))
        .collect()
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
