//! How long gates have held: the only memory of the loop, and losing it only makes a gate wait longer.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::stage::StageId;
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
}

impl GateHistory {
    /// A history of these streaks.
    #[must_use]
    pub(crate) fn of(streaks: Vec<(GateKey, Streak)>) -> Self {
        Self { streaks }
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
        Self { streaks }
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
