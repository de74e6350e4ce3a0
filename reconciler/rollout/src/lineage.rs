//! Commits of which each contains the one before, kept once for all who look at parts of the same branch.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use domain::CommitId;

/// So many commits are shared or copied together: a branch that grows copies less than this.
const BLOCK: usize = 64;

/// Commits of which each contains the one before, the newest last.
///
/// Those that come from one branch share what they have in common: what one takes by itself follows from its number of blocks.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<CommitId>", into = "Vec<CommitId>")]
pub struct Lineage {
    /// All blocks but the last are full.
    blocks: Arc<[Arc<[CommitId]>]>,
    /// How many commits of the first block are older.
    start: usize,
    length: usize,
}

impl Lineage {
    /// How many commits there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The commit at this place, the oldest being at 0.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&CommitId> {
        let place = self.start.checked_add(place).filter(|_| place < self.length)?;
        self.blocks.get(place / BLOCK)?.get(place % BLOCK)
    }

    /// The oldest commit.
    #[must_use]
    pub fn first(&self) -> Option<&CommitId> {
        self.get(0)
    }

    /// The newest commit.
    #[must_use]
    pub fn last(&self) -> Option<&CommitId> {
        self.get(self.length.checked_sub(1)?)
    }

    /// The commits, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &CommitId> {
        self.blocks.iter().flat_map(|block| block.iter()).skip(self.start).take(self.length)
    }

    /// Whether this is one of the commits.
    #[must_use]
    pub fn contains(&self, commit: &CommitId) -> bool {
        self.iter().any(|known| known == commit)
    }

    /// The commits from this place on. They are shared.
    #[must_use]
    pub fn since(&self, place: usize) -> Self {
        let place = place.min(self.length);
        let (start, length) = (self.start + place, self.length - place);
        let blocks = match start / BLOCK {
            0 => Arc::clone(&self.blocks),
            older => self.blocks.iter().skip(older).cloned().collect(),
        };
        Self { blocks, start: start % BLOCK, length }
    }

    /// The oldest `kept` commits, and after them `newer`. What is kept is shared, but for less than one block.
    #[must_use]
    pub fn grown(&self, kept: usize, newer: impl IntoIterator<Item = CommitId>) -> Self {
        let end = self.start + kept.min(self.length);
        let mut blocks: Vec<Arc<[CommitId]>> = self.blocks.iter().take(end / BLOCK).cloned().collect();
        let mut last: Vec<CommitId> = self
            .blocks
            .get(end / BLOCK)
            .into_iter()
            .flat_map(|block| block.iter().take(end % BLOCK))
            .cloned()
            .collect();
        for commit in newer {
            last.push(commit);
            if last.len() == BLOCK {
                blocks.push(std::mem::take(&mut last).into());
            }
        }
        let length = blocks.len() * BLOCK + last.len() - self.start;
        if !last.is_empty() {
            blocks.push(last.into());
        }
        Self { blocks: blocks.into(), start: self.start, length }
    }

    /// About how many bytes of memory it takes by itself; its commits are shared.
    #[must_use]
    pub fn bytes(&self) -> usize {
        16 + size_of_val(self.blocks.as_ref())
    }

    /// About how many bytes of memory one commit takes, once for all who share it.
    pub const COMMIT: usize = size_of::<CommitId>() + 64;
}

impl FromIterator<CommitId> for Lineage {
    fn from_iter<I: IntoIterator<Item = CommitId>>(commits: I) -> Self {
        Self::default().grown(0, commits)
    }
}

impl From<Vec<CommitId>> for Lineage {
    fn from(commits: Vec<CommitId>) -> Self {
        commits.into_iter().collect()
    }
}

impl From<Lineage> for Vec<CommitId> {
    fn from(lineage: Lineage) -> Self {
        lineage.iter().cloned().collect()
    }
}

impl PartialEq for Lineage {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.iter().eq(other.iter())
    }
}

impl Eq for Lineage {}

impl fmt::Debug for Lineage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn commit(number: usize) -> CommitId {
        format!("{number:040x}").parse().unwrap()
    }

    fn commits(numbers: std::ops::Range<usize>) -> Vec<CommitId> {
        numbers.map(commit).collect()
    }

    proptest! {
        #[test]
        fn a_lineage_is_what_a_list_of_its_commits_is(
            steps in proptest::collection::vec((0_usize..200, 0_usize..150, any::<bool>()), 1..12)
        ) {
            let (mut lineage, mut list, mut next) = (Lineage::default(), Vec::new(), 0);
            for (place, more, is_cut) in steps {
                if is_cut {
                    lineage = lineage.since(place);
                    list = list.split_off(place.min(list.len()));
                } else {
                    lineage = lineage.grown(place, commits(next..next + more));
                    list.truncate(place);
                    list.extend(commits(next..next + more));
                    next += more;
                }
                prop_assert_eq!(lineage.len(), list.len());
                prop_assert_eq!(lineage.is_empty(), list.is_empty());
                prop_assert_eq!(&Vec::from(lineage.clone()), &list);
                prop_assert_eq!(&lineage, &Lineage::from(list.clone()));
                prop_assert_eq!((lineage.first(), lineage.last()), (list.first(), list.last()));
                prop_assert_eq!(lineage.get(place), list.get(place));
                prop_assert_eq!(lineage.contains(&commit(place)), list.contains(&commit(place)));
            }
        }
    }

    #[test]
    fn lineages_of_one_branch_share_its_commits() {
        let branch = Lineage::from(commits(0..1000));
        let later = branch.grown(1000, commits(1000..1001));
        let own = later.since(500);
        assert_eq!((own.first(), own.last()), (Some(&commit(500)), Some(&commit(1000))));
        let is_shared = |block: &&Arc<[CommitId]>| branch.blocks.iter().any(|known| Arc::ptr_eq(known, block));
        assert_eq!((own.blocks.len(), own.blocks.iter().filter(is_shared).count()), (9, 8));
        assert!(own.bytes() < 200, "{}", own.bytes());
    }
}
