//! Whose turn it is in a wave. It is kept up to date member by member, so that a question costs what is under way, and not what the wave has.

use std::collections::{BTreeMap, BTreeSet};

use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use policy::{First, Lease, Wave};

use crate::verdict::Reason;

use super::approval::WaveConsent;
use super::budget::{places, tolerated_failures};
use super::decision::{MEND, WaveState, ranked};
use super::standing::{Standing, Turn, WaveMember};
use super::{Binds, WaveHold};

/// More than so many that are under way are counted, not named.
const NAMED: usize = 5;

/// Where a member stands in the list of the fleet.
type Number = usize;

/// Where a member stands in the order in which they begin.
type Rank = usize;

/// A wave, its members, and what people have said of it.
#[derive(Debug, Clone)]
pub struct WaveTurns {
    wave: Wave,
    members: Vec<WaveMember>,
    numbers: BTreeMap<ClusterName, Number>,
    consent: WaveConsent,
    /// Those that the wave goes without.
    skipped: BTreeMap<Number, Lease>,
    ranks: Vec<Rank>,
    /// Those that go before the rest.
    canaries: BTreeSet<Number>,
    /// One of them that nobody could ever verify.
    missing_canary: Option<String>,
    tally: Tally,
}

/// Members that the wave does not go without, by where they stand.
#[derive(Debug, Clone, Default)]
struct Tally {
    ahead: BTreeSet<Number>,
    /// Ahead, and nothing that is known of but the wave keeps them.
    ready: BTreeSet<(Rank, Number)>,
    ready_canaries: BTreeSet<(Rank, Number)>,
    under_way: BTreeSet<Number>,
    /// Under way, and not looked at yet.
    unknown: BTreeSet<Number>,
    failed: BTreeSet<Number>,
    /// Not done.
    left: BTreeSet<Number>,
    left_canaries: BTreeSet<(Rank, Number)>,
    replanned: BTreeSet<Number>,
    started: BTreeSet<(Timestamp, Number)>,
    /// Since when they are done.
    done: BTreeSet<(Timestamp, Number)>,
    done_canaries: BTreeSet<(Timestamp, Number)>,
}

impl WaveTurns {
    /// The members of a wave in the order of the fleet, at `now`.
    #[must_use]
    pub fn new(wave: Wave, members: Vec<WaveMember>, consent: WaveConsent, now: Timestamp) -> Self {
        let numbers: BTreeMap<ClusterName, Number> =
            members.iter().enumerate().map(|(number, member)| (member.cluster.clone(), number)).collect();
        let mut turns = Self {
            wave,
            ranks: vec![0; members.len()],
            members,
            numbers,
            consent,
            skipped: BTreeMap::new(),
            canaries: BTreeSet::new(),
            missing_canary: None,
            tally: Tally::default(),
        };
        turns.skipped = turns.skipped_at(now);
        turns.place();
        for number in 0..turns.members.len() {
            turns.count(number, true);
        }
        turns
    }

    /// The members, in the order of the fleet.
    #[must_use]
    pub fn members(&self) -> &[WaveMember] {
        &self.members
    }

    /// Those that are not done and that the wave does not go without, in the order of the fleet.
    pub fn left(&self) -> impl Iterator<Item = &WaveMember> {
        self.of(&self.tally.left)
    }

    /// A member stands elsewhere; any other cluster is none of this wave.
    pub fn update(&mut self, member: WaveMember) {
        let Some(number) = self.numbers.get(&member.cluster).copied() else { return };
        self.count(number, false);
        if let Some(known) = self.members.get_mut(number) {
            *known = member;
        }
        self.count(number, true);
    }

    /// People have said something else.
    pub fn hear(&mut self, consent: WaveConsent) {
        self.consent = consent;
    }

    /// Whether it goes without the same clusters at `now` as when it was made.
    #[must_use]
    pub fn is_of(&self, now: Timestamp) -> bool {
        self.skipped == self.skipped_at(now)
    }

    fn number(&self, name: &str) -> Option<Number> {
        self.numbers.get(&name.parse::<ClusterName>().ok()?).copied()
    }

