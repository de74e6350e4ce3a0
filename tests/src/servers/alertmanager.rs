//! A real Alertmanager on loopback.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use reqwest::Client;
use serde_json::Value;

use super::port::free_port;
use super::process::{Process, answers};
use super::programs::Programs;

/// A running Alertmanager, which tells nobody; it ends when dropped.
pub struct Alertmanager {
    _process: Process,
    address: String,
    client: Client,
}

impl Alertmanager {
    /// What has to be built for it.
    pub const NEEDED: &'static str = "alertmanager";

    /// Starts one with everything it keeps below `folder`.
    ///
    /// # Errors
    /// When it does not start; with the end of its log.
    pub async fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let configuration = folder.join("alertmanager.yaml");
        std::fs::write(&configuration, "route: {receiver: none}\nreceivers: [{name: none}]\n")?;
        let port = free_port()?;
        let mut command = Command::new(programs.path(Self::NEEDED));
        command
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--cluster.listen-address=");
        let mut process = Process::start(folder, "alertmanager", command)?;
        process.wait_until(async || answers(port, "/-/ready").await).await?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().build()?;
        Ok(Self { _process: process, address: format!("http://127.0.0.1:{port}/"), client })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What is below `api/v2`.
    ///
    /// # Errors
    /// When it does not answer with JSON.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}api/v2/{path}", self.address);
        let bytes = self.client.get(&url).send().await?.error_for_status()?.bytes().await?;
        serde_json::from_slice(&bytes).context(url)
    }

    /// Sends something there.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        let url = format!("{}api/v2/{path}", self.address);
        let request = self.client.post(url).header("content-type", "application/json").body(body.to_string());
        request.send().await?.error_for_status()?;
        Ok(())
    }
}
