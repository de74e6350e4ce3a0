//! What a rollout began from, and when the source branch moved on.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ClusterName, CommitId, Problem};
use jiff::Timestamp;
use overlays::{ClusterKind, ClusterSpec, Fleet};
use rollout::{Ledger, LedgerState};

use super::chained::at_target;
use super::context::Base;
use super::{ClusterView, FleetReading, PlanError, Planner};
use crate::reconcile::cache::inputs::{Inputs, SourceReading};
use planning::ClusterDirectory;
use planning::policies::{Befores, Change, changes, may_ask_people};

/// Releases of EKS-D by the minor of Kubernetes, such as `1.34` and `kubernetes-1-34-eks-9`.
pub type EksDReleases = BTreeMap<String, String>;

/// Those in the bundle of an EKS Anywhere cluster.
fn releases(fleet: &Fleet, cluster: &ClusterSpec) -> EksDReleases {
    let bundle = overlays::bundle_for(fleet, cluster).ok().filter(|_| cluster.kind == ClusterKind::EksAnywhere);
    let sections = bundle.iter().flat_map(|file| &file.bundles.versions_bundles);
    sections
        .filter_map(|section| {
            Some((section.kubernetes_version.minor().to_string(), section.eks_d.as_ref()?.name.clone()?))
        })
        .collect()
}

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
        // What the branch held then: people push in the order of time, as far as their clocks tell. Nothing was pushed after it was seen here.
        let mut latest = self.first_seen(&commit);
        let committed_at = loop {
            if commit == ledger.source {
                return Ok(None);
            }
            let parent = self.repository.parent(&commit)?;
            let mut committed_at = self.repository.committed_at(&commit)?;
            if let Some(parent) = &parent {
                committed_at = committed_at.max(self.repository.committed_at(parent)?);
            }
            latest = self.seen_before(&commit).map_or(latest, |seen| seen.min(latest));
            committed_at = committed_at.min(latest);
            if committed_at <= time {
                break committed_at;
            }
            match parent {
                Some(parent) => commit = parent,
                None => return Ok(None),
            }
        };
        let source = self.source(self.repository.snapshot_of(&commit)?)?;
        let cluster = source.fleet.cluster(view.name.as_str());
        let base = self.base(reading, &view.name, &view.directory, view.base.as_ref());
        let context = reading.context(&view.name, &view.directory, &base, &view.befores);
        let same = match cluster {
            Some(cluster) => self.plan(&context, &source, cluster)?.plan.digest == ledger.plan,
            None => false,
        };
        Ok((!same).then_some(committed_at))
    }

    /// What the newest policy says otherwise than those before, of a cluster that need not be rendered for it.
    ///
    /// # Errors
    /// [`PlanError`] when the deploy branch cannot be read.
    pub fn policy_changes(&self, reading: &FleetReading, cluster: &str) -> Result<Vec<Change>, PlanError> {
        let name: ClusterName = cluster.parse().map_err(|error: domain::InvalidIdentifier| PlanError::Name {
            name: cluster.to_owned(),
            message: error.to_string(),
        })?;
        let Some(deploy) = &reading.deploy else { return Ok(Vec::new()) };
        let directory = crate::reconcile::clusters::directory::read(deploy, &name)?;
        let history = self.history(reading, &name, &directory)?;
        let befores = self.befores_of(reading, &name, &directory, history.base.as_ref())?;
        let pushed = reading.pushed();
        Ok(changes(&pushed, &befores, cluster, may_ask_people(&pushed, &befores, cluster)))
    }

    /// The fields of a cluster that cannot go from what is deployed to what the source branch says; none where nothing is deployed.
    ///
    /// # Errors
    /// [`PlanError`] when the deploy branch cannot be read.
    pub fn immutable_changes(&self, reading: &FleetReading, cluster: &ClusterSpec) -> Result<Vec<Problem>, PlanError> {
        let name: ClusterName = cluster.name.parse().map_err(|error: domain::InvalidIdentifier| PlanError::Name {
            name: cluster.name.clone(),
            message: error.to_string(),
        })?;
        let Some(deploy) = &reading.deploy else { return Ok(Vec::new()) };
        let directory = crate::reconcile::clusters::directory::read(deploy, &name)?;
        Ok(overlays::immutable_changes(&directory.deployed(&name), cluster, reading.source.files.as_ref()))
    }

    fn base_of(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        directory: &ClusterDirectory,
        base: Option<&CommitId>,
    ) -> Result<Option<CommitId>, PlanError> {
        Ok(self.base_ledger(reading, cluster, directory, base)?.map(|ledger| ledger.source.clone()))
    }

    /// The record of what the rollout that runs began from, or else of what is deployed.
    fn base_ledger(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        directory: &ClusterDirectory,
        base: Option<&CommitId>,
    ) -> Result<Option<Arc<Ledger>>, PlanError> {
        let known = directory.shared_ledger();
        let (Some(ledger), Some(commit)) = (known, base) else {
            return Ok(known.filter(|ledger| ledger.state == LedgerState::Done).cloned());
        };
        if ledger.state == LedgerState::Done {
            return Ok(known.cloned());
        }
        let snapshot = self.repository.deploy_snapshot(&reading.layout, commit)?;
        Ok(crate::reconcile::clusters::directory::read(&snapshot, cluster)?.shared_ledger().cloned())
    }

    /// The policies of before that count for a cluster whose rollout started from the deploy commit `base`.
    pub(super) fn befores_of(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        directory: &ClusterDirectory,
        base: Option<&CommitId>,
    ) -> Result<Befores, PlanError> {
        let base = self.base_of(reading, cluster, directory, base)?;
        Ok(self.befores(directory, base.as_ref()))
    }

    /// The releases of EKS-D that machines of a cluster were made from before its rollout, and those that it leads to.
    ///
    /// # Errors
    /// [`PlanError`] when the repository cannot be read.
    pub fn releases(
        &self,
        reading: &FleetReading,
        view: &ClusterView,
    ) -> Result<(EksDReleases, EksDReleases), PlanError> {
        let base = self.base_source(reading, &view.name, &view.directory, view.base.as_ref())?;
        let after = releases(&reading.fleet, &view.cluster);
        let of = |fleet: &Fleet| Some(releases(fleet, fleet.cluster(view.name.as_str())?));
        let before = base.and_then(|base| of(&base.fleet)).unwrap_or_else(|| after.clone());
        Ok((before, after))
    }

    /// As [`Planner::base_source`], for plans that may not ask for it.
    pub(super) fn base<'a>(
        &'a self,
        reading: &'a FleetReading,
        cluster: &'a ClusterName,
        directory: &'a ClusterDirectory,
        base: Option<&'a CommitId>,
    ) -> Base<'a> {
        Base::new(move || self.base_source(reading, cluster, directory, base))
    }

    /// What the deployed state was rendered from: classes of changes are relative to its bundle.
    fn base_source(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        directory: &ClusterDirectory,
        base: Option<&CommitId>,
    ) -> Result<Option<Arc<SourceReading>>, PlanError> {
        let Some(ledger) = self.base_ledger(reading, cluster, directory, base)? else { return Ok(None) };
        let back = directory.ledger().and_then(|ledger| ledger.rollback.as_ref());
        // What was put back is rendered from an older commit than the policy that it was done under.
        let back = back.filter(|it| it.tree == directory.files.digest());
        let chain = match back {
            Some(back) => self.chain_at(reading, cluster, &back.to)?,
            None => ledger.chain.clone(),
        };
        let source = back.map_or_else(|| ledger.source.clone(), |it| it.source.clone());
        if &source == reading.source_commit() {
            return Ok(Some(at_target(&reading.source, cluster, chain.as_ref())));
        }
        // A source commit that was rewritten away only costs the classes of the changes, not the plan.
        match self.repository.snapshot_of(&source) {
            Ok(snapshot) => Ok(Some(at_target(&self.source(snapshot)?, cluster, chain.as_ref()))),
            Err(error) => {
                tracing::warn!(%cluster, %source, %error, "the source commit of the deployed state is gone; changes cannot be classed");
                Ok(None)
            }
        }
    }
}
