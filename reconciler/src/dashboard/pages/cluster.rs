//! One cluster: what it waits for, its rollout, its commits.

use maud::{Markup, html};

use super::fleet::version;
use super::graph;
use super::layout::{cluster_pages, lines, page, state, time, told};
use super::lists::commit_table;
use crate::dashboard::detail::{ClusterReport, RecordReport, RolloutReport};
use crate::dashboard::snapshot::Snapshot;
use crate::report::HistoryReport;

/// What a cluster waits for: first why, then how far it is.
pub(in crate::dashboard) fn cluster(snapshot: &Snapshot, name: &str, report: &ClusterReport) -> Markup {
    let why = &report.why;
    let row = snapshot.row(name);
    let content = html! {
        (cluster_pages(name, ""))
        p { (state(&why.state)) @if let Some(stage) = &why.stage { " at " strong { (stage) } } }
        (lines("Why", &why.reasons))
        @if !why.advice.is_empty() {
            h2 { "What helps" }
            ul { @for advice in &why.advice { li { (told(advice)) } } }
        }
        dl {
            @if let Some(rollout) = &why.rollout {
                dt { "Rollout" } dd { a href={ "/clusters/" (name) "/rollout" } { (rollout) } }
            }
            @if let Some(chain) = &why.chain { dt { "Chain" } dd { (chain) } }
            @if let Some(since) = &why.since { dt { "Since" } dd { (time(since)) } }
            @if let Some(until) = &why.until { dt { "Until" } dd { (time(until)) } }
            @if let Some(row) = row {
                @for change in &row.changes { dt { "Changes" } dd { (version(change)) } }
                @if let Some(kubernetes) = &row.kubernetes { dt { "Kubernetes" } dd { (kubernetes) } }
                @if let Some(wave) = &row.wave { dt { "Wave" } dd { (wave) (wave_state(snapshot, wave)) } }
                @if let Some(environment) = &row.environment { dt { "Environment" } dd { (environment) } }
                @if let Some(branch) = &row.proposed { dt { "Proposed" } dd { code { (branch) } } }
                @if let Some(rollback) = &row.status.rollback { dt { "Rollback" } dd { (told(rollback)) } }
            }
        }
        (lines("Approved", &why.approvals))
        @if let Some(aside) = &why.overridden { (lines("Rules set aside", std::slice::from_ref(aside))) }
        @if let Some(rollout) = &report.rollout_record {
            @if !rollout.stages.is_empty() { h2 { "Stages" } (graph::stages(&rollout.stages)) }
        }
    };
    page(snapshot, "/", name, &content)
}

/// Where a wave stands.
fn wave_state(snapshot: &Snapshot, name: &str) -> Markup {
    let wave = snapshot.waves.iter().find(|wave| wave.wave == name);
    html! { @if let Some(wave) = wave { " " (state(&wave.state)) " " span class="soft" { (wave.done) " of " (wave.clusters) " done" } } }
}

/// The rollout of a cluster, commit by commit.
pub(in crate::dashboard) fn rollout(snapshot: &Snapshot, name: &str, rollout: &Option<RolloutReport>) -> Markup {
    let content = html! {
        (cluster_pages(name, "/rollout"))
        @match rollout {
            None => p { "Nothing of this cluster was rolled out yet." },
            Some(rollout) => {
                p {
                    (state(&rollout.state)) " " (rollout.rollout) ", begun " (time(&rollout.started_at))
                    @if let Some(finished) = &rollout.finished_at { ", closed " (time(finished)) }
                }
                (graph::stages(&rollout.stages))
                @for record in &rollout.records { (record_of(record)) }
                (lines("What verify saw", &rollout.verified))
            }
        }
    };
    page(snapshot, "/", &format!("{name}: rollout"), &content)
}

fn record_of(record: &RecordReport) -> Markup {
    html! {
        h2 {
            (record.stage) " " span class="soft" {
                (record.kind)
                @if record.attempt > 1 { ", attempt " (record.attempt) }
                ", " (time(&record.committed_at))
            }
        }
        @if !record.reasons.is_empty() { ul { @for reason in &record.reasons { li { (told(reason)) } } } }
        @if !record.one_way.is_empty() {
            p { "Cannot be undone from here on:" }
            ul { @for door in &record.one_way { li { (door) } } }
        }
        @if !record.evidence.is_empty() {
            details id={ "evidence-" (record.stage.replace('/', "-")) "-" (record.kind) "-" (record.attempt) } {
                summary { "What the gate before it saw (" (record.evidence.len()) ")" }
                ul { @for fact in &record.evidence { li { (told(fact)) } } }
            }
        }
    }
}

/// The commits of a cluster's directory.
pub(in crate::dashboard) fn commits(snapshot: &Snapshot, name: &str, history: &HistoryReport) -> Markup {
    let content = html! { (cluster_pages(name, "/history")) (commit_table(&history.commits)) };
    page(snapshot, "/", &format!("{name}: history"), &content)
}
