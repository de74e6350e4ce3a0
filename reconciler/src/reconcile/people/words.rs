//! What people say by commits.

use approvals::words::{ANSWER, Subject, Word, read};
use domain::CommitId;

use crate::reconcile::planner::Planner;
use git::GitError;

/// What the author of a commit says about a subject.
///
/// # Errors
/// [`GitError`] when the commit cannot be read.
pub fn words(planner: &Planner, commit: &CommitId, subject: &Subject) -> Result<Vec<Word>, GitError> {
    let repository = planner.repository();
    let message = repository.message(commit)?;
    if !message.contains(ANSWER) {
        return Ok(Vec::new());
    }
    Ok(read(&message, &repository.author(commit)?, planner.committed_at(commit)?, subject))
}
