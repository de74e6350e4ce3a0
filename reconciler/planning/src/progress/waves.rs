//! The waves of a fleet: who belongs to them, and what they say to a cluster.

use std::collections::BTreeSet;

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use overlays::{ClusterSpec, Fleet};
use policy::Wave;
use rollout::{
    Binds, Reason, Standing, Turn, WaveAsks, WaveConsent, WaveHold, WaveMember, WaveState, wave_consent, wave_state,
    wave_turn,
};

use super::judges::wave_asks;
use super::{FleetProgress, UNREADABLE, unmet};

/// Where a wave stands, with its clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveProgress {
    /// The wave.
    pub wave: Wave,
    /// Where it stands.
    pub state: WaveState,
    /// Its clusters.
    pub members: Vec<WaveMember>,
}

/// Where each wave of the fleet stands at `now`.
pub fn waves(fleet: &Fleet, progress: &FleetProgress, source: &CommitId, now: Timestamp) -> Vec<WaveProgress> {
    let mut comes_later = false;
    let of = |(wave, clusters): (&Wave, Vec<&ClusterSpec>)| {
        let members = members(&clusters, progress, source);
        let mut consent = consent(fleet, wave, &members, progress, now);
        if comes_later {
            // Nobody is asked before it is its turn.
            consent.before = None;
        }
        let state = wave_state(wave, &members, &consent, now);
        comes_later |= state != WaveState::Done;
        WaveProgress { wave: wave.clone(), state, members }
    };
    fleet.policy.waves.iter().zip(placed(fleet)).map(of).collect()
}

/// A wave with everything that an answer about it looks at.
#[derive(Clone, Debug)]
pub struct AskedWave {
    /// The wave.
    pub wave: Wave,
    /// Its clusters.
    pub members: Vec<WaveMember>,
    /// Whose approval is enough.
    pub asks: WaveAsks,
    /// Where it stands.
    pub state: WaveState,
}

/// The wave of this name at `now`; none where there is none.
pub fn asked_wave(
    fleet: &Fleet,
    name: &str,
    progress: &FleetProgress,
    source: &CommitId,
    now: Timestamp,
) -> Option<AskedWave> {
    let place = fleet.policy.waves.iter().position(|wave| wave.name == name)?;
    let wave = fleet.policy.waves.get(place)?;
    let members = members(&placed(fleet).into_iter().nth(place)?, progress, source);
    let asks = asks(fleet, wave, &members, progress);
    let consent = wave_consent(wave, &asks, &progress.words, &members, now);
    let state = wave_state(wave, &members, &consent, now);
    Some(AskedWave { wave: wave.clone(), members, asks, state })
}

/// What is asked of a wave by the policies that count for its clusters.
fn asks(fleet: &Fleet, wave: &Wave, members: &[WaveMember], progress: &FleetProgress) -> WaveAsks {
    let known = members.iter().filter_map(|member| progress.known.get(&member.cluster));
    wave_asks(&fleet.policy, wave, known.map(super::ClusterProgress::judges))
}

/// What is missing for a wave to go on, as far as people are asked.
fn consent(
    fleet: &Fleet,
    wave: &Wave,
    members: &[WaveMember],
    progress: &FleetProgress,
    now: Timestamp,
) -> WaveConsent {
    wave_consent(wave, &asks(fleet, wave, members, progress), &progress.words, members, now)
}

/// The waves of the fleet with their clusters, whatever has become of these.
pub fn plain_waves(fleet: &Fleet) -> Vec<(Wave, Vec<WaveMember>)> {
    let member = |cluster: &&ClusterSpec| {
        let cluster_name: ClusterName = cluster.name.parse().ok()?;
        let standing = Standing::Ahead(Turn::Unknown);
        let machines = machines(cluster);
        Some(WaveMember { cluster: cluster_name, machines, standing, plan: None, is_replanned: false })
    };
    let placed = placed(fleet);
    fleet.policy.waves.iter().cloned().zip(placed.iter().map(|own| own.iter().filter_map(member).collect())).collect()
}

/// The clusters of each wave.
fn placed(fleet: &Fleet) -> Vec<Vec<&ClusterSpec>> {
    let mut placed = vec![Vec::new(); fleet.policy.waves.len()];
    for cluster in &fleet.clusters {
        if let Some(own) = fleet.policy.wave_of(&cluster.name).and_then(|place| placed.get_mut(place)) {
            own.push(cluster);
        }
    }
    placed
}

/// Where these clusters of one wave stand.
fn members(own: &[&ClusterSpec], progress: &FleetProgress, source: &CommitId) -> Vec<WaveMember> {
    let own: Vec<(ClusterName, &ClusterSpec)> =
        own.iter().filter_map(|cluster| Some((cluster.name.parse().ok()?, *cluster))).collect();
    // What the wave is about: what was pushed last, and whatever is on the way.
    let known = |name: &ClusterName| progress.known.get(name);
    let of_running = own.iter().filter_map(|(name, _)| known(name)).filter(|it| it.running().is_some());
    let sources: BTreeSet<&CommitId> =
        of_running.filter_map(|standing| standing.source()).chain(std::iter::once(source)).collect();
    let member = |(name, cluster): (ClusterName, &ClusterSpec)| {
        let is_of_it = known(&name).and_then(|known| known.source()).is_some_and(|it| sources.contains(it));
        let standing = dated(progress.standing(&name, source), is_of_it);
        let plan = known(&name).and_then(|known| known.approved_plan(source)).cloned();
        let is_replanned = known(&name).is_some_and(super::ClusterProgress::is_replanned);
        WaveMember { cluster: name, machines: machines(cluster), standing, plan, is_replanned }
    };
    own.into_iter().map(member).collect()
}

