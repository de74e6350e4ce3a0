//! The end of a rollout: it follows from the source commit and from what was deployed before, whatever happens to Stepgate on the way.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
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
        let mut command = scene.stepgate(&["render", "--cluster", cluster, "--output", "json"]);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
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

    /// The deploy branch has come to it, and its ledger is closed: each of `stages` but the first, which recorded what was there, and the last, which
    /// closed it, was committed once.
    pub fn assert_reached(&self, scene: &Scene, stages: &[&str]) -> anyhow::Result<()> {
        let mut deployed = BTreeMap::new();
        for folder in ["clusters", "flux"] {
            for path in scene.repository.deployed_files(&format!("{folder}/{}", self.cluster))? {
                let text = scene.repository.deployed(&path)?;
                deployed.insert(path, text);
            }
        }
        let ledger = deployed.remove(&format!("clusters/{}/rollout.yaml", self.cluster)).context("no ledger")?;
        assert_eq!(deployed.keys().collect::<Vec<_>>(), self.files.keys().collect::<Vec<_>>());
        for (path, text) in &deployed {
            assert_eq!(Some(text), self.files.get(path), "{path}");
        }

        let ledger = objects(&ledger)?.pop().context("an empty ledger")?;
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
