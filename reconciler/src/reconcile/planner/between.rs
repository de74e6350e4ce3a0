//! Plans between two commits of the source branch, as if the first were deployed everywhere: no deploy branch and no cluster is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ClusterName, CommitId, TreeDigest};
use jiff::Timestamp;
use overlays::{BundleReference, Fleet, RenderedTree};
use rollout::{Block, ClusterIdentity, Ledger, LedgerFormat, LedgerState, PastDurations, Plan, RenderFailure, StageId};

use super::context::Base;
use super::making::Planned;
use super::{FleetReading, PlanError, PlannedParts, Planner};
use crate::reconcile::cache::deployed::Deployed;
use git::GitError;
use planning::policies::confirmations;
use planning::stage_tree::{StageTree, target_tree};
use planning::{ClusterDirectory, DeployedLedger};

/// What leads a cluster from one commit to another.
pub struct Between {
    /// The plan, and the parts that its stages commit.
    pub planned: PlannedParts,
    /// What nobody has confirmed of the policy that the second commit brings.
    pub unconfirmed: Vec<Block>,
    /// The record of the first commit; none where that does not know the cluster.
    pub ledger: Option<Arc<Ledger>>,
}

/// Why a cluster has no plan between two commits.
#[derive(Debug, thiserror::Error)]
pub enum BetweenError {
    /// As for any plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// What the first commit says cannot be made, so nobody knows what changes.
    #[error("{cluster} cannot be rendered at commit {commit}: {stage}: {}; {}", failure.message, failure.help)]
    Unrendered {
        /// The cluster.
        cluster: ClusterName,
        /// The first commit.
        commit: CommitId,
        /// The stage.
        stage: StageId,
        /// Why.
        failure: Box<RenderFailure>,
    },
}

impl From<GitError> for BetweenError {
    fn from(error: GitError) -> Self {
        Self::Plan(error.into())
    }
}

impl Planner {
    /// A commit of the source branch by itself: nothing is deployed.
    ///
    /// # Errors
    /// As [`Planner::read`].
    pub fn read_alone(&self, commit: &CommitId) -> Result<FleetReading, GitError> {
        let source = self.source(self.repository.snapshot_of(commit)?)?;
        let fleet = Arc::clone(&source.fleet);
        let layout = self.layout(&fleet)?;
        Ok(FleetReading::undeployed(source, fleet, layout))
    }

    /// What leads a cluster from one commit to another, both read by [`Planner::read_alone`].
    ///
    /// # Errors
    /// [`BetweenError`] concerns this cluster alone.
    pub fn between(&self, from: &FleetReading, to: &FleetReading, name: &str) -> Result<Between, BetweenError> {
        if from.fleet.cluster(name).is_none() && from.fleet.blocking(name).is_empty() {
            let view = self.view(to, name)?;
            let unconfirmed = view.unconfirmed(to);
            return Ok(Between { planned: (view.plan, view.parts), unconfirmed, ledger: None });
        }
        let before = self.view(from, name)?;
        let failed = before.parts.iter().find_map(|part| Some((part.stage.clone(), part.error.clone()?)));
        if let Some((stage, failure)) = failed {
            let (cluster, commit) = (before.name, from.source_commit().clone());
            return Err(BetweenError::Unrendered { cluster, commit, stage, failure: Box::new(failure) });
        }
        let Some(cluster) = to.fleet.cluster(name) else {
            // With the problems that keep it from being read.
            return match self.view(to, name) {
                Err(error) => Err(error.into()),
                Ok(view) => Ok(Between { planned: (view.plan, view.parts), unconfirmed: Vec::new(), ledger: None }),
            };
        };
        let files = target_tree(&RenderedTree::new(), &before.parts);
        let at = self.committed_at(from.source_commit())?;
        let ledger = Arc::new(as_adopted(&before.plan, &before.parts, files.digest(), None, &[], at));
        let directory =
            ClusterDirectory { files, ledger: DeployedLedger::Read(Arc::clone(&ledger)), ..ClusterDirectory::absent() };
        let reading = FleetReading { deployed: Arc::new(Deployed::at(versions(&from.fleet))), ..to.clone() };
        let befores = self.befores(&directory, Some(from.source_commit()));
        let base = Base::new(|| Ok(Some(Arc::clone(&from.source))));
        let context = reading.context(&before.name, &directory, &base, &befores);
        let Planned { plan, parts, .. } = self.plan(&context, &reading.source, cluster)?;
        let asks = plan.stages.iter().any(|stage| rollout::approval_scope(stage).is_some());
        let unconfirmed = confirmations(&reading.pushed(), &befores, name, asks);
        Ok(Between { planned: (plan, parts), unconfirmed, ledger: Some(ledger) })
    }
}

/// The EKS Anywhere version of every cluster.
fn versions(fleet: &Fleet) -> BTreeMap<ClusterName, String> {
    let version = |cluster: &overlays::ClusterSpec| match &cluster.bundle_reference {
        Some(BundleReference::EksaVersion(version)) => Some((cluster.name.parse().ok()?, version.clone())),
        Some(BundleReference::Bundles(_)) | None => None,
    };
    fleet.clusters.iter().filter_map(version).collect()
}

/// The record of a cluster that runs what a commit of the source branch says of it.
pub(in crate::reconcile) fn as_adopted(
    plan: &Plan,
    parts: &[StageTree],
    digest: TreeDigest,
    identity: Option<&ClusterIdentity>,
    as_declared: &[String],
    now: Timestamp,
) -> Ledger {
    let version = |part: &StageTree| Some((part.stage.name.to_string(), part.version.clone()?));
    Ledger {
        format: LedgerFormat::default(),
        cluster: plan.cluster.clone(),
        rollout: plan.rollout_id.clone(),
        plan: plan.digest.clone(),
        source: plan.source.clone(),
        base: digest.clone(),
        target: digest.clone(),
        tree: digest,
        state: LedgerState::Done,
        started_at: now,
        finished_at: Some(now),
        identity: identity.cloned(),
        before: None,
        stages: Vec::new(),
        approvals: Vec::new(),
        retries: Vec::new(),
        edits: Vec::new(),
        rollback: None,
        chain: None,
        as_declared: as_declared.to_vec(),
        way_back: None,
        durations: PastDurations::default(),
        verified: None,
        components: parts.iter().filter_map(version).collect(),
    }
}
