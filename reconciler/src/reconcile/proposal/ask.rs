//! Asking people once a pass, when every cluster has been decided about: what belongs together goes onto one branch, what is void leaves it.
//!
//! Architecture Invariant: what cannot be rendered withdraws nothing. A process without `helm` or a
//! mirror cannot tell what is void: proposals and rejections of such a cluster stay as they are.
//!
//! A cluster joins, its plan moves, its gate fails: the branch is written anew, by
//! compare-and-swap, and what people said on it of plans that are still asked is put on top again.
//! A branch on which nothing is asked any more is withdrawn. A branch of that name that somebody
//! else has made is named and left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::ClusterName;
use rollout::ApprovalRequest;

use super::Asking;
use super::build::Layer;
use super::proposal_cache::ProposalCache;
use super::show::{Row, Showing};
use super::stack::Stack;
use super::wanted::Wanted;
use crate::reconcile::Controller;
use crate::reconcile::clusters::directory;
use crate::reconcile::planner::{ClusterView, FleetReading};
use approvals::words::Subject;
use domain::BranchName;
use git::GitError;
use planning::ClusterDirectory;
use planning::progress::Others;

/// Where a cluster stands with people, once a pass has decided about it.
#[derive(Clone, Debug)]
pub struct Position {
    /// What it was decided on.
    pub view: Arc<ClusterView>,
    /// What it asks, or may ask.
    pub askings: Vec<Asking>,
    /// What is to be proposed now; none where its gate is looked at again.
    pub request: Option<Box<ApprovalRequest>>,
    /// Whether its rollout is held: nothing of it is to be merged.
    pub held: bool,
    /// What other clusters said to it.
    pub others: Others,
}

/// What came of asking.
#[derive(Debug, Default)]
pub struct Asked {
    /// Clusters of which there is something new to say.
    pub told: BTreeSet<ClusterName>,
    /// Whether something was merged: everything is decided anew.
    pub landed: bool,
    /// Clusters for which it failed, and why.
    pub failed: Vec<(ClusterName, anyhow::Error)>,
    /// Clusters that are asked for later, since their wave has no place for them.
    pub later: BTreeSet<ClusterName>,
}

impl Controller {
    /// Brings every proposed branch to what its clusters ask now, and shows it to people. `undecided` are clusters of which nothing is
    /// known in this pass: what is proposed for them stays.
    pub(in crate::reconcile) async fn ask(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        positions: &BTreeMap<ClusterName, Position>,
        undecided: &BTreeSet<ClusterName>,
    ) -> Result<Asked, GitError> {
        let mut result = Asked::default();
        // What is decided is proposed on the branch as it is now, as far as the cluster's own folders are the same there.
        let reading = self.planner.read_deploy(Arc::clone(&reading.source))?;
        let considered = board.stacks(&self.planner, &reading).await?;
        let stacks = board.stacks_again(&self.planner, &reading).await?;
        self.tell_rejected(&reading, board, positions).await;
        let mut groups = self.wanted(&reading, positions, &mut result)?;
        for branch in stacks.keys() {
            groups.entry(branch.clone()).or_default();
        }
        for (branch, wanted) in groups {
            let stack = stacks.get(&branch).map(Arc::as_ref);
            let as_considered = |stack: &Stack| considered.get(&branch).is_some_and(|known| known.head == stack.head);
            if stack.is_some_and(|stack| stack.is_edited() && !as_considered(stack)) {
                // What people changed while this pass went on is looked at before anything takes its place.
                continue;
            }
            let failed = &mut result.failed;
            match self.bring(&reading, board, &branch, stack, &wanted, positions, undecided, failed).await {
                Ok(Told::Nothing) => {}
                Ok(Told::New) => result.told.extend(wanted.into_keys()),
                Ok(Told::Landed) => result.landed = true,
                Err(error) => {
                    let message = format!("{error:#}");
                    failed.extend(wanted.into_keys().map(|name| (name, anyhow::anyhow!(message.clone()))));
                }
            }
        }
        Ok(result)
    }

