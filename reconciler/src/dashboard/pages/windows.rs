//! When stages may begin.

use maud::{Markup, html};

use super::layout::{lines, page, state, time, told};
use crate::dashboard::detail::{SpanReport, WindowReport, WindowsReport};
use crate::dashboard::snapshot::Snapshot;

/// How many clusters of a group are named.
const NAMED: usize = 12;

/// How many openings are shown.
const OPENINGS: usize = 15;

/// Windows and freezes of the next weeks.
pub(in crate::dashboard) fn windows(snapshot: &Snapshot, windows: &WindowsReport) -> Markup {
    let content = html! {
        p { a href="/calendar.ics" { "Subscribe to the calendar" } }
        @for group in &windows.groups { (group_of(group)) }
    };
    page(snapshot, "/windows", "Windows", &content)
}

fn group_of(group: &WindowReport) -> Markup {
    let rest = group.clusters.len().saturating_sub(NAMED);
    html! {
        h2 {
            @for (index, cluster) in group.clusters.iter().take(NAMED).enumerate() {
                @if index > 0 { ", " }
                (cluster)
            }
            @if rest > 0 { " and " (rest) " more" }
        }
        p {
            @if group.open { (state("open")) } @else { (state("closed")) }
            @if let Some(closed) = &group.closed { ": " (told(closed)) }
            @if let Some(next) = &group.next_open { "; opens " (time(next)) }
        }
        @if group.windows.is_empty() { p { "No windows: stages begin at any time." } }
        (lines("Windows", &group.windows))
        (spans("Openings", &group.spans))
        (spans("Freezes", &group.freezes))
    }
}

fn spans(title: &str, spans: &[SpanReport]) -> Markup {
    html! {
        @if !spans.is_empty() {
            div class="scroll" {
                table {
                    caption class="soft" { (title) }
                    thead { tr { th scope="col" { "From" } th scope="col" { "To" } th scope="col" { "What" } } }
                    tbody {
                        @for span in spans.iter().take(OPENINGS) {
                            tr { td { (span.from) } td { (span.to) } td { (span.what) } }
                        }
                    }
                }
            }
            @if spans.len() > OPENINGS { p class="soft" { "and " (spans.len() - OPENINGS) " more in the calendar" } }
        }
    }
}