    fn skipped_at(&self, now: Timestamp) -> BTreeMap<Number, Lease> {
        let lease = |name: &str| self.wave.skipped(name, now).cloned();
        let skipped =
            self.wave.skip.iter().filter_map(|skip| Some((self.number(&skip.cluster)?, lease(&skip.cluster)?)));
        skipped.collect()
    }

    /// Who begins before whom, and who before the rest.
    fn place(&mut self) {
        let order: Vec<Number> = ranked(&self.wave, &self.members)
            .iter()
            .filter_map(|member| self.numbers.get(&member.cluster).copied())
            .collect();
        for (rank, number) in order.iter().enumerate() {
            if let Some(own) = self.ranks.get_mut(*number) {
                *own = rank;
            }
        }
        let mut active = order.into_iter().filter(|number| !self.skipped.contains_key(number));
        match &self.wave.first {
            First::Named(names) => {
                let named = names.iter().filter_map(|name| self.number(name));
                self.canaries = named.filter(|number| !self.skipped.contains_key(number)).collect();
                self.missing_canary = names.iter().find(|name| self.number(name).is_none()).cloned();
            }
            First::Count(count) => {
                self.canaries = active.by_ref().take(usize::try_from(*count).unwrap_or(usize::MAX)).collect();
            }
        }
    }

    /// Counts a member where it stands, or counts it no more.
    fn count(&mut self, number: Number, counts: bool) {
        let (Some(member), Some(rank)) = (self.members.get(number), self.ranks.get(number).copied()) else { return };
        if self.skipped.contains_key(&number) {
            return;
        }
        let tally = &mut self.tally;
        let is_canary = self.canaries.contains(&number);
        let started = match &member.standing {
            Standing::Ahead(turn) => {
                put(&mut tally.ahead, number, counts);
                if matches!(turn, Turn::Ready | Turn::Unknown) {
                    put(&mut tally.ready, (rank, number), counts);
                    if is_canary {
                        put(&mut tally.ready_canaries, (rank, number), counts);
                    }
                }
                None
            }
            Standing::UnderWay { started, is_known } => {
                put(&mut tally.under_way, number, counts);
                if !is_known {
                    put(&mut tally.unknown, number, counts);
                }
                Some(*started)
            }
            Standing::Failed { started, .. } => {
                put(&mut tally.failed, number, counts);
                *started
            }
            Standing::Done { started, since } => {
                if let Some(since) = since {
                    put(&mut tally.done, (*since, number), counts);
                    if is_canary {
                        put(&mut tally.done_canaries, (*since, number), counts);
                    }
                }
                *started
            }
        };
        if let Some(started) = started {
            put(&mut tally.started, (started, number), counts);
        }
        if !matches!(member.standing, Standing::Done { .. }) {
            put(&mut tally.left, number, counts);
            if is_canary {
                put(&mut tally.left_canaries, (rank, number), counts);
            }
        }
        if member.is_replanned {
            put(&mut tally.replanned, number, counts);
        }
    }

    fn of<'a>(&'a self, numbers: impl IntoIterator<Item = &'a Number>) -> impl Iterator<Item = &'a WaveMember> {
        numbers.into_iter().filter_map(|number| self.members.get(*number))
    }

    /// Where the wave stands at `now`.
    #[must_use]
    pub fn state(&self, now: Timestamp) -> WaveState {
        let tally = &self.tally;
        if let Some(reason) = self.too_many_failures(None) {
            return WaveState::Stopped(reason);
        }
        if !tally.ahead.is_empty() || !tally.under_way.is_empty() {
            if let Some(reason) = self.overdue(now) {
                return WaveState::Stopped(reason);
            }
            let waits = !tally.ahead.is_empty() || !tally.replanned.is_empty();
            if let Some(reason) = self.consent.before.as_ref().filter(|_| waits) {
                return WaveState::Unapproved(reason.clone());
            }
            let has_begun = tally.ahead.len() + self.skipped.len() < self.members.len();
            return if has_begun { WaveState::UnderWay } else { WaveState::Ahead };
        }
        if let Some(failed) = self.told_failures(None) {
            let reason = Reason::new(format!("wave {} is done with exceptions: {failed}", self.wave.name));
            return WaveState::DoneWithExceptions(reason.help(MEND));
        }
        match (self.soaks_until(&tally.done, now), &self.consent.after) {
            (Some(until), _) => WaveState::Soaking(until),
            (None, Some(reason)) => WaveState::Unapproved(reason.clone()),
            (None, None) => WaveState::Done,
        }
    }

