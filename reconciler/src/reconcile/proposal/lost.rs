//! What goes from a proposed branch when it is made anew: what people changed and the new commit does not have, and commits in Stepgate's name
//! that Stepgate would not make. The proposal says so, since nothing else keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::ClusterName;
use rollout::Plan;

use super::ask::Position;
use super::body_path;
use super::close::Left;
use super::edited::files;
use super::stack::{Proposal, Stack};
use crate::reconcile::Controller;
use crate::reconcile::planner::{ClusterView, FleetReading};
use approvals::take_up::names;
use approvals::text::objects::plain;
use approvals::text::sections::Sections;
use approvals::text::truncate::line;
use domain::BranchName;
use git::{GitError, Repository};
use planning::edits::{Edit, file_digest, objection, of_directory};
use planning::stage_tree::StageTree;
use planning::{cluster_folder, flux_folder};

/// The most lines that one proposal says of it.
const TOLD: usize = 20;

/// A file as somebody wanted it, and who; none where it was to go.
type Wanted = (Vec<String>, Option<Arc<[u8]>>);

impl Controller {
    /// What a commit that is made anew does not have of what lies on its branch, a line each, or lay there until it was withdrawn. `forged` is
    /// what lies there in Stepgate's name.
    ///
    /// # Errors
    /// [`GitError`] when commits cannot be read.
    pub(super) fn lost(
        &self,
        reading: &FleetReading,
        (branch, stack, forged): (&BranchName, Option<&Stack>, Option<&Proposal>),
        view: &ClusterView,
        planned: (&Plan, &[StageTree]),
    ) -> Result<Vec<String>, GitError> {
        let mut lines = lost(self.planner.repository(), reading, view, planned, stack, forged, false)?;
        if stack.and_then(|stack| stack.part(&view.name)).is_none() {
            let known = self.memory(&view.name).lost.filter(|(of, _)| of == branch);
            lines.extend(known.into_iter().flat_map(|(_, lines)| lines));
        }
        self.remember(&view.name, |memory| memory.lost = None);
        Ok(lines)
    }

    /// What goes with a branch that is withdrawn, a line each. The next proposal there says it too, unless this process dies before.
    ///
    /// # Errors
    /// As [`Controller::lost`].
    pub(super) fn lost_with(
        &self,
        reading: &FleetReading,
        stack: &Stack,
        positions: &BTreeMap<ClusterName, Position>,
    ) -> Result<Vec<String>, GitError> {
        let mut all = Vec::new();
        for part in &stack.parts {
            let cluster = &part.trailers.cluster;
            let Some(position) = positions.get(cluster) else { continue };
            if self.left(reading, part, positions)? == Left::Landed {
                continue;
            }
            let planned = (position.view.plan.as_ref(), position.view.parts.as_ref());
            let lines = lost(self.planner.repository(), reading, &position.view, planned, Some(stack), None, true)?;
            if !lines.is_empty() {
                all.extend(lines.iter().map(|line| format!("{cluster}: {line}")));
                self.remember(cluster, |memory| memory.lost = Some((stack.branch.clone(), lines)));
            }
        }
        Ok(all)
    }
}

