//! Four clusters in three waves, and a controller that forgets.

use std::collections::BTreeMap;

use domain::PlanDigest;
use jiff::{SignedDuration, Timestamp};
use policy::{ApprovalRules, Lease, Skip, Wave, WaveApproval};
use rollout::{
    Binds, Reason, Standing, Turn, WaveAnswer, WaveAsks, WaveConsent, WaveHold, WaveMember, WaveQuestion, WaveState,
    WaveWord, WaveWords, asked_plans, places, tolerated_failures, wave_consent, wave_state, wave_turn,
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
    /// Which plan of it is the newest.
    pub newest: u8,
    /// Which one is carried out, or was last.
    pub carried_out: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Settle(usize),
    Mend(usize),
    Visit(usize),
    LeaseEnds,
    Break(usize),
    Crash,
    /// Somebody approves a wave.
    Approve(usize),
    SourceMoves,
    /// The source branch asks for something else of a cluster.
    Replan(usize),
}

impl Action {
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Break(_) | Self::Crash | Self::SourceMoves | Self::Replan(_))
    }

    pub fn all() -> Vec<Self> {
        let each = |of: fn(usize) -> Self| (0..NAMES.len()).map(of);
        let own = each(Self::Settle).chain(each(Self::Mend)).chain(each(Self::Visit)).chain(each(Self::Break));
        let of_people = (0..3).map(Self::Approve).chain(each(Self::Replan));
        own.chain(of_people).chain([Self::LeaseEnds, Self::Crash, Self::SourceMoves]).collect()
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
    /// What was approved last of each wave: the plan of each cluster that it was about.
    pub approved: [Option<[Option<u8>; 4]>; 3],
}

impl Rules {
    fn ask_people(&self) -> bool {
        self.waves.iter().any(|(wave, _)| question(wave).is_some())
    }
}

/// What somebody is asked of a wave.
fn question(wave: &Wave) -> Option<WaveQuestion> {
    match wave.approval {
        WaveApproval::None => None,
        WaveApproval::Before => Some(WaveQuestion::Before),
        WaveApproval::After => Some(WaveQuestion::After),
    }
}

