//! A rehearsal for a person: how it ends, stage by stage, what faults would do, the way back, what is not known.

use std::collections::BTreeMap;

use crate::cli::common::output::Table;
use crate::rehearsal::{
    FaultRehearsed, FoundReport, MachineReport, PaceReport, PaceSource, RehearsalReport, StageRehearsed, WayBackReport,
};

/// How many columns it takes.
const WIDTH: usize = 100;

/// How many reasons of a fault are told.
const REASONS: usize = 3;

/// The tables of a rehearsal.
pub(super) fn tables(report: &RehearsalReport) -> Vec<(Option<String>, Table)> {
    let mut tables = vec![(Some(title(report)), notes(summary(report)))];
    if report.stages.is_empty() {
        return tables;
    }
    tables.push((None, stages(report)));
    let machines = machines(&report.machines);
    if !machines.rows.is_empty() {
        tables.push((None, machines));
    }
    let waits = waits(&report.stages);
    if !waits.rows.is_empty() {
        tables.push((None, waits));
    }
    let mut part = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            tables.push((Some(title.to_owned()), notes(lines)));
        }
    };
    part("Faults", report.faults.iter().flat_map(fault).collect());
    part("The way back, as `stepgate rollback` would go it", ways_back(&report.ways_back));
    part("What the simulation cannot know", report.unknown.iter().map(|line| format!("- {line}")).collect());
    tables
}

fn notes(notes: Vec<String>) -> Table {
    Table { notes, width: Some(WIDTH), ..Table::default() }
}

fn title(report: &RehearsalReport) -> String {
    match &report.rollout {
        Some(rollout) => format!("{}: rehearsal of rollout {rollout}", report.cluster),
        None if report.blocked.is_empty() => format!("{}: nothing to do, so nothing to rehearse", report.cluster),
        None => format!("{}: the plan is blocked, so there is nothing to rehearse", report.cluster),
    }
}

fn summary(report: &RehearsalReport) -> Vec<String> {
    let mut lines = Vec::new();
    for block in &report.blocked {
        let stage = block.stage.as_ref().map(|stage| format!("{stage}: ")).unwrap_or_default();
        lines.push(format!("blocked ({}): {stage}{}", block.code, block.message));
        lines.push(format!("  to do: {}", block.help));
    }
    let Some(found) = &report.found else { return lines };
    let ends = format!("ends: {} after {}", report.state, duration(report.seconds));
    lines.push(match &report.estimate {
        Some(spread) if spread.rehearsals > 1 => format!(
            "{ends}; of {} rehearsals half take up to {}, nine of ten up to {} ({} to {})",
            spread.rehearsals,
            duration(spread.half),
            duration(spread.most),
            duration(spread.shortest),
            duration(spread.longest)
        ),
        _ => ends,
    });
    if report.unfinished > 0 && report.state == "done" {
        lines.push(format!("unfinished: {} of the rehearsals did not come to an end", report.unfinished));
    }
    lines.extend(report.message.iter().map(|message| format!("  why: {message}")));
    lines.extend(report.help.iter().map(|help| format!("  what helps: {help}")));
    lines.push(format!("begins: {}, seed {}", report.begins, report.seed));
    lines.push(filled(found));
    lines.extend(found.differences.iter().map(|difference| format!("note: {difference}")));
    lines.extend(report.paces.iter().map(pace));
    for stage in &report.stages {
        lines.extend(stage.asks.iter().map(|asks| format!("approval: {} asks {asks}; given at once", stage.stage)));
    }
    lines
}

fn filled(found: &FoundReport) -> String {
    let by = match &found.dumped_at {
        Some(at) => format!("the cluster at {at}"),
        None => "the deploy branch alone".to_owned(),
    };
    let groups = found.groups.iter().map(|group| format!("workers/{} {}", group.name, group.machines));
    let etcd = (found.etcd > 0).then(|| format!("etcd {}", found.etcd));
    let parts = std::iter::once(format!("control plane {}", found.control_plane)).chain(etcd).chain(groups);
    format!("filled from: {by}: {}", parts.collect::<Vec<_>>().join(", "))
}

