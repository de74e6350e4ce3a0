//! Waves: which clusters of a fleet may begin, or go on, by where the others stand.
//!
//! Architecture Invariant: nobody begins beyond the budget of its wave. Who is under way and has not been decided about since a process began, or
//! since the source branch moved, counts as neither done nor failed, and others wait until it has been.
//!
//! Architecture Invariant: what somebody says of a wave is said of the plans of its clusters, and of no other ones.

mod approval;
#[cfg(test)]
mod approval_tests;
mod budget;
mod decision;
#[cfg(test)]
mod decision_tests;
mod standing;
mod turns;
#[cfg(test)]
mod turns_tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::verdict::Reason;

pub use approval::{WaveAnswer, WaveAsks, WaveConsent, WaveQuestion, WaveWord, WaveWords, asked_plans, wave_consent};
pub use budget::{places, tolerated_failures};
pub use decision::{WaveState, ranked, wave_state, wave_turn};
pub use standing::{Decision, Standing, Turn, WaveMember};
pub use turns::WaveTurns;

/// What keeps a cluster from its next stage by the waves of its fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaveHold {
    /// Why.
    pub reason: Reason,
    /// When it ends by itself, where that is known.
    pub until: Option<Timestamp>,
    /// Whom it binds.
    pub binds: Binds,
}

/// Which stages of a cluster a [`WaveHold`] holds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binds {
    /// The first one of its rollout.
    Start,
    /// Those before its machines are at different versions because of it.
    BeforeMachines,
    /// Each of them: a stage that has begun goes on to its end, and the next one waits.
    EveryStage,
}
