//! Four clusters in three waves, and a controller that forgets.

use jiff::{SignedDuration, Timestamp};
use policy::{Lease, Skip, Wave};
use rollout::{
    Binds, Reason, Standing, Turn, WaveHold, WaveMember, WaveState, places, tolerated_failures, wave_state, wave_turn,
};

pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What there really is of a cluster's newest stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Health {
    Rolling,
    Healthy,
    Broken,
}

/// What the controller has decided of a cluster, and whether the source branch has moved since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Belief {
    Unknown,
    GoesOn { fresh: bool },
    Ready { fresh: bool },
    Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// How many of its two stages are committed; three when its rollout is closed.
    pub phase: u8,
    pub health: Health,
    pub belief: Belief,
    /// Whether it was broken when it was looked at last, whatever the controller has forgotten since; the oracle.
    pub found_broken: bool,
    /// Whether the controller remembers that it broke after its end.
    pub broken_after: bool,
    /// How many had begun before it.
    pub begun: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Settle(usize),
    Mend(usize),
    Visit(usize),
    LeaseEnds,
    Break(usize),
    Crash,
    SourceMoves,
}

impl Action {
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Break(_) | Self::Crash | Self::SourceMoves)
    }

    pub fn all() -> Vec<Self> {
        let each = |of: fn(usize) -> Self| (0..NAMES.len()).map(of);
        let own = each(Self::Settle).chain(each(Self::Mend)).chain(each(Self::Visit)).chain(each(Self::Break));
        own.chain([Self::LeaseEnds, Self::Crash, Self::SourceMoves]).collect()
    }
}

/// Which clusters belong to which wave, and what the waves say.
#[derive(Debug, Clone)]
pub struct Rules {
    pub waves: Vec<(Wave, Vec<usize>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Model {
    pub clusters: [Cluster; 4],
    pub leases_have_ended: bool,
    pub faults_left: u8,
}

/// When the leases of [`skip`] end.
fn end() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1)
}

/// A skip until [`Action::LeaseEnds`].
pub fn skip(cluster: usize) -> Skip {
    let lease = Lease { reason: "racks move".to_owned(), until: end(), by: "storage".to_owned() };
    Skip { cluster: NAMES[cluster].to_owned(), lease }
}

impl Model {
    pub fn new(faults_left: u8) -> Self {
        let cluster = Cluster {
            phase: 0,
            health: Health::Healthy,
            belief: Belief::Unknown,
            found_broken: false,
            broken_after: false,
            begun: 0,
        };
        Self { clusters: [cluster; 4], leases_have_ended: false, faults_left }
    }

    fn now(&self) -> Timestamp {
        if self.leases_have_ended { end() } else { Timestamp::UNIX_EPOCH }
    }

    fn member(&self, cluster: usize) -> WaveMember {
        let own = &self.clusters[cluster];
        let started = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(i64::from(own.begun));
        let failed = || Standing::Failed { started: Some(started), why: "broken".to_owned() };
        let standing = match (own.phase, own.belief) {
            (0, Belief::Ready { fresh: true }) => Standing::Ahead(Turn::Ready),
            (0, Belief::GoesOn { fresh: true } | Belief::Held) => Standing::Ahead(Turn::NotReady),
            (0, _) => Standing::Ahead(Turn::Unknown),
            (1 | 2, Belief::Held) => failed(),
            (1 | 2, Belief::Unknown) => Standing::UnderWay { started, is_known: false },
            (1 | 2, Belief::GoesOn { fresh } | Belief::Ready { fresh }) => {
                Standing::UnderWay { started, is_known: fresh }
            }
            _ if own.broken_after => failed(),
            _ => Standing::Done { started: Some(started), since: Some(started) },
        };
        WaveMember { cluster: NAMES[cluster].parse().unwrap(), machines: None, standing }
    }

    fn members(&self, clusters: &[usize]) -> Vec<WaveMember> {
        clusters.iter().map(|cluster| self.member(*cluster)).collect()
    }

    pub fn wave_states(&self, rules: &Rules) -> Vec<WaveState> {
        let waves = rules.waves.iter();
        waves.map(|(wave, clusters)| wave_state(wave, &self.members(clusters), self.now())).collect()
    }

    /// What keeps a cluster from its next stage.
    fn hold(&self, rules: &Rules, cluster: usize) -> Option<WaveHold> {
        let own = rules.waves.iter().position(|(_, clusters)| clusters.contains(&cluster)).unwrap();
        for (wave, clusters) in &rules.waves[..own] {
            if wave_state(wave, &self.members(clusters), self.now()) != WaveState::Done {
                let reason = Reason::new("an earlier wave is not done");
                return Some(WaveHold { reason, until: None, binds: Binds::BeforeMachines });
            }
        }
        let (wave, clusters) = &rules.waves[own];
        let name = NAMES[cluster].parse().unwrap();
        wave_turn(wave, &self.members(clusters), &name, self.now())
    }

    fn is_skipped(&self, wave: &Wave, cluster: usize) -> bool {
        wave.skipped(NAMES[cluster], self.now()).is_some()
    }

