//! What a kubelet answers the API server that runs a command in a container for somebody.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::http::{StatusCode, Uri};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::servers::certificate::Authority;
use crate::servers::tls::TlsListener;

/// The API server asks no node on loopback.
const ADDRESS: &str = "10.77.0.1";

/// The kubelets of all nodes at one address; they fall silent when dropped.
pub struct KubeletApi {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl KubeletApi {
    /// Answers what `says` of a path. Only for tests in a network of their own.
    ///
    /// # Errors
    /// When the address cannot be made this machine's.
    pub async fn start(
        authority: &Authority,
        says: impl Fn(&Uri) -> Option<String> + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let added = Command::new("ip").args(["address", "add", ADDRESS, "dev", "lo"]).output()?;
        ensure!(added.status.success(), "ip address: {}", String::from_utf8_lossy(&added.stderr));
        let identity = authority.server()?;
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).context("no certificate")?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("no key")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let listener = TcpListener::bind((ADDRESS.parse::<IpAddr>()?, 0)).await?;
        let address = listener.local_addr()?;
        let listener = TlsListener::new(listener, config);
        let says = Arc::new(says);
        let router = Router::new().fallback(async move |uri: Uri| match says(&uri) {
            Some(told) => (StatusCode::OK, told),
            None => (StatusCode::NOT_FOUND, String::from("no such container")),
        });
        // It ends with the task.
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, task })
    }

    /// The status of a Node that is asked here.
    #[must_use]
    pub fn status(&self) -> Value {
        json!({"addresses": [{"type": "InternalIP", "address": self.address.ip().to_string()}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.address.port()}}})
    }
}

impl Drop for KubeletApi {
    fn drop(&mut self) {
        self.task.abort();
    }
}
