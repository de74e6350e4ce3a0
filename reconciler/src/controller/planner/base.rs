//! What a rollout began from, and when the source branch moved on.

use std::sync::Arc;

use jiff::Timestamp;
use overlays::Fleet;
use rollout::{ClusterName, CommitId, LedgerState};

use super::{ClusterView, FleetReading, PlanError, Planner};
use crate::controller::directory::ClusterDirectory;
use crate::controller::inputs::Inputs;

impl Planner {
    /// The commit of the source branch that a cluster was at before the rollout that runs, or else is at now; none where nobody knows.
    ///
    /// # Errors
    /// [`PlanError`] when commits cannot be read.
    pub fn base_commit(&self, reading: &FleetReading, view: &ClusterView) -> Result<Option<CommitId>, PlanError> {
        self.base_of(reading, &view.name, &view.directory, view.base.as_ref())
    }

    /// What the plan of a cluster follows from at a commit of the source branch; none where the cluster is not there.
    ///
    /// # Errors
    /// [`PlanError`] when the commit cannot be read.
    pub fn inputs_at(&self, commit: &CommitId, cluster: &str) -> Result<Option<Inputs>, PlanError> {
        Ok(self.source(self.repository.snapshot_of(commit)?)?.inputs(cluster))
    }

    /// When the source branch began to ask for another plan than the ledger's, where that was at `time` or before.
    ///
    /// # Errors
    /// [`PlanError`] when commits cannot be read.
    pub fn moved_before(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
        time: Timestamp,
    ) -> Result<Option<Timestamp>, PlanError> {
        let Some(ledger) = view.directory.ledger() else { return Ok(None) };
        let mut commit = reading.source_commit().clone();
        // What the branch held then: people push in the order of time, as far as their clocks tell.
        let committed_at = loop {
            if commit == ledger.source {
                return Ok(None);
            }
            let committed_at = self.repository.committed_at(&commit)?;
            if committed_at <= time {
                break committed_at;
            }
            match self.repository.parent(&commit)? {
                Some(parent) => commit = parent,
                None => return Ok(None),
            }
        };
        let source = self.source(self.repository.snapshot_of(&commit)?)?;
        let cluster = source.fleet.cluster(view.name.as_str());
        let base = self.base_source(reading, &view.name, &view.directory, view.base.as_ref())?;
        let context = reading.context(&view.name, &view.directory, base.as_deref());
        let same = match cluster {
            Some(cluster) => self.plan(&context, &source, cluster)?.plan.digest == ledger.plan,
            None => false,
        };
        Ok((!same).then_some(committed_at))
    }

    fn base_of(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        directory: &ClusterDirectory,
        base: Option<&CommitId>,
    ) -> Result<Option<CommitId>, PlanError> {
        Ok(match directory.ledger() {
            None => None,
            Some(ledger) if ledger.state == LedgerState::Done => Some(ledger.source.clone()),
            Some(_) => match base {
                None => None,
                Some(commit) => {
                    let snapshot = self.repository.deploy_snapshot(&reading.layout, commit)?;
                    ClusterDirectory::read(&snapshot, cluster)?.ledger().map(|ledger| ledger.source.clone())
                }
            },
        })
    }

    /// The fleet that the deployed state was rendered from: classes of changes are relative to its bundle.
    pub(super) fn base_source(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        directory: &ClusterDirectory,
        base: Option<&CommitId>,
    ) -> Result<Option<Arc<Fleet>>, PlanError> {
        let Some(source) = self.base_of(reading, cluster, directory, base)? else { return Ok(None) };
        if &source == reading.source_commit() {
            return Ok(Some(Arc::clone(&reading.fleet)));
        }
        // A source commit that was rewritten away only costs the classes of the changes, not the plan.
        match self.repository.snapshot_of(&source) {
            Ok(snapshot) => Ok(Some(Arc::clone(&self.source(snapshot)?.fleet))),
            Err(error) => {
                tracing::warn!(%cluster, %source, %error, "the source commit of the deployed state is gone; changes cannot be classed");
                Ok(None)
            }
        }
    }
}