/// Clusters that take a place of their wave, or go in none: their rollout is on the way, and has not failed.
pub fn underway(fleet: &Fleet, progress: &FleetProgress, source: &CommitId, now: Timestamp) -> BTreeSet<ClusterName> {
    let policy = &fleet.policy;
    let counts = |name: &ClusterName| {
        let wave = policy.wave_of(name.as_str()).and_then(|place| policy.waves.get(place));
        let is_skipped = wave.is_some_and(|wave| wave.skipped(name.as_str(), now).is_some());
        !is_skipped && matches!(progress.standing(name, source), Standing::UnderWay { .. })
    };
    progress.known.keys().filter(|name| counts(name)).cloned().collect()
}

/// A rollout of another time says nothing of when the wave began.
fn dated(standing: Standing, is_of_it: bool) -> Standing {
    match standing {
        Standing::Failed { why, .. } if !is_of_it => Standing::Failed { started: None, why },
        Standing::Done { since, .. } if !is_of_it => Standing::Done { started: None, since },
        standing => standing,
    }
}

/// How many machines a specification asks for; none where it does not say for all of them.
fn machines(cluster: &ClusterSpec) -> Option<u32> {
    let groups = cluster.worker_groups.iter().map(|group| group.replicas);
    groups.chain(std::iter::once(cluster.control_plane_count)).try_fold(0, |sum: u32, count| sum.checked_add(count?))
}

/// What keeps those of the wave at this place, or of none, from their next stage: the first wave before it that is not done.
pub(super) fn held_by_earlier(
    fleet: &Fleet,
    own: usize,
    progress: &FleetProgress,
    source: &CommitId,
    now: Timestamp,
) -> Option<WaveHold> {
    let waves = fleet.policy.waves.iter().zip(placed(fleet)).take(own);
    waves.enumerate().find_map(|(place, (wave, clusters))| {
        unreadable(fleet, place, wave, now)
            .or_else(|| before(fleet, wave, &members(&clusters, progress, source), progress, now))
    })
}

/// What keeps a cluster of the wave at this place from its next stage by the others of it.
pub(super) fn held_by_own(
    fleet: &Fleet,
    cluster: &ClusterSpec,
    own: usize,
    progress: &FleetProgress,
    source: &CommitId,
    now: Timestamp,
) -> Option<WaveHold> {
    let wave = fleet.policy.waves.get(own)?;
    let clusters = placed(fleet).into_iter().nth(own)?;
    let members = members(&clusters, progress, source);
    let consent = consent(fleet, wave, &members, progress, now);
    wave_turn(wave, &members, &consent, &cluster.name.parse().ok()?, now)
}

/// A cluster of the wave at this place of which nothing can be said.
fn unreadable(fleet: &Fleet, place: usize, wave: &Wave, now: Timestamp) -> Option<WaveHold> {
    let counts = |name: &&str| fleet.policy.wave_of(name) == Some(place) && wave.skipped(name, now).is_none();
    fleet.unreadable_clusters().into_iter().find(counts).map(|name| comes_first(name, UNREADABLE))
}

/// What a wave says to those of later ones.
fn before(
    fleet: &Fleet,
    wave: &Wave,
    members: &[WaveMember],
    progress: &FleetProgress,
    now: Timestamp,
) -> Option<WaveHold> {
    let hold =
        |reason: Reason, until: Option<Timestamp>| Some(WaveHold { reason, until, binds: Binds::BeforeMachines });
    match wave_state(wave, members, &consent(fleet, wave, members, progress, now), now) {
        WaveState::Done => None,
        WaveState::Ahead | WaveState::UnderWay => {
            let is_left = |member: &&WaveMember| wave.skipped(member.cluster.as_str(), now).is_none();
            members.iter().filter(is_left).find_map(|member| {
                let name = member.cluster.as_str();
                let state = match &member.standing {
                    Standing::Done { .. } => return None,
                    Standing::Failed { why, .. } => why.clone(),
                    Standing::Ahead(_) | Standing::UnderWay { .. } => unmet(progress, name)?,
                };
                Some(comes_first(name, &state))
            })
        }
        WaveState::Stopped(reason) | WaveState::DoneWithExceptions(reason) | WaveState::Unapproved(reason) => {
            hold(reason, None)
        }
        WaveState::Soaking(until) => hold(Reason::new(format!("wave {} soaks until {until}", wave.name)), Some(until)),
    }
}

fn comes_first(name: &str, state: &str) -> WaveHold {
    let reason = Reason::new(format!("cluster {name} comes first: {state}")).help(format!("stepgate why {name}"));
    WaveHold { reason, until: None, binds: Binds::BeforeMachines }
}
