//! A management cluster with Flux and Cluster API, and a fleet that was created by what the deploy branch says.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use kube::Client;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, kind_of_cluster};
use tests::servers::{
    ApiServer, ApiServerOptions, ClusterApi, DEPLOY, FLUX_NAMESPACE, FleetRepository, Flux, GitServer, Programs,
};
use tests::waiting::until_within;

use super::fleet;
use crate::measure::run as command;
use crate::next_commit::PROGRAM_VERB;

const CLUSTER: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "Cluster");
const MACHINE: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "Machine");

/// How long a round may take before the benchmark gives up.
pub const PATIENCE: Duration = Duration::from_secs(1200);

/// Between two looks at all machines.
const PAUSE: Duration = Duration::from_millis(100);

pub struct Scene {
    pub folder: PathBuf,
    pub clusters: usize,
    pub programs: Programs,
    pub server: ApiServer,
    pub client: Client,
    pub repository: FleetRepository,
    _flux: Flux,
    _cluster_api: ClusterApi,
    _git: GitServer,
}

impl Scene {
    /// Starts everything, and waits until Flux and Cluster API have made the fleet.
    pub async fn start(programs: &Programs, folder: &Path, clusters: usize) -> anyhow::Result<Self> {
        let options = ApiServerOptions { controllers: true, ..ApiServerOptions::default() };
        let server = ApiServer::start(programs, &folder.join("management"), options).await?;
        let client = server.client().await?;
        let flux = Flux::start(programs, &server).await?;
        let cluster_api = ClusterApi::start(programs, &server).await?;
        let repository = FleetRepository::create(&folder.join("repository"))?;
        let git = GitServer::start(repository.served().0).await?;
        let url = git.url(repository.served().1);
        let scene = Self {
            folder: folder.to_owned(),
            clusters,
            programs: programs.clone(),
            server,
            client,
            repository,
            _flux: flux,
            _cluster_api: cluster_api,
            _git: git,
        };
        scene.create(&url).await.map(|()| scene)
    }

    async fn create(&self, url: &str) -> anyhow::Result<()> {
        let namespace =
            |number| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fleet::namespace(number)}});
        apply(&self.client, &(0..self.clusters).map(namespace).collect::<Vec<_>>()).await?;
        let files = fleet::files(&self.programs, self.clusters)?;
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        self.repository.push("Describe the fleet", &files)?;
        // The same objects and Kustomizations for every side.
        let adopted = self.stepgate(&["adopt", "--yes"])?.output()?;
        ensure!(adopted.status.success(), "stepgate adopt: {}", String::from_utf8_lossy(&adopted.stderr));
        self.connect(url).await?;
        self.until_machines_run(&fleet::version(0)).await.map(drop)
    }

    /// Flux is told of the deploy branch: what is below `flux/` are Kustomizations.
    async fn connect(&self, url: &str) -> anyhow::Result<()> {
        let metadata = json!({"name": "flux-system", "namespace": FLUX_NAMESPACE});
        let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata,
            "spec": {"interval": "1h", "url": url, "ref": {"branch": DEPLOY}}});
        let root = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata,
            "spec": {"interval": "1h", "path": "./flux", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "flux-system"}}});
        apply(&self.client, &[source, root]).await
    }

    /// The program with a verb and its arguments.
    pub fn stepgate(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(PROGRAM_VERB)
            .args(arguments)
            .env("STEPGATE_REPO", self.repository.bare())
            .env("STEPGATE_KUBECONFIG", self.server.kubeconfig())
            .env("STEPGATE_BACKUPS", self.folder.join("backups"));
        Ok(command)
    }

    /// What git says in the bare repository.
    pub fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        command(&self.repository.bare(), "git", arguments)
    }

    async fn all(&self, kind: (&str, &str)) -> anyhow::Result<Vec<DynamicObject>> {
        Ok(kind_of_cluster(&self.client, kind).await?.list(&ListParams::default()).await?.items)
    }

    /// Waits until every machine of every cluster runs this version and is ready, no other is there, and every cluster is available.
    pub async fn until_machines_run(&self, version: &str) -> anyhow::Result<Instant> {
        let mut seen = String::new();
        let holds = async || {
            let machines = self.all(MACHINE).await?;
            let running = machines.iter().filter(|machine| runs(machine, version)).count();
            let wanted = self.clusters * fleet::MACHINES;
            seen = format!("{running} of {} machines, {wanted} wanted", machines.len());
            if running != wanted || machines.len() != wanted {
                return Ok(None);
            }
            let clusters = self.all(CLUSTER).await?;
            Ok(clusters.iter().all(|cluster| is_true(cluster, "Available")).then(Instant::now))
        };
        let waited = polled(&format!("all machines run {version}"), holds).await;
        waited.with_context(|| seen)
    }

    /// What there is in the end: every cluster with its version, and every machine with what it is of, without the names that servers give.
    pub async fn end(&self) -> anyhow::Result<Value> {
        let text = |object: &DynamicObject, place: &str| object.data.pointer(place).cloned().unwrap_or_default();
        let own = |object: &DynamicObject| object.metadata.namespace.clone().unwrap_or_default();
        let mut end: Vec<String> = Vec::new();
        for cluster in self.all(CLUSTER).await? {
            let (version, phase) = (text(&cluster, "/spec/topology/version"), text(&cluster, "/status/phase"));
            end.push(format!("{} Cluster {version} {phase}", own(&cluster)));
        }
        for machine in self.all(MACHINE).await? {
            let labels = machine.metadata.labels.clone().unwrap_or_default();
            let group = labels.get("topology.cluster.x-k8s.io/deployment-name").map_or("control-plane", String::as_str);
            let (version, phase) = (text(&machine, "/spec/version"), text(&machine, "/status/phase"));
            end.push(format!("{} Machine of {group} {version} {phase}", own(&machine)));
        }
        end.sort();
        Ok(json!(end))
    }
}

/// Looks again and again.
pub async fn polled<T>(what: &str, mut holds: impl AsyncFnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let started = Instant::now();
    loop {
        if let Some(value) = holds().await? {
            return Ok(value);
        }
        if started.elapsed() > PATIENCE {
            // Says how the servers are.
            return until_within(what, Duration::ZERO, holds).await;
        }
        // Nothing tells of the next change: what is measured is as precise as this pause.
        tokio::time::sleep(PAUSE).await;
    }
}

fn runs(machine: &DynamicObject, version: &str) -> bool {
    let says = |place: &str, value: &str| machine.data.pointer(place).and_then(Value::as_str) == Some(value);
    says("/spec/version", version)
        && says("/status/phase", "Running")
        && is_true(machine, "Ready")
        && machine.metadata.deletion_timestamp.is_none()
}

fn is_true(object: &DynamicObject, condition: &str) -> bool {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|known| known.get("type") == Some(&json!(condition)) && known.get("status") == Some(&json!("True")))
}
