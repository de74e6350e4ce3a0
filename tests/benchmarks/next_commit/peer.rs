//! The peer: what people write where nothing waits for a cluster and commits for them.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tests::servers::Programs;

use super::scene::Scene;
use super::stages::PATIENCE;
use crate::measure::run as command;

/// Waits for the Deployment and pushes what was prepared.
const SCRIPT: &str = "\
set -eu
\"$KUBECTL\" wait --for=condition=Available --timeout=120s --namespace \"$NAMESPACE\" \"deployment/$DEPLOYMENT\" >&2
git add --all
git commit --quiet --message \"$STAGE\"
git push --quiet origin HEAD:script
";

/// Who the script is to the API server.
const USER: &str = "script";

/// The stage whose Deployment it waits for.
const STAGE: &str = "capi";

/// A clone of the fleet repository with the script beside it.
pub(super) struct Script<'a> {
    scene: &'a Scene,
    clone: PathBuf,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
}

impl<'a> Script<'a> {
    pub(super) fn new(scene: &'a Scene, programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        let clone = folder.join("script");
        let bare = scene.cluster.repository.bare();
        command(folder, "git", &["clone", "--quiet", &bare.to_string_lossy(), &clone.to_string_lossy()])?;
        for (key, value) in [("user.name", "Person"), ("user.email", "person@example.com")] {
            command(&clone, "git", &["config", key, value])?;
        }
        let kubeconfig = scene.cluster.server.user(USER, "system:masters")?;
        Ok(Self { scene, clone, kubeconfig, kubectl: programs.path("kubectl") })
    }

    /// From when the API server tells that the Deployment is available until the script's commit is on the repository, so often.
    pub(super) async fn measure(&self, trials: usize, quiet: Duration) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::new();
        while times.len() < trials {
            times.push(self.trial(quiet).await?);
        }
        Ok(times)
    }

    /// How many commits of the script are on the repository.
    pub(super) fn commits(&self) -> anyhow::Result<usize> {
        Ok(command(&self.scene.cluster.repository.bare(), "git", &["rev-list", "--count", "main..script"])?.parse()?)
    }

    async fn trial(&self, quiet: Duration) -> anyhow::Result<Duration> {
        let (namespace, deployment) = super::workload::deployment(STAGE);
        self.scene.available(STAGE, false).await?;
        let (before, logged) = (self.head(), self.audit()?.metadata()?.len());
        // Something else each time.
        std::fs::write(self.clone.join("trial"), format!("after {before:?}\n"))?;
        let script = Command::new("sh")
            .args(["-c", SCRIPT])
            .current_dir(&self.clone)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECTL", &self.kubectl)
            .env("NAMESPACE", namespace)
            .env("DEPLOYMENT", deployment)
            .env("STAGE", STAGE)
            .stderr(Stdio::piped())
            .spawn()
            .context("run the script")?;
        self.until("the script waits for the Deployment", || self.is_waiting(logged)).await?;
        tokio::time::sleep(quiet).await;
        let available = self.scene.available(STAGE, true).await?;
        self.until("the script has pushed", || Ok(self.head() != before)).await?;
        let took = available.elapsed();
        let ended = script.wait_with_output()?;
        ensure!(ended.status.success(), "the script failed: {}", String::from_utf8_lossy(&ended.stderr));
        Ok(took)
    }

    /// Looks again and again, as often as for Stepgate's commits.
    async fn until(&self, what: &str, holds: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let start = Instant::now();
        while !holds()? {
            ensure!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        Ok(())
    }

    fn head(&self) -> Option<String> {
        let branch = self.scene.cluster.repository.bare().join("refs/heads/script");
        std::fs::read_to_string(branch).ok().filter(|head| !head.is_empty())
    }

    fn audit(&self) -> anyhow::Result<std::fs::File> {
        Ok(std::fs::File::open(self.scene.cluster.server.folder().join("audit.log"))?)
    }

    /// Whether the script has begun to watch since the audit log was as long as this.
    fn is_waiting(&self, logged: u64) -> anyhow::Result<bool> {
        let (mut audit, mut text) = (self.audit()?, String::new());
        audit.seek(SeekFrom::Start(logged))?;
        audit.read_to_string(&mut text)?;
        let user = format!("\"username\":\"{USER}\"");
        Ok(text.lines().any(|line| line.contains(&user) && line.contains("\"verb\":\"watch\"")))
    }
}
