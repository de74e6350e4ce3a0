//! The waves of a fleet: who belongs to them, and what they say to a cluster.

use std::collections::BTreeSet;

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use overlays::{ClusterSpec, Fleet};
use policy::Wave;
use rollout::{
    Binds, Reason, Standing, Turn, WaveAsks, WaveConsent, WaveHold, WaveMember, WaveState, wave_consent, wave_state,
};

use super::judges::wave_asks;
use super::{FleetProgress, UNREADABLE};

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
pub(super) fn consent(
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
pub(super) fn placed(fleet: &Fleet) -> Vec<Vec<&ClusterSpec>> {
    let mut placed = vec![Vec::new(); fleet.policy.waves.len()];
    for cluster in &fleet.clusters {
        if let Some(own) = fleet.policy.wave_of(&cluster.name).and_then(|place| placed.get_mut(place)) {
            own.push(cluster);
        }
    }
    placed
}

/// Where these clusters of one wave stand.
pub(super) fn members(own: &[&ClusterSpec], progress: &FleetProgress, source: &CommitId) -> Vec<WaveMember> {
    let own: Vec<(ClusterName, &ClusterSpec)> =
        own.iter().filter_map(|cluster| Some((cluster.name.parse().ok()?, *cluster))).collect();
    // What the wave is about: what was pushed last, and whatever is on the way.
    let known = |name: &ClusterName| progress.known.get(name);
    let of_running = own.iter().filter_map(|(name, _)| known(name)).filter(|it| it.running().is_some());
    let sources: BTreeSet<&CommitId> =
        of_running.filter_map(|standing| standing.source()).chain(std::iter::once(source)).collect();
    let is_about = |commit: &CommitId| sources.contains(commit);
    own.into_iter().map(|(name, spec)| member(name, spec, progress, source, is_about)).collect()
}

/// Where one of them stands; `is_about` tells from which commits the rollouts were made that its wave is about.
pub(super) fn member(
    cluster: ClusterName,
    spec: &ClusterSpec,
    progress: &FleetProgress,
    source: &CommitId,
    is_about: impl Fn(&CommitId) -> bool,
) -> WaveMember {
    let known = progress.known.get(&cluster);
    let is_of_it = known.and_then(super::ClusterProgress::source).is_some_and(is_about);
    let standing = dated(progress.standing(&cluster, source), is_of_it);
    let plan = known.and_then(|known| known.approved_plan(source)).cloned();
    let is_replanned = known.is_some_and(super::ClusterProgress::is_replanned);
    WaveMember { cluster, machines: machines(spec), standing, plan, is_replanned }
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

/// A cluster of the wave at this place of which nothing can be said.
pub(super) fn unreadable(fleet: &Fleet, place: usize, wave: &Wave, now: Timestamp) -> Option<WaveHold> {
    let counts = |name: &&str| fleet.policy.wave_of(name) == Some(place) && wave.skipped(name, now).is_none();
    fleet.unreadable_clusters().into_iter().find(counts).map(|name| comes_first(name, UNREADABLE))
}

/// What is said of a cluster that others wait for.
pub(super) fn comes_first(name: &str, state: &str) -> WaveHold {
    let reason = Reason::new(format!("cluster {name} comes first: {state}")).help(format!("stepgate why {name}"));
    WaveHold { reason, until: None, binds: Binds::BeforeMachines }
}
