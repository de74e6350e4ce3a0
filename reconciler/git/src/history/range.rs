//! The commits that one commit has and another has not.

use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet};

use domain::CommitId;
use git2::Oid;
use jiff::Timestamp;

use crate::error::GitError;
use crate::limits::Limit;
use crate::refs::object_id::{commit_id, oid};
use crate::repository::Repository;
use crate::store::budget::Exceeded;
use crate::store::object::Objects;

/// So many commits are looked at after everything seems to be known, where clocks were wrong.
const SLOP: usize = 8;

/// Marks whoever wrote a commit together with its author.
const TOGETHER: &str = "co-authored-by:";

/// A commit that people wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenCommit {
    /// Its id.
    pub id: CommitId,
    /// What it follows from; several for a merge.
    pub parents: Vec<CommitId>,
    /// Who wrote it, by its own word: its author, and those it names as co-authors.
    pub authors: Vec<String>,
    /// When it was committed, by its own word.
    pub committed_at: Timestamp,
    /// Whether its message is too long to be read: who wrote it together is not known then.
    pub is_cut: bool,
}

impl Repository {
    /// The commits reachable from `head` and not from `base`, newest first. Where clocks were wrong, some that `base` has too may be among them;
    /// none is left out.
    ///
    /// # Errors
    /// What the commits suffer from; [`GitError::OverBudget`] where there are more than `limit`: who wrote the others would not be known.
    pub fn between(
        &self,
        base: Option<&CommitId>,
        head: &CommitId,
        limit: usize,
    ) -> Result<Vec<WrittenCommit>, GitError> {
        let (base, head) = (base.map(oid).transpose()?, oid(head)?);
        self.with_objects(|objects| {
            let found = range(objects, base, head, limit)?;
            let written = found.into_iter().map(|id| {
                let fields = objects.commit(id)?;
                Ok(WrittenCommit {
                    id: commit_id(id)?,
                    parents: fields.parents.iter().copied().map(commit_id).collect::<Result<_, _>>()?,
                    authors: authors(&fields.author, &fields.message),
                    committed_at: Timestamp::from_second(fields.committed_at).unwrap_or(Timestamp::UNIX_EPOCH),
                    is_cut: fields.is_cut,
                })
            });
            written.collect()
        })
    }
}

/// The commits reachable from `head` and not from `base`, as far as the times of commits tell, newest first.
pub(crate) fn range(objects: &Objects<'_>, base: Option<Oid>, head: Oid, limit: usize) -> Result<Vec<Oid>, GitError> {
    let time = |id: Oid| Ok::<_, GitError>(objects.commit(id)?.committed_at);
    // Whether what is waited for is known to be part of the base.
    let mut behind: HashMap<Oid, bool> = HashMap::from([(head, false)]);
    let mut next = BinaryHeap::from([(time(head)?, head)]);
    // What is waited for and is not known to be part of the base.
    let mut open = 1_usize;
    if let Some(base) = base {
        if behind.insert(base, true) == Some(false) {
            open = 0;
        }
        next.push((time(base)?, base));
    }
    let (mut seen, mut found, mut left) = (HashSet::new(), Vec::new(), SLOP);
    while let Some((_, id)) = next.pop() {
        if !seen.insert(id) {
            continue;
        }
        let is_behind = behind.get(&id).copied().unwrap_or_default();
        if !is_behind {
            open -= 1;
            found.push(id);
        }
        let fields = objects.commit(id)?;
        for parent in &fields.parents {
            match behind.entry(*parent) {
                Entry::Vacant(entry) => {
                    entry.insert(is_behind);
                    open += usize::from(!is_behind);
                    next.push((time(*parent)?, *parent));
                }
                Entry::Occupied(mut entry) => {
                    if is_behind && !entry.insert(true) && !seen.contains(parent) {
                        open -= 1;
                    }
                }
            }
        }
        if found.len() > limit {
            let exceeded = Exceeded { limit: Limit::Commits, allowed: limit as u64 };
            return Err(exceeded.of(format!("the history up to commit {head}")));
        }
        if open == 0 {
            if left == 0 {
                break;
            }
            left -= 1;
        }
    }
    found.retain(|id| !behind.get(id).copied().unwrap_or_default());
    Ok(found)
}

fn authors(author: &str, message: &str) -> Vec<String> {
    let together = message.lines().filter_map(|line| {
        let (key, value) = line.trim().split_at_checked(TOGETHER.len())?;
        key.eq_ignore_ascii_case(TOGETHER).then(|| value.trim().to_owned())
    });
    std::iter::once(author.to_owned()).chain(together).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wrote_it_together_are_all_named() {
        let message =
            "Bump\n\nBody.\n\nCo-authored-by: B <b@x.org>\nco-Authored-By: C <c@x.org>\nSigned-off-by: D <d@x.org>\n";
        assert_eq!(authors("A <a@x.org>", message), ["A <a@x.org>", "B <b@x.org>", "C <c@x.org>"]);
        assert_eq!(authors("A <a@x.org>", "é"), ["A <a@x.org>"]);
    }
}
