//! Where a cluster stands, for the others of its wave.

use domain::{ClusterName, PlanDigest};
use jiff::Timestamp;

use crate::effect::Effect;
use crate::ledger::LedgerState;
use crate::stage::StageId;
use crate::world::World;

use super::WaveHold;

/// A cluster of a wave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaveMember {
    /// The cluster.
    pub cluster: ClusterName,
    /// How many machines its specification asks for, where it says.
    pub machines: Option<u32>,
    /// Where it stands.
    pub standing: Standing,
    /// The plan that somebody approves: the newest while something of it is left to do, else the one that was carried out last. None where that
    /// is not known, or nothing ever was.
    pub plan: Option<PlanDigest>,
    /// Whether a rollout of another plan than that is on the way, and may go over to it.
    pub is_replanned: bool,
}

/// Where a cluster stands, for the others of its wave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing of its rollout is committed.
    Ahead(Turn),
    /// Its rollout has begun, and has not failed.
    UnderWay {
        /// When its first stage was committed.
        started: Timestamp,
        /// Whether it has been decided about: else it may have failed, and nobody knows.
        is_known: bool,
    },
    /// It is held, was taken back, or broke after its end.
    Failed {
        /// When its first stage was committed, where its rollout is of those that the wave is about.
        started: Option<Timestamp>,
        /// What has become of it, such as `held at capi`.
        why: String,
    },
    /// Nothing is left to be committed.
    Done {
        /// As of a failed one.
        started: Option<Timestamp>,
        /// Since when it is verified and healthy; none of one that never had a rollout.
        since: Option<Timestamp>,
    },
}

/// Whether a cluster of which nothing is committed could begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It has not been decided about.
    Unknown,
    /// Nothing but its wave is in its way.
    Ready,
    /// Something else is in its way: it keeps nobody waiting.
    NotReady,
}

/// What the last step has decided of a cluster, as far as the others of its wave look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is held.
    Held {
        /// At this stage.
        stage: StageId,
    },
    /// Nothing but its wave is in its way.
    WaitsForTurn,
    /// Anything else.
    GoesOn,
}

impl Decision {
    /// What these effects come to; none before the cluster has been read. `ahead` are those after the soak that has begun.
    #[must_use]
    pub fn of(world: &World, effects: &[Effect], ahead: &[Effect]) -> Option<Self> {
        world.observation.as_ref()?;
        let held = effects.iter().find_map(|effect| match effect {
            Effect::Hold { stage, .. } => Some(Self::Held { stage: stage.clone() }),
            _ => None,
        });
        let is_turn = |effect: &Effect| match effect {
            Effect::Commit(_) => true,
            Effect::Wait { reason, .. } => world.wave.as_ref().is_some_and(|wave| is_for(wave, &reason.message)),
            _ => false,
        };
        let has_begun = world.ledger.as_deref().is_some_and(|ledger| ledger.state == LedgerState::Running);
        Some(match held {
            Some(held) => held,
            // Of one that has begun nobody asks what it waits for.
            None if has_begun => Self::GoesOn,
            None if effects.iter().chain(ahead).any(is_turn) => Self::WaitsForTurn,
            None => Self::GoesOn,
        })
    }
}

fn is_for(wave: &WaveHold, message: &str) -> bool {
    wave.reason.message == message
}