fn pace(pace: &PaceReport) -> String {
    let PaceReport { stage, shortest, longest, known_by, rollouts } = pace;
    let of = |seconds: &u64| duration(i64::try_from(*seconds).unwrap_or(i64::MAX));
    let by = match known_by {
        PaceSource::Past => format!("by {rollouts} past rollout{}", if *rollouts == 1 { "" } else { "s" }),
        PaceSource::Estimate => "by the `estimate` of the policy".to_owned(),
        PaceSource::Assumed => "assumed: no past rollout tells, and no `estimate`".to_owned(),
    };
    format!("machines of {stage}: each starts in {} to {}, {by}", of(shortest), of(longest))
}

fn stages(report: &RehearsalReport) -> Table {
    let headers = vec!["STAGE", "BEGINS", "TAKES", "HALF", "9 OF 10", "PAST", "MACHINES"];
    let row = |stage: &StageRehearsed| {
        let spread = |of: fn(&crate::rehearsal::Spread) -> i64| {
            stage.estimate.as_ref().map(|spread| duration(of(spread))).unwrap_or_default()
        };
        let past = stage.past.iter().max().and_then(|most| i64::try_from(*most).ok());
        let name = if stage.reverted { format!("{} (reverted)", stage.stage) } else { stage.stage.clone() };
        vec![
            name,
            format!("+{}", duration(stage.begun)),
            duration(stage.seconds),
            spread(|spread| spread.half),
            spread(|spread| spread.most),
            past.map(duration).unwrap_or_default(),
            if stage.machines > 0 { stage.machines.to_string() } else { String::new() },
        ]
    };
    Table { headers, rows: report.stages.iter().map(row).collect(), notes: Vec::new(), width: Some(WIDTH) }
}

/// What each stage waits for longest.
fn waits(stages: &[StageRehearsed]) -> Table {
    let row = |stage: &StageRehearsed| {
        let wait = stage.waits.first()?;
        let until = wait.until.as_ref().filter(|until| !wait.reason.contains(until.as_str()));
        let until = until.map(|until| format!(", until {until}")).unwrap_or_default();
        Some(vec![stage.stage.clone(), duration(wait.seconds), format!("{}{until}", wait.reason)])
    };
    let headers = vec!["STAGE", "WAITS", "LONGEST FOR"];
    Table { headers, rows: stages.iter().filter_map(row).collect(), notes: Vec::new(), width: Some(WIDTH) }
}

/// What made machines, with its first and its last one.
fn machines(machines: &[MachineReport]) -> Table {
    let mut owners: BTreeMap<&str, Vec<&MachineReport>> = BTreeMap::new();
    for machine in machines {
        owners.entry(&machine.of).or_default().push(machine);
    }
    let mut owners: Vec<(&str, Vec<&MachineReport>)> = owners.into_iter().collect();
    owners.sort_by_key(|(_, made)| made.first().map(|first| first.made));
    let row = |(owner, made): (&str, Vec<&MachineReport>)| {
        let moment = |moment: Option<i64>| moment.map(|it| format!("+{}", duration(it))).unwrap_or_default();
        let took = || made.iter().filter_map(|machine| Some(machine.ran?.saturating_sub(machine.made)));
        let took = took().min().zip(took().max());
        vec![
            owner.to_owned(),
            made.len().to_string(),
            moment(made.first().map(|first| first.made)),
            moment(made.iter().filter_map(|machine| machine.ran).max()),
            took.map(|(least, most)| format!("{} to {}", duration(least), duration(most))).unwrap_or_default(),
        ]
    };
    let headers = vec!["MACHINES OF", "MADE", "FIRST IS MADE", "LAST RUNS", "EACH TAKES"];
    Table { headers, rows: owners.into_iter().map(row).collect(), notes: Vec::new(), width: Some(WIDTH) }
}

