//! What the next rollout of a cluster leads to where several lead to what the source branch asks for.

use std::sync::Arc;

use domain::{ClusterName, CommitId};
use overlays::{ClusterSpec, RenderedTree};
use planning::chain::{Asked, Course, course, fleet_at};
use planning::facts;
use rollout::{Block, Chain, LedgerState};

use super::context::Context;
use super::{FleetReading, PlanError, Planner};
use crate::reconcile::cache::inputs::SourceReading;
use crate::reconcile::clusters::directory;

/// A source commit as the next rollout takes it.
#[derive(Default)]
pub(super) struct Chained {
    /// The source with the cluster at the target of that rollout; none where that is what people wrote.
    pub source: Option<SourceReading>,
    /// The rollouts, where there are several.
    pub chain: Option<Chain>,
    /// Why there are none.
    pub broken: Option<Block>,
}

impl Planner {
    pub(super) fn chained(
        &self,
        context: &Context<'_>,
        source: &SourceReading,
        cluster: &ClusterSpec,
        deployed: &RenderedTree,
    ) -> Result<Chained, PlanError> {
        let name = context.name.as_str();
        let ledger = context.directory.ledger();
        let running = ledger.filter(|ledger| ledger.state == LedgerState::Running);
        if !source.fleet.policy.chains_upgrades(name) && running.is_none_or(|ledger| ledger.chain.is_none()) {
            return Ok(Chained::default());
        }
        let before = match running {
            Some(ledger) => self.repository.snapshot_of(&ledger.source).ok().map(|it| self.source(it)).transpose()?,
            None => None,
        };
        let deployed = facts::deployed_cluster(deployed, cluster);
        let asked = Asked {
            fleet: &source.fleet,
            cluster,
            deployed: deployed.as_ref(),
            base: context.base.get()?.map(|base| base.fleet.as_ref()),
            ledger,
            before: before.as_ref().and_then(|before| before.fleet.cluster(name)),
        };
        let chain = match course(&asked) {
            Course::Direct => return Ok(Chained::default()),
            Course::Nowhere(block) => return Ok(Chained { broken: Some(block), ..Chained::default() }),
            Course::Chain(chain) => chain,
        };
        let Some(target) = chain.current().filter(|_| chain.rollout < chain.targets.len()) else {
            return Ok(Chained { chain: Some(chain), ..Chained::default() });
        };
        Ok(match fleet_at(&source.fleet, cluster, target) {
            Ok(fleet) => Chained { source: Some(source.with_fleet(fleet)), chain: Some(chain), broken: None },
            Err(error) => Chained { broken: Some(error.block()), chain: Some(chain), source: None },
        })
    }

    /// The chain in the record of a cluster at a commit of the deploy branch.
    pub(super) fn chain_at(
        &self,
        reading: &FleetReading,
        cluster: &ClusterName,
        commit: &CommitId,
    ) -> Result<Option<Chain>, PlanError> {
        let Ok(snapshot) = self.repository.deploy_snapshot(&reading.layout, commit) else { return Ok(None) };
        Ok(directory::read(&snapshot, cluster)?.ledger().and_then(|ledger| ledger.chain.clone()))
    }
}

/// A source commit with a cluster at what a rollout of its chain has led to.
pub(super) fn at_target(
    source: &Arc<SourceReading>,
    cluster: &ClusterName,
    chain: Option<&Chain>,
) -> Arc<SourceReading> {
    let target = chain.filter(|chain| chain.rollout < chain.targets.len()).and_then(Chain::current);
    let at = target.zip(source.fleet.cluster(cluster.as_str()));
    // It was written once, and the files are the same.
    let fleet = at.and_then(|(target, cluster)| fleet_at(&source.fleet, cluster, target).ok());
    fleet.map_or_else(|| Arc::clone(source), |fleet| Arc::new(source.with_fleet(fleet)))
}
