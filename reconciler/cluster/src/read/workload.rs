//! The cluster's own API server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::core::DynamicObject;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::ClusterError;
use crate::client::connection::{Connection, ConnectionError};
use crate::client::kind::SECRET;

/// A connection to the cluster's own server.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    /// Whether it was made just now.
    pub(crate) is_new: bool,
}

/// Which server is the cluster's own.
#[derive(Debug)]
pub(crate) enum Own {
    /// The management cluster's.
    Management,
    /// The one that the kubeconfig in a Secret of the management cluster leads to.
    Workload {
        namespace: String,
        secret: String,
        /// The connection made last and the Secret's `resourceVersion` it was made from.
        known: Box<Mutex<Option<(String, Connection)>>>,
    },
}

impl Own {
    pub(crate) fn workload(namespace: &str, name: &str) -> Self {
        Self::Workload { namespace: namespace.to_owned(), secret: format!("{name}-kubeconfig"), known: Box::default() }
    }

    /// The connection made last, where there is one: a reading notices when the Secret has changed.
    pub(crate) async fn last(&self, management: &Connection) -> Option<Connection> {
        match self {
            Self::Management => Some(management.clone()),
            Self::Workload { known, .. } => known.lock().await.as_ref().map(|(_, connection)| connection.clone()),
        }
    }

    /// Connects, or returns the connection that there is while the Secret stays the same.
    pub(crate) async fn connect(&self, management: &Connection) -> Result<Opened, ClusterError> {
        let (namespace, name, known) = match self {
            Self::Management => return Ok(Opened { connection: management.clone(), is_new: false }),
            Self::Workload { namespace, secret, known } => (namespace, secret, known),
        };
        let failed =
            |reason: String| ConnectionError::Secret { namespace: namespace.clone(), name: name.clone(), reason };
        let secret = management.get(&SECRET.resource("v1"), Some(namespace), name).await?.ok_or_else(|| {
            failed(String::from("not found; Cluster API writes it when the control plane is initialised"))
        })?;
        let version = secret.metadata.resource_version.clone().unwrap_or_default();
        let mut known = known.lock().await;
        if let Some((_, connection)) = known.as_ref().filter(|(seen, _)| *seen == version && !version.is_empty()) {
            return Ok(Opened { connection: connection.clone(), is_new: false });
        }
        let connection = Self::open(namespace, name, &secret)
            .await?
            .with_timeout(management.timeout)
            .with_requests_per_second(management.requests_per_second)
            .fenced(management.fence.clone());
        *known = Some((version, connection.clone()));
        Ok(Opened { connection, is_new: true })
    }

    /// A connection by the kubeconfig in a Secret that Cluster API keeps.
    pub(crate) async fn open(
        namespace: &str,
        name: &str,
        secret: &DynamicObject,
    ) -> Result<Connection, ConnectionError> {
        let failed = |reason: &str| ConnectionError::Secret {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            reason: reason.to_owned(),
        };
        let value = secret.data.get("data").and_then(|data| data.get("value")).and_then(Value::as_str);
        let value = value.ok_or_else(|| failed("key `value` is missing"))?;
        let text = STANDARD
            .decode(value)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| failed("key `value` is not valid base64 of a text"))?;
        Connection::from_secret(namespace, name, &text).await
    }
}
