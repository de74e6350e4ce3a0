//! Whether a cluster may begin, or go on, and whether a wave is done: values in, values out.

use domain::ClusterName;
use jiff::Timestamp;
use policy::{Wave, WaveOrder};

use crate::verdict::Reason;

use super::WaveHold;
use super::approval::WaveConsent;
use super::standing::WaveMember;
use super::turns::WaveTurns;

/// Where a wave stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaveState {
    /// Nothing of it is under way, and something is left to do.
    Ahead,
    /// Some of it is under way, or done.
    UnderWay,
    /// Nothing more of it begins: too many clusters have failed, or its deadline is over.
    Stopped(Reason),
    /// All of it is done, and has to be healthy for longer.
    Soaking(Timestamp),
    /// What is not done has failed, and no more than may fail.
    DoneWithExceptions(Reason),
    /// Somebody has to approve it, before it begins or before the next one does.
    Unapproved(Reason),
    /// All of it is done.
    Done,
}

impl WaveState {
    /// One word for tables and metrics.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::UnderWay => "under way",
            Self::Stopped(_) => "stopped",
            Self::Soaking(_) => "soaking",
            Self::DoneWithExceptions(_) => "done with exceptions",
            Self::Unapproved(_) => "waits for approval",
            Self::Done => "done",
        }
    }
}

/// What helps where clusters of a wave have failed.
pub(super) const MEND: &str = "mend what has failed: the wave goes on by itself; or name it in `skip` of the wave, with `reason`, `until` and `by`";

/// The clusters of a wave in the order in which they begin.
#[must_use]
pub fn ranked<'a>(wave: &Wave, members: &'a [WaveMember]) -> Vec<&'a WaveMember> {
    let mut ranked: Vec<&WaveMember> = members.iter().collect();
    ranked.sort_by_key(|member| {
        let rank = match wave.order {
            WaveOrder::Name => 0,
            WaveOrder::Listed => wave.listed(member.cluster.as_str()),
            // Who does not say goes last.
            WaveOrder::Smallest => {
                member.machines.map_or(usize::MAX, |machines| usize::try_from(machines).unwrap_or(usize::MAX))
            }
        };
        (rank, &member.cluster)
    });
    ranked
}

/// Where a wave stands at `now`, by what people have said of it.
#[must_use]
pub fn wave_state(wave: &Wave, members: &[WaveMember], consent: &WaveConsent, now: Timestamp) -> WaveState {
    WaveTurns::new(wave.clone(), members.to_vec(), consent.clone(), now).state(now)
}

/// What keeps a cluster from its next stage by its own wave, the others of it and what people have said of it; none where nothing does.
#[must_use]
pub fn wave_turn(
    wave: &Wave,
    members: &[WaveMember],
    consent: &WaveConsent,
    own: &ClusterName,
    now: Timestamp,
) -> Option<WaveHold> {
    WaveTurns::new(wave.clone(), members.to_vec(), consent.clone(), now).hold(own, now)
}
