//! What a rollout would do, and what of it differs.

use maud::{Markup, html};

use super::fleet::version;
use super::layout::{cluster_pages, lines, page, state, told};
use crate::dashboard::snapshot::Snapshot;
use crate::report::{ClusterPlan, DiffReport, StageReport};

/// How many bytes of one file's differences a page shows.
const LONGEST_DIFF: usize = 64 << 10;

/// How many bytes of differences a page shows.
const LONGEST_PAGE: usize = 512 << 10;

/// The plan of a cluster.
pub(in crate::dashboard) fn plan(snapshot: &Snapshot, name: &str, plan: &ClusterPlan) -> Markup {
    let (skipped, others): (Vec<_>, Vec<_>) = plan.stages.iter().partition(|stage| stage.state == "skipped");
    let content = html! {
        (cluster_pages(name, "/plan"))
        @if plan.commits == 0 && plan.blocked.is_empty() { p { "Nothing is left to be done." } }
        @else {
            p {
                (plan.commits) " commits are left, " (plan.machines) " machines are replaced."
                @if let Some(time) = &plan.expected_time {
                    " It takes about " (time.minutes) " min, as " (time.rollout) " did"
                    @if !time.complete { ", and longer, since some stages were no part of it" }
                    "."
                }
            }
        }
        @for block in &plan.blocked {
            div class="notice" {
                strong {
                    (state("blocked")) " "
                    @if let Some(stage) = &block.stage { (stage) ": " }
                    (block.message)
                }
                p { (told(&block.help)) }
            }
        }
        (lines("Worth knowing", &plan.warnings))
        @if !plan.risk_groups.is_empty() {
            h2 { "Risks" }
            ul { @for group in &plan.risk_groups { li { (group.kind) ": " (group.text) } } }
        }
        @for stage in others { (stage_of(stage)) }
        @if !skipped.is_empty() {
            details id="skipped" {
                summary { "Stages without a change (" (skipped.len()) ")" }
                ul { @for stage in skipped { li { (stage.name) @for reason in &stage.reasons { ": " (reason) } } } }
            }
        }
    };
    page(snapshot, "/", &format!("{name}: plan"), &content)
}

fn stage_of(stage: &StageReport) -> Markup {
    html! {
        h2 { (stage.name) " " (state(&stage.state)) }
        @if !stage.changes.is_empty() {
            ul { @for change in &stage.changes { li { (version(change)) " " span class="soft" { (change.class) } } } }
        }
        dl {
            @for reason in &stage.reasons { dt { "Why" } dd { (reason) } }
            @if stage.machines > 0 { dt { "Machines" } dd { (stage.machines) } }
            @if stage.uncounted_machines {
                dt { "Machines" } dd { "some whose number the specification does not tell" }
            }
            @for door in &stage.one_way { dt { "One way" } dd { (door) } }
            @if stage.approval != "none" {
                dt { "Approval" }
                dd { "for the " (stage.approval) @if let Some(approvers) = &stage.approvers { ": " (approvers) } }
            }
        }
        @if !stage.risks.is_empty() {
            details id={ "risks-" (stage.name.replace('/', "-")) } {
                summary { "Risks (" (stage.risks.len()) ")" }
                ul { @for risk in &stage.risks { li { (risk) } } }
            }
        }
    }
}

/// What the stages change, file by file. What is long is cut, and where all of it is to be had is said.
pub(in crate::dashboard) fn diff(snapshot: &Snapshot, name: &str, diff: &DiffReport) -> Markup {
    let mut room = LONGEST_PAGE;
    let shown = |text: &'_ str| {
        let shown = cut(text, LONGEST_DIFF.min(room)).len();
        room = room.saturating_sub(shown);
        shown
    };
    let lengths: Vec<usize> =
        diff.files.iter().map(|file| file.diff.as_deref().unwrap_or_default()).map(shown).collect();
    let content = html! {
        (cluster_pages(name, "/diff"))
        @if diff.files.is_empty() { p { "Nothing differs." } }
        @for (index, (file, length)) in diff.files.iter().zip(lengths).enumerate() {
            @let text = file.diff.as_deref().unwrap_or_default();
            @let shown = text.get(..length).unwrap_or_default();
            details id={ "file-" (index) } open[index < 3] {
                summary { (file.stage) ": " code { (file.path) } " " span class="soft" { (file.change) } }
                pre { @for line in shown.lines() { (line_of(line)) "\n" } }
                @if shown.len() < text.len() {
                    p { "Cut here: " code { (format!("stepgate diff --cluster {name}")) } " shows all of it." }
                }
            }
        }
    };
    page(snapshot, "/", &format!("{name}: diff"), &content)
}

fn line_of(line: &str) -> Markup {
    html! {
        @if line.starts_with('+') { ins { (line) } } @else if line.starts_with('-') { del { (line) } } @else { (line) }
    }
}

/// The first lines of a text, at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = text.bytes().take(most).rposition(|byte| byte == b'\n').map_or(0, |at| at + 1);
    text.get(..end).unwrap_or_default()
}
