//! How long gates have held: the only memory of the loop, and losing it only makes a gate wait longer.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::stage::StageId;
use crate::verdict::Fact;
use domain::CommitId;

/// Which gate a streak belongs to: a stage together with the commit it is bound to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateKey {
    /// The stage.
    pub stage: StageId,
    /// The commit the gate is bound to; none on an empty deploy branch.
    pub commit: Option<CommitId>,
}

/// Consecutive reads in which everything expected held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Streak {
    /// When the first of them was judged: some of what it tells may be older than that.
    pub since: Timestamp,
    /// Read time of the last of them.
    pub last: Timestamp,
    /// How many there were, each with a later read time than the one before.
    pub reads: u32,
    /// What was settled (generations, machine names); a change starts the streak anew.
    pub settled: String,
}

/// The streaks of a cluster's gates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GateHistory {
    streaks: Vec<(GateKey, Streak)>,
    /// Evidence alone: nothing is decided by it, and a new process begins it anew.
    #[serde(skip)]
    departures: Departures,
}

/// In which order the machines of a control plane were seen to go, and who held its address meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Departures {
    gate: Option<GateKey>,
    /// Since when they were watched: a process that began later has not seen the first ones go.
    since: Option<Timestamp>,
    present: Vec<String>,
    gone: Vec<String>,
    holders: Vec<String>,
}

impl Departures {
    /// After one more reading of these machines.
    fn after(&self, gate: &GateKey, present: Vec<String>, holder: Option<&str>, at: Timestamp) -> Self {
        let mut next = if self.gate.as_ref() == Some(gate) { self.clone() } else { Self::default() };
        next.gate = Some(gate.clone());
        next.since.get_or_insert(at);
        let gone = next.present.iter().filter(|name| !present.contains(name));
        next.gone.extend(gone.cloned().collect::<Vec<_>>());
        next.present = present;
        next.holders
            .extend(holder.filter(|holder| next.holders.last().is_none_or(|last| last != holder)).map(str::to_owned));
        next
    }
}

impl GateHistory {
    /// A history of these streaks.
    #[must_use]
    pub(crate) fn of(streaks: Vec<(GateKey, Streak)>) -> Self {
        Self { streaks, ..Self::default() }
    }

    /// The same, after one more reading of the machines of the control plane whose gate this is.
    #[must_use]
    pub(crate) fn with_machines(
        mut self,
        gate: &GateKey,
        present: Vec<String>,
        holder: Option<&str>,
        at: Timestamp,
    ) -> Self {
        self.departures = self.departures.after(gate, present, holder, at);
        self
    }

    /// What was seen of the machines of a control plane while its gate was watched, for its evidence.
    pub(crate) fn facts(&self, gate: &GateKey) -> Vec<Fact> {
        let Departures { gate: known, since, gone, holders, .. } = &self.departures;
        if known.as_ref() != Some(gate) {
            return Vec::new();
        }
        let since = since.map(|since| format!(" (watched since {since:.0})")).unwrap_or_default();
        let fact = |object: &str, names: &[String]| Fact::new(object, format!("{}{since}", names.join(", then ")));
        let order = (!gone.is_empty()).then(|| fact("machines that went, in their order", gone));
        let moves = (holders.len() > 1).then(|| fact("holders of the virtual address", holders));
        order.into_iter().chain(moves).collect()
    }

    /// The streak of a gate; none where its last read did not hold.
    #[must_use]
    pub fn streak(&self, key: &GateKey) -> Option<&Streak> {
        self.streaks.iter().find(|(known, _)| known == key).map(|(_, streak)| streak)
    }

    /// Every streak with its gate.
    pub fn streaks(&self) -> impl Iterator<Item = (&GateKey, &Streak)> {
        self.streaks.iter().map(|(key, streak)| (key, streak))
    }

