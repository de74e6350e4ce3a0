//! A registry with one repository, from which Flux fetches artifacts as `flux push artifact` makes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bundles::Digest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.cncf.flux.config.v1+json";
const CONTENT: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";

/// Manifests and blobs by tag or digest.
type Content = Mutex<BTreeMap<String, Vec<u8>>>;

/// A running registry on loopback; it ends when dropped.
pub struct Artifacts {
    port: u16,
    content: Arc<Content>,
    task: JoinHandle<()>,
}

impl Artifacts {
    /// The tag under which the newest artifact is.
    pub const TAG: &str = "latest";

    /// Starts it empty.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let content: Arc<Content> = Arc::default();
        let served = Arc::clone(&content);
        let router = Router::new().fallback(async move |request: Request| answer(&served, request.uri().path()));
        // It ends with the task.
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { port, content, task })
    }

    /// Its address, as an `OCIRepository` has it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("oci://127.0.0.1:{}/fleet", self.port)
    }

    /// Puts the files of a folder there as the newest artifact; `revision` is what it says it was made of.
    ///
    /// # Errors
    /// When the folder cannot be packed.
    pub fn push(&self, folder: &Path, revision: Option<&str>) -> anyhow::Result<()> {
        let packed = Command::new("tar").args(["--sort=name", "-czf", "-", "-C"]).arg(folder).arg(".").output()?;
        ensure!(packed.status.success(), "tar: {}", String::from_utf8_lossy(&packed.stderr));
        let config = b"{}".to_vec();
        let described = |media_type: &str, bytes: &[u8]| json!({"mediaType": media_type, "digest": Digest::of(bytes).to_string(), "size": bytes.len()});
        let annotations: Value = match revision {
            Some(revision) => json!({"org.opencontainers.image.revision": revision}),
            None => json!({}),
        };
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": described(CONFIG, &config),
            "layers": [described(CONTENT, &packed.stdout)], "annotations": annotations});
        let manifest = manifest.to_string().into_bytes();
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        for bytes in [config, packed.stdout] {
            content.insert(Digest::of(&bytes).to_string(), bytes);
        }
        content.insert(Digest::of(&manifest).to_string(), manifest.clone());
        content.insert(Self::TAG.to_owned(), manifest);
        Ok(())
    }
}

impl Drop for Artifacts {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(content: &Content, path: &str) -> Response {
    let found = |reference: &str| content.lock().unwrap_or_else(PoisonError::into_inner).get(reference).cloned();
    if path == "/v2/" {
        return StatusCode::OK.into_response();
    }
    let of = |kind: &str| path.strip_prefix(&format!("/v2/fleet/{kind}/")).and_then(found);
    if let Some(manifest) = of("manifests") {
        let digest = Digest::of(&manifest).to_string();
        return ([(header::CONTENT_TYPE.as_str(), MANIFEST.to_owned()), ("docker-content-digest", digest)], manifest)
            .into_response();
    }
    of("blobs").map_or_else(|| StatusCode::NOT_FOUND.into_response(), axum::response::IntoResponse::into_response)
}