/// What the commit of a cluster that is made anew does not have of what lies on its branch, a line each. `forged` is what lies there in
/// Stepgate's name.
///
/// # Errors
/// [`GitError`] when commits cannot be read.
fn lost(
    repository: &Repository,
    reading: &FleetReading,
    view: &ClusterView,
    (plan, parts): (&Plan, &[StageTree]),
    stack: Option<&Stack>,
    forged: Option<&Proposal>,
    withdrawn: bool,
) -> Result<Vec<String>, GitError> {
    let mut lines = Vec::new();
    if let Some(forged) = forged {
        lines.push(forgery(repository, forged)?);
    }
    let Some(stack) = stack else { return Ok(lines) };
    let Some(proposed) = stack.part(&view.name) else { return Ok(lines) };
    let stage = plan.stages.iter().find(|stage| stage.stage == proposed.trailers.stage);
    let part = parts.iter().find(|part| part.stage == proposed.trailers.stage);
    let mut taken_up = Vec::new();
    if forged.is_none() {
        let snapshot = repository.deploy_snapshot(&reading.layout, &proposed.commit)?;
        taken_up = of_directory(&crate::reconcile::clusters::directory::read(&snapshot, &view.name)?);
    }
    for (path, (by, after)) in wanted(repository, reading, view, stack, taken_up)? {
        let rendered = part.and_then(|part| part.rendered.get(&path)).filter(|_| withdrawn);
        let now = rendered.or_else(|| part.and_then(|part| part.after.get(&path)));
        if now == after.as_ref() {
            continue;
        }
        let why = match (stage, part) {
            _ if rendered.is_some() => Some("it went when the proposal was withdrawn".to_owned()),
            (Some(stage), Some(part)) => objection(&view.name, stage, part, &path, after.as_ref()),
            _ => None,
        };
        let why = why.unwrap_or_else(|| "the source branch renders another file by now".to_owned());
        lines.push(format!("{} changed `{}`, and that is not part of this: {why}", names(&by), plain(&path)));
    }
    // Whoever has not looked since the last time is told once more.
    if forged.is_none() {
        let snapshot = repository.deploy_snapshot(&reading.layout, &proposed.commit)?;
        let text = snapshot.read(&body_path(&view.name)?).unwrap_or_default();
        for told in Sections::read(&String::from_utf8_lossy(&text)).lost {
            let is_of = |path: &str| told.contains(&format!("`{}`", plain(path)));
            let again =
                lines.iter().any(|known| line(known) == told) || plan.edits.iter().any(|edit| is_of(&edit.path));
            if !again {
                lines.push(told);
            }
        }
    }
    lines.truncate(TOLD);
    Ok(lines)
}

/// What people want of the files of a cluster, as far as the branch shows it: taken up already, or written above what is proposed.
fn wanted(
    repository: &Repository,
    reading: &FleetReading,
    view: &ClusterView,
    stack: &Stack,
    mut taken_up: Vec<Edit>,
) -> Result<BTreeMap<String, Wanted>, GitError> {
    let mut wanted: BTreeMap<String, Wanted> = BTreeMap::new();
    let deployed = view.directory.ledger().map(|ledger| ledger.edits.as_slice()).unwrap_or_default();
    taken_up.retain(|(edit, _)| !deployed.contains(edit));
    for (edit, bytes) in &taken_up {
        wanted.insert(edit.path.clone(), (edit.by.clone(), Some(Arc::clone(bytes))));
    }
    let files = match files(repository, reading, stack) {
        // What others changed too much of is theirs.
        Err(error) if error.is_of_content() && !stack.is_edited_for(&view.name) => Vec::new(),
        files => files?,
    };
    for file in files.into_iter().filter(|file| is_of(stack, &view.name, &file.path)) {
        let earlier = taken_up.iter().find(|(edit, _)| edit.path == file.path);
        let digest = file.after.as_ref().and_then(|after| file_digest(&file.path, after));
        // What was taken back is wanted by nobody.
        match earlier {
            Some((edit, _)) if digest.as_ref() == Some(&edit.rendered) => drop(wanted.remove(&file.path)),
            Some(_) | None => drop(wanted.insert(file.path, (file.by, file.after))),
        }
    }
    Ok(wanted)
}

/// Whether a file is this cluster's, or of none that is proposed on the branch.
fn is_of(stack: &Stack, cluster: &ClusterName, path: &str) -> bool {
    let is_below = |name: &ClusterName| {
        [cluster_folder(name), flux_folder(name)].iter().any(|it| path.starts_with(&format!("{it}/")))
    };
    is_below(cluster) || stack.parts.iter().all(|part| !is_below(&part.trailers.cluster))
}

fn forgery(repository: &Repository, forged: &Proposal) -> Result<String, GitError> {
    let commit: String = forged.commit.as_str().chars().take(10).collect();
    let author = names(&[repository.author(&forged.commit)?]);
    Ok(format!(
        "commit {commit} lay here in Stepgate's name, written by {author} as far as git tells, and is not what Stepgate would commit: this takes its \
         place"
    ))
}
