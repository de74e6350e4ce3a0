//! What is wanted on each proposed branch: of clusters that ask something, as far as nothing speaks against asking it now.

use std::collections::{BTreeMap, BTreeSet};

use domain::ClusterName;
use rollout::{ApprovalRequest, LedgerState, Plan};

use super::ask::{Asked, Position};
use super::{Asking, asked};
use crate::reconcile::Controller;
use crate::reconcile::clusters::directory;
use crate::reconcile::planner::{ClusterView, FleetReading};
use approvals::group::{Candidate, without_place};
use domain::BranchName;
use git::GitError;

/// The most clusters that are asked for on one branch; more would fit into no text.
const MOST: usize = 400;

/// A part that is wanted on a branch.
pub(super) struct Wanted<'a> {
    pub position: &'a Position,
    pub asking: &'a Asking,
    pub plan: &'a Plan,
    /// What is proposed now; none where it only stays.
    pub request: Option<&'a ApprovalRequest>,
}

impl Controller {
    /// What is wanted on each branch, by cluster.
    pub(super) fn wanted<'a>(
        &self,
        reading: &FleetReading,
        positions: &'a BTreeMap<ClusterName, Position>,
        result: &mut Asked,
    ) -> Result<BTreeMap<BranchName, BTreeMap<ClusterName, Wanted<'a>>>, GitError> {
        let mut groups: BTreeMap<BranchName, BTreeMap<ClusterName, Wanted<'a>>> = BTreeMap::new();
        for (name, position) in positions {
            for asking in &position.askings {
                let Some((plan, _)) = asked(&position.view).find(|(plan, _)| plan.digest == asking.plan) else {
                    continue;
                };
                let request = position.request.as_deref();
                let request = request.filter(|it| it.scope == asking.scope && it.commit.plan == asking.plan);
                let is_there = asking.proposal.is_some() || asking.takes_up;
                if asking.is_rejected() || position.held || (request.is_none() && !is_there) {
                    continue;
                }
                // Whoever was moved since is decided about anew by the next pass.
                if !self.is_unmoved(reading, &position.view)? {
                    continue;
                }
                let wanted = Wanted { position, asking, plan, request };
                let group = groups.entry(asking.branch.clone()).or_default();
                // What is asked now takes the place of what was asked before for the plan that is running.
                if request.is_some() || !group.contains_key(name) {
                    group.insert(name.clone(), wanted);
                }
            }
        }
        result.later = self.later(reading, &groups);
        for wanted in groups.values_mut() {
            wanted.retain(|name, _| !result.later.contains(name));
            // Somebody wants the others to go on without it, so long as there are others.
            let apart = |wanted: &Wanted<'_>| wanted.asking.said.held_by.is_some() && wanted.asking.said.apart;
            if !wanted.values().all(apart) {
                wanted.retain(|_, wanted| !apart(wanted));
            }
            while wanted.len() > MOST {
                wanted.pop_last();
            }
        }
        Ok(groups)
    }

    /// Clusters for which their wave has no place.
    fn later(
        &self,
        reading: &FleetReading,
        groups: &BTreeMap<BranchName, BTreeMap<ClusterName, Wanted<'_>>>,
    ) -> BTreeSet<ClusterName> {
        let running = |view: &ClusterView| view.directory.ledger().is_some_and(|it| it.state == LedgerState::Running);
        let candidate = |(name, wanted): (&ClusterName, &Wanted<'_>)| Candidate {
            cluster: name.clone(),
            running: running(&wanted.position.view),
            proposed: wanted.asking.proposal.is_some(),
        };
        let candidates: Vec<Candidate> = groups.values().flatten().map(candidate).collect();
        let policy = &reading.fleet.policy;
        let size = |place: usize| {
            reading.fleet.clusters.iter().filter(|cluster| policy.wave_of(&cluster.name) == Some(place)).count()
        };
        let sizes: Vec<usize> = (0..policy.waves.len()).map(size).collect();
        without_place(policy, &sizes, &candidates, &self.underway(reading))
    }

    fn is_unmoved(&self, reading: &FleetReading, view: &ClusterView) -> Result<bool, GitError> {
        Ok(match &reading.deploy {
            Some(deploy) => directory::ids(deploy, &view.name)? == view.directory.ids,
            None => view.directory.ids == (None, None),
        })
    }
}
