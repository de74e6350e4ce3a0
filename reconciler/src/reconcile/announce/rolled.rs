//! What is rolled out of a cluster now, as far as alerts are silenced for it.

use rollout::{Ledger, LedgerState, StageId, StageRecordKind};

use crate::reconcile::main_loop::report::{ClusterOutcome, ClusterPass};

/// The stage whose gate is waited for, or that nothing is; none where that is not known. Where it is held, or people are asked, alerts
/// are wanted.
pub(super) fn rolled(ledger: Option<&Ledger>, pass: &ClusterPass) -> Option<Option<StageId>> {
    match &pass.outcome {
        ClusterOutcome::Failed { .. } => None,
        ClusterOutcome::Waiting { .. } if pass.standing.is_none() => None,
        ClusterOutcome::Waiting { .. } if pass.proposed.is_none() => {
            let running = ledger.filter(|ledger| ledger.state == LedgerState::Running);
            let last = running.and_then(|ledger| ledger.stages.last());
            Some(last.filter(|last| last.kind == StageRecordKind::Commit).map(|last| last.stage.clone()))
        }
        ClusterOutcome::Waiting { .. }
        | ClusterOutcome::Done
        | ClusterOutcome::Held { .. }
        | ClusterOutcome::Blocked { .. } => Some(None),
    }
}
