//! External etcd and the control plane: one commit that moves both, and until when there is a way
//! back.

use crate::ledger::Ledger;
use crate::stage::{StageId, StageName};
use policy::StagePolicy;

use super::{StageInput, StagePlan, StageState};

/// The stage whose commit moves this one too: as the specification has it, or as the ledger records
/// it.
pub(super) fn carrier(stage: &StageInput, ledger: Option<&Ledger>) -> Option<StageId> {
    stage.carried_by.clone().or_else(|| ledger?.carrier(&stage.stage).cloned())
}

/// Says of etcd and the control plane what follows from each other.
///
/// Whoever may let a stage through lets everything through that its commit moves.
pub(super) fn join(stages: &mut [StagePlan], goes_back: bool) {
    let moved: Vec<StagePlan> = stages.iter().filter(|stage| stage.carried_by.is_some()).cloned().collect();
    for stage in stages.iter_mut() {
        let own = moved.iter().filter(|moved| moved.carried_by.as_ref() == Some(&stage.stage));
        for moved in own {
            stage.carries.push(moved.stage.clone());
            stage.policy = both(&stage.policy, &moved.policy);
        }
    }
    let is_moved = |stage: &StagePlan| {
        stage.stage.name == StageName::Etcd && matches!(stage.state, StageState::Pending | StageState::Committed)
    };
    if goes_back || !stages.iter().any(is_moved) {
        return;
    }
    for stage in stages {
        match (&stage.stage.name, stage.state) {
            (StageName::Etcd, StageState::Pending) if stage.one_way.is_empty() => stage.reasons.push(UNDONE.to_owned()),
            (StageName::ControlPlane, StageState::Pending) => stage.one_way.push(NO_WAY_BACK.to_owned()),
            _ => {}
        }
    }
}

const UNDONE: &str = "can be undone until a machine of the control plane is replaced or an old member is gone";

/// Why there is no way back once the control plane is on its way to new members.
const NO_WAY_BACK: &str = "etcd: the old members go with the control plane's old machines";

/// The policy of a stage that moves another one too: whatever has to be there for either.
fn both(own: &StagePolicy, moved: &StagePolicy) -> StagePolicy {
    StagePolicy {
        approval: own.approval.max(moved.approval),
        approvers: own.approvers.and(&moved.approvers),
        ..own.clone()
    }
}
