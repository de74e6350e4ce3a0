//! What people changed on a proposed branch: who changed which file, and whether that becomes what is proposed.
//!
//! Where `acceptEdits` says so, an edit is taken up: the cluster is planned with it, so its plan is another one, and the proposal is made anew
//! with the edited files, a ledger that fits them, and nobody's approval. What lands then is that tree. Anything else that people change is
//! named, and holds what is proposed until it is taken back.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::RepoPath;

use super::asked;
use super::proposal_cache::ProposalCache;
use super::stack::Stack;
use crate::reconcile::planner::{ClusterView, FleetReading, PlanError, Planner};
use approvals::group::Group;
use approvals::take_up::{EditedFile, entry, keep_proposed, take_up};
use approvals::words::Subject;
use git::{Difference, GitError, Repository};
use planning::edits;

/// The most files, and the most objects of them, that are told.
const TOLD: usize = 20;

/// What people changed of what is proposed for a cluster, and the branch does not propose itself yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// It is part of the plan, and is proposed once the gate before it is open.
    TakenUp,
    /// It is not, for this reason.
    Refused(String),
}

/// A cluster's view with what people changed and may change.
#[derive(Clone, Debug)]
pub struct Considered {
    /// The view; its plan has what is taken up.
    pub view: Arc<ClusterView>,
    pub(super) edited: Option<Edited>,
}

/// Looks at what people changed of what is proposed for a cluster.
///
/// # Errors
/// [`PlanError`] when branches cannot be read, or the plan cannot be made again.
pub async fn consider(
    planner: &Planner,
    board: &ProposalCache,
    reading: &FleetReading,
    view: Arc<ClusterView>,
) -> Result<Considered, PlanError> {
    let Some((plan, scope)) = asked(&view).next().filter(|(plan, _)| plan.digest == view.plan.digest) else {
        return Ok(Considered { view, edited: None });
    };
    let branch = Group::of(&reading.fleet.policy, &view.name, plan, &scope).branch().map_err(GitError::from)?;
    match board.stack(planner, reading, &branch).await? {
        Some(stack) => on_stack(planner, reading, view, &stack),
        None => Ok(Considered { view, edited: None }),
    }
}

/// The same, of the branch as it is now.
///
/// # Errors
/// As [`consider`].
pub(super) fn consider_now(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
) -> Result<Considered, PlanError> {
    let view = Arc::new(view.clone());
    let Some((plan, scope)) = asked(&view).next().filter(|(plan, _)| plan.digest == view.plan.digest) else {
        return Ok(Considered { view, edited: None });
    };
    let branch = Group::of(&reading.fleet.policy, &view.name, plan, &scope).branch().map_err(GitError::from)?;
    planner.repository().refresh(std::slice::from_ref(&branch))?;
    match Stack::read(planner.repository(), reading, &branch)? {
        Some(stack) => on_stack(planner, reading, view, &stack),
        None => Ok(Considered { view, edited: None }),
    }
}

fn on_stack(
    planner: &Planner,
    reading: &FleetReading,
    view: Arc<ClusterView>,
    stack: &Stack,
) -> Result<Considered, PlanError> {
    let none = |view| Ok(Considered { view, edited: None });
    let (Some(stage), Some(proposed)) = (view.plan.next_stage(), stack.part(&view.name)) else { return none(view) };
    let is_edited = stack.is_edited_for(&view.name);
    if view.plan.rollback.is_some() {
        let refused = "what a cluster goes back to is a state that was verified, and stays as it was";
        return Ok(Considered { view, edited: is_edited.then(|| Edited::Refused(refused.to_owned())) });
    }
    let part = view.parts.iter().find(|part| part.stage == stage.stage && part.stage == proposed.trailers.stage);
    let (Some(part), true) = (part, is_edited || stage.policy.accept_edits) else { return none(view) };
    let mut known = Vec::new();
    if stage.policy.accept_edits {
        let snapshot = planner.repository().deploy_snapshot(&reading.layout, &proposed.commit)?;
        known = edits::of_directory(&crate::reconcile::clusters::directory::read(&snapshot, &view.name)?);
        keep_proposed(&mut known, &view.plan, stage, part);
    }
    let mut edited = None;
    if is_edited {
        edited = Some(match files(planner.repository(), reading, stack) {
            Ok(files) => match take_up(&view.name, stage, part, &files, &mut known) {
                None => Edited::TakenUp,
                Some(reason) => Edited::Refused(reason),
            },
            Err(error) if error.is_of_content() => Edited::Refused(too_much(&error)),
            Err(error) => return Err(error.into()),
        });
    }
    let is_other = !known.is_empty() || edited == Some(Edited::TakenUp);
    let view = if is_other { Arc::new(planner.edited_view(reading, &view, &known)?) } else { view };
    Ok(Considered { view, edited })
}

