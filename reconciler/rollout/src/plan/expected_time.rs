//! How long a plan takes, by what its cluster's last rollout took.

use jiff::{SignedDuration, Timestamp};

use super::{Plan, StageState};
use crate::ledger::{Ledger, LedgerState, StageRecordKind};
use crate::stage::StageName;
use domain::RolloutId;

/// How long the stages of a plan that are left take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedTime {
    /// As long as these stages took, from their commit until their gate passed. Approvals and windows come on top.
    pub takes: SignedDuration,
    /// Whether every stage that is left was there; else it takes longer.
    pub is_whole: bool,
    /// The rollout that took as long.
    pub rollout: RolloutId,
    /// When it ended.
    pub ended: Timestamp,
}

impl Plan {
    /// How long it takes, by the last rollout; none where the ledger holds no finished one, or none of the stages that are left.
    #[must_use]
    pub fn expected_time(&self, ledger: &Ledger) -> Option<ExpectedTime> {
        let ended = ledger.finished_at.filter(|_| ledger.state == LedgerState::Done)?;
        let open = self.stages.iter().filter(|stage| {
            matches!(stage.state, StageState::Pending | StageState::Blocked) && !stage.stage.is_without_commit()
        });
        let (mut takes, mut known, mut is_whole) = (SignedDuration::ZERO, false, true);
        for stage in open {
            match took(ledger, &stage.stage.name, ended) {
                Some(duration) => {
                    takes = takes.saturating_add(duration);
                    known = true;
                }
                None => is_whole = false,
            }
        }
        known.then(|| ExpectedTime { takes, is_whole, rollout: ledger.rollout.clone(), ended })
    }
}

/// From the last commit of a stage until its gate passed, which the record after it says.
pub(super) fn took(ledger: &Ledger, name: &StageName, ended: Timestamp) -> Option<SignedDuration> {
    let is_it = |record: &crate::ledger::StageRecord| &record.stage.name == name;
    let index = ledger.stages.iter().rposition(is_it)?;
    let record = ledger.stages.get(index).filter(|record| record.kind == StageRecordKind::Commit)?;
    let passed = match ledger.stages.get(index + 1) {
        Some(next) => next.opened_by.as_ref()?.observed_at,
        None => ledger.verified.as_ref().map_or(ended, |verified| verified.observed_at),
    };
    let took = passed.duration_since(record.committed_at);
    (!took.is_negative()).then_some(took)
}
