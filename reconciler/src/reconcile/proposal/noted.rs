//! What was approved on a branch before its time had come, where no forge tells who approves: it is merged once a maintenance window is open.

use super::AnswerError;
use super::merge::{Piece, merge};
use super::show::Row;
use super::stack::{Spoken, Stack};
use crate::reconcile::Controller;
use crate::reconcile::people::words::words;
use crate::reconcile::planner::{FleetReading, Planner};
use approvals::words::{Subject, Word};
use git::{GitError, Identity};

impl Controller {
    /// Merges what somebody approved by a word on its branch, one cluster at a time. Whether anything was merged.
    pub(super) fn merge_noted(
        &self,
        reading: &FleetReading,
        stack: &Stack,
        rows: &[Row<'_>],
    ) -> Result<bool, AnswerError> {
        for row in rows {
            let (Some(view), Some(asking), Some(request)) = (row.view, row.asking, row.request) else { continue };
            let is_due = request.missing.is_empty() && request.not_yet.is_none() && !row.proposal.edited;
            if !is_due || view.has_forge(reading) {
                continue;
            }
            let subject = asking.subject(view);
            let Some(by) = approved_by(&self.planner, stack, &subject)? else { continue };
            let approvers = request.approvers.iter().map(|given| given.who.to_string()).collect();
            let piece = Piece::new(&self.planner, reading, view, &row.proposal, subject, approvers)?;
            let commit = merge(&self.planner, reading, stack, &[piece], (&by, None), None, self.clock.now())?;
            tracing::info!(cluster.name = %view.name, git.branch = %stack.branch, git.commit = %commit, approved.by = %by, "merged what {by} had approved");
            return Ok(true);
        }
        Ok(false)
    }
}

/// Who approved this by the last word about it. The first word after a rejection takes that back and lets it be asked again, and no more.
fn approved_by(planner: &Planner, stack: &Stack, subject: &Subject) -> Result<Option<Identity>, GitError> {
    let about: Vec<&Spoken> = stack.words.iter().filter(|word| word.is_about(subject)).collect();
    let since = about.iter().position(|word| word.rejects());
    let is_new = |place: usize| since.is_none_or(|rejected| place + 1 < rejected);
    for (_, last) in about.iter().enumerate().filter(|(place, _)| is_new(*place)) {
        let said = words(planner, &last.commit, subject)?;
        // Whoever ticks a box says nothing about what was approved before.
        if !said.is_empty() && said.iter().all(|word| matches!(word, Word::Ticked(_))) {
            continue;
        }
        let is_approved = said.iter().any(|word| matches!(word, Word::Approved(_)));
        let author = planner.repository().author(&last.commit)?;
        return Ok(author.parse().ok().filter(|_| is_approved));
    }
    Ok(None)
}