/// That what was changed cannot be looked at.
fn too_much(error: &GitError) -> String {
    match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

/// The files that people changed above what is proposed on a branch.
pub(super) fn files(
    repository: &Repository,
    reading: &FleetReading,
    stack: &Stack,
) -> Result<Vec<EditedFile>, GitError> {
    let Some(top) = stack.parts.last() else { return Ok(Vec::new()) };
    let (before, after) = (repository.snapshot_of(&top.commit)?, repository.snapshot_of(&stack.head)?);
    let mut authors: Vec<(String, BTreeSet<String>)> = Vec::new();
    for word in &stack.words {
        let Some(parent) = repository.parent(&word.commit)? else { continue };
        let changed = Difference::between(&repository.snapshot_of(&parent)?, &repository.snapshot_of(&word.commit)?)?;
        let paths = changed.changed.iter().map(|file| file.path.to_string()).chain(changed.unusable).collect();
        authors.push((repository.author(&word.commit)?, paths));
    }
    let by = |path: &str| {
        let mut by: Vec<String> = Vec::new();
        for (author, _) in authors.iter().filter(|(_, paths)| paths.contains(path)) {
            if !by.contains(author) {
                by.push(author.clone());
            }
        }
        by
    };
    let difference = Difference::between(&before, &after)?;
    let mut files = Vec::new();
    for file in &difference.changed {
        let whole = file.path.as_str();
        let inside = match &reading.layout.prefix {
            None => Some(file.path.clone()),
            Some(prefix) => file.path.strip_prefix(prefix.as_str()),
        };
        // What is not a file, such as a link, is read as none.
        let read = |snapshot: &git::GitSnapshot, id: Option<_>, path: &RepoPath| match id.map(|_| snapshot.read(path)) {
            Some(Err(error)) if error.is_of_content() => Err(error),
            Some(read) => Ok(read.ok()),
            None => Ok(None),
        };
        files.push(EditedFile {
            path: inside.as_ref().map_or_else(|| whole.to_owned(), ToString::to_string),
            is_inside: inside.is_some(),
            before: read(&before, file.before, &file.path)?,
            after: read(&after, file.after, &file.path)?,
            by: by(whole),
        });
    }
    let unusable = difference.unusable.into_iter();
    files.extend(unusable.map(|path| EditedFile { by: by(&path), path, is_inside: false, before: None, after: None }));
    Ok(files)
}

/// What people changed on a branch, for people: an entry for each file, and one for each of its objects that differs.
pub(super) fn told(repository: &Repository, reading: &FleetReading, stack: &Stack) -> Result<Vec<String>, GitError> {
    let files = match files(repository, reading, stack) {
        Ok(files) => files,
        Err(error) if error.is_of_content() => return Ok(vec![too_much(&error)]),
        Err(error) => return Err(error),
    };
    let mut entries = Vec::new();
    for file in files.iter().take(TOLD) {
        entries.extend(entry(&file.path, &file.by, file.before.as_ref(), file.after.as_ref()));
    }
    let more = files.len().saturating_sub(TOLD);
    if more > 0 {
        entries.push(format!("and {more} more files"));
    }
    Ok(entries)
}

/// Whether anything of what is proposed for this subject is an edit that nobody has looked at yet.
pub(super) fn is_taken_up_from(edited: Option<&Edited>, stack: Option<&Stack>, subject: &Subject) -> bool {
    edited == Some(&Edited::TakenUp)
        && stack.and_then(|stack| stack.part(&subject.cluster)).is_some_and(|part| part.trailers.plan != subject.plan)
}