    /// What keeps a cluster from its next stage by its own wave, the others of it and what people have said of it; none where nothing does.
    #[must_use]
    pub fn hold(&self, own: &ClusterName, now: Timestamp) -> Option<WaveHold> {
        let wave = &self.wave;
        let number = self.numbers.get(own).copied()?;
        let own = self.members.get(number)?;
        let started = match &own.standing {
            Standing::UnderWay { started, .. } => Some(*started),
            Standing::Failed { started, .. } => Some(started.unwrap_or(Timestamp::MIN)),
            Standing::Ahead(_) | Standing::Done { .. } => None,
        };
        if let Some(lease) = self.skipped.get(&number) {
            // Whoever has begun is brought to its end, and nobody waits for it.
            let message = format!("wave {} goes without it {lease}", wave.name);
            let reason = Reason::new(message)
                .help("take it out of `skip` of the wave: it begins then, as far as there is a place");
            return started.is_none().then_some(WaveHold { reason, until: Some(lease.until), binds: Binds::Start });
        }
        let every = |reason: Reason| WaveHold { reason, until: None, binds: Binds::EveryStage };
        // What a cluster itself has come to is decided now.
        if let Some(reason) = self.too_many_failures(Some(number)).or_else(|| self.overdue(now)) {
            return Some(every(reason));
        }
        if let Some(unknown) = self.of(self.tally.unknown.iter().filter(|other| **other != number)).next() {
            let unknown = &unknown.cluster;
            let message =
                format!("cluster {unknown} of wave {} is under way, and has not been looked at yet", wave.name);
            return Some(every(Reason::new(message)));
        }
        if let Some(reason) = self.consent.before.as_ref().filter(|_| started.is_none() || own.is_replanned) {
            // One that is under way goes on by the plan that it began with.
            let binds = if started.is_none() { Binds::Start } else { Binds::BeforeMachines };
            return Some(WaveHold { reason: reason.clone(), until: None, binds });
        }
        let places = places(wave, self.members.len());
        let others = || self.of(self.tally.under_way.iter().filter(|other| **other != number));
        let Some(started) = started else { return self.hold_before_start(number, places, now) };
        // A wave may have fewer places than before, or one of it may have come back to life: the last to begin wait.
        let earlier = |member: &&WaveMember| match &member.standing {
            Standing::UnderWay { started: other, .. } => (other, &member.cluster) < (&started, &own.cluster),
            _ => false,
        };
        let before: Vec<&WaveMember> = others().filter(earlier).collect();
        (before.len() >= places).then(|| every(self.full(places, &before)))
    }

    /// What keeps one from beginning that could go on.
    fn hold_before_start(&self, number: Number, places: usize, now: Timestamp) -> Option<WaveHold> {
        let (wave, tally) = (&self.wave, &self.tally);
        let hold = |reason: Reason| Some(WaveHold { reason, until: None, binds: Binds::Start });
        let is_canary = self.canaries.contains(&number);
        if !is_canary {
            if let Some(missing) = &self.missing_canary {
                let message =
                    format!("`first` of wave {} names cluster {missing}, which the fleet does not have", wave.name);
                return hold(Reason::new(message).help("name a cluster of the wave, or take it out of `first`"));
            }
            if let Some(canary) = self.of(tally.left_canaries.iter().map(|(_, number)| number)).next() {
                let message = format!("cluster {} goes first in wave {}: {}", canary.cluster, wave.name, told(canary));
                return hold(Reason::new(message).help(format!("stepgate why {}", canary.cluster)));
            }
            if let Some(until) = self.soaks_until(&tally.done_canaries, now) {
                let message = format!("the first of wave {} soak until {until}", wave.name);
                return Some(WaveHold { reason: Reason::new(message), until: Some(until), binds: Binds::Start });
            }
        }
        let busy: Vec<&WaveMember> = self.of(tally.under_way.iter().filter(|other| **other != number)).collect();
        if busy.len() >= places {
            return hold(self.full(places, &busy));
        }
        // The canaries alone, as long as one of them is left.
        let ready = if is_canary { &tally.ready_canaries } else { &tally.ready };
        let rank = self.ranks.get(number).copied()?;
        let mut earlier = ready.range(..(rank, number)).map(|(_, number)| number);
        let first = earlier.next()?;
        if earlier.take(places - busy.len()).count() + 1 >= places - busy.len() {
            let first = &self.members.get(*first)?.cluster;
            let message = format!("cluster {first} goes before it in wave {}", wave.name);
            return hold(Reason::new(message).help("`order` of the wave says who goes before whom"));
        }
        None
    }

