//! Who wrote what a plan rolls out.

use std::collections::BTreeSet;

use domain::CommitId;
use policy::Person;

use crate::reconcile::clusters::directory;
use crate::reconcile::planner::{ClusterView, FleetReading, PlanError, Planner};
use git::{GitError, HistoryEntry, Limit, WrittenCommit};

/// Commits of this many at most are looked at one by one; beyond, everybody who wrote anything counts.
const LOOKED_AT: usize = 500;

/// The authors of the commits on the source branch by which `source` asks for something else of this cluster than what it was at before its
/// rollout.
///
/// # Errors
/// [`PlanError`] when commits cannot be read.
pub fn authors(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    source: &CommitId,
) -> Result<Vec<Person>, PlanError> {
    between(planner, view, planner.base_commit(reading, view)?.as_ref(), source)
}

fn between(
    planner: &Planner,
    view: &ClusterView,
    base: Option<&CommitId>,
    source: &CommitId,
) -> Result<Vec<Person>, PlanError> {
    let longest = usize::try_from(planner.repository().limits().get(Limit::Commits)).unwrap_or(usize::MAX);
    let commits = planner.repository().between(base, source, longest)?;
    let every = commits.len() > LOOKED_AT;
    let mut authors = BTreeSet::new();
    for commit in &commits {
        if every || changes(planner, view, commit)? {
            if commit.is_cut {
                let error = GitError::Library {
                    action: format!("tell who wrote commit {} together", commit.id),
                    message: "its message is too long to be read".to_owned(),
                };
                return Err(error.into());
            }
            authors.extend(commit.authors.iter().filter_map(|author| author.parse::<Person>().ok()));
        }
    }
    Ok(authors.into_iter().collect())
}

/// The authors of what the last rollout of a cluster that is done was made for.
///
/// # Errors
/// As [`authors`].
pub fn authors_of_last(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
) -> Result<Vec<Person>, PlanError> {
    let (Some(ledger), Some(head)) = (view.directory.ledger(), reading.deploy_head()) else { return Ok(Vec::new()) };
    let repository = planner.repository();
    let longest = usize::try_from(repository.limits().get(Limit::Commits)).unwrap_or(usize::MAX);
    let history = repository.history(head, &reading.layout, &view.name, longest)?;
    let is_of_it = |entry: &&HistoryEntry| entry.stage.as_ref().is_some_and(|stage| stage.rollout == ledger.rollout);
    let first = history.iter().rfind(is_of_it);
    let parent = first.map(|first| repository.parent(&first.commit)).transpose()?.flatten();
    let base = match parent {
        Some(parent) => {
            let before = directory::read(&repository.deploy_snapshot(&reading.layout, &parent)?, &view.name)?;
            before.ledger().map(|ledger| ledger.source.clone())
        }
        None => None,
    };
    between(planner, view, base.as_ref(), &ledger.source)
}

/// Whether a commit asks for something else of the cluster than each commit that it follows from: a mere merge does not.
fn changes(planner: &Planner, view: &ClusterView, commit: &WrittenCommit) -> Result<bool, PlanError> {
    if view.reaches_far {
        return Ok(true);
    }
    let asked = planner.inputs_at(&commit.id, view.name.as_str())?;
    for parent in &commit.parents {
        if planner.inputs_at(parent, view.name.as_str())? == asked {
            return Ok(false);
        }
    }
    Ok(true)
}
