//! What is in the management cluster under the names that a fleet uses, and what Flux applies
//! there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use kube::core::DynamicObject;
use rollout::{FluxReference, ObjectReference};
use serde_json::Value;

use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{GIT_REPOSITORY, KUSTOMIZATION, OCI_REPOSITORY};
use crate::client::request::{Address, ServedVersions};
use crate::{AppliedByFlux, AppliedObject, FoundObjects, objects};

/// Reads these objects, and every Kustomization of Flux. What cannot be read says why.
pub(crate) async fn found(
    connection: &Connection,
    references: &[ObjectReference],
) -> Result<FoundObjects, RequestError> {
    connection.ready().await?;
    let served = connection.served_versions().await?;
    let mut addresses: BTreeMap<(&str, &str), Result<Option<Address>, RequestError>> = BTreeMap::new();
    for reference in references {
        let kind = (reference.api_version.as_str(), reference.kind.as_str());
        if let Entry::Vacant(entry) = addresses.entry(kind) {
            entry.insert(connection.address(kind.0, kind.1).await);
        }
    }
    let get = async |reference: &ObjectReference| {
        let Some(address) = addresses.get(&(reference.api_version.as_str(), reference.kind.as_str())) else {
            return Ok(None);
        };
        let Some(address) = address.clone()? else { return Ok(None) };
        let namespace = reference.namespace.as_deref().unwrap_or("default");
        connection.get(&address.resource, address.namespaced.then_some(namespace), &reference.name).await
    };
    let answers = concurrently(references.iter().map(get).collect()).await;
    let value = |found: Result<Option<DynamicObject>, RequestError>| match found {
        Ok(object) => object.map(serde_json::to_value).transpose().map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    // Once the server cannot be reached the rest is missing, and unknown.
    let unasked = || Err("the server was not asked any more".to_owned());
    let mut answers = answers.into_iter().map(value);
    let objects = references.iter().map(|known| (known.clone(), answers.next().unwrap_or_else(unasked))).collect();
    let flux = applied_by_flux(connection, &served).await.map_err(|error| error.to_string());
    Ok(FoundObjects { objects, flux })
}

async fn applied_by_flux(connection: &Connection, served: &ServedVersions) -> Result<Vec<AppliedByFlux>, RequestError> {
    let listed = connection.list(&KUSTOMIZATION, served.version_of(&KUSTOMIZATION), None, None).await?;
    let mut sources = Vec::new();
    for kind in [&GIT_REPOSITORY, &OCI_REPOSITORY] {
        let found = connection.list(kind, served.version_of(kind), None, None).await?;
        sources.extend(found.into_iter().map(|source| (kind.kind, source)));
    }
    Ok(listed.iter().map(|object| applied(object, &sources)).collect())
}

fn applied(object: &DynamicObject, sources: &[(&str, DynamicObject)]) -> AppliedByFlux {
    let text = |path: &str| object.data.pointer(path).and_then(Value::as_str);
    let read = objects::kustomization(object);
    let namespace = text("/spec/sourceRef/namespace").unwrap_or(&read.namespace);
    let (kind, name) = (read.source_kind.to_string(), read.source.clone().unwrap_or_default());
    let source = sources.iter().find(|(known, source)| {
        let metadata = &source.metadata;
        *known == kind && metadata.name.as_deref() == Some(&name) && metadata.namespace.as_deref() == Some(namespace)
    });
    let from = source.and_then(|(_, source)| {
        let url = source.data.pointer("/spec/url").and_then(Value::as_str)?;
        let reference = source.data.pointer("/spec/ref").and_then(Value::as_object);
        let reference = reference.and_then(|it| it.iter().find_map(|(key, value)| Some((key, value.as_str()?))));
        Some(match reference {
            Some((key, value)) => format!("{}, {key} {value}", without_credentials(url)),
            None => without_credentials(url),
        })
    });
    let from = from.unwrap_or_else(|| "which is not there".to_owned());
    let trouble = if read.suspended || read.reconcile_disabled {
        Some("is suspended".to_owned())
    } else {
        match &read.ready {
            Some(ready) if ready.status == rollout::ConditionStatus::True => None,
            Some(ready) => Some(format!("is not ready: {} {}", ready.reason, ready.message)),
            None => Some("has not said whether it is ready".to_owned()),
        }
    };
    let entries = object.data.pointer("/status/inventory/entries").and_then(Value::as_array);
    let ids = entries.into_iter().flatten().filter_map(|entry| entry.get("id").and_then(Value::as_str));
    AppliedByFlux {
        path: text("/spec/path").unwrap_or("./").to_owned(),
        source: format!("{kind} {namespace}/{name} ({from})"),
        revision: text("/status/lastAppliedRevision").map(str::to_owned),
        trouble,
        objects: ids.filter_map(applied_object).collect(),
        kustomization: FluxReference { namespace: read.namespace, name: read.name },
    }
}

/// `namespace_name_group_kind`, where a colon in the name is written as two underscores.
fn applied_object(id: &str) -> Option<AppliedObject> {
    let mut parts = id.rsplitn(3, '_');
    let (kind, group, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (namespace, name) = rest.split_once('_')?;
    Some(AppliedObject {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
        name: name.replace("__", ":"),
    })
}

/// An address without whom it is asked as.
fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kustomization_tells_what_it_applies_from_where_and_at_which_revision() {
        let object = |data| serde_json::from_value::<DynamicObject>(data).unwrap();
        let metadata = json!({"name": "flux-system", "namespace": "flux-system"});
        let source = object(json!({"metadata": metadata,
            "spec": {"url": "https://me:secret@git.example.com/fleet.git", "ref": {"branch": "main"}}}));
        let kustomization = object(json!({"metadata": metadata,
            "spec": {"path": "./clusters/mgmt", "sourceRef": {"kind": "GitRepository", "name": "flux-system"}},
            "status": {"lastAppliedRevision": "main@sha1:1", "conditions": [{"type": "Ready", "status": "False", "reason": "BuildFailed", "message": "no file"}],
                "inventory": {"entries": [{"id": "default_mgmt_anywhere.eks.amazonaws.com_Cluster", "v": "v1alpha1"},
                    {"id": "_cert-manager__view_rbac.authorization.k8s.io_ClusterRole", "v": "v1"}]}}}));
        let read = applied(&kustomization, &[("GitRepository", source)]);
        assert_eq!(
            read.source,
            "GitRepository flux-system/flux-system (https://git.example.com/fleet.git, branch main)"
        );
        assert_eq!(read.trouble.as_deref(), Some("is not ready: BuildFailed no file"));
        let told: Vec<String> =
            read.objects.iter().map(|it| format!("{:?} {} {}", it.namespace, it.group, it.name)).collect();
        assert_eq!(
            told,
            ["Some(\"default\") anywhere.eks.amazonaws.com mgmt", "None rbac.authorization.k8s.io cert-manager:view"]
        );
        assert!(applied(&kustomization, &[]).source.ends_with("(which is not there)"));
    }
}