    /// Brings one branch to what is wanted on it.
    #[expect(clippy::too_many_arguments, reason = "what is there, what is wanted, and what is known of the others")]
    async fn bring(
        &self,
        reading: &FleetReading,
        board: &ProposalCache,
        branch: &BranchName,
        stack: Option<&Stack>,
        wanted: &BTreeMap<ClusterName, Wanted<'_>>,
        positions: &BTreeMap<ClusterName, Position>,
        undecided: &BTreeSet<ClusterName>,
        failed: &mut Vec<(ClusterName, anyhow::Error)>,
    ) -> Result<Told, anyhow::Error> {
        let kept = self.kept(reading, stack, undecided)?;
        let parts: BTreeSet<&ClusterName> = wanted.keys().chain(kept.keys()).collect();
        let mut layers = Vec::new();
        for cluster in parts {
            match (wanted.get(cluster), kept.get(cluster)) {
                (Some(wanted), _) => match self.layer(reading, branch, stack, wanted) {
                    Ok(layer) => layers.extend(layer),
                    // What is wrong with one is no reason not to ask for the others.
                    Err(error) => failed.push((cluster.clone(), error)),
                },
                (None, known) => {
                    layers.extend(known.map(|known| Layer::Known(cluster.clone(), known.commit.clone())));
                }
            }
        }
        let waits = wanted.values().any(|wanted| wanted.asking.takes_up && wanted.request.is_none());
        if let Some(stack) =
            stack.filter(|stack| stack.is_edited() && (waits || kept.keys().any(|name| stack.is_edited_for(name))))
        {
            // People's edits are on the branch alone: it stays as it is until they can be taken up.
            let known =
                |part: &super::stack::StageTree| Layer::Known(part.trailers.cluster.clone(), part.commit.clone());
            layers = stack.parts.iter().map(known).collect();
        }
        if layers.is_empty() {
            let stays = |asking: &Asking| &asking.branch == branch && asking.is_rejected();
            let rejected = positions.values().flat_map(|position| &position.askings).any(stays);
            let foreign = stack.is_some_and(|stack| stack.parts.is_empty() && stack.is_somebody_elses());
            // Of a cluster of which nothing is known somebody may have said no there.
            let unsure = stack.is_some_and(|stack| undecided.iter().any(|cluster| stack.concerns(cluster)));
            if let Some(stack) = stack.filter(|_| !rejected && !foreign && !unsure) {
                self.withdraw(reading, board, stack, positions).await?;
            }
            return Ok(Told::Nothing);
        }
        if let Some(stack) = stack.filter(|stack| stack.parts.is_empty() && stack.is_somebody_elses()) {
            anyhow::bail!(
                "branch {branch} is there already and holds commits of somebody else, the newest {}: rename or delete it, so that what waits for \
                 approval can be proposed there",
                stack.head
            );
        }
        let known = |layer: &Layer, part: &super::stack::StageTree| matches!(layer, Layer::Known(_, commit) if *commit == part.commit);
        let is_there = stack.is_some_and(|stack| {
            stack.parts.len() == layers.len() && layers.iter().zip(&stack.parts).all(|(layer, part)| known(layer, part))
        });
        let mut is_new = false;
        if !is_there {
            let layers = self.with_lost(reading, branch, stack, wanted, layers)?;
            is_new = match self.rebuild(reading, branch, stack, layers, (positions, undecided))? {
                Some(rebuilt) => {
                    let is_new = stack.is_none_or(|stack| stack.head != rebuilt.head);
                    board.holds(branch, Some(rebuilt));
                    is_new
                }
                // Somebody else wrote to the branch meanwhile: the next pass looks at it again.
                None => return Ok(Told::Nothing),
            };
        }
        let Some(stack) = board.stack(&self.planner, reading, branch).await? else { return Ok(Told::Nothing) };
        let mut rows = Vec::new();
        for part in &stack.parts {
            let cluster = &part.trailers.cluster;
            let wanted = wanted.get(cluster);
            let scope = wanted.map(|wanted| wanted.asking.scope.clone());
            let scope = scope.unwrap_or_else(|| rollout::ApprovalScope::Stage(part.trailers.stage.clone()));
            let subject = Subject { cluster: cluster.clone(), scope, plan: part.trailers.plan.clone() };
            let Some(proposal) = stack.proposal(&subject) else { continue };
            let (asking, request) = (wanted.map(|wanted| wanted.asking), wanted.and_then(|wanted| wanted.request));
            let view = wanted.map(|wanted| wanted.position.view.as_ref());
            rows.push(Row { view, asking, request, proposal });
        }
        if self.merge_noted(reading, &stack, &rows)? {
            return Ok(Told::Landed);
        }
        let told = match rows.iter().find_map(|row| row.asking) {
            Some(asking) => {
                let showing = Showing { branch, group: &asking.group, stack: stack.as_ref(), rows, positions, is_new };
                self.show(reading, board, &showing).await
            }
            None => Told::Nothing,
        };
        Ok(if is_new && told == Told::Nothing { Told::New } else { told })
    }

    /// What stays of clusters of which nothing is known: their folders are as they were when it was proposed.
    fn kept(
        &self,
        reading: &FleetReading,
        stack: Option<&Stack>,
        undecided: &BTreeSet<ClusterName>,
    ) -> Result<BTreeMap<ClusterName, super::stack::StageTree>, GitError> {
        let mut kept = BTreeMap::new();
        let Some(deploy) = &reading.deploy else { return Ok(kept) };
        let parts = stack.into_iter().flat_map(|stack| &stack.parts);
        for part in parts.filter(|part| undecided.contains(&part.trailers.cluster)) {
            let cluster = &part.trailers.cluster;
            let Some(parent) = self.planner.repository().parent(&part.commit)? else { continue };
            let before = self.planner.repository().deploy_snapshot(&reading.layout, &parent)?;
            if directory::ids(deploy, cluster)? == directory::ids(&before, cluster)? {
                kept.insert(cluster.clone(), part.clone());
            }
        }
        Ok(kept)
    }
}

/// What came of showing something to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing is different from before.
    Nothing,
    /// There is something new to say of it.
    New,
    /// People approved it, and it is merged.
    Landed,
}

/// Whether the ledger on the deploy branch records what was proposed.
pub(super) fn has_landed(directory: &ClusterDirectory, trailers: &git::StageTrailers) -> bool {
    let ledger = directory.ledger().filter(|ledger| ledger.rollout == trailers.rollout);
    ledger.is_some_and(|ledger| ledger.last_record(&trailers.stage).is_some())
}
