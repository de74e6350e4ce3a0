//! A management cluster with Flux, and a fleet repository that Flux and Stepgate share.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use kube::Client;
use serde_json::{Value, json};
use tests::servers::gitea::Permission;
use tests::servers::manifests::apply;
use tests::servers::{
    ApiServer, ApiServerOptions, DEPLOY, FLUX_NAMESPACE, FleetRepository, Flux, Folder, GitServer, Gitea, Process,
    Programs, SshServer,
};
use tests::waiting::{LONG_PATIENCE, until, until_within};

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
    /// Where Flux fetches from, and the Secret it says who it is with.
    fetched: (String, Value),
    /// What the program is told besides, by its environment.
    pub environment: BTreeMap<&'static str, OsString>,
}

impl Scene {
    pub async fn start(programs: &Programs) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        Self::around(programs, folder, repository).await
    }

    /// The repository lies on a forge, and everybody reads and writes it there: Stepgate, Flux, and alice, who is a person.
    pub async fn on_forge(programs: &Programs) -> anyhow::Result<(Self, Gitea)> {
        let folder = Folder::new()?;
        let (gitea, repository, environment) = forge(programs, folder.path()).await?;
        gitea.user("flux", Permission::Read).await?;
        let mut scene = Self::around(programs, folder, repository).await?;
        let (url, user, password) = gitea.access("flux");
        scene.fetched = (url, json!({"username": user, "password": password}));
        scene.environment = environment;
        Ok((scene, gitea))
    }

    /// The repository is served over SSH, and Stepgate, Flux and alice have a key each.
    pub async fn over_ssh(programs: &Programs) -> anyhow::Result<(Self, SshServer)> {
        let mut scene = Self::start(programs).await?;
        let server = SshServer::start(scene.folder.path()).await?;
        let url = server.url(&scene.repository.bare());
        let key = server.key("flux")?;
        let text = |name: &str| std::fs::read_to_string(key.join(name));
        let files = ["identity", "identity.pub", "known_hosts"];
        let secret =
            files.iter().map(|name| Ok(((*name).to_owned(), text(name)?.into()))).collect::<anyhow::Result<_>>()?;
        scene.fetched = (url.clone(), Value::Object(secret));
        scene.environment.insert("STEPGATE_REPO", url.into());
        scene.environment.insert("STEPGATE_GIT_SECRET", server.key("stepgate")?.into());
        scene.environment.insert("XDG_CACHE_HOME", scene.file("cache").into());
        scene.environment.insert("STEPGATE_INTERVAL", "3".into());
        Ok((scene, server))
    }

    async fn around(programs: &Programs, folder: Folder, repository: FleetRepository) -> anyhow::Result<Self> {
        let server = ApiServer::start(
            programs,
            &folder.path().join("management"),
            ApiServerOptions { controllers: true, ..ApiServerOptions::default() },
        )
        .await?;
        let client = server.client().await?;
        let flux = Flux::start(programs, &server).await?;
        let git = GitServer::start(repository.served().0).await?;
        let url = git.url(repository.served().1);
        // Everybody may fetch; Flux insists on a Secret that is named.
        let fetched = (url, json!({"username": "flux", "password": "nobody asks for it"}));
        Ok(Self { folder, server, flux, client, repository, git, fetched, environment: BTreeMap::new() })
    }

    /// Flux is told of the deploy branch, as by `flux bootstrap`: what is below `flux/` are Kustomizations.
    pub async fn connect_flux(&self) -> anyhow::Result<()> {
        let metadata = json!({"name": "flux-system", "namespace": FLUX_NAMESPACE});
        let (url, secret) = &self.fetched;
        let credentials = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret});
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata,
            "spec": {"interval": "1h", "url": url, "ref": {"branch": DEPLOY},
                "secretRef": {"name": "flux-system"}},
        });
        let root = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata,
            "spec": {"interval": "1h", "path": "./flux", "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": "flux-system"}},
        });
        apply(&self.client, &[credentials, source, root]).await
    }

    /// The program with a verb and its arguments, and where the repository and the cluster are.
    pub fn stepgate(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(arguments)
            .env("STEPGATE_REPO", self.repository.bare())
            .env("STEPGATE_KUBECONFIG", self.server.kubeconfig())
            .env("STEPGATE_BACKUPS", self.folder.path().join("backups"))
            .envs(&self.environment);
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

    /// Waits until `stepgate why` has all of these words in its reasons.
    pub async fn why_says(&self, cluster: &str, words: &[&str]) -> anyhow::Result<()> {
        let said = self.reasons_are(cluster, |reasons| words.iter().all(|word| reasons.contains(word))).await;
        said.with_context(|| format!("{words:?}"))
    }

    /// Waits until the reasons of `stepgate why` are as they should be.
    pub async fn reasons_are(&self, cluster: &str, is_said: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let mut report = Value::Null;
        let said = async || {
            report = self.why(cluster).await?;
            Ok(report.get("reasons").is_some_and(|reasons| is_said(&reasons.to_string())).then_some(()))
        };
        let waited = self.until("why says so", said).await;
        waited.with_context(|| format!("said instead: {report}"))
    }

    /// Waits until the newest commit of the only cluster is this stage's.
    pub async fn stage_is(&self, cluster: &str, stage: &str) -> anyhow::Result<()> {
        let is_last = async || {
            let stages = self.repository.stages()?;
            Ok((stages.len() > 1 && stages.last().is_some_and(|last| last == stage)).then_some(()))
        };
        match until_within(&format!("commit of {stage}"), LONG_PATIENCE, is_last).await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.why(cluster).await?.to_string())),
        }
    }

    /// Waits until there are as many commits as `stages`, and compares.
    pub async fn stages_are(&self, cluster: &str, stages: &[&str]) -> anyhow::Result<()> {
        let done = async || Ok((self.repository.stages()?.len() >= stages.len()).then_some(()));
        if let Err(error) = until_within("the rollout is closed", LONG_PATIENCE, done).await {
            return Err(error.context(self.why(cluster).await?.to_string()));
        }
        let seen = self.repository.stages()?;
        ensure!(seen == stages, "{seen:?}, {stages:?} expected");
        Ok(())
    }

    /// Another pass finds nothing to do, and commits nothing.
    pub fn assert_nothing_is_left(&self) -> anyhow::Result<()> {
        let head = self.repository.head()?;
        let output = self.stepgate(&["run", "--once", "-o", "json"]).output()?;
        ensure!(output.status.success(), "stepgate run --once: {}", String::from_utf8_lossy(&output.stderr));
        ensure!(self.repository.head()? == head, "committed besides: {:?}", self.repository.stages()?);
        Ok(())
    }

    /// Waits until `holds` gives a value.
    pub async fn until<T>(
        &self,
        what: &str,
        holds: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let waited = until(what, holds).await;
        waited.with_context(|| format!("logs and state are in {}", self.folder.path().display()))
    }

    /// A file of this test.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A forge with a fleet repository, which alice has cloned, and what the program is told to read and write it as itself.
pub async fn forge(
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<(Gitea, FleetRepository, BTreeMap<&'static str, OsString>)> {
    let gitea = Gitea::start(programs, folder).await?;
    for name in ["stepgate", "alice"] {
        gitea.user(name, Permission::Write).await?;
    }
    let repository = FleetRepository::cloned(&folder.join("repository"), &gitea.bare(), &gitea.clone_url("alice"))?;
    let token = folder.join("forge-token");
    std::fs::write(&token, gitea.token("stepgate", &["write:repository", "write:issue"]).await?)?;
    let environment = BTreeMap::from([
        ("STEPGATE_REPO", gitea.clone_url("stepgate").into()),
        ("STEPGATE_FORGE_TOKEN_FILE", token.into()),
        ("XDG_CACHE_HOME", folder.join("cache").into()),
        // Merges are found by looking.
        ("STEPGATE_INTERVAL", "3".into()),
    ]);
    Ok((gitea, repository, environment))
}
