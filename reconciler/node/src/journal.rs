//! What has been done to this node for one target, on the node itself. The program keeps nothing in memory between
//! calls, and nothing that is written here stands for what can be read off the node.

use std::collections::BTreeMap;
use std::io;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::files::digest::Digest;
use crate::files::manifest::{Component, ReleaseImage};
use crate::files::root::{NodePath, Root};
use crate::files::{Files, Found, STATE};
use crate::step::{MOST_ATTEMPTS, Step};
use crate::version::KubernetesVersion;

/// What a node does for its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The control-plane node that is upgraded before all others: `kubeadm upgrade apply`.
    FirstControlPlane,
    /// Another control-plane node: `kubeadm upgrade node`.
    ControlPlane,
    /// No control plane.
    Worker,
}

impl Role {
    /// Whether static Pods of the control plane run here.
    #[must_use]
    pub fn is_control_plane(self) -> bool {
        !matches!(self, Self::Worker)
    }
}

/// What the upgrade leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The version.
    pub kubernetes_version: KubernetesVersion,
    /// Of the manifest: the same version in other files is another target.
    pub manifest: Digest,
}

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not begun, or an attempt failed and another one is left.
    #[default]
    Pending,
    /// Begun; when no process works on it, the call was interrupted and goes on when it is called again.
    Running,
    /// Done.
    Succeeded,
    /// Not tried again by itself.
    Failed,
}

/// One step, or the way back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Where it stands.
    pub state: State,
    /// Attempts that failed.
    pub attempts: u32,
    /// Calls that were ended from outside.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interruptions: u32,
    /// When it was begun first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it succeeded or failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// What was done, or what went wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A file that the upgrade replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// On the node.
    pub path: NodePath,
    /// The step that replaces it.
    pub component: Component,
    /// What was there when the upgrade began.
    pub before: Option<Found>,
    /// What is to be there.
    pub after: Found,
}

/// A file that other programs change in the course, kept for the way back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// On the node.
    pub path: NodePath,
    /// What was there when the upgrade began.
    pub before: Found,
}

/// A service that has to be restarted; whether it was follows from how it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Of systemd.
    pub unit: String,
    /// The machine's boot and the service's start, when all files were in place; none while they may not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<(String, String)>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// What it leads to.
    pub target: Target,
    /// The Node object.
    pub node: String,
    /// What kubeadm has to do here.
    pub role: Role,
    /// What ran here when the upgrade began.
    pub version_before: KubernetesVersion,
    /// Digests before and after.
    pub files: Vec<FileRecord>,
    /// What else is put back on the way back.
    pub saved: Vec<Saved>,
    /// Images that were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ReleaseImage>,
    /// Step by step.
    pub steps: BTreeMap<Step, Record>,
    /// Restarts that are owed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Restart>,
    /// Of kube-vip, while its manifest is out of the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_address: Option<Saved>,
    /// `DaemonSets` whose Pod was ready here when the upgrade began, `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub daemon_sets: Vec<String>,
    /// Of etcd, taken when the upgrade began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_snapshot: Option<Saved>,
    /// Pods that were evicted, `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drained: Vec<String>,
    /// The way back, once it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Record>,
}

impl Journal {
    fn path() -> Result<NodePath, String> {
        NodePath::try_from(format!("{STATE}/journal.json"))
    }

    /// What is written on the node; none before the first upgrade.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn load(root: &Root) -> anyhow::Result<Option<Self>> {
        let path = Self::path().map_err(anyhow::Error::msg)?;
        let bytes = match std::fs::read(root.place(path.as_str())?) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("could not read {path} of the node")),
        };
        serde_json::from_slice(&bytes).map(Some).with_context(|| format!("{path} of the node is not a journal"))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, files: &Files<'_>) -> anyhow::Result<()> {
        let path = Self::path().map_err(anyhow::Error::msg)?;
        files.write_text(&path, &format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// Where a step stands.
    #[must_use]
    pub fn record(&self, step: Step) -> Record {
        self.steps.get(&step).cloned().unwrap_or_default()
    }

    /// Whether the node is done with this target.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.rollback.is_none() && self.record(Step::Uncordon).state == State::Succeeded
    }

    /// Whether the way back was gone to its end.
    #[must_use]
    pub fn is_rolled_back(&self) -> bool {
        self.rollback.as_ref().is_some_and(|record| record.state == State::Succeeded)
    }

    /// Whether a file or the node may differ from how they were.
    #[must_use]
    pub fn has_changed_the_node(&self) -> bool {
        self.steps.iter().any(|(step, record)| *step != Step::Copy && record.started.is_some())
    }
}

impl Record {
    /// A call begins.
    pub fn begin(&mut self, now: Timestamp) {
        if self.state == State::Running {
            self.interruptions += 1;
        }
        self.state = State::Running;
        self.started.get_or_insert(now);
        self.finished = None;
    }

    /// A call ends. Returns whether no attempt is left.
    pub fn end(&mut self, result: Result<String, String>, now: Timestamp) -> bool {
        self.finished = Some(now);
        match result {
            Ok(message) => {
                self.state = State::Succeeded;
                self.message = message;
            }
            Err(message) => {
                self.attempts += 1;
                let is_last = self.attempts >= MOST_ATTEMPTS;
                self.state = if is_last { State::Failed } else { State::Pending };
                self.message = message;
            }
        }
        self.state == State::Failed
    }
}
