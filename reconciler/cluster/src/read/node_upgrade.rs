//! `NodeKubeadmUpgrade` objects: how far nodes are that are upgraded in place.

use serde_json::Value;

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::NODE_KUBEADM_UPGRADE;

/// Those of a namespace; none where the kind is not served.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn node_upgrades(connection: &Connection, namespace: &str) -> Result<Vec<Value>, RequestError> {
    let served = connection.lately_served_versions().await?;
    let version = served.version_of(&NODE_KUBEADM_UPGRADE);
    let objects = connection.list(&NODE_KUBEADM_UPGRADE, version, Some(namespace), None).await?;
    Ok(objects.into_iter().filter_map(|object| serde_json::to_value(object).ok()).collect())
}
