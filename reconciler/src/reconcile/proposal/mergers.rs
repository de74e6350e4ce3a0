//! Who merged what, as a forge tells it: git does not tell of every kind of merge.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::CommitId;
use jiff::Timestamp;
use rollout::{DeployHead, Landing, Plan};

use super::proposal_cache::{Landed, ProposalCache};
use super::thread::Thread;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use approvals::group::Group;
use domain::BranchName;
use forge::PullRequestState;
use git::GitError;

/// Who merged the commits of a rollout, and when, as the forge said.
pub type Mergers = BTreeMap<CommitId, (String, Option<Timestamp>)>;

/// Says of commits that were merged on the forge who did it and when.
pub async fn name_mergers(
    planner: &Planner,
    board: &ProposalCache,
    reading: &FleetReading,
    view: &ClusterView,
    deploy: &mut Arc<DeployHead>,
    mergers: &mut Mergers,
) {
    let Ok(Some(_)) = planner.forge(reading) else { return };
    let Some(ledger) = view.directory.ledger() else { return };
    for approved in ledger.approvals.iter().filter(|approved| approved.by.is_none()) {
        let stage = ledger.brought(approved);
        let landed = deploy.newest(|trailer| trailer.rollout == ledger.rollout && Some(&trailer.stage) == stage);
        let Some(commit) = landed.filter(|commit| *commit.landing != Landing::Pushed) else { continue };
        let place = commit.place;
        let about = Landed { cluster: &view.name, plan: &approved.plan, scope: &approved.scope };
        if !mergers.contains_key(commit.id)
            && let Ok(branch) = branch_of(reading, view, &about)
            && let Ok(Some(thread)) = board.merged(planner, reading, &branch, &about).await
            && let Some(merger) = merger(&thread, &about)
        {
            mergers.insert(commit.id.clone(), merger);
        }
        if let Some((by, at)) = mergers.get(commit.id) {
            Arc::make_mut(deploy).tell(place, Landing::Merged(by.clone()), *at);
        }
    }
}

/// The branch on which something was asked that has landed since, as the policy names it now.
pub(super) fn branch_of(
    reading: &FleetReading,
    view: &ClusterView,
    landed: &Landed<'_>,
) -> Result<BranchName, GitError> {
    let own = |plan: &&Plan| &plan.digest == landed.plan;
    // Where the plan cannot be made again, the rules of the newest one are the nearest.
    let plan = view.plans().find(own).unwrap_or(&view.plan);
    Group::of(&reading.fleet.policy, &view.name, plan, landed.scope).branch().map_err(GitError::from)
}

fn merger(thread: &Thread, landed: &Landed<'_>) -> Option<(String, Option<Timestamp>)> {
    let PullRequestState::Merged { by: Some(by), at } = &thread.pull.state else { return None };
    let approved = thread.reviewers(landed.cluster, landed.plan);
    let approved = if approved.is_empty() { String::new() } else { format!(", approved by {}", approved.join(", ")) };
    Some((format!("{by} ({}{approved})", thread.pull.url), *at))
}
