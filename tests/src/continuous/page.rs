//! The page: what a night has shown, as Markdown.

use std::fmt::Write as _;

use super::cell::Cell;
use super::comparison::{differences, durations, flaky, of_session, rate, sessions};
use super::matrix::{CHAIN, left_out, offered};
use super::record::{Outcome, Record};
use super::statistics::seconds;

/// The names of the axes, in the order of a cell's words.
const AXES: [&str; 6] =
    ["etcd", "machines of the control plane", "scaling up in the middle", "machines are", "management", "components"];

/// The page of the last night of these records, beside the night before.
#[must_use]
pub fn page(records: &[Record]) -> String {
    let sessions = sessions(records);
    let Some((session, before)) = sessions.split_last() else {
        return "# Continuous upgrades\n\nNo runs.\n".to_owned();
    };
    let now = of_session(records, session);
    let mut page = summary(session, &now);
    if let Some(before) = before.last() {
        let _ = writeln!(page, "\n## Beside the night of {before}\n");
        list(&mut page, &differences(&now, &of_session(records, before)));
    }
    failures(&mut page, &now);
    unsteady(&mut page, records);
    axes(&mut page, &now);
    cells(&mut page, &now);
    invalid(&mut page, &now);
    not_offered(&mut page);
    page
}

fn summary(session: &str, now: &[&Record]) -> String {
    let count = |outcome| now.iter().filter(|record| record.outcome == outcome).count();
    let faults: usize = now.iter().map(|record| record.faults.len()).sum();
    let upgrades: Vec<f64> = now.iter().flat_map(|record| record.upgrades.iter().copied()).collect();
    let creating: Vec<f64> = now.iter().filter_map(|record| record.creating).collect();
    let mut revisions: Vec<&str> = now.iter().map(|record| record.run.revision.as_str()).collect();
    revisions.dedup();
    let mut page = format!(
        "# Continuous upgrades\n\nThe night of {session}, at {}: Kubernetes {} on real servers, with machines in memory.\n\n",
        revisions.join(", "),
        CHAIN.join(" → ")
    );
    let rows = [
        ("runs", now.len().to_string()),
        ("passed", rate(now.iter().copied()).words()),
        ("failed", count(Outcome::Failed).to_string()),
        ("invalid", count(Outcome::Invalid).to_string()),
        ("faults made", faults.to_string()),
        ("all upgrades of a chain, p50 / p95", seconds(&durations(now.iter().copied()))),
        ("one upgrade, p50 / p95", seconds(&upgrades)),
        ("making the cluster, p50 / p95", seconds(&creating)),
    ];
    page.push_str("| | |\n|---|---|\n");
    for (name, value) in rows {
        let _ = writeln!(page, "| {name} | {value} |");
    }
    page.push_str(
        "\nRates are of runs that passed or failed, with Wilson's interval of 95 %. A run is invalid where the cluster could not \
         be made or taken away; that says nothing of upgrades.\n",
    );
    page
}

fn list(page: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(page, "- {line}");
    }
}

/// A text within a cell of a table, on one line.
fn inline(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(240).collect();
    short.replace('|', "\\|")
}

fn failures(page: &mut String, now: &[&Record]) {
    page.push_str("\n## Failures\n\n");
    let failed: Vec<&&Record> = now.iter().filter(|record| record.outcome == Outcome::Failed).collect();
    if failed.is_empty() {
        page.push_str("None.\n");
        return;
    }
    page.push_str("| run | cell | where | why | faults before | again |\n|---|---|---|---|---|---|\n");
    for record in failed {
        let text = |text: &Option<String>| inline(text.as_deref().unwrap_or_default());
        let (place, why) = (text(&record.place), text(&record.reason));
        let faults: Vec<String> = record.faults.iter().map(|fault| inline(fault)).collect();
        let run = &record.run;
        let (cell, faults, replay) = (&run.cell, faults.join("; "), run.replay());
        let _ = writeln!(page, "| {} | {cell} | {place} | {why} | {faults} | `{replay}` |", run.number);
    }
}

fn unsteady(page: &mut String, records: &[Record]) {
    page.push_str("\n## Flaky\n\n");
    let flaky = flaky(records);
    if flaky.is_empty() {
        page.push_str("No cell has both passed and failed at one commit.\n");
    }
    list(page, &flaky.into_iter().map(|(cell, rate)| format!("{cell}: {}", rate.words())).collect::<Vec<_>>());
}

