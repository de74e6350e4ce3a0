//! Why the deploy branch holds no ledger of a cluster, as far as the repository tells.

use domain::{ClusterName, CommitId};

use super::Planner;
use super::context::DeployBranch;
use crate::reconcile::cache::deploy;
use crate::reconcile::clusters::directory;
use crate::reconcile::clusters::missing::MissingRecord;
use git::{DeployLayout, GitError, LastSeen, SeenBy};
use planning::{ClusterDirectory, DeployedLedger};

impl Planner {
    /// Where the absent deploy branch was, if a commit with a ledger is known.
    pub(super) fn lost_branch(&self, layout: &DeployLayout) -> Option<LastSeen> {
        let seen = self.repository.last_seen(&layout.branch);
        // A clone is told of first: what it should be asked is not what it holds.
        let (clones, others): (Vec<_>, Vec<_>) =
            seen.into_iter().partition(|seen| matches!(seen.by, SeenBy::Clone { .. }));
        clones.into_iter().chain(others).find(|seen| self.holds_ledger(layout, &seen.commit, None) != Some(false))
    }

    /// Whether the deploy tree of a commit holds the ledger of a cluster, or of any; none where the commit cannot be read.
    pub fn holds_ledger(
        &self,
        layout: &DeployLayout,
        commit: &CommitId,
        cluster: Option<&ClusterName>,
    ) -> Option<bool> {
        let snapshot = self.repository.deploy_snapshot(layout, commit).ok()?;
        let has = |cluster: &ClusterName| {
            let path = directory::ledger_path(cluster).ok()?;
            snapshot.tree_id(&path).ok().map(|id| id.is_some())
        };
        if let Some(cluster) = cluster {
            return has(cluster);
        }
        let folders = snapshot.folders(&directory::path("clusters").ok()?).ok()?;
        let names = folders.into_iter().filter_map(|(name, _)| name.parse().ok());
        let found: Vec<Option<bool>> = names.map(|name| has(&name)).collect();
        if found.contains(&Some(true)) { Some(true) } else { (!found.contains(&None)).then_some(false) }
    }

    /// Why there is no ledger; none where there is one.
    ///
    /// # Errors
    /// [`GitError`] when commits cannot be read.
    pub(super) fn missing_record(
        &self,
        deploy: DeployBranch<'_>,
        cluster: &ClusterName,
        directory: &ClusterDirectory,
    ) -> Result<Option<MissingRecord>, GitError> {
        if !matches!(directory.ledger, DeployedLedger::Absent) {
            return Ok(None);
        }
        let DeployBranch { layout, head, lost } = deploy;
        let Some(head) = head else {
            return Ok(Some(
                lost.cloned().map_or(MissingRecord::NoBranch, |seen| MissingRecord::Lost { seen, asked: false }),
            ));
        };
        if let Some((by, author)) = deploy::removed(&self.repository, &self.known.histories, layout, cluster, head)? {
            return Ok(Some(MissingRecord::Removed { by, author }));
        }
        if let Some(folder) = self.elsewhere(layout, head, cluster)? {
            return Ok(Some(MissingRecord::Elsewhere { folder }));
        }
        let mut tracked = self.repository.tracked(&layout.branch).into_iter();
        let ahead = tracked
            .find(|seen| seen.commit != *head && self.holds_ledger(layout, &seen.commit, Some(cluster)) == Some(true));
        Ok(Some(ahead.map_or(MissingRecord::Never, MissingRecord::Behind)))
    }

    /// The folder of a deploy commit that holds a cluster's ledger, where that is not the one of the policy; `/` for the top.
    fn elsewhere(
        &self,
        layout: &DeployLayout,
        commit: &CommitId,
        cluster: &ClusterName,
    ) -> Result<Option<String>, GitError> {
        let snapshot = self.repository.snapshot_of(commit)?;
        let ledger = directory::ledger_path(cluster)?;
        if layout.prefix.is_some() && snapshot.tree_id(&ledger)?.is_some() {
            return Ok(Some("/".to_owned()));
        }
        for folder in snapshot.top_folders()? {
            // Names that no path can have are none of ours.
            let Ok(path) = directory::path(&format!("{folder}/{ledger}")) else { continue };
            if layout.prefix.as_ref().map(|prefix| prefix.as_str()) != Some(folder.as_str())
                && snapshot.tree_id(&path)?.is_some()
            {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }
}
