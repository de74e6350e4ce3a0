//! Pages that are lists: approvals, history, problems; and what answers here.

use maud::{Markup, html};

use super::fleet::encoded;
use super::layout::{page, short, time, told};
use crate::dashboard::detail::{AboutReport, ApprovalsReport, ProblemsReport};
use crate::dashboard::snapshot::Snapshot;
use crate::report::{CommitReport, HistoryReport};

/// Who is asked for what.
pub(in crate::dashboard) fn approvals(snapshot: &Snapshot, approvals: &ApprovalsReport) -> Markup {
    let content = html! {
        @if approvals.branches.is_empty() && approvals.waves.is_empty() { p { "Nobody is asked for anything." } }
        @for wave in &approvals.waves {
            h2 { a href={ "/?wave=" (encoded(&wave.wave)) } { "Wave " (wave.wave) } }
            p { (told(&wave.line)) }
            @if let Some(advice) = &wave.advice { p class="soft" { (told(advice)) } }
        }
        @for asked in &approvals.branches {
            h2 {
            code { (asked.branch) }
            @if let Some(stage) = &asked.stage { " " span class="soft" { "stage " (stage) } }
        }
            ul {
                @for waits in &asked.clusters {
                    li { a href={ "/clusters/" (waits.cluster) } { (waits.cluster) } ": " (told(&waits.waits)) }
                }
            }
            @if let Some(first) = asked.clusters.first() {
            p class="soft" {
                "Without a forge: " a href={ "/clusters/" (first.cluster) "/actions" } { "its actions" } ", or "
                code { (format!("stepgate approve {}", first.cluster)) }
            }
            }
        }
    };
    page(snapshot, "/approvals", "Approvals", &content)
}

/// The newest commits.
pub(in crate::dashboard) fn history(snapshot: &Snapshot, history: &HistoryReport) -> Markup {
    page(snapshot, "/history", "History", &commit_table(&history.commits))
}

/// Commits, with what opened them.
pub(super) fn commit_table(commits: &[CommitReport]) -> Markup {
    html! {
        @if commits.is_empty() { p { "No commits yet." } } @else {
            div class="scroll" {
                table {
                    thead { tr {
                        th scope="col" { "When" } th scope="col" { "Cluster" } th scope="col" { "Stage" }
                        th scope="col" { "Commit" } th scope="col" { "By" } th scope="col" { "What" }
                    } }
                    tbody {
                        @for commit in commits {
                            tr {
                                td { (time(&commit.committed_at)) }
                                td { a href={ "/clusters/" (commit.cluster) } { (commit.cluster) } }
                                td { @match &commit.stage { Some(stage) => (stage), None => strong { "foreign" } } }
                                td { code { (short(&commit.commit)) } }
                                td { (commit.author) }
                                td {
                                    (commit.subject)
                                    @if !commit.evidence.is_empty() {
                                        details id={ "commit-" (commit.cluster) "-" (short(&commit.commit)) } {
                                            summary { "Evidence (" (commit.evidence.len()) ")" }
                                            ul { @for fact in &commit.evidence { li { (told(fact)) } } }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What is wrong with the fleet repository.
pub(in crate::dashboard) fn problems(snapshot: &Snapshot, report: &ProblemsReport) -> Markup {
    let failed = snapshot.clusters.iter().filter(|row| row.status.state == "failed");
    let failed: Vec<_> = failed.collect();
    let content = html! {
        @if report.problems.is_empty() && failed.is_empty() { p { "Nothing is wrong with the fleet repository." } }
        @if !failed.is_empty() {
            h2 { "Clusters that failed" }
            ul {
                @for row in failed {
                    @let name = &row.status.cluster;
                    li { a href={ "/clusters/" (name) } { (name) } ": " (told(&row.status.message)) }
                }
            }
        }
        @if !report.problems.is_empty() {
            div class="scroll" {
                table {
                    thead { tr {
                        th scope="col" { "Severity" } th scope="col" { "Where" } th scope="col" { "Cluster" }
                        th scope="col" { "What" }
                    } }
                    tbody {
                        @for problem in &report.problems {
                            tr {
                                td { (problem.severity) }
                                td { code { (problem.place()) } }
                                td { @if let Some(cluster) = &problem.cluster { (cluster) } }
                                td {
                                    (problem.message)
                                    @if let Some(hint) = &problem.hint { p class="soft" { (told(hint)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    page(snapshot, "/problems", "Problems", &content)
}

/// What answers here.
pub(in crate::dashboard) fn about(snapshot: &Snapshot, about: &AboutReport) -> Markup {
    let content = html! {
        dl {
            dt { "Version" } dd { (about.version) }
            dt { "Clusters" } dd { (about.clusters) }
            dt { "Forge" }
            dd { @match &about.forge { Some(forge) => (forge), None => "none: people approve by commits" } }
            dt { "Commits" } dd { @if about.signed { "signed" } @else { "not signed" } }
            dt { "This page" }
            dd { "shows what git and clusters say; people act on the page Actions of a cluster, where they are known" }
        }
        p {
            a href="/fleet.json" { "The fleet as JSON" } " · "
            a href="/calendar.ics" { "Windows as a calendar" } " · "
            a href="/logout" { "Log out" }
        }
    };
    page(snapshot, "/about", "About", &content)
}
