//! What is on the fleet repository's branches.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use tests::servers::DEPLOY;

use super::scene::Scene;
use crate::measure::run as command;

/// How long anything may take before the benchmark gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// A stage that is there next.
pub(super) struct Next {
    /// Its commit, or the merge of it.
    pub(super) head: String,
    pub(super) stage: String,
    /// When it was seen, on the deploy branch or proposed.
    pub(super) seen: Instant,
}

impl Scene {
    /// What the deploy branch holds next; where people approve, as soon as it is proposed, which is merged here.
    pub(super) async fn next(&self, head: &str, approved: bool) -> anyhow::Result<Next> {
        let branches = self.cluster.repository.bare().join("refs/heads");
        let start = Instant::now();
        let mut stale = BTreeSet::new();
        loop {
            // The reference may be packed meanwhile; then the next commit unpacks it.
            let deployed = std::fs::read_to_string(branches.join(DEPLOY)).unwrap_or_default();
            if !deployed.is_empty() && deployed.trim() != head {
                let seen = Instant::now();
                return Ok(Next { stage: self.stage(deployed.trim())?, head: deployed.trim().to_owned(), seen });
            }
            for proposed in if approved { proposals(&branches) } else { Vec::new() } {
                let seen = Instant::now();
                if !stale.insert(proposed.clone()) || self.git(&["rev-parse", &format!("{proposed}^")])? != head {
                    continue;
                }
                return Ok(Next { stage: self.stage(&proposed)?, head: self.merge(head, &proposed)?, seen });
            }
            ensure!(start.elapsed() < PATIENCE, "nothing was committed after {head}");
            // A look costs less than a notification would take, and is no part of what is measured.
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    /// A person merges what was proposed on the head of the deploy branch.
    fn merge(&self, head: &str, proposed: &str) -> anyhow::Result<String> {
        let person = ["-c", "user.name=Person", "-c", "user.email=person@example.com"];
        let tree = format!("{proposed}^{{tree}}");
        let merge = ["commit-tree", "-m", "Merge what was proposed", "-p", head, "-p", proposed, &tree];
        let merged = self.git(&[&person[..], &merge[..]].concat())?;
        self.git(&["update-ref", &format!("refs/heads/{DEPLOY}"), &merged, head])?;
        Ok(merged)
    }

    fn stage(&self, head: &str) -> anyhow::Result<String> {
        self.git(&["log", "-1", "--format=%(trailers:key=Stepgate-Stage,valueonly,separator=)", head])
    }

    fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        Ok(command(&self.cluster.repository.bare(), "git", arguments)?.trim().to_owned())
    }
}

/// The commits of all branches that Stepgate proposes on.
fn proposals(branches: &Path) -> Vec<String> {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let waves = entries(&branches.join("stepgate"));
    let commits = waves.flat_map(|wave| entries(&wave).collect::<Vec<_>>());
    let read = commits.filter_map(|branch| Some(std::fs::read_to_string(branch).ok()?.trim().to_owned()));
    // Not what git is just writing.
    read.filter(|commit| commit.len() == 40).collect()
}
