//! Who programs in the cluster are to its API server.

use std::path::PathBuf;

use anyhow::Context as _;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::servers::kubernetes::api_server::ApiServer;

/// A token of a service account, for an hour.
///
/// # Errors
/// When there is no such account.
pub async fn service_account_token(server: &ApiServer, namespace: &str, name: &str) -> anyhow::Result<String> {
    service_account_token_for(server, namespace, name, "https://kubernetes.default.svc").await
}

/// One for somebody else than the API server.
///
/// # Errors
/// When there is no such account.
pub async fn service_account_token_for(
    server: &ApiServer,
    namespace: &str,
    name: &str,
    audience: &str,
) -> anyhow::Result<String> {
    let accounts = Api::<ServiceAccount>::namespaced(server.client().await?, namespace);
    let wanted: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": [audience]}}))?;
    let token = accounts.create_token_request(name, &PostParams::default(), &wanted).await?;
    Ok(token.status.context("no token")?.token)
}

/// Writes the kubeconfig of a service account, with a token for an hour, and returns its path.
///
/// # Errors
/// When there is no such account.
pub async fn service_account(server: &ApiServer, namespace: &str, name: &str) -> anyhow::Result<PathBuf> {
    let token = service_account_token(server, namespace, name).await?;
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server.url(),
            "certificate-authority": server.folder().join("certificates/authority.crt")}}],
        "users": [{"name": "a", "user": {"token": token}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]});
    let path = server.folder().join(format!("{name}.{namespace}.kubeconfig"));
    std::fs::write(&path, kubeconfig.to_string()).with_context(|| path.display().to_string())?;
    Ok(path)
}