fn axes(page: &mut String, now: &[&Record]) {
    page.push_str("\n## By axis\n\n| axis | value | passed | upgrade, p50 / p95 |\n|---|---|---|---|\n");
    for (place, axis) in AXES.iter().enumerate() {
        let word = |cell: Cell| cell.words().get(place).copied().unwrap_or_default();
        let mut values: Vec<&str> = Vec::new();
        for value in offered().into_iter().map(word) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        for value in values {
            let of: Vec<&Record> =
                now.iter().copied().filter(|record| record.cell().is_some_and(|cell| word(cell) == value)).collect();
            let (rate, took) = (rate(of.iter().copied()).words(), seconds(&durations(of.iter().copied())));
            let _ = writeln!(page, "| {axis} | {value} | {rate} | {took} |");
        }
    }
}

fn cells(page: &mut String, now: &[&Record]) {
    page.push_str("\n## By cell\n\n| cell | passed | invalid | upgrade, p50 / p95 |\n|---|---|---|---|\n");
    for cell in offered() {
        let name = cell.to_string();
        let of: Vec<&Record> = now.iter().copied().filter(|record| record.run.cell == name).collect();
        let invalid = of.iter().filter(|record| record.outcome == Outcome::Invalid).count();
        let (rate, took) = (rate(of.iter().copied()).words(), seconds(&durations(of.iter().copied())));
        let _ = writeln!(page, "| {name} | {rate} | {invalid} | {took} |");
    }
}

fn invalid(page: &mut String, now: &[&Record]) {
    let invalid: Vec<&&Record> = now.iter().filter(|record| record.outcome == Outcome::Invalid).collect();
    if invalid.is_empty() {
        return;
    }
    page.push_str("\n## Invalid\n\n| run | cell | where | what was in the way |\n|---|---|---|---|\n");
    for record in invalid {
        let text = |text: &Option<String>| inline(text.as_deref().unwrap_or_default());
        let (place, why) = (text(&record.place), text(&record.reason));
        let _ = writeln!(page, "| {} | {} | {place} | {why} |", record.run.number, record.run.cell);
    }
}

fn not_offered(page: &mut String) {
    page.push_str("\n## Not offered\n\n");
    for (reason, cells) in left_out() {
        let _ = writeln!(
            page,
            "- {} cells: {reason}. Such as `{}`.",
            cells.len(),
            cells.first().map(Cell::to_string).unwrap_or_default()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::continuous::record::tests::record;

    const ONE: &str = "stacked/one/steady/rolling/managed/alone";
    const THREE: &str = "stacked/three/steady/rolling/managed/alone";

    #[test]
    fn a_page_has_rates_durations_failures_with_their_seeds_and_what_is_not_offered() {
        let mut records = vec![
            record("2026-01-01T20:00:00Z", 1, ONE, Outcome::Passed),
            record("2026-01-02T20:00:00Z", 1, ONE, Outcome::Passed),
            record("2026-01-02T20:00:00Z", 2, ONE, Outcome::Failed),
            record("2026-01-02T20:00:00Z", 3, THREE, Outcome::Passed),
            record("2026-01-02T20:00:00Z", 4, THREE, Outcome::Invalid),
        ];
        records[2].reason = Some("a | b\nand more".to_owned());
        let page = page(&records);
        for words in [
            "The night of 2026-01-02T20:00:00Z, at 0123456789ab",
            "| runs | 4 |",
            "| passed | 2 of 3, 67 % (21–94) |",
            "## Beside the night of 2026-01-01T20:00:00Z",
            "- passed: 2 of 3, 67 % (21–94); before 1 of 1, 100 % (21–100) (within the intervals)",
            "- failed now and passed before: stacked/one/steady/rolling/managed/alone",
            "| 2 | stacked/one/steady/rolling/managed/alone | upgrading | a \\| b |  | `tests/continuous/run --runs 1 --only \
             stacked/one/steady/rolling/managed/alone --seed 102` |",
            "- stacked/one/steady/rolling/managed/alone at 0123456789ab: 2 of 3, 67 % (21–94)",
            "| machines of the control plane | three | 1 of 1, 100 % (21–100) | 33 / 33 s |",
            "| stacked/three/steady/rolling/managed/alone | 1 of 1, 100 % (21–100) | 1 | 33 / 33 s |",
            "| 4 | stacked/three/steady/rolling/managed/alone | deleting | it broke |",
            "cells: members of the external etcd are programs",
        ] {
            assert!(page.contains(words), "{words}\n{page}");
        }
        assert!(!page.contains("and more"), "{page}");
    }

    #[test]
    fn a_page_of_nothing_says_so() {
        assert_eq!(page(&[]), "# Continuous upgrades\n\nNo runs.\n");
        let page = page(&[record("night", 1, ONE, Outcome::Passed)]);
        assert!(page.contains("## Failures\n\nNone.\n") && !page.contains("Beside the night"), "{page}");
        assert!(page.contains("No cell has both passed and failed"), "{page}");
    }
}
