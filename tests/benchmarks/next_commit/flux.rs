//! What Flux would say of its work.

use std::time::Instant;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::{kind_in, list};
use tests::servers::settled::CLUSTER;
use tests::servers::{DEPLOY, FLUX_NAMESPACE};

use super::scene::Scene;

pub(super) const GIT_REPOSITORY: (&str, &str) = ("source.toolkit.fluxcd.io/v1", "GitRepository");
const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");

impl Scene {
    /// Flux has fetched this commit, and applied it but for what this stage's Kustomization holds.
    pub(super) async fn applied(&self, head: &str, but: Option<&str>) -> anyhow::Result<()> {
        let sources = kind_in(&self.client, GIT_REPOSITORY, FLUX_NAMESPACE).await?;
        let revision = format!("{DEPLOY}@sha1:{head}");
        let generation = sources.get("flux-system").await?.metadata.generation;
        let status = json!({"observedGeneration": generation, "conditions": [ready(generation)], "artifact": {"revision": revision,
            "digest": "sha256:0", "path": "a", "url": "a", "lastUpdateTime": "2026-01-01T00:00:00Z"}});
        sources.patch_status("flux-system", &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
        for known in list(&self.client, KUSTOMIZATION, FLUX_NAMESPACE).await? {
            let name = known.metadata.name.unwrap_or_default();
            if but.is_none_or(|stage| kustomization(stage) != name) {
                self.reconciled(head, name).await?;
            }
        }
        Ok(())
    }

    /// Flux has applied what one Kustomization holds of this commit; when that was answered.
    pub(super) async fn reconciled(&self, head: &str, name: String) -> anyhow::Result<Instant> {
        let api = kind_in(&self.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
        let generation = api.get(&name).await?.metadata.generation;
        let revision = format!("{DEPLOY}@sha1:{head}");
        let status = json!({"observedGeneration": generation, "conditions": [ready(generation)],
            "lastAppliedRevision": revision, "lastAttemptedRevision": revision});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
        Ok(Instant::now())
    }
}

pub(super) fn kustomization(stage: &str) -> String {
    let directory = match stage {
        "flux" => "flux-system",
        stage => stage,
    };
    format!("{CLUSTER}-{directory}")
}

fn ready(generation: Option<i64>) -> Value {
    json!({"type": "Ready", "status": "True", "reason": "Succeeded", "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}