fn fault(fault: &FaultRehearsed) -> Vec<String> {
    let FaultRehearsed { stage, fault: name, summary, .. } = fault;
    let mut lines = vec![format!("{stage}={name}: {summary}")];
    let after = |commit: Option<i64>, beginning: i64| match commit {
        Some(commit) => {
            format!("{} after the commit, {} after the beginning", duration(commit), duration(beginning))
        }
        None => format!("{} after the beginning", duration(beginning)),
    };
    match (&fault.held_at, fault.after) {
        (Some(held), Some(beginning)) => {
            lines.push(format!("  stops: the gate of {held}, {}", after(fault.after_commit, beginning)));
        }
        (_, Some(beginning)) => lines.push(format!("  stops: {}", after(fault.after_commit, beginning))),
        (_, None) if fault.state == "done" => lines.push("  stops: no gate".to_owned()),
        (_, None) => lines.push(format!("  stops: it is {}", fault.state)),
    }
    lines.extend(fault.why.iter().take(REASONS).map(|reason| format!("  why: {reason}")));
    lines.extend(fault.advice.first().map(|help| format!("  what helps: {help}")));
    if fault.state == "done" {
        let longer = fault.longer.filter(|longer| *longer > 0).map(|longer| format!(", {} later", duration(longer)));
        lines.push(format!("  then: it goes on by itself, and is done{}", longer.unwrap_or_default()));
    }
    lines.extend(fault.way_back.as_ref().map(|way| format!("  way back: {}", way_back(way))));
    lines
}

/// Points from which going back comes to the same stand on one line.
fn ways_back(ways: &[WayBackReport]) -> Vec<String> {
    ways.iter().map(|way| format!("after {}: {}", way.stage, way_back(way))).collect()
}

fn way_back(way: &WayBackReport) -> String {
    let machines = match way.machines {
        0 => "no machine".to_owned(),
        1 => "1 machine".to_owned(),
        machines => format!("{machines} machines"),
    };
    let barred = way.barred.first().map(String::as_str).unwrap_or_default();
    let more = match way.barred.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    match &way.down_to {
        _ if way.possible && way.stages.is_empty() => "there is nothing to put back".to_owned(),
        _ if way.possible => format!("everything, by {}; {machines}", way.stages.join(", ")),
        Some(stage) => format!("down to {stage}, by {}; {machines}; no further: {barred}{more}", way.stages.join(", ")),
        None => format!("none: {barred}{more}"),
    }
}

/// Seconds as people say them.
fn duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds.div_euclid(60), seconds.div_euclid(3600), seconds.div_euclid(86400));
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, 1..=9) if seconds % 60 > 0 => format!("{minutes} min {} s", seconds % 60),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_as_exactly_as_they_matter() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (90, "1 min 30 s"),
            (754, "12 min"),
            (7_260, "2 h 1 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }

    #[test]
    fn a_way_back_says_what_it_puts_back_and_what_bars_it() {
        let way = WayBackReport {
            stage: "workers/md-0".to_owned(),
            possible: false,
            stages: vec!["workers/md-0".to_owned()],
            machines: 1,
            barred: vec!["control-plane: no minor goes down".to_owned(), "capi: storage".to_owned()],
            down_to: Some("control-plane".to_owned()),
        };
        assert_eq!(
            way_back(&way),
            "down to control-plane, by workers/md-0; 1 machine; no further: control-plane: no minor goes down (and 1 more)"
        );
        let nowhere = WayBackReport { down_to: None, ..way.clone() };
        assert_eq!(way_back(&nowhere), "none: control-plane: no minor goes down (and 1 more)");
        assert_eq!(way_back(&WayBackReport { possible: true, ..way }), "everything, by workers/md-0; 1 machine");
    }
}
