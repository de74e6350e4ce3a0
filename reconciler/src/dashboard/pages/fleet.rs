//! The fleet: one row a cluster, filtered, sorted and cut into pages here.

use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{page, state, time, told};
use crate::dashboard::snapshot::{ClusterRow, Snapshot};
use crate::report::{ChangeReport, WaveReport};

/// How many clusters a page shows.
const ROWS: usize = 50;

/// How many clusters of a wave are named in one place.
const SHOWN: usize = 5;

/// The states, those that people look for first.
const STATES: [&str; 6] = ["failed", "held", "blocked", "waiting", "running", "done"];

/// Which clusters are shown, and in which order.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::dashboard) struct FleetQuery {
    /// Part of a name.
    name: String,
    /// A state.
    state: String,
    /// An environment.
    environment: String,
    /// A wave.
    wave: String,
    /// `name`, `state` or `since`.
    sort: String,
    /// The page, from 1.
    page: usize,
}

/// The page of the fleet.
pub(in crate::dashboard) fn fleet(snapshot: &Snapshot, query: &FleetQuery) -> Markup {
    let found = found(snapshot, query);
    let pages = found.len().div_ceil(ROWS).max(1);
    let number = query.page.clamp(1, pages);
    let rows = found.iter().skip((number - 1) * ROWS).take(ROWS);
    let content = html! {
        (counts(snapshot))
        (waves(snapshot))
        (filter(snapshot, query))
        @if found.is_empty() {
            p { "No cluster fits." }
        } @else {
            div class="scroll" {
                table {
                    caption class="soft" { (found.len()) " of " (snapshot.clusters.len()) " clusters" }
                    thead { tr {
                        th scope="col" { "Cluster" } th scope="col" { "State" } th scope="col" { "Versions" }
                        th scope="col" { "Stage" } th scope="col" { "Since" } th scope="col" { "Waits for" }
                    } }
                    tbody { @for row in rows { (line(row)) } }
                }
            }
            (turn(query, number, pages))
        }
    };
    page(snapshot, "/", "Fleet", &content)
}

fn found<'a>(snapshot: &'a Snapshot, query: &FleetQuery) -> Vec<&'a ClusterRow> {
    let fits = |row: &&ClusterRow| {
        let is = |wanted: &str, value: Option<&str>| wanted.is_empty() || value == Some(wanted);
        row.status.cluster.contains(&query.name)
            && is(&query.state, Some(&row.status.state))
            && is(&query.environment, row.environment.as_deref())
            && is(&query.wave, row.wave.as_deref())
    };
    let mut found: Vec<&ClusterRow> = snapshot.clusters.iter().filter(fits).collect();
    let weight = |row: &ClusterRow| STATES.iter().position(|state| *state == row.status.state);
    match query.sort.as_str() {
        "name" => {}
        "since" => found.sort_by_key(|row| (row.since.is_none(), row.since.as_deref())),
        _ => found.sort_by_key(|row| weight(row)),
    }
    found
}

fn counts(snapshot: &Snapshot) -> Markup {
    let count = |word: &str| snapshot.clusters.iter().filter(|row| row.status.state == word).count();
    html! {
        ul class="counts" aria-label="Clusters by state" {
            @for word in STATES {
                @let number = count(word);
                @if number > 0 { li { a href={ "/?state=" (word) } { (state(word)) " " (number) } } }
            }
        }
    }
}

/// The waves, in their order: where each stands, and who keeps it.
fn waves(snapshot: &Snapshot) -> Markup {
    html! {
        @if !snapshot.waves.is_empty() {
            div class="scroll" {
                table {
                    caption class="soft" { "Waves" }
                    thead { tr {
                        th scope="col" { "Wave" } th scope="col" { "State" } th scope="col" { "Done" }
                        th scope="col" { "Under way" } th scope="col" { "Failed" } th scope="col" { "Without" }
                    } }
                    tbody { @for wave in &snapshot.waves { (wave_line(wave)) } }
                }
            }
        }
    }
}

