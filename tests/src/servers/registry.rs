//! A real registry on loopback, with TLS; `tests/servers/registry` is its program.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use bundles::Digest;
use reqwest::{Certificate, Client, RequestBuilder, Response};
use serde_json::{Value, json};

use super::programs::Programs;

/// A running registry over a folder; it ends when dropped.
pub struct Registry {
    process: Child,
    address: String,
    authority: PathBuf,
    asks: bool,
}

/// The login of a registry that asks for one: name and password.
pub const LOGIN: (&str, &str) = ("reader", "open sesame");

impl Registry {
    /// Starts one that asks nobody who he is.
    ///
    /// # Errors
    /// When it cannot be started, or does not say where it listens.
    pub fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        Self::start_as(programs, folder, false)
    }

    /// Starts one that asks for [`LOGIN`].
    ///
    /// # Errors
    /// When it cannot be started, or does not say where it listens.
    pub fn start_asking(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        Self::start_as(programs, folder, true)
    }

    fn start_as(programs: &Programs, folder: &Path, asks: bool) -> anyhow::Result<Self> {
        let mut command = Command::new(programs.path("registry"));
        command
            .arg(folder)
            .arg(if asks { "password" } else { "open" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn().context("could not start the registry")?;
        let mut address = String::new();
        BufReader::new(process.stdout.take().context("its output")?).read_line(&mut address)?;
        Ok(Self { process, address: address.trim().to_owned(), authority: folder.join("ca.pem"), asks })
    }

    /// Pushes an image for each of these architectures; returns the digest of the list of them.
    ///
    /// # Errors
    /// When the registry refuses it.
    pub async fn push(&self, repository: &str, tag: &str, architectures: &[&str]) -> anyhow::Result<String> {
        const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
        const INDEX: &str = "application/vnd.oci.image.index.v1+json";
        // Whether somebody has installed it before does not matter.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let authority = Certificate::from_pem(&std::fs::read(&self.authority)?)?;
        let client = Client::builder().no_proxy().tls_certs_only([authority]).build()?;
        let base = format!("https://{}/v2/{repository}", self.address);
        let shown = |request: RequestBuilder| match self.asks {
            true => request.basic_auth(LOGIN.0, Some(LOGIN.1)),
            false => request,
        };
        let mut children: Vec<Value> = Vec::new();
        for architecture in architectures {
            let config = json!({"architecture": architecture, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}});
            let config = config.to_string().into_bytes();
            let described = json!({"mediaType": "application/vnd.oci.image.config.v1+json", "size": config.len(),
                "digest": Digest::of(&config).to_string()});
            let started = done(shown(client.post(format!("{base}/blobs/uploads/"))).send().await?)?;
            let location = started.headers().get("location").context("no location")?.to_str()?.to_owned();
            let place = started.url().join(&location)?;
            let digest = Digest::of(&config).to_string();
            let separator = if place.query().is_some() { '&' } else { '?' };
            done(shown(client.put(format!("{place}{separator}digest={digest}"))).body(config).send().await?)?;
            let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": []});
            let manifest = manifest.to_string().into_bytes();
            let digest = Digest::of(&manifest).to_string();
            children.push(json!({"mediaType": MANIFEST, "digest": digest, "size": manifest.len(),
                "platform": {"architecture": architecture, "os": "linux"}}));
            let request = client.put(format!("{base}/manifests/{digest}")).header("content-type", MANIFEST);
            done(shown(request).body(manifest).send().await?)?;
        }
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": children}).to_string().into_bytes();
        let digest = Digest::of(&index).to_string();
        let request = client.put(format!("{base}/manifests/{tag}")).header("content-type", INDEX);
        done(shown(request).body(index).send().await?)?;
        Ok(digest)
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The file with the authority of its certificate.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.authority
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn done(response: Response) -> anyhow::Result<Response> {
    ensure!(response.status().is_success(), "{} of {}", response.status(), response.url());
    Ok(response)
}
