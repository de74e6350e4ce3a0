//! A deploy branch in memory: commits with a parent, moved by compare-and-swap only.

use std::{collections::BTreeMap, sync::Arc};

use domain::{ClusterName, CommitId, TreeDigest};
use jiff::Timestamp;
use rollout::{DeployCommit, DeployHead, Landing, Ledger, StageName, StageTrailer};

/// What one cluster's directory on the branch holds: a version of every part, and the ledger.
///
/// A part is named after the stage that changes it; its content follows from its version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterTree {
    /// Version of every part.
    pub parts: Parts,
    /// `rollout.yaml`; none before the first rollout.
    pub ledger: Option<Ledger>,
}

/// Version of every part of a cluster's directory.
pub type Parts = BTreeMap<StageName, u32>;

/// Digest of a cluster's directory, without its ledger.
#[must_use]
pub fn tree_digest(parts: &Parts) -> TreeDigest {
    digest_of(parts.iter())
}

/// Digest of what the stage `stage` changes. The specification of the machines is one directory, so each of its stages sees
/// the versions of all of them.
#[must_use]
pub fn part_digest(parts: &Parts, stage: &StageName) -> TreeDigest {
    if is_of_the_specification(stage) {
        digest_of(parts.iter().filter(|(part, _)| is_of_the_specification(part)))
    } else {
        digest_of(parts.iter().filter(|(part, _)| *part == stage))
    }
}

/// Whether a stage is a step of the cluster specification.
#[must_use]
pub fn is_of_the_specification(stage: &StageName) -> bool {
    matches!(stage, StageName::Etcd | StageName::ControlPlane | StageName::Workers(_))
}

fn digest_of<'a>(parts: impl Iterator<Item = (&'a StageName, &'a u32)>) -> TreeDigest {
    let lines: Vec<String> = parts.map(|(part, version)| format!("{part} {version}")).collect();
    TreeDigest::of(lines.iter().map(String::as_bytes))
}

/// One commit of the branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchCommit {
    /// Its id, which follows from everything else in it and from its parent.
    pub id: CommitId,
    /// When it was made.
    pub committed_at: Timestamp,
    /// Its trailers; none for a commit that closes a rollout, and for a commit of a person.
    pub trailer: Option<StageTrailer>,
    /// Whether a person made it.
    pub by_a_person: bool,
    /// The whole tree.
    pub tree: Arc<BTreeMap<ClusterName, ClusterTree>>,
}

/// What is pushed: a commit without its id.
#[derive(Debug, Clone)]
pub struct NewCommit {
    /// The commit the pusher believes to be the head.
    pub parent: Option<CommitId>,
    /// When it was made.
    pub committed_at: Timestamp,
    /// Its trailers.
    pub trailer: Option<StageTrailer>,
    /// Whether a person made it.
    pub by_a_person: bool,
    /// The whole tree.
    pub tree: BTreeMap<ClusterName, ClusterTree>,
}

/// The push found another head than it expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("push to the deploy branch: the head is {}, not {} as expected; look again and decide again", name(.found), name(.expected))]
pub struct LostRace {
    expected: Option<CommitId>,
    found: Option<CommitId>,
}

fn name(commit: &Option<CommitId>) -> &str {
    commit.as_ref().map_or("unborn", CommitId::as_str)
}

/// The deploy branch. It only grows: there is no way to move it back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeployBranch {
    commits: Vec<BranchCommit>,
}

impl DeployBranch {
    /// Adds a commit, if its parent is the head.
    ///
    /// # Errors
    /// [`LostRace`] when somebody else was faster; the branch is then as it was.
    pub fn push(&mut self, commit: NewCommit) -> Result<CommitId, LostRace> {
        let found = self.head().map(|head| head.id.clone());
        if found != commit.parent {
            return Err(LostRace { expected: commit.parent, found });
        }
        let id = commit_id(&commit);
        let NewCommit { committed_at, trailer, by_a_person, tree, .. } = commit;
        self.commits.push(BranchCommit { id: id.clone(), committed_at, trailer, by_a_person, tree: Arc::new(tree) });
        Ok(id)
    }

