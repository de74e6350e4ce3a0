//! The end of a rollout: it follows from the source commit and from what was deployed before, whatever happens to Stepgate on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tests::servers::FleetRepository;
use tests::servers::manifests::objects;

use super::scene::Scene;

/// What the folders of a cluster on the deploy branch hold in the end: the texts of its files by path. The ledger is left out: its times and
/// its evidence are those of one run.
pub struct End {
    cluster: String,
    files: BTreeMap<String, String>,
}

impl End {
    /// As `stepgate render` has it of the newest source commit: one process, which nobody kills and which commits nothing.
    pub async fn rendered(scene: &Scene, cluster: &str) -> anyhow::Result<Self> {
        Self::of(Self::render(scene, cluster), cluster).await
    }

    /// What renders it, once it is run.
    pub fn render(scene: &Scene, cluster: &str) -> Command {
        scene.stepgate(&["render", "--cluster", cluster, "--output", "json"])
    }

    /// As [`End::rendered`], by what [`End::render`] gave.
    pub async fn of(mut render: Command, cluster: &str) -> anyhow::Result<Self> {
        let output = tokio::task::spawn_blocking(move || render.output()).await??;
        ensure!(output.status.success(), "stepgate render: {}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout)?;
        let mut files = BTreeMap::new();
        for file in report.get("files").and_then(Value::as_array).context("no files were rendered")? {
            let text = |field: &str| file.get(field).and_then(Value::as_str).map(str::to_owned);
            files.insert(
                text("path").context("a file without a path")?,
                text("content").context("a file without a text")?,
            );
        }
        Ok(Self { cluster: cluster.to_owned(), files })
    }

    /// What keeps the deploy branch from being at it with a closed ledger; none where it is.
    pub fn missing(&self, repository: &FleetRepository) -> anyhow::Result<Option<String>> {
        let (deployed, ledger) = self.deployed(repository)?;
        if ledger["state"] != "done" || ledger["tree"] != ledger["target"] {
            return Ok(Some(format!(
                "the ledger is {}, at {} of {}",
                ledger["state"], ledger["tree"], ledger["target"]
            )));
        }
        let paths: BTreeSet<&String> = deployed.keys().chain(self.files.keys()).collect();
        let other = paths.into_iter().find(|path| deployed.get(*path) != self.files.get(*path));
        Ok(other.map(|path| format!("{path} is not as it is rendered")))
    }

    /// The files of the deploy branch without the ledger, and the ledger.
    fn deployed(&self, repository: &FleetRepository) -> anyhow::Result<(BTreeMap<String, String>, Value)> {
        let mut deployed = BTreeMap::new();
        for folder in ["clusters", "flux"] {
            for path in repository.deployed_files(&format!("{folder}/{}", self.cluster))? {
                let text = repository.deployed(&path)?;
                deployed.insert(path, text);
            }
        }
        let ledger = deployed.remove(&format!("clusters/{}/rollout.yaml", self.cluster)).context("no ledger")?;
        Ok((deployed, objects(&ledger)?.pop().context("an empty ledger")?))
    }

    /// The deploy branch has come to it, and its ledger is closed: each of `stages` but the first, which recorded what was there, and the last, which
    /// closed it, was committed once.
    pub fn assert_reached(&self, scene: &Scene, stages: &[&str]) -> anyhow::Result<()> {
        let (deployed, ledger) = self.deployed(&scene.repository)?;
        assert_eq!(deployed.keys().collect::<Vec<_>>(), self.files.keys().collect::<Vec<_>>());
        for (path, text) in &deployed {
            assert_eq!(Some(text), self.files.get(path), "{path}");
        }

        assert_eq!((&ledger["state"], &ledger["tree"]), (&json!("done"), &ledger["target"]), "{ledger}");
        ensure!(!ledger["verified"].is_null(), "closed without evidence: {ledger}");
        let records = ledger["stages"].as_array().context("a ledger without stages")?;
        let recorded: Vec<_> =
            records.iter().map(|record| json!([record["kind"], record["stage"], record["attempt"]])).collect();
        let once: Vec<_> = stages[1..stages.len() - 1].iter().map(|stage| json!(["commit", stage, 1])).collect();
        assert_eq!(recorded, once);
        Ok(())
    }
}

/// The deploy branch has one commit for each of `stages`, in their order, and so many of other people.
pub fn assert_committed_once(scene: &Scene, stages: &[&str], others: usize) -> anyhow::Result<()> {
    let history = scene.repository.history()?;
    assert_eq!(history.iter().flatten().collect::<Vec<_>>(), stages);
    assert_eq!(history.len(), stages.len() + others, "{history:?}");
    Ok(())
}
