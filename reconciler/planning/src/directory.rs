//! What the deploy branch holds for one cluster: its directory, its Flux objects and its ledger.

use std::sync::Arc;

use domain::{ClusterName, ObjectId, RepoPath};
use overlays::RenderedTree;
use rollout::Ledger;

use crate::PathError;

/// Name of the ledger's file inside a cluster's directory.
const LEDGER: &str = "rollout.yaml";

/// The largest ledger that is read, in bytes: many times what the longest rollout writes, and its parser takes a hundred times its bytes.
const LARGEST_LEDGER: usize = 2 << 20;

/// Ids of `clusters/<name>` and `flux/<name>`; none where absent. Equal ids mean equal content.
pub type DirectoryIds = (Option<ObjectId>, Option<ObjectId>);

/// A cluster's part of the deploy branch.
#[derive(Clone, Debug)]
pub struct ClusterDirectory {
    /// Ids of its two folders.
    pub ids: DirectoryIds,
    /// The files of both folders, without the ledger. Paths are relative to the top of the deploy tree.
    pub files: RenderedTree,
    /// The ledger, as far as there is a readable one.
    pub ledger: DeployedLedger,
    /// Whether the text of a merged proposal still lies there.
    pub has_proposal: bool,
}

/// The ledger of a cluster, read from the deploy branch.
#[derive(Clone, Debug)]
pub enum DeployedLedger {
    /// There is none: the cluster was never adopted.
    Absent,
    /// It could not be read: somebody else changed it.
    Unreadable(String),
    /// It was read.
    Read(Arc<Ledger>),
}

impl DeployedLedger {
    /// What the file of a ledger says.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.len() > LARGEST_LEDGER {
            let length = bytes.len();
            return Self::Unreadable(format!("it has {length} bytes, more than the {LARGEST_LEDGER} that are read"));
        }
        match serde_yaml::from_slice::<Ledger>(bytes) {
            Ok(ledger) => Self::Read(Arc::new(ledger)),
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }
}

impl ClusterDirectory {
    /// A directory that is not there.
    pub fn absent() -> Self {
        Self { ids: (None, None), files: RenderedTree::new(), ledger: DeployedLedger::Absent, has_proposal: false }
    }

    /// The ledger; none where there is none or it cannot be read.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.shared_ledger().map(Arc::as_ref)
    }

    /// The same, to be kept.
    pub fn shared_ledger(&self) -> Option<&Arc<Ledger>> {
        match &self.ledger {
            DeployedLedger::Read(ledger) => Some(ledger),
            DeployedLedger::Absent | DeployedLedger::Unreadable(_) => None,
        }
    }

    /// The files below `clusters/<name>`, paths relative to it: what renderers call the deployed tree.
    pub fn deployed(&self, cluster: &ClusterName) -> RenderedTree {
        let prefix = cluster_folder(cluster);
        let inside = |(path, bytes): (&RepoPath, &Arc<[u8]>)| Some((path.strip_prefix(&prefix)?, Arc::clone(bytes)));
        self.files.files.iter().filter_map(inside).collect()
    }
}

/// `clusters/<name>`.
pub fn cluster_folder(cluster: &ClusterName) -> String {
    format!("clusters/{cluster}")
}

/// `flux/<name>`.
pub fn flux_folder(cluster: &ClusterName) -> String {
    format!("flux/{cluster}")
}

/// `clusters/<name>/rollout.yaml`.
///
/// # Errors
/// As [`path`].
pub fn ledger_path(cluster: &ClusterName) -> Result<RepoPath, PathError> {
    path(&format!("{}/{LEDGER}", cluster_folder(cluster)))
}

/// A path made of names that were checked before.
///
/// # Errors
/// [`PathError`] when a name is refused after all.
pub fn path(text: &str) -> Result<RepoPath, PathError> {
    RepoPath::new(text).map_err(PathError::from)
}
