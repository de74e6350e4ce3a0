//! What is to be told of where a rollout stands now.

use jiff::Timestamp;

use super::{Announcement, words};
use crate::ledger::{Ledger, LedgerState};
use crate::plan::{Plan, StagePlan, StageState};
use crate::stage::StageId;
use crate::step::closed_windows;
use crate::verdict::Reason;
use policy::AnnouncementKind;

/// Where a rollout stands, as far as somebody wants to hear of it.
#[derive(Clone, Debug)]
pub enum RolloutStanding<'a> {
    /// It waits.
    Waits {
        /// The stage whose gate or turn is waited for.
        stage: Option<&'a StageId>,
        /// What for.
        reason: &'a Reason,
        /// The branch on which people are asked, where they are.
        asked: Option<&'a str>,
    },
    /// It does not go on by itself.
    Held {
        /// The stage that failed; none where all of the rollout is held.
        stage: Option<&'a StageId>,
        /// Why.
        reasons: &'a [Reason],
        /// What helps.
        help: &'a str,
    },
}

/// What is to be told of where the rollout of a plan stands: as long as the same is told, nothing is new. `said` is what
/// the team says that people will feel of a stage.
#[must_use]
pub fn standing(
    plan: &Plan,
    ledger: Option<&Ledger>,
    standing: &RolloutStanding<'_>,
    said: impl Fn(&StageId) -> Option<String>,
    now: Timestamp,
) -> Vec<Announcement> {
    let running = ledger.filter(|ledger| ledger.state == LedgerState::Running);
    let about = |stage: Option<&StageId>, kind| Announcement {
        cluster: plan.cluster.clone(),
        rollout: running.map_or_else(|| plan.rollout_id.clone(), |ledger| ledger.rollout.clone()),
        stage: stage.cloned(),
        kind,
        turn: 1,
        at: now,
        commit: None,
        reasons: Vec::new(),
        help: None,
        opens: None,
        takes: None,
        impact: Vec::new(),
        asked: None,
    };
    let mut told = Vec::new();
    let next = plan.next_stage().filter(|_| plan.blocked.is_empty());
    if let Some(next) = next {
        let opens = closed_windows(plan, next, ledger, now).and_then(|(_, opens)| opens);
        if running.is_none() {
            let takes = ledger.and_then(|ledger| plan.expected_time(ledger)).map(|time| time.takes.as_secs());
            let impact = words::impact(plan.stages.iter().filter(is_open), &said);
            told.push(Announcement { opens, takes, impact, ..about(None, AnnouncementKind::Upcoming) });
        } else if opens.is_some() && plan.running {
            let impact = words::impact([next], &said);
            told.push(Announcement { opens, impact, ..about(Some(&next.stage), AnnouncementKind::Upcoming) });
        }
    }
    match standing {
        RolloutStanding::Waits { stage, reason, asked: Some(asked) } => {
            let stage = next.map(|next| &next.stage).or(*stage);
            let waiting = about(stage, AnnouncementKind::Waiting);
            let (reasons, help) = (vec![reason.to_string()], reason.help.clone());
            told.push(Announcement { reasons, help, asked: Some((*asked).to_owned()), ..waiting });
        }
        RolloutStanding::Waits { .. } => {}
        RolloutStanding::Held { stage, reasons, help } => {
            let held = about(*stage, AnnouncementKind::Held);
            let reasons = reasons.iter().map(ToString::to_string).collect();
            told.push(Announcement { reasons, help: Some((*help).to_owned()), ..held });
        }
    }
    told
}

fn is_open(stage: &&StagePlan) -> bool {
    matches!(stage.state, StageState::Pending | StageState::Blocked)
}
