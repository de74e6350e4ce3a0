//! How a rollout would go, before it goes.

use maud::{Markup, html};

use super::layout::{cluster_pages, lines, page, state, time, told};
use crate::dashboard::snapshot::Snapshot;
use crate::rehearsal::{RehearsalReport, StageRehearsed, WayBackReport};

/// The rehearsal of a cluster's plan; none while it is being made.
pub(in crate::dashboard) fn rehearsal(snapshot: &Snapshot, name: &str, report: Option<&RehearsalReport>) -> Markup {
    let content = html! {
        (cluster_pages(name, "/rehearsal"))
        @match report {
            Some(report) => (rehearsed(name, report)),
            None => {
                p {
                    "The plan is being rehearsed. "
                    a href=(format!("/clusters/{name}/rehearsal")) { "Look again" }
                    " in a moment."
                }
            }
        }
    };
    page(snapshot, "/", &format!("{name}: rehearsal"), &content)
}

fn rehearsed(name: &str, report: &RehearsalReport) -> Markup {
    html! {
        @if report.stages.is_empty() {
            p { @if report.blocked.is_empty() { "There is nothing to do." } @else { (state(&report.state)) } }
            ul { @for block in &report.blocked { li { (block.message) } } }
        } @else {
            p {
                (state(&report.state)) " after " (duration(report.seconds)) ", begun " (time(&report.begins)) " in a simulation. "
                @if let Some(spread) = &report.estimate {
                    (spread.rehearsals) " rehearsals take " (duration(spread.shortest)) " to " (duration(spread.longest)) "."
                }
            }
            @if let Some(message) = &report.message { p class="notice" { (told(message)) } }
            (stages(&report.stages))
            @if !report.ways_back.is_empty() {
                h2 { "The way back" }
                ul { @for way in &report.ways_back { li { "after " (way.stage) ": " (way_back(way)) } } }
            }
            (lines("What the simulation cannot know", &report.unknown))
            p class="soft" {
                "Faults, other seeds, and as a dump has it: " code { (format!("stepgate rehearse {name} --fault control-plane")) }
            }
        }
    }
}

fn stages(stages: &[StageRehearsed]) -> Markup {
    html! {
        div class="scroll" {
            table {
                thead { tr {
                    th scope="col" { "Stage" } th scope="col" { "Begins" } th scope="col" { "Takes" } th scope="col" { "Took" }
                    th scope="col" { "Machines" } th scope="col" { "Asks" } th scope="col" { "Waits longest for" }
                } }
                tbody {
                    @for stage in stages {
                        tr {
                            td { (stage.stage) }
                            td { "+" (duration(stage.begun)) }
                            td { (duration(stage.seconds)) }
                            td { @if let Some(took) = took(stage) { (took) } }
                            td { @if stage.machines > 0 { (stage.machines) } }
                            td { @if let Some(asks) = &stage.asks { (asks) } }
                            td { @if let Some(wait) = stage.waits.first() { (told(&wait.reason)) } }
                        }
                    }
                }
            }
        }
    }
}

/// What the stage took in the rollouts that have ended, the newest last.
fn took(stage: &StageRehearsed) -> Option<String> {
    let past = stage.past.iter().filter_map(|seconds| i64::try_from(*seconds).ok());
    Some(past.map(duration).collect::<Vec<_>>().join(", ")).filter(|told| !told.is_empty())
}

fn way_back(way: &WayBackReport) -> Markup {
    let stages = way.stages.join(", ");
    html! {
        @match &way.down_to {
            _ if way.possible => "everything can be put back",
            Some(stage) => { "down to " (stage) ", by " (stages) },
            None => "nothing can be put back",
        }
        @if !way.possible { @for barred in way.barred.iter().take(1) { ": " (told(barred)) } }
    }
}

/// Minutes, and hours where there are some.
fn duration(seconds: i64) -> String {
    let minutes = seconds.max(0).saturating_add(30).div_euclid(60);
    if minutes < 60 { format!("{minutes} min") } else { format!("{} h {} min", minutes / 60, minutes % 60) }
}
