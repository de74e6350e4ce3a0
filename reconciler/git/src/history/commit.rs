//! Commits built in the object store.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::CommitId;
use domain::RepoPath;
use git2::ObjectType;
use jiff::Timestamp;

use super::sign::Signing;
use super::trailer::StageTrailers;
use crate::error::GitError;
use crate::refs::name::Identity;
use crate::refs::object_id::{commit_id, oid};
use crate::repository::Repository;
use crate::store::edit::Edits;
use crate::store::pack::NewObjects;

/// A commit that is about to be made. Equal drafts give equal ids, on every machine (unless signed).
#[derive(Clone, Debug)]
pub struct CommitDraft {
    /// The commit that it follows; none for the first one of a branch.
    pub parent: Option<CommitId>,
    /// The other commit that it merges, as its second parent; its tree is not looked at: `edits` say what it brings.
    pub merges: Option<CommitId>,
    /// The folder that `edits` are relative to, for the deploy path layout; none for the top.
    pub prefix: Option<RepoPath>,
    /// New content by path. None removes a file, or a whole folder; together with paths below that folder it replaces
    /// the folder. Files become plain files (mode 100644).
    pub edits: BTreeMap<RepoPath, Option<Arc<[u8]>>>,
    /// What the commit says.
    pub message: CommitMessage,
    /// Author and committer.
    pub author: Identity,
    /// Author and committer time; kept in whole seconds, UTC.
    pub time: Timestamp,
    /// Makes a commit even where its tree equals the parent's.
    pub allow_empty: bool,
}

impl CommitDraft {
    /// A commit that changes no file: what somebody says on a branch.
    pub fn of_words(
        parent: Option<CommitId>,
        subject: String,
        body: String,
        author: Identity,
        time: Timestamp,
    ) -> Self {
        let message = CommitMessage { subject, body, trailers: Vec::new() };
        Self { parent, merges: None, prefix: None, edits: BTreeMap::new(), message, author, time, allow_empty: true }
    }
}

/// The message of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitMessage {
    /// First line.
    pub subject: String,
    /// Paragraphs below it; may be empty.
    pub body: String,
    /// Which stage this is, for each cluster that it concerns; none for commits that belong to no rollout.
    pub trailers: Vec<StageTrailers>,
}

impl CommitMessage {
    /// The text as git stores it.
    ///
    /// Control characters except line breaks and tabs become blanks. A body cannot pass for trailers: these come last
    /// and only once.
    pub fn text(&self) -> String {
        let clean = |text: &str, keep: &[char]| -> String {
            let blank = |c: char| if c.is_control() && !keep.contains(&c) { ' ' } else { c };
            text.chars().map(blank).collect::<String>().trim().to_owned()
        };
        let mut text = clean(&self.subject, &[]);
        text.push('\n');
        let body = clean(&self.body, &['\n', '\t']);
        if !body.is_empty() {
            text.push('\n');
            text.push_str(&body);
            text.push('\n');
        }
        if !self.trailers.is_empty() {
            text.push('\n');
            text.extend(self.trailers.iter().map(ToString::to_string));
        } else if !StageTrailers::parse_all(&text).is_empty() {
            // The body must not be read as trailers of ours.
            text.push_str("\n(no stage)\n");
        }
        text
    }
}

/// What became of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// A commit was made. No branch holds it yet: see [`Repository::push`].
    Created(CommitId),
    /// The tree would equal the parent's; nothing was written.
    Unchanged,
}

impl Repository {
    /// Makes a commit in the object store: new blobs, trees and the commit as one pack, synchronised to disk (its name with the
    /// branch that comes to hold it). No index, no work tree and no branch is touched, so being stopped at any point leaves nothing to clean up.
    ///
    /// # Errors
    /// [`GitError::RefusedPath`], [`GitError::Signing`], [`GitError::Storage`], or what the parent suffers from.
    pub fn commit(&self, draft: &CommitDraft, signing: &Signing) -> Result<CommitOutcome, GitError> {
        let edits = Edits::new(draft.prefix.as_ref(), &draft.edits)?;
        let parent = draft.parent.as_ref().map(oid).transpose()?;
        let mut new = NewObjects::default();
        let tree = self.with_objects(|objects| {
            let base = parent.map(|id| objects.commit(id)).transpose()?.map(|fields| fields.tree);
            let tree = edits.apply(base, objects, &mut new)?;
            Ok((base != Some(tree) || draft.allow_empty).then_some(tree))
        })?;
        let Some(tree) = tree else { return Ok(CommitOutcome::Unchanged) };

        let mut header = format!("tree {tree}\n");
        if let Some(parent) = parent {
            header.push_str(&format!("parent {parent}\n"));
        }
        if let Some(merged) = &draft.merges {
            header.push_str(&format!("parent {merged}\n"));
        }
        let person = format!("{} {} +0000", draft.author, draft.time.as_second());
        header.push_str(&format!("author {person}\ncommitter {person}\n"));
        let message = draft.message.text();
        // Signing runs a program, so the object store is free meanwhile.
        let signature = signing.sign(format!("{header}\n{message}").as_bytes(), self.inner.program.timeout)?;
        if let Some(signature) = signature {
            header.push_str(&format!("gpgsig {}\n", signature.trim_end().replace('\n', "\n ")));
        }
        let commit = new.add(ObjectType::Commit, format!("{header}\n{message}").into_bytes(), None)?;
        self.with_objects(|objects| new.write(&self.inner.folder.join("objects"), objects))?;
        Ok(CommitOutcome::Created(commit_id(commit)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_cannot_pass_for_trailers() {
        let forged = format!(
            "Stepgate-Rollout: {}\nStepgate-Cluster: mgmt\nStepgate-Stage: cilium\nStepgate-Plan: {}\nStepgate-Source: {}",
            "a".repeat(12),
            "b".repeat(64),
            "c".repeat(40)
        );
        let message = CommitMessage { subject: "Import".to_owned(), body: forged, trailers: Vec::new() };
        assert_eq!(StageTrailers::parse_all(&message.text()), [], "{}", message.text());
    }

    #[test]
    fn a_subject_stays_one_line() {
        let message = CommitMessage { subject: "a\n\nStepgate-Stage: x\0".to_owned(), ..CommitMessage::default() };
        assert_eq!(message.text(), "a  Stepgate-Stage: x\n");
    }
}
