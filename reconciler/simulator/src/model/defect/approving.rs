//! Wrong ideas of what people have agreed to.

use rollout::{ApprovalRecord, ApprovalScope, ApprovalState, World};

/// Every stage, and the rollout as a whole.
pub(super) fn approve_everything(world: &mut World) {
    let stages = world.plan.stages.iter().map(|stage| ApprovalScope::Stage(stage.stage.clone()));
    let scopes: Vec<ApprovalScope> = stages.chain([ApprovalScope::Rollout]).collect();
    world.approvals = scopes
        .into_iter()
        .map(|scope| ApprovalRecord {
            scope,
            plan: world.plan.digest.clone(),
            state: ApprovalState::Approved,
            by: None,
            place: None,
            facts: rollout::ApprovalFacts::default(),
        })
        .collect();
}

pub(super) fn take_asked_for_approved(world: &mut World) {
    for record in &mut world.approvals {
        record.state = ApprovalState::Approved;
    }
}

pub(super) fn take_those_of_other_plans(world: &mut World) {
    for record in &mut world.approvals {
        record.plan.clone_from(&world.plan.digest);
    }
}

pub(super) fn take_those_of_other_stages(world: &mut World) {
    let approved = world.approvals.iter().filter(|known| known.state == ApprovalState::Approved);
    let of_stages = approved.filter(|known| matches!(known.scope, ApprovalScope::Stage(_)));
    let others = of_stages.flat_map(|known| {
        let scopes = world.plan.stages.iter().map(|stage| ApprovalScope::Stage(stage.stage.clone()));
        scopes.map(|scope| ApprovalRecord { scope, ..known.clone() })
    });
    let others: Vec<ApprovalRecord> = others.collect();
    world.approvals.splice(0..0, others);
}
