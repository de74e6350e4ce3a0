//! What Flux would do with the deploy branch, and say of it.

use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::servers::flux::FLUX_NAMESPACE;
use crate::servers::git::fleet_repository::{DEPLOY, FleetRepository};
use crate::servers::kubernetes::manifests::{apply_as, define, kind, kind_in, list, objects};
use crate::servers::kubernetes::settled::CLUSTER;

const GIT_REPOSITORY: (&str, &str) = ("source.toolkit.fluxcd.io/v1", "GitRepository");
const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
const HELM_RELEASE: (&str, &str) = ("helm.toolkit.fluxcd.io/v2", "HelmRelease");

/// How often the deploy branch is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Writes in the place of Flux' controllers.
#[derive(Clone)]
pub struct FakeFlux {
    client: Client,
    repository: FleetRepository,
}

impl FakeFlux {
    pub(in crate::servers) fn new(client: &Client, repository: &FleetRepository) -> Self {
        Self { client: client.clone(), repository: repository.clone() }
    }

    /// What Flux applies of the deploy branch, applied in its name: definitions and namespaces, then the rest.
    ///
    /// # Errors
    /// When an object is refused.
    pub async fn apply(&self) -> anyhow::Result<()> {
        self.apply_but(&mut Vec::new()).await
    }

    /// As [`Self::apply`], but for what is known, which is then everything.
    async fn apply_but(&self, known: &mut Vec<Value>) -> anyhow::Result<()> {
        let mut found = Vec::new();
        for folder in [format!("clusters/{CLUSTER}"), format!("flux/{CLUSTER}")] {
            for path in self.repository.deployed_files(&folder)? {
                let is_manifest =
                    path.ends_with(".yaml") && !path.ends_with("rollout.yaml") && !path.ends_with("kustomization.yaml");
                if is_manifest {
                    found.extend(objects(&self.repository.deployed(&path)?)?);
                }
            }
        }
        let source = json!({"apiVersion": GIT_REPOSITORY.0, "kind": GIT_REPOSITORY.1,
            "metadata": {"name": "flux-system", "namespace": FLUX_NAMESPACE},
            "spec": {"interval": "1h", "url": "http://localhost", "ref": {"branch": DEPLOY}}});
        found.push(source);
        let new: Vec<Value> = found.iter().filter(|object| !known.contains(object)).cloned().collect();
        let is = |wanted: &'static str| move |object: &Value| kind(object) == wanted;
        let (definitions, rest): (Vec<Value>, Vec<Value>) = new.into_iter().partition(is("CustomResourceDefinition"));
        define(&self.client, &definitions).await?;
        let (namespaces, rest): (Vec<Value>, Vec<Value>) = rest.into_iter().partition(is("Namespace"));
        // Nothing that comes before its webhook is asked about.
        let (webhooks, rest): (Vec<Value>, Vec<Value>) =
            rest.into_iter().partition(|object| kind(object).ends_with("WebhookConfiguration"));
        for objects in [&definitions, &namespaces, &rest, &webhooks] {
            apply_as(&self.client, "kustomize-controller", objects).await?;
        }
        *known = found;
        Ok(())
    }

    /// Flux has fetched this commit, and applied it but for what this stage's Kustomization holds.
    ///
    /// # Errors
    /// When the status cannot be written.
    pub async fn applied(&self, head: &str, but: Option<&str>) -> anyhow::Result<()> {
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
    ///
    /// # Errors
    /// When the status cannot be written.
    pub async fn reconciled(&self, head: &str, name: String) -> anyhow::Result<Instant> {
        let api = kind_in(&self.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
        let generation = api.get(&name).await?.metadata.generation;
        let revision = format!("{DEPLOY}@sha1:{head}");
        let status = json!({"observedGeneration": generation, "conditions": [ready(generation)],
            "lastAppliedRevision": revision, "lastAttemptedRevision": revision});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
        Ok(Instant::now())
    }

    /// Every chart of this namespace is installed.
    ///
    /// # Errors
    /// When the status cannot be written.
    pub async fn released(&self, namespace: &str) -> anyhow::Result<()> {
        for known in list(&self.client, HELM_RELEASE, namespace).await? {
            let api = kind_in(&self.client, HELM_RELEASE, namespace).await?;
            let generation = known.metadata.generation;
            let status = json!({"status": {"observedGeneration": generation, "conditions": [ready(generation)]}});
            let name = known.metadata.name.unwrap_or_default();
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        }
        Ok(())
    }

    /// Whether somebody has changed a Kustomization since it was reconciled, such as its pause.
    async fn is_behind(&self) -> anyhow::Result<bool> {
        let all = list(&self.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
        Ok(all.iter().any(|known| {
            let field = |path: &str| known.data.pointer(path).cloned();
            field("/spec/suspend") != Some(json!(true))
                && field("/status/observedGeneration") != Some(json!(known.metadata.generation))
        }))
    }

    /// Applies what came onto the deploy branch since `done`, and says so.
    async fn catch_up(&self, done: &mut Option<String>, known: &mut Vec<Value>) -> anyhow::Result<()> {
        let head = self.repository.head()?;
        if done.as_ref() != Some(&head) {
            self.apply_but(known).await?;
        } else if !self.is_behind().await? {
            return Ok(());
        }
        self.applied(&head, None).await?;
        *done = Some(head);
        Ok(())
    }

    /// From now on applies what comes onto the deploy branch and says so, until it is dropped.
    #[must_use]
    pub fn follow(&self) -> FollowingFlux {
        let flux = self.clone();
        FollowingFlux(tokio::spawn(async move {
            let (mut done, mut known) = (None, Vec::new());
            loop {
                // What could not be read or written is the next time.
                let _ = flux.catch_up(&mut done, &mut known).await;
                tokio::time::sleep(LOOK).await;
            }
        }))
    }
}

/// Follows the deploy branch; ends when dropped.
pub struct FollowingFlux(JoinHandle<()>);

impl Drop for FollowingFlux {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The Kustomization of a stage.
#[must_use]
pub fn kustomization(stage: &str) -> String {
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
