//! Where a cluster stands after a pass, as far as people want to hear of it.

use jiff::Timestamp;
use rollout::{Announcement, LedgerState, Reason, RolloutStanding, StageId};

use crate::reconcile::main_loop::report::{ClusterOutcome, ClusterPass};
use crate::reconcile::planner::{ClusterView, FleetReading};

/// What is to be told of where a cluster stands; none where that is not known.
pub(in crate::reconcile) fn standing(
    reading: &FleetReading,
    view: &ClusterView,
    pass: &ClusterPass,
    now: Timestamp,
) -> Option<Vec<Announcement>> {
    let ledger = view.directory.ledger();
    let running = view.running.as_ref().filter(|(plan, _)| plan.running);
    let is_running = ledger.is_some_and(|ledger| ledger.state == LedgerState::Running);
    let plan = running.filter(|_| is_running).map_or(&view.plan, |(plan, _)| plan);
    let said = |stage: &StageId| reading.fleet.policy.announced_impact(&stage.name.to_string()).map(str::to_owned);
    let told = |standing: RolloutStanding<'_>| Some(rollout::standing(plan, ledger, &standing, said, now));
    match &pass.outcome {
        ClusterOutcome::Done => Some(Vec::new()),
        ClusterOutcome::Waiting { stage, reason, .. } => {
            let asked = pass.proposed.as_ref().map(domain::BranchName::as_str);
            told(RolloutStanding::Waits { stage: stage.as_ref(), reason, asked })
        }
        ClusterOutcome::Held { stage, reasons, help } => {
            told(RolloutStanding::Held { stage: stage.as_ref(), reasons, help })
        }
        ClusterOutcome::Blocked { reasons } => {
            let help = reasons.first().map(|block| block.help.clone()).unwrap_or_default();
            let reasons: Vec<Reason> = reasons.iter().map(|block| Reason::new(block.message.clone())).collect();
            told(RolloutStanding::Held { stage: None, reasons: &reasons, help: &help })
        }
        ClusterOutcome::Failed { .. } => None,
    }
}
