//! One night beside the one before it, and cells that have come out both ways.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Outcome, Record};
use super::statistics::{Rate, percentile};

/// The nights of a file, in their order.
#[must_use]
pub fn sessions(records: &[Record]) -> Vec<&str> {
    let sessions: BTreeSet<&str> = records.iter().map(|record| record.run.session.as_str()).collect();
    sessions.into_iter().collect()
}

/// The records of one night.
#[must_use]
pub fn of_session<'a>(records: &'a [Record], session: &str) -> Vec<&'a Record> {
    records.iter().filter(|record| record.run.session == session).collect()
}

/// How many upgrades passed. What is invalid says nothing of them.
#[must_use]
pub fn rate<'a>(records: impl IntoIterator<Item = &'a Record>) -> Rate {
    let mut rate = Rate::default();
    let valid = records.into_iter().filter(|record| record.outcome != Outcome::Invalid);
    valid.for_each(|record| rate.count(record.outcome == Outcome::Passed));
    rate
}

/// How long the upgrades took that passed.
#[must_use]
pub fn durations<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<f64> {
    let passed = records.into_iter().filter(|record| record.outcome == Outcome::Passed);
    passed.filter_map(|record| record.upgrading).collect()
}

/// Cells that have passed and failed at one commit, with how often each.
#[must_use]
pub fn flaky(records: &[Record]) -> Vec<(String, Rate)> {
    let mut rates: BTreeMap<(&str, &str), Rate> = BTreeMap::new();
    for record in records.iter().filter(|record| record.outcome != Outcome::Invalid) {
        let of = rates.entry((&record.run.cell, &record.run.revision)).or_default();
        of.count(record.outcome == Outcome::Passed);
    }
    let both = rates.into_iter().filter(|(_, rate)| rate.passed > 0 && rate.passed < rate.all);
    both.map(|((cell, revision), rate)| (format!("{cell} at {revision}"), rate)).collect()
}

/// What differs between a night and the one before it, in sentences.
#[must_use]
pub fn differences(now: &[&Record], before: &[&Record]) -> Vec<String> {
    let mut told = Vec::new();
    let (rate_now, rate_before) = (rate(now.iter().copied()), rate(before.iter().copied()));
    let weight = if rate_now.is_apart_from(rate_before) { "apart: no chance" } else { "within the intervals" };
    told.push(format!("passed: {}; before {} ({weight})", rate_now.words(), rate_before.words()));
    let median = |records: &[&Record]| percentile(&durations(records.iter().copied()), 50);
    if let (Some(now), Some(before)) = (median(now), median(before)) {
        let percent = 100.0 * (now / before - 1.0);
        told.push(format!("median of an upgrade: {now:.0} s; before {before:.0} s ({percent:+.0} %)"));
    }
    let cells = |records: &[&Record], outcome| -> BTreeSet<String> {
        let with = records.iter().filter(|record| record.outcome == outcome);
        with.map(|record| record.run.cell.clone()).collect()
    };
    let (failed, failed_before) = (cells(now, Outcome::Failed), cells(before, Outcome::Failed));
    let new: Vec<String> = failed.intersection(&cells(before, Outcome::Passed)).cloned().collect();
    let mended: Vec<String> = failed_before.intersection(&cells(now, Outcome::Passed)).cloned().collect();
    for (what, cells) in [("failed now and passed before", new), ("passed now and failed before", mended)] {
        if !cells.is_empty() {
            told.push(format!("{what}: {}", cells.join(", ")));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::continuous::record::tests::record;

    #[test]
    fn a_night_is_compared_with_the_one_before() {
        let outcomes = [
            ("one", "a", Outcome::Passed),
            ("one", "b", Outcome::Failed),
            ("one", "c", Outcome::Invalid),
            ("two", "a", Outcome::Failed),
            ("two", "b", Outcome::Passed),
        ];
        let records: Vec<Record> = outcomes
            .into_iter()
            .enumerate()
            .map(|(number, (session, cell, outcome))| record(session, number, cell, outcome))
            .collect();
        assert_eq!(sessions(&records), ["one", "two"]);
        let (one, two) = (of_session(&records, "one"), of_session(&records, "two"));
        assert_eq!(rate(one.iter().copied()), Rate { passed: 1, all: 2 });
        assert_eq!(durations(one.iter().copied()), [30.0]);
        assert_eq!(
            differences(&two, &one),
            [
                "passed: 1 of 2, 50 % (9–91); before 1 of 2, 50 % (9–91) (within the intervals)",
                "median of an upgrade: 34 s; before 30 s (+13 %)",
                "failed now and passed before: a",
                "passed now and failed before: b",
            ]
        );
    }

    #[test]
    fn a_cell_is_flaky_when_it_has_come_out_both_ways_at_one_commit() {
        let mut records = vec![
            record("one", 1, "a", Outcome::Passed),
            record("one", 2, "a", Outcome::Failed),
            record("one", 3, "b", Outcome::Passed),
            record("one", 4, "b", Outcome::Invalid),
            record("one", 5, "c", Outcome::Failed),
        ];
        // What was mended is not flaky.
        let mut mended = record("two", 1, "c", Outcome::Passed);
        mended.run.revision = "another".to_owned();
        records.push(mended);
        assert_eq!(flaky(&records), [("a at 0123456789ab".to_owned(), Rate { passed: 1, all: 2 })]);
    }
}