fn wave_line(wave: &WaveReport) -> Markup {
    let cluster = |name: &str| html! { a href={ "/clusters/" (name) } { (name) } };
    html! {
        tr {
            th scope="row" { a href={ "/?wave=" (encoded(&wave.wave)) } { (wave.wave) } }
            td {
                (state(&wave.state))
                @if let Some(until) = &wave.until { " " span class="soft" { "until " (time(until)) } }
            }
            td { (wave.done) " of " (wave.clusters) }
            td {
                (wave.under_way.len()) " of " (wave.places)
                @for name in wave.under_way.iter().take(SHOWN) { " " (cluster(name)) }
                (more(wave.under_way.len()))
            }
            td {
                (wave.failed.len()) " of " (wave.tolerated_failures) " that may"
                @for failed in wave.failed.iter().take(SHOWN) { br; (cluster(&failed.cluster)) ": " (failed.why) }
                (more(wave.failed.len()))
                @if let Some(advice) = &wave.advice { br; span class="soft" { (told(advice)) } }
            }
            td {
                @for skip in wave.skipped.iter().take(SHOWN) {
                    (cluster(&skip.cluster)) ": " (skip.reason) span class="soft" { ", " (skip.by) ", until " (time(&skip.until)) } br;
                }
                (more(wave.skipped.len()))
            }
        }
    }
}

fn more(count: usize) -> Markup {
    html! { @if count > SHOWN { " " span class="soft" { "and " (count - SHOWN) " more" } } }
}

fn filter(snapshot: &Snapshot, query: &FleetQuery) -> Markup {
    let named = |value: fn(&ClusterRow) -> Option<&String>| {
        let mut names: Vec<&String> = snapshot.clusters.iter().filter_map(value).collect();
        names.sort();
        names.dedup();
        names
    };
    let choice = |label: &str, name: &str, chosen: &str, options: &[&String]| {
        html! {
            @if !options.is_empty() {
                label { (label)
                    select name=(name) {
                        option value="" { "any" }
                        @for option in options { option value=(option) selected[*option == chosen] { (option) } }
                    }
                }
            }
        }
    };
    let states: Vec<String> = STATES.iter().map(|state| (*state).to_owned()).collect();
    html! {
        form method="get" action="/" role="search" {
            label { "Name" input type="search" name="name" value=(query.name); }
            (choice("State", "state", &query.state, &states.iter().collect::<Vec<_>>()))
            (choice("Environment", "environment", &query.environment, &named(|row| row.environment.as_ref())))
            (choice("Wave", "wave", &query.wave, &named(|row| row.wave.as_ref())))
            label { "Sort by"
                select name="sort" {
                    @for by in ["state", "name", "since"] { option value=(by) selected[by == query.sort] { (by) } }
                }
            }
            button { "Show" }
        }
    }
}

fn line(row: &ClusterRow) -> Markup {
    let status = &row.status;
    html! {
        tr {
            th scope="row" {
                a id={ "cluster-" (status.cluster) } href={ "/clusters/" (status.cluster) } { (status.cluster) }
                @for name in [&row.environment, &row.wave].into_iter().flatten() { " " span class="soft" { (name) } }
            }
            td { (state(&status.state)) }
            td { (versions(row)) }
            td {
                @if let Some(next) = &status.next { (next) } @else if let Some(last) = &status.committed { (last) }
                @if row.stages > 0 { " " span class="soft" { (row.stages_done) " of " (row.stages) } }
            }
            td { @if let Some(since) = &row.since { (time(since)) } }
            td {
                (told(&status.message))
                @if let Some(until) = &status.until { " " span class="soft" { "until " (time(until)) } }
                @if let Some(tanzu) = &status.tanzu { br; span class="soft" { (told(&tanzu.line)) } }
            }
        }
    }
}

fn versions(row: &ClusterRow) -> Markup {
    html! {
        @for (index, change) in row.changes.iter().enumerate() {
            @if index > 0 { br; }
            (version(change))
        }
        @if row.changes.is_empty() {
            @if let Some(kubernetes) = &row.kubernetes { "Kubernetes " (kubernetes) }
        }
    }
}

/// A component from its old to its new version.
pub(super) fn version(change: &ChangeReport) -> Markup {
    let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "none".to_owned());
    html! { (change.component) " " (version(&change.old_version)) " → " (version(&change.new_version)) }
}

fn turn(query: &FleetQuery, number: usize, pages: usize) -> Markup {
    let address = |page: usize| {
        let pairs = [
            ("name", query.name.as_str()),
            ("state", &query.state),
            ("environment", &query.environment),
            ("wave", &query.wave),
            ("sort", &query.sort),
        ];
        let kept = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        let kept = kept.map(|(name, value)| format!("{name}={}&", encoded(value)));
        format!("/?{}page={page}", kept.collect::<String>())
    };
    html! {
        @if pages > 1 {
            nav class="pages" aria-label="Pages of the list" {
                @if number > 1 { a id="previous" rel="prev" href=(address(number - 1)) { "Previous" } }
                span { "Page " (number) " of " (pages) }
                @if number < pages { a id="next" rel="next" href=(address(number + 1)) { "Next" } }
            }
        }
    }
}

/// A value of a query string.
pub(super) fn encoded(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}