    /// The history after one more read. `held` maps each gate that was evaluated and held to what was settled; a gate that is not in it
    /// has no streak any more; `now` is when they were evaluated. A read that is not later than the last one is the same read: it changes
    /// nothing. A gap longer than `maximum_gap`, or other settled values, start the streak anew.
    #[must_use]
    pub fn record(
        &self,
        read_at: Timestamp,
        held: BTreeMap<GateKey, String>,
        maximum_gap: Duration,
        now: Timestamp,
    ) -> Self {
        let gap = SignedDuration::try_from(maximum_gap).unwrap_or(SignedDuration::MAX);
        let streaks = held
            .into_iter()
            .map(|(key, settled)| {
                let streak = match self.streak(&key) {
                    Some(old) if old.settled == settled && read_at == old.last => old.clone(),
                    Some(old)
                        if old.settled == settled && read_at > old.last && read_at.duration_since(old.last) <= gap =>
                    {
                        Streak { since: old.since, last: read_at, reads: old.reads.saturating_add(1), settled }
                    }
                    _ => Streak { since: now.max(read_at), last: read_at, reads: 1, settled },
                };
                (key, streak)
            })
            .collect();
        Self { streaks, departures: self.departures.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::StageName;

    const GAP: Duration = Duration::from_secs(60);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key() -> GateKey {
        GateKey { stage: StageName::CertManager.into(), commit: None }
    }

    fn held(settled: &str) -> BTreeMap<GateKey, String> {
        BTreeMap::from([(key(), settled.to_owned())])
    }

    fn reads(reads: &[(i64, Option<&str>)]) -> Option<(i64, u32)> {
        let mut history = GateHistory::default();
        for (second, settled) in reads {
            history = history.record(at(*second), settled.map(held).unwrap_or_default(), GAP, at(*second));
        }
        history.streak(&key()).map(|streak| (streak.since.as_second(), streak.reads))
    }

    #[test]
    fn machines_are_told_in_the_order_in_which_they_were_seen_to_go() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut second = 0;
        let mut history = GateHistory::default();
        for (present, holder) in [
            (&["a", "b", "c"][..], Some("b")),
            (&["a", "b", "c", "d"], Some("b")),
            (&["b", "c", "d"], None),
            (&["b", "d", "e"], Some("b")),
            (&["d", "e", "f"], Some("e")),
        ] {
            second += 1;
            history = history.with_machines(&key(), names(present), holder, at(second));
        }
        let told: Vec<String> = history.facts(&key()).into_iter().map(|fact| fact.seen).collect();
        // A process that begins in between tells from when on it has looked.
        let since = " (watched since 1970-01-01T00:00:01Z)";
        assert_eq!(told, [format!("a, then c, then b{since}"), format!("b, then e{since}")]);
        // Of another commit it says nothing, and a later reading of that begins anew.
        let other = GateKey { commit: Some("1".repeat(40).parse().unwrap()), ..key() };
        assert!(history.facts(&other).is_empty());
        assert!(history.with_machines(&other, names(&["d"]), None, at(9)).facts(&other).is_empty());
    }

    #[test]
    fn a_streak_grows_only_by_later_unbroken_equal_reads() {
        for (input, expected) in [
            (vec![(1, Some("a"))], Some((1, 1))),
            (vec![(1, Some("a")), (2, Some("a"))], Some((1, 2))),
            (vec![(1, Some("a")), (1, Some("a"))], Some((1, 1))),
            (vec![(2, Some("a")), (1, Some("a"))], Some((1, 1))),
            (vec![(1, Some("a")), (2, None), (3, Some("a"))], Some((3, 1))),
            (vec![(1, Some("a")), (2, Some("b"))], Some((2, 1))),
            (vec![(1, Some("a")), (61, Some("a"))], Some((1, 2))),
            (vec![(1, Some("a")), (62, Some("a"))], Some((62, 1))),
            (vec![(1, Some("a")), (2, None)], None),
        ] {
            assert_eq!(reads(&input), expected, "{input:?}");
        }
    }
}
