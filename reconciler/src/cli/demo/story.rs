//! A demonstration as one screen: the bump, the stages, what opened one of them, what that committed, and how to go on.

use std::path::Path;

use git::{Difference, GitError, Repository, RepositoryLocation};

use super::hours;
use crate::cli::common::wrap;
use crate::cli::terminal::paint::{self, ATTENTION, NAME, SOFT, painted};
use crate::demo::{ClusterResult, DemoReport, HeldResult, StageResult};
use crate::report::ClusterPlan;

/// How many columns it takes.
const WIDTH: usize = 100;

/// How many facts, and how many files, are shown.
const SHOWN: usize = 3;

/// The story of a demonstration.
pub(super) fn told(report: &DemoReport) -> String {
    let mut lines = vec![outcome(report)];
    if report.plans.iter().any(|plan| plan.commits > 0) {
        lines.extend(bump(&report.plans));
    }
    lines.push(String::new());
    lines.extend(report.clusters.iter().flat_map(cluster));
    if let Some(held) = &report.held {
        lines.push(String::new());
        lines.extend(broken(held));
    }
    if let Some((cluster, stage)) = example(report) {
        lines.push(String::new());
        lines.extend(gate(report, cluster, stage));
    }
    lines.push(String::new());
    lines.extend(going_on(report));
    lines.iter().map(|line| format!("{}\n", wrap::words(line, WIDTH))).collect()
}

fn outcome(report: &DemoReport) -> String {
    let outcome = if report.complete { "every cluster is done" } else { "not every cluster is done" };
    let took = format!("{} of virtual time, {:.1} s of yours", hours(report.virtual_seconds), report.seconds);
    if report.commits == 0 && report.complete {
        return format!(
            "{outcome}: nothing to commit, the deploy branch equals what the source branch asks for; {took}"
        );
    }
    format!("{outcome}: {} commits, {took}", report.commits)
}

/// What the bump means: versions, machines, and what could not be taken back.
fn bump(plans: &[ClusterPlan]) -> Vec<String> {
    let mut changes: Vec<String> = Vec::new();
    for change in plans.iter().flat_map(|plan| &plan.stages).flat_map(|stage| &stage.changes) {
        if let (Some(old), Some(new)) = (&change.old_version, &change.new_version)
            && old != new
        {
            let told = format!("{} {old} to {new}", change.component);
            if !changes.contains(&told) {
                changes.push(told);
            }
        }
    }
    changes.sort_by_key(|change| !change.starts_with("kubernetes "));
    let machines: u32 = plans.iter().map(|plan| plan.machines).sum();
    let mut doors: Vec<&str> =
        plans.iter().flat_map(|plan| &plan.stages).flat_map(|stage| &stage.one_way).map(String::as_str).collect();
    doors.dedup();
    let more = changes.len().saturating_sub(SHOWN);
    changes.truncate(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let label = |text: &str| painted(NAME, text);
    let mut lines = vec![format!("{} {}{more}; {machines} machines", label("the bump:"), changes.join(", "))];
    lines.extend(doors.first().map(|door| format!("{} {door}", painted(ATTENTION, "no way back:"))));
    lines
}

/// A cluster, and its stages in the order in which they were committed.
fn cluster(cluster: &ClusterResult) -> Vec<String> {
    let state = match paint::of_state(&cluster.state) {
        Some((symbol, style)) => painted(style, &format!("{symbol} {}", cluster.state)),
        None => cluster.state.clone(),
    };
    let stage = |stage: &StageResult| {
        if stage.reverted { format!("{} (taken back)", stage.stage) } else { stage.stage.clone() }
    };
    let stages: Vec<String> = cluster.stages.iter().map(stage).collect();
    let mut lines = vec![format!("{} {state} {}", painted(NAME, &cluster.cluster), stages.join(" ▸ "))];
    if cluster.state != "done" {
        lines.push(format!("  why: {}", cluster.message));
        lines.extend(cluster.help.iter().map(|help| format!("  what helps: {help}")));
    }
    lines
}

/// What was broken on purpose, and what was said of it.
fn broken(held: &HeldResult) -> Vec<String> {
    let HeldResult { cluster, stage, fault, state, .. } = held;
    let mut lines =
        vec![format!("{} {stage} of {cluster}, by {fault}: it was {state}", painted(ATTENTION, "broken on purpose:"))];
    lines.extend(held.reasons.iter().take(SHOWN).map(|reason| format!("  why: {reason}")));
    lines.extend(held.help.iter().map(|help| format!("  what helps: {help}")));
    lines.push("  once repaired, it went on where it stood".to_owned());
    lines
}

/// A stage that a gate has opened: of the first cluster the second one, since nothing is committed before the first.
fn example(report: &DemoReport) -> Option<(&ClusterResult, &StageResult)> {
    let cluster = report.clusters.iter().find(|cluster| !cluster.stages.is_empty())?;
    Some((cluster, cluster.stages.get(1).or_else(|| cluster.stages.first())?))
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// What opened a stage, and what its commit changed.
fn gate(report: &DemoReport, cluster: &ClusterResult, stage: &StageResult) -> Vec<String> {
    let label = painted(NAME, &format!("what opened {} of {}:", stage.stage, cluster.cluster));
    let mut lines = vec![format!("{label} {} facts, all of the commit before", stage.evidence.len())];
    lines.extend(stage.evidence.iter().take(SHOWN).map(|fact| format!("  {fact}")));
    let label = painted(NAME, &format!("what it committed as {}:", short(&stage.commit)));
    // Where the repository cannot be read, git tells.
    let files = files(Path::new(&report.repository), &stage.commit).unwrap_or_default();
    let more = match files.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let files: Vec<&str> = files.iter().take(SHOWN).map(String::as_str).collect();
    lines.push(format!("{label} {}{more}", files.join(", ")));
    lines
}

/// The files that a commit changes.
fn files(repository: &Path, commit: &str) -> Result<Vec<String>, GitError> {
    let repository = Repository::open(&RepositoryLocation::Local(repository.to_owned()))?;
    let commit = repository.revision(commit)?;
    let Some(parent) = repository.parent(&commit)? else { return Ok(Vec::new()) };
    let difference = Difference::between(&repository.snapshot_of(&parent)?, &repository.snapshot_of(&commit)?)?;
    Ok(difference.changed.into_iter().map(|file| file.path.to_string()).collect())
}

/// Three commands to go on with.
fn going_on(report: &DemoReport) -> Vec<String> {
    let place = &report.repository;
    let mut lines = vec![format!("{} everything is kept in {}", painted(NAME, "go on:"), report.folder)];
    let rollout = report.plans.iter().find(|plan| plan.commits > 0).and_then(|plan| plan.rollout_id.as_ref());
    lines.extend(rollout.map(|rollout| format!("  stepgate show {rollout} --repo {place}")));
    lines.push(format!("  stepgate events --repo {place}"));
    lines.push(match example(report) {
        Some((_, stage)) => format!("  git -C {place} show --stat {}", short(&stage.commit)),
        None => format!("  git -C {place} log --stat deploy"),
    });
    lines
        .push(painted(SOFT, "in a browser: `stepgate demo --web`; with a fault: `stepgate demo --break cert-manager`"));
    lines
}
