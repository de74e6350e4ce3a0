//! Whether a cluster may begin, or go on, and whether a wave is done: values in, values out.

use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use policy::{First, Wave, WaveOrder};

use crate::verdict::Reason;

use super::approval::WaveConsent;
use super::budget::{places, tolerated_failures};
use super::standing::{Standing, Turn, WaveMember};
use super::{Binds, WaveHold};

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
const MEND: &str = "mend what has failed: the wave goes on by itself; or name it in `skip` of the wave, with `reason`, `until` and `by`";

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
    let active = active(wave, members, now);
    if let Some(reason) = too_many_failures(wave, members.len(), &active) {
        return WaveState::Stopped(reason);
    }
    let is_settled = |member: &&&WaveMember| matches!(member.standing, Standing::Done { .. } | Standing::Failed { .. });
    if active.iter().filter(is_settled).count() < active.len() {
        if let Some(reason) = overdue(wave, &active, now) {
            return WaveState::Stopped(reason);
        }
        let waits = |member: &&WaveMember| matches!(member.standing, Standing::Ahead(_)) || member.is_replanned;
        if let Some(reason) = consent.before.as_ref().filter(|_| active.iter().any(waits)) {
            return WaveState::Unapproved(reason.clone());
        }
        let has_begun = active.iter().any(|member| !matches!(member.standing, Standing::Ahead(_)));
        return if has_begun { WaveState::UnderWay } else { WaveState::Ahead };
    }
    if let Some(failed) = told_failures(&active) {
        let reason = Reason::new(format!("wave {} is done with exceptions: {failed}", wave.name));
        return WaveState::DoneWithExceptions(reason.help(MEND));
    }
    match (soaks_until(wave, &active, now), &consent.after) {
        (Some(until), _) => WaveState::Soaking(until),
        (None, Some(reason)) => WaveState::Unapproved(reason.clone()),
        (None, None) => WaveState::Done,
    }
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
    let own = members.iter().find(|member| &member.cluster == own)?;
    let started = match &own.standing {
        Standing::UnderWay { started, .. } => Some(*started),
        Standing::Failed { started, .. } => Some(started.unwrap_or(Timestamp::MIN)),
        Standing::Ahead(_) | Standing::Done { .. } => None,
    };
    if let Some(lease) = wave.skipped(own.cluster.as_str(), now) {
        // Whoever has begun is brought to its end, and nobody waits for it.
        let message = format!("wave {} goes without it {lease}", wave.name);
        let reason =
            Reason::new(message).help("take it out of `skip` of the wave: it begins then, as far as there is a place");
        return started.is_none().then_some(WaveHold { reason, until: Some(lease.until), binds: Binds::Start });
    }
    let active = active(wave, members, now);
    let others: Vec<&WaveMember> = active.iter().copied().filter(|member| member.cluster != own.cluster).collect();
    let every = |reason: Reason| WaveHold { reason, until: None, binds: Binds::EveryStage };
    // What a cluster itself has come to is decided now.
    if let Some(reason) = too_many_failures(wave, members.len(), &others).or_else(|| overdue(wave, &active, now)) {
        return Some(every(reason));
    }
    if let Some(unknown) = unknown(&others) {
        let message = format!("cluster {unknown} of wave {} is under way, and has not been looked at yet", wave.name);
        return Some(every(Reason::new(message)));
    }
    if let Some(reason) = consent.before.as_ref().filter(|_| started.is_none() || own.is_replanned) {
        // One that is under way goes on by the plan that it began with.
        let binds = if started.is_none() { Binds::Start } else { Binds::BeforeMachines };
        return Some(WaveHold { reason: reason.clone(), until: None, binds });
    }
    let places = places(wave, members.len());
    let busy: Vec<&WaveMember> = others.iter().copied().filter(|member| is_under_way(member)).collect();
    match started {
        Some(started) => {
            // A wave may have fewer places than before, or one of it may have come back to life: the last to begin wait.
            let earlier = |member: &&&WaveMember| match &member.standing {
                Standing::UnderWay { started: other, .. } => (other, &member.cluster) < (&started, &own.cluster),
                _ => false,
            };
            let before: Vec<&WaveMember> = busy.iter().filter(earlier).copied().collect();
            (before.len() >= places).then(|| every(full(wave, places, &before)))
        }
        None => before_start(wave, members, &active, own, &busy, places, now),
    }
}

