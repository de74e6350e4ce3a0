//! What is read of a cluster, for what is to be decided.

use std::sync::Arc;

use jiff::Timestamp;
use rollout::{Plan, StageName, World};

use crate::reconcile::planner::ClusterView;
use cluster::{Freshness, ObserveRequest};

/// Every workload of the cluster is looked at twice only: before the first commit of a plan and after its last.
fn is_asked_for(plan: &Plan, stage: &StageName) -> bool {
    match stage {
        StageName::Preflight => !plan.running,
        StageName::Fargate | StageName::Leftovers | StageName::Verify => plan.next_stage().is_none(),
        _ => true,
    }
}

/// Asks for everything that the gates of this world look at.
pub fn request(view: &ClusterView, world: &World, freshness: Freshness, at: Timestamp) -> ObserveRequest {
    let plans = [Some(world.plan.as_ref()), world.running.as_deref()];
    let stages = plans
        .into_iter()
        .flatten()
        .flat_map(|plan| plan.stages.iter().filter(|stage| is_asked_for(plan, &stage.stage.name)));
    let expectations =
        stages.flat_map(|stage| stage.expectations.iter().chain(&stage.deployed_expectations)).cloned().collect();
    ObserveRequest {
        expectations,
        kustomizations: view.flux_references(),
        deployed: Arc::clone(&view.deployed),
        freshness,
        at,
    }
}