fn digest(plan: u8) -> PlanDigest {
    PlanDigest::of([[plan].as_slice()])
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
            newest: 0,
            carried_out: 0,
        };
        Self { clusters: [cluster; 4], leases_have_ended: false, faults_left, approved: [None; 3] }
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
        let plan = Some(digest(if own.phase == 3 { own.carried_out } else { own.newest }));
        let is_replanned = matches!(own.phase, 1 | 2) && own.newest != own.carried_out;
        WaveMember { cluster: NAMES[cluster].parse().unwrap(), machines: None, standing, plan, is_replanned }
    }

    fn members(&self, clusters: &[usize]) -> Vec<WaveMember> {
        clusters.iter().map(|cluster| self.member(*cluster)).collect()
    }

    pub fn wave_states(&self, rules: &Rules) -> Vec<WaveState> {
        (0..rules.waves.len()).map(|wave| self.wave_state(rules, wave)).collect()
    }

    fn wave_state(&self, rules: &Rules, place: usize) -> WaveState {
        let (wave, clusters) = &rules.waves[place];
        wave_state(wave, &self.members(clusters), &self.consent(rules, place), self.now())
    }

    /// What is missing for a wave, by what was said of it.
    fn consent(&self, rules: &Rules, place: usize) -> WaveConsent {
        let (wave, clusters) = &rules.waves[place];
        let Some(question) = question(wave) else { return WaveConsent::default() };
        let mut asks = WaveAsks::default();
        asks.ask(question, &ApprovalRules::default());
        let word = |approved: [Option<u8>; 4]| WaveWord {
            wave: wave.name.clone(),
            question,
            answer: WaveAnswer::Approve,
            by: "ann@x.org".parse().unwrap(),
            at: Timestamp::UNIX_EPOCH,
            plans: clusters
                .iter()
                .filter_map(|cluster| Some((NAMES[*cluster].parse().unwrap(), digest(approved[*cluster]?))))
                .collect::<BTreeMap<_, _>>(),
            authors: Vec::new(),
        };
        let words = WaveWords { words: self.approved[place].map(word).into_iter().collect(), problem: None };
        wave_consent(wave, &asks, &words, &self.members(clusters), self.now())
    }

    /// What somebody approves who approves a wave now; none where nothing waits for that.
    fn approvable(&self, rules: &Rules, place: usize) -> Option<[Option<u8>; 4]> {
        let (wave, clusters) = rules.waves.get(place)?;
        let question = question(wave)?;
        if !matches!(self.wave_state(rules, place), WaveState::Unapproved(_)) {
            return None;
        }
        let asked = asked_plans(wave, &self.members(clusters), question, self.now());
        let mut approved = [None; 4];
        for cluster in clusters.iter().filter(|cluster| asked.keys().any(|asked| asked.as_str() == NAMES[**cluster])) {
            let own = &self.clusters[*cluster];
            approved[*cluster] = Some(if own.phase == 3 { own.carried_out } else { own.newest });
        }
        Some(approved)
    }

    /// What keeps a cluster from its next stage.
    fn hold(&self, rules: &Rules, cluster: usize) -> Option<WaveHold> {
        let own = rules.waves.iter().position(|(_, clusters)| clusters.contains(&cluster)).unwrap();
        for earlier in 0..own {
            if self.wave_state(rules, earlier) != WaveState::Done {
                let reason = Reason::new("an earlier wave is not done");
                return Some(WaveHold { reason, until: None, binds: Binds::BeforeMachines });
            }
        }
        let (wave, clusters) = &rules.waves[own];
        let name = NAMES[cluster].parse().unwrap();
        wave_turn(wave, &self.members(clusters), &self.consent(rules, own), &name, self.now())
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
        // What is committed was approved, and so was what any other of the wave is about to go over to.
        if wave.approval == WaveApproval::Before && (own.phase == 0 || own.newest != own.carried_out) {
            let approved = self.approved[place].unwrap_or_default();
            let left =
                clusters.iter().filter(|other| self.clusters[**other].phase < 3 && !self.is_skipped(wave, **other));
            for other in left {
                let newest = self.clusters[*other].newest;
                assert_eq!(approved[*other], Some(newest), "{self:?}: {cluster} goes on, and {other} is not approved");
            }
        }
        for (before, (wave, clusters)) in rules.waves[..place].iter().enumerate() {
            let results = clusters.iter().filter(|other| !self.is_skipped(wave, **other));
            for other in results.filter(|_| wave.approval == WaveApproval::After) {
                let approved = self.approved[before].unwrap_or_default()[*other];
                let result = self.clusters[*other].carried_out;
                assert_eq!(
                    approved,
                    Some(result),
                    "{self:?}: {cluster} begins before the result of {other} is approved"
                );
            }
        }
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
                *own = Cluster { phase: 1, health: Health::Rolling, begun, carried_out: own.newest, ..*own };
            }
            // Nothing but waves is in its way.
            (0, Health::Healthy) => own.belief = Belief::Ready { fresh: true },
            (1 | 2, Health::Broken) => own.belief = Belief::Held,
            (1, Health::Healthy) if !is_bound => {
                (own.phase, own.health, own.carried_out) = (2, Health::Rolling, own.newest);
            }
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
            Action::Approve(wave) => next.approved[wave] = Some(self.approvable(rules, wave)?),
            // Once its machines are at different versions a rollout ends at its own target.
            Action::Replan(cluster) if self.clusters[cluster].phase < 2 && rules.ask_people() => {
                next.clusters[cluster].newest += 1;
            }
            Action::Settle(_) | Action::Replan(_) | Action::Mend(_) | Action::Break(_) => return None,
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
