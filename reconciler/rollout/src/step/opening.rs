//! What opens a stage, and what stands in its way.

use jiff::Timestamp;

use crate::effect::Effect;
use crate::plan::StagePlan;
use crate::stage::StageId;
use crate::verdict::{Evidence, Reason};

/// How a plan comes to its next stage.
#[derive(Debug)]
pub(super) enum Opening {
    /// It is the one the ledger is running.
    Continue,
    /// No rollout is running.
    Fresh,
    /// It takes over from another rollout whose running stage has passed with this evidence.
    After(Evidence),
    /// It takes over from another rollout whose running stage has failed for these reasons.
    Repair(Vec<Reason>),
}

/// What opens the next stage, once nothing is in its way.
#[derive(Debug)]
pub(super) enum Key {
    /// The gate before it passed.
    Evidence(Evidence),
    /// The gate before it failed, and this stage is the repair.
    Repair(Vec<Reason>),
}

/// The effects that stand in the way.
pub(super) type Stop = Vec<Effect>;

/// None inside of a maintenance window, else when the next one opens, as far as that is known.
#[must_use]
pub fn closed_windows(next: &StagePlan, now: Timestamp) -> Option<Option<Timestamp>> {
    let windows = &next.policy.windows;
    (!windows.contains(now)).then(|| windows.next(now))
}

/// Why something is not to be merged yet, in words; none inside of a maintenance window.
#[must_use]
pub fn outside_windows(next: &StagePlan, now: Timestamp) -> Option<String> {
    closed_windows(next, now).map(|opens| match opens {
        Some(opens) => format!("the next maintenance window opens at {opens}"),
        None => "no maintenance window opens any more".to_owned(),
    })
}

/// A wait of this stage, with its reason.
pub(super) fn wait(stage: StageId, reason: Reason, until: Option<Timestamp>) -> Effect {
    Effect::Wait { stage: Some(stage), reason, until }
}

/// A hold of this stage, with what helps.
pub(super) fn hold(stage: StageId, reasons: Vec<Reason>) -> Effect {
    let help = reasons.iter().find_map(|reason| reason.help.clone());
    let help = help.unwrap_or_else(|| "correct what the reasons name; the rollout goes on by itself".to_owned());
    Effect::Hold { stage, reasons, help }
}