/// What keeps one from beginning that could go on.
fn before_start(
    wave: &Wave,
    members: &[WaveMember],
    active: &[&WaveMember],
    own: &WaveMember,
    busy: &[&WaveMember],
    places: usize,
    now: Timestamp,
) -> Option<WaveHold> {
    let hold = |reason: Reason| Some(WaveHold { reason, until: None, binds: Binds::Start });
    let ranked: Vec<&WaveMember> = ranked(wave, members)
        .into_iter()
        .filter(|member| active.iter().any(|it| it.cluster == member.cluster))
        .collect();
    let canaries: Vec<&WaveMember> = ranked.iter().copied().filter(|member| is_first(wave, &ranked, member)).collect();
    let is_canary = |member: &WaveMember| canaries.iter().any(|canary| canary.cluster == member.cluster);
    if !is_canary(own) {
        if let Some(missing) = missing_canary(wave, members) {
            let message =
                format!("`first` of wave {} names cluster {missing}, which the fleet does not have", wave.name);
            return hold(Reason::new(message).help("name a cluster of the wave, or take it out of `first`"));
        }
        if let Some(canary) = canaries.iter().find(|canary| !matches!(canary.standing, Standing::Done { .. })) {
            let message = format!("cluster {} goes first in wave {}: {}", canary.cluster, wave.name, told(canary));
            return hold(Reason::new(message).help(format!("stepgate why {}", canary.cluster)));
        }
        if let Some(until) = soaks_until(wave, &canaries, now) {
            let message = format!("the first of wave {} soak until {until}", wave.name);
            return Some(WaveHold { reason: Reason::new(message), until: Some(until), binds: Binds::Start });
        }
    }
    if busy.len() >= places {
        return hold(full(wave, places, busy));
    }
    // The canaries alone, as long as one of them is left.
    let may_go = |member: &&&WaveMember| !is_canary(own) || is_canary(member);
    let earlier = ranked.iter().take_while(|member| member.cluster != own.cluster).filter(may_go);
    let waiting: Vec<&WaveMember> = earlier
        .copied()
        .filter(|member| matches!(member.standing, Standing::Ahead(Turn::Ready | Turn::Unknown)))
        .collect();
    if waiting.len() >= places.saturating_sub(busy.len()) {
        let first = waiting.first()?;
        let message = format!("cluster {} goes before it in wave {}", first.cluster, wave.name);
        return hold(Reason::new(message).help("`order` of the wave says who goes before whom"));
    }
    None
}

/// Whether a cluster belongs to those that go before the rest.
fn is_first(wave: &Wave, ranked: &[&WaveMember], member: &WaveMember) -> bool {
    match &wave.first {
        First::Named(names) => names.iter().any(|name| name == member.cluster.as_str()),
        First::Count(count) => {
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            ranked.iter().take(count).any(|first| first.cluster == member.cluster)
        }
    }
}

/// A canary that nobody could ever verify.
fn missing_canary<'a>(wave: &'a Wave, members: &[WaveMember]) -> Option<&'a str> {
    let First::Named(names) = &wave.first else { return None };
    let is_there = |name: &&String| members.iter().any(|member| member.cluster.as_str() == name.as_str());
    names.iter().find(|name| !is_there(name)).map(String::as_str)
}

fn active<'a>(wave: &Wave, members: &'a [WaveMember], now: Timestamp) -> Vec<&'a WaveMember> {
    members.iter().filter(|member| wave.skipped(member.cluster.as_str(), now).is_none()).collect()
}

fn is_under_way(member: &WaveMember) -> bool {
    matches!(member.standing, Standing::UnderWay { .. })
}

fn unknown<'a>(members: &[&'a WaveMember]) -> Option<&'a ClusterName> {
    let is_unknown = |member: &&&WaveMember| matches!(member.standing, Standing::UnderWay { is_known: false, .. });
    members.iter().find(is_unknown).map(|member| &member.cluster)
}

/// What has become of those that have failed, for people; none where nobody has.
fn told_failures(members: &[&WaveMember]) -> Option<String> {
    let failed: Vec<String> = members
        .iter()
        .filter_map(|member| match &member.standing {
            Standing::Failed { why, .. } => Some(format!("{} ({why})", member.cluster)),
            _ => None,
        })
        .collect();
    (!failed.is_empty()).then(|| failed.join(", "))
}

/// Why nothing more begins, where more have failed than may: `size` is that of the whole wave.
fn too_many_failures(wave: &Wave, size: usize, members: &[&WaveMember]) -> Option<Reason> {
    let failed = members.iter().filter(|member| matches!(member.standing, Standing::Failed { .. })).count();
    let tolerated = tolerated_failures(wave, size);
    if failed <= tolerated {
        return None;
    }
    let told = told_failures(members)?;
    let name = &wave.name;
    let message = format!("wave {name} is stopped: {told}; {tolerated} of its {size} clusters may fail");
    Some(Reason::new(message).help(MEND))
}

/// Why nothing more begins, where the wave takes longer than it may.
fn overdue(wave: &Wave, members: &[&WaveMember], now: Timestamp) -> Option<Reason> {
    let deadline = SignedDuration::try_from(wave.deadline?).unwrap_or(SignedDuration::MAX);
    let started = members.iter().filter_map(|member| match &member.standing {
        Standing::UnderWay { started, .. } => Some(*started),
        Standing::Failed { started, .. } | Standing::Done { started, .. } => *started,
        Standing::Ahead(_) => None,
    });
    let ends = started.min()?.checked_add(deadline).ok().filter(|ends| *ends <= now)?;
    let message = format!("wave {} is stopped: its deadline was {ends}", wave.name);
    Some(Reason::new(message).help("make its `deadline` longer, or name what is left in `skip` of the wave"))
}

/// Until when these have to be healthy, where they have not been so for long enough.
fn soaks_until(wave: &Wave, members: &[&WaveMember], now: Timestamp) -> Option<Timestamp> {
    let soak = SignedDuration::try_from(wave.soak).unwrap_or(SignedDuration::MAX);
    let since = members.iter().filter_map(|member| match &member.standing {
        Standing::Done { since, .. } => *since,
        _ => None,
    });
    let until = since.max()?.checked_add(soak).unwrap_or(Timestamp::MAX);
    (now < until).then_some(until)
}

fn full(wave: &Wave, places: usize, busy: &[&WaveMember]) -> Reason {
    let names: Vec<&str> = busy.iter().map(|member| member.cluster.as_str()).collect();
    let first = names.first().copied().unwrap_or_default();
    let at_once = if places == 1 { "one at a time goes".to_owned() } else { format!("{places} go at once") };
    let message = format!("cluster {first} comes first: {at_once} in wave {}, now {}", wave.name, names.join(", "));
    Reason::new(message).help(format!("stepgate why {first}"))
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
