//! Deployments that come and go.

use std::time::Instant;

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use super::scene::Scene;
use super::stages::PATIENCE;

/// Namespace and name of the Deployment that comes and goes in a stage.
pub(super) fn deployment(stage: &str) -> (&'static str, &'static str) {
    match stage {
        "cert-manager" => ("cert-manager", "cert-manager"),
        "capi" => ("capi-system", "capi-controller-manager"),
        "eks-a" => ("eksa-system", "eksa-controller-manager"),
        "cilium" => ("kube-system", "cilium-operator"),
        _ => ("flux-system", "source-controller"),
    }
}

impl Scene {
    /// Makes the Pods of a stage's Deployment ready or not; when the API server has told that the Deployment is available, or is not.
    pub(super) async fn available(&self, stage: &str, available: bool) -> anyhow::Result<Instant> {
        let (namespace, name) = deployment(stage);
        let told = |deployment: Option<&Deployment>| {
            deployment.and_then(|deployment| deployment.status.as_ref()).is_some_and(|status| {
                (status.available_replicas.unwrap_or_default() == status.replicas.unwrap_or_default()) == available
            })
        };
        let deployments: Api<Deployment> = Api::namespaced(self.cluster.client.clone(), namespace);
        let seen = async {
            tokio::time::timeout(PATIENCE, await_condition(deployments, name, told)).await??;
            anyhow::Ok(Instant::now())
        };
        let (seen, patched) = tokio::join!(seen, self.ready(namespace, name, available));
        patched.with_context(|| format!("could not change the Pods of Deployment {namespace}/{name}"))?;
        seen
    }

    async fn ready(&self, namespace: &str, deployment: &str, ready: bool) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), namespace);
        let status = if ready { "True" } else { "False" };
        let condition =
            |kind: &str| json!({"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let patch = json!({"status": {"conditions": [condition("ContainersReady"), condition("Ready")]}});
        let prefix = format!("{deployment}-");
        for pod in pods.list(&ListParams::default()).await? {
            let Some(name) = pod.metadata.name.filter(|name| is_of(name, &prefix)) else { continue };
            pods.patch_status(&name, &PatchParams::default(), &Patch::<Value>::Strategic(patch.clone())).await?;
        }
        Ok(())
    }
}

/// Names of a Deployment's Pods are its own with two parts of random letters.
fn is_of(pod: &str, prefix: &str) -> bool {
    pod.strip_prefix(prefix).is_some_and(|rest| rest.split('-').count() == 2)
}
