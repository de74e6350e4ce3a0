//! A management cluster in which everything is as the deploy branch says, the last of a fleet that is not done, and the program beside it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tests::servers::{DemoCluster, GitServer, Programs, demo_fleet};

use super::PROGRAM_VERB;
use crate::corpus;
use crate::fleet::name;
use crate::measure::run as command;

/// Who the controller is to the API server.
const USER: &str = "\"username\":\"stepgate\"";

/// Where files are in memory, on Linux.
const MEMORY: &str = "/dev/shm";

/// A management cluster in which everything is as the deploy branch says.
pub(super) struct Scene {
    pub(super) cluster: DemoCluster,
    git: GitServer,
    /// What the API server writes. On the disk of the fleet repository each commit would wait until that is on the disk as well, which no
    /// cluster's etcd and audit log make it do.
    _state: TempDir,
}

impl Scene {
    pub(super) async fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        let stepgate = || {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(PROGRAM_VERB);
            Ok(command)
        };
        let memory = Path::new(MEMORY);
        let state = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }?;
        let policy = policy(false);
        let others = other_clusters(&folder.join("others"))?;
        let others = others.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        let files: Vec<(&str, &str)> = others.chain([("stepgate.yaml", policy.as_str())]).collect();
        let cluster = DemoCluster::start(programs, folder, state.path(), &files, stepgate, false).await?;
        // Anonymous pushes over HTTP.
        command(&cluster.repository.bare(), "git", &["config", "http.receivepack", "true"])?;
        let git = GitServer::start(cluster.repository.served().0).await?;
        cluster.settle().await?;
        Ok(Self { cluster, git, _state: state })
    }

    /// The program, on the bare repository or on the same over HTTP.
    pub(super) fn stepgate(&self, over_http: bool, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = self.cluster.stepgate(&self.cluster.server.user("stepgate", "system:masters")?, arguments)?;
        if over_http {
            command.env("STEPGATE_REPO", self.git.url(self.cluster.repository.served().1));
        }
        Ok(command)
    }

    /// Clusters of which Stepgate says that they are done.
    pub(super) fn done(&self) -> anyhow::Result<usize> {
        let output = self.stepgate(false, &["status", "--output", "json"])?.output()?;
        ensure!(output.status.success(), "stepgate status: {}", String::from_utf8_lossy(&output.stderr));
        let status: Value = serde_json::from_slice(&output.stdout)?;
        let clusters = status.get("clusters").and_then(Value::as_array).context("a status without clusters")?;
        let is_done = |cluster: &&Value| cluster.get("state").and_then(Value::as_str) == Some("done");
        Ok(clusters.iter().filter(is_done).count())
    }

    /// Requests of the controller so far.
    pub(super) fn requests(&self) -> anyhow::Result<usize> {
        let mut found = 0;
        for entry in std::fs::read_dir(self.cluster.server.folder())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("audit") && name.ends_with(".log") {
                let is_asked = |line: &&str| line.contains(USER) && line.contains("\"RequestReceived\"");
                found += std::fs::read_to_string(&path)?.lines().filter(is_asked).count();
            }
        }
        Ok(found)
    }
}

/// The specifications of the clusters that are done already, so that the management cluster is the last of the fleet.
fn other_clusters(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    std::fs::create_dir_all(folder)?;
    let fleet = demo_fleet(folder)?;
    let template = fleet.get("clusters/team-a/cluster.yaml").context("the demo has team-a")?;
    let numbers = 1..corpus::CLUSTERS;
    Ok(numbers
        .map(|number| (format!("clusters/{0}/cluster.yaml", name(number)), template.replace("team-a", &name(number))))
        .collect())
}

/// The policy of the fleet.
pub(super) fn policy(approved: bool) -> String {
    let approval = if approved { "approval: stage\n" } else { "" };
    format!(
        "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\ndeploy: {{branch: deploy}}\nsoak: 0s\ntimeout: 30m\n{approval}"
    )
}
