//! The objects by which people describe clusters, as a management cluster holds them.

use serde_json::Value;

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{DEPLOYMENT, KUSTOMIZATION};
use crate::client::request::Selection;

/// EKS Anywhere's controller.
const CONTROLLER: (&str, &str) = ("eksa-system", "eksa-controller-manager");

/// Groups whose objects are read besides those of Cluster API.
const GROUPS: [&str; 5] = [
    "anywhere.eks.amazonaws.com",
    "cluster.x-k8s.io",
    "distro.eks.amazonaws.com",
    "kustomize.toolkit.fluxcd.io",
    "source.toolkit.fluxcd.io",
];

/// What a management cluster holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveObjects {
    /// The server's address.
    pub server: String,
    /// Every object of EKS Anywhere, Cluster API, EKS-D and Flux, and EKS Anywhere's controller,
    /// with those who own their fields.
    pub objects: Vec<Value>,
    /// Whether Flux is there.
    pub serves_flux: bool,
    /// Kinds that could not be read, and why.
    pub unknown: Vec<String>,
}

/// Reads them. Secrets and `ConfigMaps` are never asked for.
///
/// # Errors
/// When the server is not ready, or does not say what it serves.
pub async fn live_objects(connection: &Connection) -> Result<LiveObjects, RequestError> {
    connection.ready().await?;
    let served = connection.served_versions().await?;
    let mut live = LiveObjects {
        server: connection.server().to_owned(),
        objects: Vec::new(),
        serves_flux: served.version_of(&KUSTOMIZATION).is_some(),
        unknown: Vec::new(),
    };
    for api_version in served.preferred(is_read) {
        let addresses = match connection.kinds(&api_version).await {
            Ok(addresses) => addresses,
            Err(error) if error.is_unreachable() => return Err(error),
            Err(error) => {
                live.unknown.push(format!("{api_version}: {error}"));
                continue;
            }
        };
        for resource in addresses.into_iter().map(|address| address.resource) {
            let attempt = format!("list {}.{}", resource.plural, resource.group);
            let selection = Selection { managers: true, ..Selection::default() };
            match connection.list_resource(&resource, None, selection, &attempt).await {
                Ok(listed) => live.objects.extend(listed.into_iter().filter_map(|object| {
                    let mut object = serde_json::to_value(object).ok()?;
                    let fields = object.as_object_mut()?;
                    // Items of a list need not repeat their type.
                    fields.insert("apiVersion".to_owned(), resource.api_version.clone().into());
                    fields.insert("kind".to_owned(), resource.kind.clone().into());
                    Some(object)
                })),
                Err(error) if error.is_unreachable() => return Err(error),
                Err(error) => live.unknown.push(error.to_string()),
            }
        }
    }
    let (namespace, name) = CONTROLLER;
    match connection.get(&DEPLOYMENT.resource("v1"), Some(namespace), name).await {
        Ok(found) => live.objects.extend(found.and_then(|object| serde_json::to_value(object).ok())),
        Err(error) => live.unknown.push(error.to_string()),
    }
    Ok(live)
}

fn is_read(group: &str) -> bool {
    GROUPS.contains(&group) || group.ends_with(".cluster.x-k8s.io") && !group.starts_with("clusterctl.")
}