    /// Why nothing more begins, where more have failed than may, but for one of them.
    fn too_many_failures(&self, but_for: Option<Number>) -> Option<Reason> {
        let size = self.members.len();
        let own = but_for.is_some_and(|number| self.tally.failed.contains(&number));
        let tolerated = tolerated_failures(&self.wave, size);
        if self.tally.failed.len() - usize::from(own) <= tolerated {
            return None;
        }
        let told = self.told_failures(but_for)?;
        let name = &self.wave.name;
        let message = format!("wave {name} is stopped: {told}; {tolerated} of its {size} clusters may fail");
        Some(Reason::new(message).help(MEND))
    }

    /// What has become of those that have failed, but for one of them, for people; none where nobody has.
    fn told_failures(&self, but_for: Option<Number>) -> Option<String> {
        let failed = self.of(self.tally.failed.iter().filter(|number| Some(**number) != but_for));
        let told: Vec<String> = failed
            .filter_map(|member| match &member.standing {
                Standing::Failed { why, .. } => Some(format!("{} ({why})", member.cluster)),
                _ => None,
            })
            .collect();
        (!told.is_empty()).then(|| told.join(", "))
    }

    /// Why nothing more begins, where the wave takes longer than it may.
    fn overdue(&self, now: Timestamp) -> Option<Reason> {
        let deadline = SignedDuration::try_from(self.wave.deadline?).unwrap_or(SignedDuration::MAX);
        let (started, _) = self.tally.started.first()?;
        let ends = started.checked_add(deadline).ok().filter(|ends| *ends <= now)?;
        let message = format!("wave {} is stopped: its deadline was {ends}", self.wave.name);
        Some(Reason::new(message).help("make its `deadline` longer, or name what is left in `skip` of the wave"))
    }

    /// Until when these have to be healthy, where they have not been so for long enough.
    fn soaks_until(&self, done: &BTreeSet<(Timestamp, Number)>, now: Timestamp) -> Option<Timestamp> {
        let soak = SignedDuration::try_from(self.wave.soak).unwrap_or(SignedDuration::MAX);
        let (last, _) = done.last()?;
        let until = last.checked_add(soak).unwrap_or(Timestamp::MAX);
        (now < until).then_some(until)
    }

    fn full(&self, places: usize, busy: &[&WaveMember]) -> Reason {
        let names: Vec<&str> = busy.iter().map(|member| member.cluster.as_str()).collect();
        let first = names.first().copied().unwrap_or_default();
        let at_once = if places == 1 { "one at a time goes".to_owned() } else { format!("{places} go at once") };
        let now = if names.len() > NAMED {
            format!("{} are under way", names.len())
        } else {
            format!("now {}", names.join(", "))
        };
        let message = format!("cluster {first} comes first: {at_once} in wave {}, {now}", self.wave.name);
        Reason::new(message).help(format!("stepgate why {first}"))
    }
}

fn put<T: Ord>(set: &mut BTreeSet<T>, value: T, is_in: bool) {
    if is_in {
        set.insert(value);
    } else {
        set.remove(&value);
    }
}

/// Where one stands, in a few words.
fn told(member: &WaveMember) -> String {
    match &member.standing {
        Standing::Ahead(_) => "nothing of it is committed yet".to_owned(),
        Standing::UnderWay { .. } => "its rollout is under way".to_owned(),
        Standing::Failed { why, .. } => why.clone(),
        Standing::Done { .. } => "it is done".to_owned(),
    }
}
