//! A management cluster with Flux, and a fleet repository that Flux and Stepgate share.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use kube::Client;
use serde_json::{Value, json};
use tests::servers::manifests::apply;
use tests::servers::{
    ApiServer, ApiServerOptions, DEPLOY, FLUX_NAMESPACE, FleetRepository, Flux, Folder, GitServer, Process, Programs,
};

/// The policy of these fleets: quick stages, and an interval of Flux that no test can wait for.
pub const POLICY: &str = "\
apiVersion: stepgate.dev/v1alpha1
kind: Policy
deploy: {branch: deploy}
soak: 1s
timeout: 30m
flux: {interval: 1h}
";

/// API server, Flux, and a fleet repository served over HTTP.
pub struct Scene {
    pub folder: Folder,
    pub server: ApiServer,
    pub flux: Flux,
    pub client: Client,
    pub repository: FleetRepository,
    pub git: GitServer,
}

impl Scene {
    pub async fn start(programs: &Programs) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let server =
            ApiServer::start(programs, &folder.path().join("management"), ApiServerOptions { controllers: true })
                .await?;
        let client = server.client().await?;
        let flux = Flux::start(programs, &server).await?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        let git = GitServer::start(repository.served().0).await?;
        Ok(Self { folder, server, flux, client, repository, git })
    }

    /// Flux is told of the deploy branch, as by `flux bootstrap`: what is below `flux/` are Kustomizations.
    pub async fn connect_flux(&self) -> anyhow::Result<()> {
        let metadata = json!({"name": "flux-system", "namespace": FLUX_NAMESPACE});
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata,
            "spec": {"interval": "1h", "url": self.git.url(self.repository.served().1), "ref": {"branch": DEPLOY}},
        });
        let root = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata,
            "spec": {"interval": "1h", "path": "./flux", "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": "flux-system"}},
        });
        apply(&self.client, &[source, root]).await
    }

    /// The program with a verb and its arguments, and where the repository and the cluster are.
    pub fn stepgate(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(arguments)
            .env("STEPGATE_REPO", self.repository.bare())
            .env("STEPGATE_KUBECONFIG", self.server.kubeconfig())
            .env("STEPGATE_BACKUPS", self.folder.path().join("backups"));
        command
    }

    /// Starts the controller.
    pub fn controller(&self) -> anyhow::Result<Process> {
        Process::start(self.folder.path(), "stepgate", self.stepgate(&["run", "--log-level", "info"]))
    }

    /// Records the clusters as they are on the source branch.
    pub fn adopt(&self) -> anyhow::Result<()> {
        let output = self.stepgate(&["adopt", "--yes"]).output()?;
        if !output.status.success() {
            bail!("stepgate adopt: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// What `stepgate why` says of a cluster.
    pub async fn why(&self, cluster: &str) -> anyhow::Result<Value> {
        let mut command = self.stepgate(&["why", cluster, "-o", "json"]);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("stepgate why: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Waits until `holds` gives a value.
    pub async fn until<T, F: Future<Output = anyhow::Result<Option<T>>>>(
        &self,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut() -> F,
    ) -> anyhow::Result<T> {
        let start = Instant::now();
        loop {
            if let Some(value) = holds().await? {
                return Ok(value);
            }
            if start.elapsed() > limit {
                bail!("not within {} s: {what}", limit.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// A file of this test.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
