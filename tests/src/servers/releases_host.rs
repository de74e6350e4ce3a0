//! A host on loopback, behind TLS, from which files are fetched: where releases are published.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::certificate::Authority;
use super::tls::{TlsListener, server_config};

/// A running host; it ends when dropped.
pub struct ReleasesHost {
    address: SocketAddr,
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    authority: PathBuf,
    task: JoinHandle<()>,
}

impl ReleasesHost {
    /// Starts it empty. The certificate of its authority is written below `folder`.
    ///
    /// # Errors
    /// When it cannot listen, or the certificate cannot be made.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        let authority = Authority::new()?;
        let identity = authority.server()?;
        let config = server_config(&identity)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let files: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
        let served = Arc::clone(&files);
        let router = Router::new().fallback(async move |uri: Uri| {
            let found = served.lock().unwrap_or_else(PoisonError::into_inner).get(uri.path()).cloned();
            found.map_or_else(|| StatusCode::NOT_FOUND.into_response(), axum::response::IntoResponse::into_response)
        });
        // It ends with the task.
        let task = tokio::spawn(async move {
            let _ = axum::serve(TlsListener::new(listener, config), router).await;
        });
        let path = folder.join("releases-authority.crt");
        std::fs::write(&path, authority.certificate())?;
        Ok(Self { address, files, authority: path, task })
    }

    /// Host and port.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The address of a file.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("https://{}/{path}", self.address)
    }

    /// The file with the certificate of its authority.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// Publishes a file.
    pub fn publish(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("/{path}"), bytes.into());
    }
}

impl Drop for ReleasesHost {
    fn drop(&mut self) {
        self.task.abort();
    }
}
