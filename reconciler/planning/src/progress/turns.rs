//! What the waves of a fleet say to its clusters. It is kept up to date as clusters come to stand elsewhere: what a question costs does not
//! follow from the size of the fleet.

use std::collections::{BTreeMap, BTreeSet};

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use overlays::{ClusterSpec, Fleet};
use policy::{Wave, WaveApproval};
use rollout::{Binds, Reason, Standing, WaveConsent, WaveHold, WaveState, WaveTurns};

use super::waves::{comes_first, consent, member, members, placed, unreadable};
use super::{FleetProgress, unmet};

/// The waves at a commit of the source branch, in their order.
#[derive(Debug)]
pub(super) struct FleetTurns {
    source: CommitId,
    /// How many clusters the fleet has.
    size: usize,
    waves: Vec<WaveOfFleet>,
    /// Where in `waves` a cluster is.
    places: BTreeMap<ClusterName, usize>,
}

#[derive(Debug)]
struct WaveOfFleet {
    turns: WaveTurns,
    /// The commits that rollouts on the way were made from: these, and the newest, are what the wave is about.
    running: BTreeMap<ClusterName, CommitId>,
    /// Clusters for which a policy of before asks somebody.
    judged: BTreeSet<ClusterName>,
    /// Whether it has been looked up what people have said, since anything changed.
    is_heard: bool,
}

impl FleetTurns {
    pub(super) fn new(fleet: &Fleet, progress: &FleetProgress, source: &CommitId, now: Timestamp) -> Self {
        let placed = placed(fleet);
        let place = |(place, clusters): (usize, &Vec<&ClusterSpec>)| {
            clusters.iter().filter_map(|cluster| Some((cluster.name.parse().ok()?, place))).collect::<Vec<_>>()
        };
        let places = placed.iter().enumerate().flat_map(place).collect();
        let waves = fleet.policy.waves.iter().zip(&placed);
        let waves = waves.map(|(wave, clusters)| WaveOfFleet::new(wave, clusters, progress, source, now)).collect();
        Self { source: source.clone(), size: fleet.clusters.len(), waves, places }
    }

    /// Whether these are the waves of that fleet at that commit.
    pub(super) fn is_of(&self, fleet: &Fleet, source: &CommitId) -> bool {
        self.source == *source && self.size == fleet.clusters.len()
    }

    /// These clusters may stand elsewhere, or people have said something.
    pub(super) fn catch_up(
        &mut self,
        fleet: &Fleet,
        progress: &FleetProgress,
        changed: &BTreeSet<ClusterName>,
        now: Timestamp,
    ) {
        let mut changed_in = vec![Vec::new(); self.waves.len()];
        for cluster in changed {
            if let Some(own) = self.places.get(cluster).and_then(|place| changed_in.get_mut(*place)) {
                own.push(cluster);
            }
        }
        for (place, (wave, changed)) in self.waves.iter_mut().zip(changed_in).enumerate() {
            let is_same = wave.turns.is_of(now)
                && changed.into_iter().all(|cluster| wave.update(fleet, progress, cluster, &self.source));
            let policy = fleet.policy.waves.get(place).filter(|_| !is_same);
            if let Some(policy) = policy
                && let Some(clusters) = placed(fleet).get(place)
            {
                *wave = WaveOfFleet::new(policy, clusters, progress, &self.source, now);
            }
        }
    }

    /// People have said something.
    pub(super) fn hear(&mut self) {
        self.waves.iter_mut().for_each(|wave| wave.is_heard = false);
    }

    /// What keeps clusters of the wave at this place, or of none, from their next stage: the first wave before it that is not done.
    pub(super) fn held_by_earlier(
        &mut self,
        fleet: &Fleet,
        place: usize,
        progress: &FleetProgress,
        now: Timestamp,
    ) -> Option<WaveHold> {
        let mut waves = fleet.policy.waves.iter().zip(&mut self.waves).take(place).enumerate();
        waves.find_map(|(place, (wave, own))| {
            unreadable(fleet, place, wave, now)
                .or_else(|| own.heard(fleet, wave, progress, now).before(wave, progress, now))
        })
    }

