//! The directory of a cluster as it is read from the deploy branch.

use domain::{ClusterName, RepoPath};
use git::{GitError, GitSnapshot};
use overlays::RenderedTree;
use planning::{ClusterDirectory, DeployedLedger, DirectoryIds, PathError, cluster_folder, flux_folder};

use crate::reconcile::proposal::body_path;

/// Reads the directory of `cluster` from a snapshot of the deploy branch (below the deploy path, where there is one).
///
/// # Errors
/// [`GitError`] when objects cannot be read.
pub fn read(deploy: &GitSnapshot, cluster: &ClusterName) -> Result<ClusterDirectory, GitError> {
    let ids = ids(deploy, cluster)?;
    let mut files = RenderedTree::new();
    for folder in [cluster_folder(cluster), flux_folder(cluster)] {
        let folder = path(&folder)?;
        for (name, bytes) in deploy.below(&folder)?.files()?.files {
            files.insert(path(&format!("{folder}/{name}"))?, bytes);
        }
    }
    // What people were asked is no part of what is deployed.
    let has_proposal = files.files.remove(body_path(cluster)?.as_str()).is_some();
    let ledger = match files.files.remove(ledger_path(cluster)?.as_str()) {
        None => DeployedLedger::Absent,
        Some(bytes) => DeployedLedger::of(&bytes),
    };
    Ok(ClusterDirectory { ids, files, ledger, has_proposal })
}

/// What a snapshot holds of a cluster, by the ids of its folders: nothing of them is read.
///
/// # Errors
/// As [`read`].
pub fn ids(deploy: &GitSnapshot, cluster: &ClusterName) -> Result<DirectoryIds, GitError> {
    let id = |folder: String| deploy.tree_id(&path(&folder)?);
    Ok((id(cluster_folder(cluster))?, id(flux_folder(cluster))?))
}

/// `clusters/<name>/rollout.yaml`.
///
/// # Errors
/// As [`path`].
pub fn ledger_path(cluster: &ClusterName) -> Result<RepoPath, GitError> {
    planning::ledger_path(cluster).map_err(|error| refused(cluster.as_str(), &error))
}

/// A path made of names that were checked before.
///
/// # Errors
/// [`GitError::Library`] when a name is refused after all.
pub fn path(text: &str) -> Result<RepoPath, GitError> {
    planning::path(text).map_err(|error| refused(text, &error))
}

/// A name that is refused although it was checked before.
pub fn refused(name: &str, error: &PathError) -> GitError {
    GitError::Library { action: format!("use the path {name}"), message: error.to_string() }
}
