//! What is known of what was told: how far the deploy branch was read, where rollouts stood, and what each sink is still to tell.
//!
//! Nothing is decided by it but what is told. Lost, it begins anew from where the deploy branch is then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use domain::{ClusterName, CommitId, RolloutId};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::message::{Message, Outgoing, Route};
use crate::sinks::Shown;
use rollout::Announcement;

/// So many messages of one sink are kept; of more the oldest go.
const MOST_QUEUED: usize = 500;

/// So many names of what was told are kept.
const MOST_NAMES: usize = 2000;

/// So many threads are kept for a sink that edits, and so many titles of each.
const MOST_THREADS: usize = 200;
const MOST_TITLES: usize = 20;

/// What comes again within this time is not told again.
const QUIET: SignedDuration = SignedDuration::from_mins(5);

/// What was told, and what is still to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Journal {
    /// The commit of the deploy branch up to which everything is written down here; none before the first pass.
    pub head: Option<CommitId>,
    clusters: BTreeMap<ClusterName, Stood>,
    names: VecDeque<String>,
    queues: BTreeMap<String, VecDeque<Message>>,
    shown: BTreeMap<String, VecDeque<(String, Shown)>>,
}

/// Where a cluster stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stood {
    rollout: RolloutId,
    told: BTreeMap<String, Turn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Turn {
    turn: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Timestamp>,
}

/// What a note has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Whether anything is to be written to the disk.
    pub(crate) changed: bool,
    /// How many messages of each sink were given up for newer ones.
    pub(crate) dropped: BTreeMap<String, u64>,
}

impl Journal {
    /// Writes down what has happened up to this head, and what stands so now.
    pub(crate) fn note(
        &mut self,
        head: Option<&CommitId>,
        happened: Vec<Outgoing>,
        standing: BTreeMap<ClusterName, Vec<Outgoing>>,
        in_flight: &BTreeSet<String>,
        now: Timestamp,
    ) -> Noted {
        let before = (self.head.clone(), self.clusters.clone());
        let mut noted = Noted::default();
        for outgoing in happened {
            self.queue(outgoing, in_flight, &mut noted);
        }
        for (cluster, outgoings) in standing {
            for outgoing in self.new_standing(&cluster, outgoings, now) {
                self.queue(outgoing, in_flight, &mut noted);
            }
        }
        if head.is_some() {
            self.head = head.cloned();
        }
        noted.changed |= before != (self.head.clone(), self.clusters.clone());
        noted
    }

    /// Of what stands so now, what has not been told yet.
    fn new_standing(&mut self, cluster: &ClusterName, outgoings: Vec<Outgoing>, now: Timestamp) -> Vec<Outgoing> {
        if let Some(first) = outgoings.first().map(|first| &first.announcement) {
            let fresh = || Stood { rollout: first.rollout.clone(), told: BTreeMap::new() };
            let stood = self.clusters.entry(cluster.clone()).or_insert_with(fresh);
            if stood.rollout != first.rollout {
                *stood = fresh();
            }
        }
        let Some(stood) = self.clusters.get_mut(cluster) else { return Vec::new() };
        let mut new = Vec::new();
        let mut present = BTreeSet::new();
        for mut outgoing in outgoings {
            let key = key(&outgoing.announcement);
            present.insert(key.clone());
            let known = stood.told.get(&key).copied();
            let is_new = match known {
                None => true,
                Some(Turn { ended: None, .. }) => false,
                Some(Turn { ended: Some(ended), .. }) => now.duration_since(ended) > QUIET,
            };
            let turn = known.map_or(0, |known| known.turn).saturating_add(u32::from(is_new));
            stood.told.insert(key, Turn { turn, ended: None });
            if is_new {
                outgoing.announcement.turn = turn;
                new.push(outgoing);
            }
        }
        for (_, turn) in stood.told.iter_mut().filter(|(key, _)| !present.contains(*key)) {
            turn.ended = turn.ended.or(Some(now));
        }
        new
    }

    fn queue(&mut self, outgoing: Outgoing, in_flight: &BTreeSet<String>, noted: &mut Noted) {
        let name = outgoing.announcement.id().to_string();
        if self.names.contains(&name) {
            return;
        }
        noted.changed = true;
        self.names.push_back(name);
        while self.names.len() > MOST_NAMES {
            self.names.pop_front();
        }
        for Route { to: sink, text, spans } in outgoing.routes {
            let queue = self.queues.entry(sink.clone()).or_default();
            let (announcement, object) = (outgoing.announcement.clone(), outgoing.object.clone());
            queue.push_back(Message { announcement, object, text, spans });
            if queue.len() > MOST_QUEUED {
                // The first one is on its way, perhaps.
                queue.remove(usize::from(in_flight.contains(&sink)));
                *noted.dropped.entry(sink).or_default() += 1;
            }
        }
    }

    /// The next message of a sink, and what it shows of the thread.
    pub(crate) fn next(&self, sink: &str) -> Option<(&Message, Option<&Shown>)> {
        let message = self.queues.get(sink)?.front()?;
        let thread = message.thread();
        let shown = self.shown.get(sink).into_iter().flatten().find(|(known, _)| *known == thread);
        Some((message, shown.map(|(_, shown)| shown)))
    }

    /// How many messages are still to be told.
    pub(crate) fn queued(&self) -> usize {
        self.queues.values().map(VecDeque::len).sum()
    }

    /// The sinks that have something to tell.
    pub(crate) fn busy(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(sink, _)| sink.as_str())
    }

    /// The first message of a sink was told, or never will be. `handle` names what it was put into.
    pub(crate) fn done(&mut self, sink: &str, handle: Option<String>) {
        let Some(message) = self.queues.get_mut(sink).and_then(VecDeque::pop_front) else { return };
        if self.queues.get(sink).is_some_and(VecDeque::is_empty) {
            self.queues.remove(sink);
        }
        let Some(handle) = handle else { return };
        let threads = self.shown.entry(sink.to_owned()).or_default();
        let thread = message.thread();
        let mut shown = match threads.iter().position(|(known, _)| *known == thread) {
            Some(index) => threads.remove(index).map(|(_, shown)| shown).unwrap_or_default(),
            None => Shown::default(),
        };
        if shown.handle != handle {
            shown = Shown { handle, titles: Vec::new() };
        }
        shown.titles.push(message.title());
        if shown.titles.len() > MOST_TITLES {
            shown.titles.remove(0);
        }
        threads.push_back((thread, shown));
        if threads.len() > MOST_THREADS {
            threads.pop_front();
        }
    }

    /// Forgets what is for sinks that there are no longer; how many messages that were.
    pub(crate) fn keep_only(&mut self, is_known: impl Fn(&str) -> bool) -> usize {
        let lost = self.queues.iter().filter(|(sink, _)| !is_known(sink)).map(|(_, queue)| queue.len()).sum();
        self.queues.retain(|sink, _| is_known(sink));
        self.shown.retain(|sink, _| is_known(sink));
        lost
    }
}

/// What stands so of a rollout, without its turn.
fn key(announcement: &Announcement) -> String {
    let stage = announcement.stage.as_ref().map_or_else(|| "rollout".to_owned(), ToString::to_string);
    format!("{stage}/{}", announcement.kind)
}