    /// What has to hold when a stage of this cluster is committed.
    fn check_commit(&self, rules: &Rules, cluster: usize) {
        let place = rules.waves.iter().position(|(_, clusters)| clusters.contains(&cluster)).unwrap();
        let (wave, clusters) = &rules.waves[place];
        let own = &self.clusters[cluster];
        let counted = || clusters.iter().copied().filter(|other| *other != cluster && !self.is_skipped(wave, *other));
        let is_under_way = |other: &usize| matches!(self.clusters[*other].phase, 1 | 2);
        if self.is_skipped(wave, cluster) {
            assert_ne!(own.phase, 0, "{self:?}: {cluster} begins although its wave goes without it");
            return;
        }
        let failed = counted().filter(|other| is_under_way(other) && self.clusters[*other].found_broken).count();
        assert!(
            failed <= tolerated_failures(wave, clusters.len()),
            "{self:?}: {cluster} goes on although {failed} have failed"
        );
        let busy = counted().filter(|other| is_under_way(other) && !self.clusters[*other].found_broken);
        let before = busy.filter(|other| own.phase == 0 || self.clusters[*other].begun < own.begun).count();
        assert!(before < places(wave, clusters.len()), "{self:?}: {cluster} goes on beside {before} others");
        let earlier = rules.waves[..place].iter().flat_map(|(wave, all)| all.iter().map(move |other| (wave, *other)));
        for (wave, other) in earlier.filter(|(wave, other)| !self.is_skipped(wave, *other)) {
            let known = &self.clusters[other];
            assert!(
                known.phase == 3 && !known.broken_after,
                "{self:?}: {cluster} goes before {other} of {}",
                wave.name
            );
        }
    }

    /// The controller looks at a cluster, decides, and carries it out.
    fn visit(&mut self, rules: &Rules, cluster: usize) {
        let hold = self.hold(rules, cluster);
        let begun = u8::try_from(self.clusters.iter().filter(|other| other.phase > 0).count()).unwrap();
        let begins = self.clusters[cluster].phase == 0;
        let is_bound = hold.is_some_and(|hold| begins || hold.binds != Binds::Start);
        let (phase, health) = (self.clusters[cluster].phase, self.clusters[cluster].health);
        if matches!((phase, health), (0 | 1, Health::Healthy)) && !is_bound {
            self.check_commit(rules, cluster);
        }
        let own = &mut self.clusters[cluster];
        own.found_broken = health == Health::Broken;
        own.belief = Belief::GoesOn { fresh: true };
        match (phase, health) {
            (0, Health::Healthy) if !is_bound => {
                *own = Cluster { phase: 1, health: Health::Rolling, begun, ..*own };
            }
            // Nothing but waves is in its way.
            (0, Health::Healthy) => own.belief = Belief::Ready { fresh: true },
            (1 | 2, Health::Broken) => own.belief = Belief::Held,
            (1, Health::Healthy) if !is_bound => (own.phase, own.health) = (2, Health::Rolling),
            (2, Health::Healthy) => own.phase = 3,
            (3, health) => own.broken_after = health == Health::Broken,
            _ => {}
        }
    }

    /// The state after an action; none where it cannot happen or changes nothing.
    pub fn after(&self, rules: &Rules, action: Action) -> Option<Self> {
        let mut next = self.clone();
        if action.is_fault() {
            next.faults_left = self.faults_left.checked_sub(1)?;
        }
        match action {
            Action::Settle(cluster) if self.clusters[cluster].health == Health::Rolling => {
                next.clusters[cluster].health = Health::Healthy;
            }
            Action::Mend(cluster) if self.clusters[cluster].health == Health::Broken => {
                next.clusters[cluster].health = Health::Healthy;
            }
            Action::Visit(cluster) => next.visit(rules, cluster),
            Action::LeaseEnds => next.leases_have_ended = true,
            Action::Break(cluster) if self.clusters[cluster].health != Health::Broken => {
                next.clusters[cluster].health = Health::Broken;
            }
            Action::Crash => {
                for own in &mut next.clusters {
                    (own.belief, own.broken_after) = (Belief::Unknown, false);
                }
            }
            Action::SourceMoves => {
                for own in &mut next.clusters {
                    own.belief = match own.belief {
                        Belief::GoesOn { .. } => Belief::GoesOn { fresh: false },
                        Belief::Ready { .. } => Belief::Ready { fresh: false },
                        belief => belief,
                    };
                }
            }
            Action::Settle(_) | Action::Mend(_) | Action::Break(_) => return None,
        }
        (next != *self).then_some(next)
    }

    /// Whether every cluster is done, and known to be.
    pub fn is_finished(&self) -> bool {
        self.clusters.iter().all(|own| own.phase == 3 && own.health == Health::Healthy && !own.broken_after)
    }

    /// What has to hold in every state.
    pub fn check(&self, rules: &Rules) {
        for ((wave, clusters), state) in rules.waves.iter().zip(self.wave_states(rules)) {
            let counted: Vec<&Cluster> = clusters
                .iter()
                .filter(|cluster| !self.is_skipped(wave, **cluster))
                .map(|it| &self.clusters[*it])
                .collect();
            let is_done = |own: &&Cluster| own.phase == 3 && !own.broken_after;
            let is_failed = |own: &&&Cluster| own.belief == Belief::Held && own.phase > 0 || own.broken_after;
            if state == WaveState::Done {
                assert!(counted.iter().all(is_done), "{self:?}: wave {} is said to be done", wave.name);
            }
            if counted.iter().filter(is_failed).count() > tolerated_failures(wave, clusters.len()) {
                assert!(matches!(state, WaveState::Stopped(_)), "{self:?}: wave {} is {state:?}", wave.name);
            }
        }
    }
}
