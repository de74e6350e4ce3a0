//! The commits of the deploy branch, as planning looks at them.

use domain::{ClusterName, CommitId};

use super::{FleetReading, Planner};
use crate::reconcile::cache::deploy;
use git::{GitError, HistoryEntry, Reach};
use planning::ClusterDirectory;

impl Planner {
    /// Whether a head of the deploy branch follows on a commit of it, as far as is known without looking further back than decisions do.
    ///
    /// # Errors
    /// [`GitError`] when commits cannot be read.
    pub(in crate::reconcile) fn follows(&self, commit: &CommitId, head: &CommitId) -> Result<bool, GitError> {
        self.known.histories.holds(&self.repository, commit, head)
    }

    /// The commits that changed a cluster's directory, newest first, at most `limit`: stages, those of squashed proposals included, and what
    /// other people did.
    ///
    /// # Errors
    /// [`GitError`] when commits cannot be read.
    pub fn commits(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>, GitError> {
        self.newest_commits(reading, cluster, limit, Reach::Everything)
    }

    pub(super) fn newest_commits(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        limit: usize,
        reach: Reach,
    ) -> Result<Vec<HistoryEntry>, GitError> {
        let Some(head) = reading.deploy_head() else { return Ok(Vec::new()) };
        self.known.histories.newest(&self.repository, &reading.layout, cluster, head, (limit, reach))
    }

    pub(super) fn history(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        directory: &ClusterDirectory,
    ) -> Result<deploy::ClusterHistory, GitError> {
        let (known, head) = (&self.known.histories, reading.deploy_head());
        let first_seen = |commit: &CommitId| self.first_seen(commit);
        deploy::history(&self.repository, known, &reading.layout, cluster, head, directory.ledger(), first_seen)
    }
}
