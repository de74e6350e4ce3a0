//! Who owns what a stage changes, by the CODEOWNERS file of the deploy branch.

use domain::{CommitId, RepoPath};
use policy::ForgeKind;
use policy::{Owners, OwnersDialect, OwningEntry};
use rollout::{ApprovalScope, Plan, StageState};

use crate::reconcile::clusters::directory::ledger_path;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use crate::reconcile::proposal::body_path;
use git::GitError;
use planning::ClusterDirectory;
use planning::stage_tree::StageTree;

/// The entries that own any of these paths (below the deploy path), or why that cannot be told: of the deploy branch as it is, and as it was in the
/// commit `before`, where owners were asked for by then. Whoever changes the file does not choose who owns the change.
///
/// # Errors
/// [`GitError`] when the deploy branch cannot be read.
pub fn owners(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    before: Option<&CommitId>,
    paths: &[RepoPath],
) -> Result<Result<Vec<OwningEntry>, String>, GitError> {
    let Some(head) = reading.deploy_head() else { return Ok(Err("there is no deploy branch".to_owned())) };
    let Some(now) = at(planner, reading, head, paths)? else {
        let places = dialect(reading).places().join(", ");
        return Ok(Err(format!("the deploy branch has no {places}")));
    };
    let Some(before) = before.filter(|before| *before != head && view.befores.asks_owners(view.name.as_str())) else {
        return Ok(now);
    };
    let earlier = match at(planner, reading, before, paths)? {
        Some(entries) => entries,
        // On a branch of its own the file is put there by those who may write what is deployed; else by whoever pushes.
        None if reading.layout.branch != *planner.source_branch() => return Ok(now),
        None => Err(format!(
            "there was none in commit {before}, which the cluster is at; an approval with --override, or `--trust-policy`, lets the new one count"
        )),
    };
    Ok(now.and_then(|mut entries| {
        let new = earlier?.into_iter().filter(|entry| !entries.contains(entry)).collect::<Vec<_>>();
        entries.extend(new);
        Ok(entries)
    }))
}

fn dialect(reading: &FleetReading) -> OwnersDialect {
    match reading.fleet.policy.forge.as_ref().map(|forge| forge.kind) {
        Some(ForgeKind::GitLab) => OwnersDialect::GitLab,
        Some(ForgeKind::Gitea) => OwnersDialect::Gitea,
        Some(ForgeKind::GitHub) | None => OwnersDialect::GitHub,
    }
}

/// What the file of a commit says of these paths; none where there is no such file.
fn at(
    planner: &Planner,
    reading: &FleetReading,
    commit: &CommitId,
    paths: &[RepoPath],
) -> Result<Option<Result<Vec<OwningEntry>, String>>, GitError> {
    let dialect = dialect(reading);
    let snapshot = planner.repository().snapshot_of(commit)?;
    for place in dialect.places() {
        let path = crate::reconcile::clusters::directory::path(place)?;
        let bytes = match snapshot.read(&path) {
            Ok(bytes) => bytes,
            Err(GitError::MissingPath { .. }) => continue,
            Err(error) => return Ok(Some(Err(format!("{place}: {error}")))),
        };
        let text = String::from_utf8_lossy(&bytes);
        let read = Owners::read(&text, dialect).map_err(|error| format!("{place} on the deploy branch, {error}"));
        let prefix = reading.layout.prefix.as_ref().map(|prefix| format!("{prefix}/")).unwrap_or_default();
        let whole: Vec<String> = paths.iter().map(|path| format!("{prefix}{path}")).collect();
        return Ok(Some(read.map(|owners| owners.of(whole.iter().map(String::as_str)))));
    }
    Ok(None)
}

/// What a proposal of this scope changes.
///
/// # Errors
/// Never in practice: names were checked before.
pub fn proposed_paths(
    view: &ClusterView,
    plan: &Plan,
    parts: &[StageTree],
    scope: &ApprovalScope,
) -> Result<Vec<RepoPath>, GitError> {
    let asked = |part: &&StageTree| match scope {
        ApprovalScope::Stage(stage) => &part.stage == stage,
        ApprovalScope::Rollout => {
            plan.stages.iter().any(|stage| stage.stage == part.stage && stage.state == StageState::Pending)
        }
    };
    let changed = parts.iter().filter(asked).flat_map(|part| part.before.diff(&part.after).files.into_keys());
    let own = [ledger_path(&view.name)?, body_path(&view.name)?];
    Ok(own.into_iter().chain(changed).collect())
}

/// What a commit on the deploy branch changed of the cluster.
///
/// # Errors
/// [`GitError`] when commits cannot be read.
pub fn landed_paths(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    commit: &CommitId,
) -> Result<Vec<RepoPath>, GitError> {
    let repository = planner.repository();
    let read = |commit| {
        crate::reconcile::clusters::directory::read(&repository.deploy_snapshot(&reading.layout, commit)?, &view.name)
    };
    let after = read(commit)?;
    let before = match repository.parent(commit)? {
        Some(parent) => read(&parent)?,
        None => ClusterDirectory::absent(),
    };
    let own = [ledger_path(&view.name)?, body_path(&view.name)?];
    Ok(own.into_iter().chain(before.files.diff(&after.files).files.into_keys()).collect())
}