    /// The newest commit.
    #[must_use]
    pub fn head(&self) -> Option<&BranchCommit> {
        self.commits.last()
    }

    /// Every commit, oldest first.
    #[must_use]
    pub fn commits(&self) -> &[BranchCommit] {
        &self.commits
    }

    /// The first parent of a commit.
    #[must_use]
    pub fn parent_of(&self, commit: &CommitId) -> Option<&BranchCommit> {
        let position = self.commits.iter().position(|known| known.id == *commit)?;
        self.commits.get(position.checked_sub(1)?)
    }

    /// The branch as a decision looks at it.
    #[must_use]
    pub fn as_deploy_head(&self) -> DeployHead {
        let commits = self.commits.iter().map(|commit| DeployCommit {
            id: commit.id.clone(),
            committed_at: commit.committed_at,
            landing: Landing::Pushed,
            trailer: commit.trailer.clone().map(Arc::new),
        });
        commits.collect()
    }
}

/// An id that follows from the commit, as git's does. (Half of a SHA-256: a model has no need of git's own hash.)
fn commit_id(commit: &NewCommit) -> CommitId {
    let text = format!("{:?} {:?} {:?} {}", commit.parent, commit.committed_at, commit.trailer, commit.by_a_person);
    let mut parts = vec![text];
    for (cluster, tree) in &commit.tree {
        let ledger =
            tree.ledger.as_ref().map(|ledger| (&ledger.plan, &ledger.state, ledger.stages.len(), &ledger.tree));
        parts.push(format!("{cluster} {:?} {ledger:?}", tree_digest(&tree.parts)));
    }
    let digest = TreeDigest::of(parts.iter().map(String::as_bytes));
    let digits: String = digest.as_str().chars().skip("sha256:".len()).take(40).collect();
    // Forty hexadecimal digits are a commit id.
    digits.parse().unwrap_or_else(|_| unreachable!("{digits:?} are forty hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(parent: Option<CommitId>, version: u32) -> NewCommit {
        let tree = ClusterTree { parts: Parts::from([(StageName::Capi, version)]), ledger: None };
        NewCommit {
            parent,
            committed_at: Timestamp::UNIX_EPOCH,
            trailer: None,
            by_a_person: false,
            tree: BTreeMap::from([("prod".parse().unwrap(), tree)]),
        }
    }

    #[test]
    fn only_a_push_that_knows_the_head_moves_the_branch() {
        let mut branch = DeployBranch::default();
        let first = branch.push(commit(None, 1)).unwrap();
        assert!(branch.push(commit(None, 2)).is_err());
        let second = branch.push(commit(Some(first.clone()), 2)).unwrap();
        let lost = branch.push(commit(Some(first.clone()), 3)).unwrap_err();
        assert!(lost.to_string().contains(second.as_str()), "{lost}");
        assert_eq!(branch.commits().len(), 2);
        assert_eq!(branch.parent_of(&second).map(|commit| &commit.id), Some(&first));
        assert_eq!(branch.parent_of(&first), None);
    }

    #[test]
    fn stages_of_the_specification_see_each_other_and_no_component() {
        let parts = Parts::from([(StageName::Capi, 1), (StageName::Etcd, 1), (StageName::ControlPlane, 1)]);
        let other = Parts::from([(StageName::Capi, 1), (StageName::Etcd, 2), (StageName::ControlPlane, 1)]);
        for (stage, same) in [(StageName::Capi, true), (StageName::Etcd, false), (StageName::ControlPlane, false)] {
            assert_eq!(part_digest(&parts, &stage) == part_digest(&other, &stage), same, "{stage}");
        }
        assert_ne!(tree_digest(&parts), tree_digest(&other));
    }
}