    /// What keeps a cluster of the wave at this place from its next stage by the others of it.
    pub(super) fn held_by_own(
        &mut self,
        fleet: &Fleet,
        place: usize,
        cluster: &ClusterName,
        progress: &FleetProgress,
        now: Timestamp,
    ) -> Option<WaveHold> {
        let wave = fleet.policy.waves.get(place)?;
        self.waves.get_mut(place)?.heard(fleet, wave, progress, now).turns.hold(cluster, now)
    }
}

impl WaveOfFleet {
    fn new(
        wave: &Wave,
        clusters: &[&ClusterSpec],
        progress: &FleetProgress,
        source: &CommitId,
        now: Timestamp,
    ) -> Self {
        let members = members(clusters, progress, source);
        let known =
            || members.iter().filter_map(|member| Some((&member.cluster, progress.known.get(&member.cluster)?)));
        let running = known().filter(|(_, known)| known.running().is_some());
        let running = running.filter_map(|(cluster, known)| Some((cluster.clone(), known.source()?.clone()))).collect();
        let judged = known().filter(|(_, known)| known.judges().asks()).map(|(cluster, _)| cluster.clone()).collect();
        let turns = WaveTurns::new(wave.clone(), members, WaveConsent::default(), now);
        Self { turns, running, judged, is_heard: false }
    }

    /// Whether that changes nothing for the others of the wave but where this one stands.
    fn update(&mut self, fleet: &Fleet, progress: &FleetProgress, cluster: &ClusterName, source: &CommitId) -> bool {
        let Some(spec) = fleet.cluster(cluster.as_str()) else { return false };
        let known = progress.known.get(cluster);
        let running = known.filter(|known| known.running().is_some()).and_then(|known| known.source());
        let before = match running {
            Some(running) => self.running.insert(cluster.clone(), running.clone()),
            None => self.running.remove(cluster),
        };
        let is_left = |commit: &CommitId| commit == source || self.running.values().any(|other| other == commit);
        let is_new = |commit: &CommitId| {
            commit != source && !self.running.iter().any(|(other, known)| other != cluster && known == commit)
        };
        if before.as_ref() != running && (before.is_some_and(|it| !is_left(&it)) || running.is_some_and(is_new)) {
            return false;
        }
        if known.is_some_and(|known| known.judges().asks()) {
            self.judged.insert(cluster.clone());
        } else {
            self.judged.remove(cluster);
        }
        let is_about = |commit: &CommitId| commit == source || self.running.values().any(|other| other == commit);
        self.turns.update(member(cluster.clone(), spec, progress, source, is_about));
        self.is_heard = false;
        true
    }

    /// The same with what people have said of it by now.
    fn heard(&mut self, fleet: &Fleet, wave: &Wave, progress: &FleetProgress, now: Timestamp) -> &Self {
        if !self.is_heard {
            let asks = wave.approval != WaveApproval::None || !self.judged.is_empty();
            let members = self.turns.members();
            let consent = if asks { consent(fleet, wave, members, progress, now) } else { WaveConsent::default() };
            self.turns.hear(consent);
            self.is_heard = true;
        }
        self
    }

    /// What it says to those of later ones.
    fn before(&self, wave: &Wave, progress: &FleetProgress, now: Timestamp) -> Option<WaveHold> {
        let hold =
            |reason: Reason, until: Option<Timestamp>| Some(WaveHold { reason, until, binds: Binds::BeforeMachines });
        match self.turns.state(now) {
            WaveState::Done => None,
            WaveState::Ahead | WaveState::UnderWay => self.turns.left().find_map(|member| {
                let name = member.cluster.as_str();
                let state = match &member.standing {
                    Standing::Done { .. } => return None,
                    Standing::Failed { why, .. } => why.clone(),
                    Standing::Ahead(_) | Standing::UnderWay { .. } => unmet(progress, name)?,
                };
                Some(comes_first(name, &state))
            }),
            WaveState::Stopped(reason) | WaveState::DoneWithExceptions(reason) | WaveState::Unapproved(reason) => {
                hold(reason, None)
            }
            WaveState::Soaking(until) => {
                hold(Reason::new(format!("wave {} soaks until {until}", wave.name)), Some(until))
            }
        }
    }
}
