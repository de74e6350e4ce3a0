//! What a Pod finds of its service account, for the programs that a test starts.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::servers::isolation::is_isolated;
use crate::servers::kubernetes::api_server::ApiServer;

/// The folder in which kubelets put all of it. Programs know it by heart.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Puts the credentials of a service account where programs in a Pod look for them, and returns what kubelets tell these by their environment.
///
/// They lie on a file system that this test alone sees; what else is below `/var/run` is hidden from it.
///
/// # Errors
/// When the test is not isolated, or there is no such account.
pub async fn pod(server: &ApiServer, namespace: &str, account: &str) -> anyhow::Result<[(&'static str, String); 2]> {
    ensure!(is_isolated(), "only the mounts of an isolated test are its own");
    let accounts = Api::<ServiceAccount>::namespaced(server.client().await?, namespace);
    let wanted: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}}))?;
    let token = accounts.create_token_request(account, &PostParams::default(), &wanted).await?;
    let token = token.status.context("no token")?.token;

    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs", "/var/run"]).output()?;
    ensure!(mounted.status.success(), "mount: {}", String::from_utf8_lossy(&mounted.stderr));
    let folder = Path::new(ACCOUNT);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("token"), token)?;
    std::fs::write(folder.join("ca.crt"), server.authority().certificate())?;
    std::fs::write(folder.join("namespace"), namespace)?;
    let address = ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned());
    Ok([address, ("KUBERNETES_SERVICE_PORT", server.port().to_string())])
}
