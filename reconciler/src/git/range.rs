//! The commits that one commit has and another has not.

use std::collections::{BinaryHeap, HashMap, HashSet};

use git2::Oid;
use jiff::Timestamp;
use rollout::CommitId;

use super::error::GitError;
use super::object_id::{commit_id, oid};
use super::repository::Repository;

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
}

impl Repository {
    /// The commits reachable from `head` and not from `base`, newest first, at most `limit`. Where clocks were wrong, some that `base` has too
    /// may be among them; none is left out.
    ///
    /// # Errors
    /// What the commits suffer from.
    pub fn between(
        &self,
        base: Option<&CommitId>,
        head: &CommitId,
        limit: usize,
    ) -> Result<Vec<WrittenCommit>, GitError> {
        let (base, head) = (base.map(oid).transpose()?, oid(head)?);
        self.with_objects(|objects| {
            let time = |id: Oid| Ok::<_, GitError>(objects.commit(id)?.committed_at);
            // Whether what is waited for is known to be part of the base.
            let mut behind: HashMap<Oid, bool> = HashMap::from([(head, false)]);
            let mut next = BinaryHeap::from([(time(head)?, head)]);
            if let Some(base) = base {
                behind.insert(base, true);
                next.push((time(base)?, base));
            }
            let (mut seen, mut found) = (HashSet::new(), Vec::new());
            while let Some((_, id)) = next.pop() {
                if !seen.insert(id) {
                    continue;
                }
                let is_behind = behind.get(&id).copied().unwrap_or_default();
                let fields = objects.commit(id)?;
                for parent in &fields.parents {
                    *behind.entry(*parent).or_default() |= is_behind;
                    next.push((time(*parent)?, *parent));
                }
                if !is_behind {
                    found.push(id);
                }
                let open = |(_, id): &(i64, Oid)| !seen.contains(id) && !behind.get(id).copied().unwrap_or_default();
                if found.len() >= limit || !next.iter().any(open) {
                    break;
                }
            }
            found.retain(|id| !behind.get(id).copied().unwrap_or_default());
            found
                .into_iter()
                .map(|id| {
                    let fields = objects.commit(id)?;
                    Ok(WrittenCommit {
                        id: commit_id(id)?,
                        parents: fields.parents.iter().copied().map(commit_id).collect::<Result<_, _>>()?,
                        authors: authors(&fields.author, &fields.message),
                        committed_at: Timestamp::from_second(fields.committed_at).unwrap_or(Timestamp::UNIX_EPOCH),
                    })
                })
                .collect()
        })
    }
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
