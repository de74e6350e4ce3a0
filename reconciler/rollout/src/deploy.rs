//! The deploy branch, as far as a decision looks at it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::lineage::Lineage;
use crate::stage::StageId;
use domain::{ClusterName, CommitId, RolloutId};

/// The trailers of a commit that Stepgate made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageTrailer {
    /// `Stepgate-Cluster`.
    pub cluster: ClusterName,
    /// `Stepgate-Rollout`.
    pub rollout: RolloutId,
    /// `Stepgate-Stage`.
    pub stage: StageId,
}

/// How a commit came onto the deploy branch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Landing {
    /// Stepgate pushed it when it made it.
    #[default]
    Pushed,
    /// It was proposed, and this person merged it.
    Merged(String),
    /// It was proposed, and put on the branch as it is (a fast-forward, a rebase): git does not tell when and by whom.
    Unknown,
}

/// One commit of the deploy branch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployCommit {
    /// Its id.
    pub id: CommitId,
    /// When it came onto the branch, as far as git tells.
    pub committed_at: Timestamp,
    /// How it came there.
    #[serde(default)]
    pub landing: Landing,
    /// Its trailers; none for a commit of somebody else, or one that closes a rollout. Most have none: in a large fleet most are other clusters'.
    pub trailer: Option<Arc<StageTrailer>>,
}

/// The deploy branch: first parents, oldest first, ending at the head.
///
/// It has to reach back at least to the first commit of the ledger's rollout; older commits do no harm. In a large fleet most of them are other
/// clusters', of which nothing but the ids matter: these are kept once for all clusters ([`Lineage`]).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<DeployCommit>", into = "Vec<DeployCommit>")]
pub struct DeployHead {
    lineage: Lineage,
    /// What is known of single commits, by their places in the lineage, in order. Any other was pushed when the one before it was, without trailers.
    known: Vec<(usize, KnownCommit)>,
}

/// What is known of a commit besides its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCommit {
    /// When it came onto the branch, as far as git tells.
    pub committed_at: Timestamp,
    /// How it came there.
    pub landing: Landing,
    /// Its trailers.
    pub trailer: Option<Arc<StageTrailer>>,
}

/// The commit of a stage on the deploy branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landed<'a> {
    /// Its place in the lineage.
    pub place: usize,
    /// Its id.
    pub id: &'a CommitId,
    /// When it came onto the branch, as far as git tells.
    pub committed_at: Timestamp,
    /// How it came there.
    pub landing: &'a Landing,
    /// Its trailers; none where only its age is known.
    pub trailer: Option<&'a StageTrailer>,
}

impl DeployHead {
    /// A branch of which this is known: for each place in the lineage, in order. The oldest commit has to be among them, else nothing is known of any.
    #[must_use]
    pub fn new(lineage: Lineage, commits: impl IntoIterator<Item = (usize, KnownCommit)>) -> Self {
        let mut known: Vec<(usize, KnownCommit)> = Vec::new();
        for (place, commit) in commits {
            let follows = known.last().map_or(place == 0, |(before, _)| *before < place) && place < lineage.len();
            let is_plain = commit.landing == Landing::Pushed && commit.trailer.is_none();
            let says_nothing =
                is_plain && known.last().is_some_and(|(_, before)| before.committed_at == commit.committed_at);
            if follows && !says_nothing {
                known.push((place, commit));
            }
        }
        if known.is_empty() {
            return Self::default();
        }
        known.shrink_to_fit();
        Self { lineage, known }
    }

    /// The commits, oldest first; none on an unborn branch.
    #[must_use]
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Every commit, oldest first, with what is known of it.
    #[must_use]
    pub fn commits(&self) -> Vec<DeployCommit> {
        let mut all = self.known.iter().peekable();
        let mut committed_at = Timestamp::UNIX_EPOCH;
        let commits = self.lineage.iter().enumerate().map(|(place, id)| {
            let known = all.next_if(|(at, _)| *at == place).map(|(_, known)| known);
            committed_at = known.map_or(committed_at, |known| known.committed_at);
            let (landing, trailer) =
                known.map(|known| (known.landing.clone(), known.trailer.clone())).unwrap_or_default();
            DeployCommit { id: id.clone(), committed_at, landing, trailer }
        });
        commits.collect()
    }

    /// The id of the newest commit; none on an unborn branch.
    #[must_use]
    pub fn commit(&self) -> Option<&CommitId> {
        self.lineage.last()
    }

    /// The oldest commit that is known; none on an unborn branch.
    #[must_use]
    pub fn oldest(&self) -> Option<Landed<'_>> {
        self.landed(self.known.first()?)
    }

    /// The newest commit with such trailers.
    #[must_use]
    pub fn newest(&self, is_wanted: impl Fn(&StageTrailer) -> bool) -> Option<Landed<'_>> {
        let found = self.known.iter().rev().find(|(_, known)| known.trailer.as_deref().is_some_and(&is_wanted));
        self.landed(found?)
    }

    /// The trailers of all commits that have any, oldest first.
    pub fn trailers(&self) -> impl Iterator<Item = &StageTrailer> {
        self.known.iter().filter_map(|(_, known)| known.trailer.as_deref())
    }

    fn landed<'a>(&'a self, (place, known): &'a (usize, KnownCommit)) -> Option<Landed<'a>> {
        let id = self.lineage.get(*place)?;
        let KnownCommit { committed_at, landing, trailer } = known;
        Some(Landed { place: *place, id, committed_at: *committed_at, landing, trailer: trailer.as_deref() })
    }

    /// Says how a commit of which something is known came onto the branch, and when, where that is known.
    pub fn tell(&mut self, place: usize, landing: Landing, committed_at: Option<Timestamp>) {
        let Ok(index) = self.known.binary_search_by_key(&place, |(place, _)| *place) else { return };
        let Some((_, known)) = self.known.get_mut(index) else { return };
        let before = known.committed_at;
        (known.landing, known.committed_at) = (landing, committed_at.unwrap_or(before));
        // The one after it came when it came.
        let (moved, next) = (known.committed_at != before, place + 1);
        let is_known = self.known.get(index + 1).is_some_and(|(place, _)| *place == next);
        if moved && !is_known && next < self.lineage.len() {
            let plain = KnownCommit { committed_at: before, landing: Landing::Pushed, trailer: None };
            self.known.insert(index + 1, (next, plain));
        }
        *self = Self::new(std::mem::take(&mut self.lineage), std::mem::take(&mut self.known));
    }

    /// Puts one more commit onto the branch.
    pub fn push(&mut self, commit: DeployCommit) {
        let DeployCommit { id, committed_at, landing, trailer } = commit;
        let place = self.lineage.len();
        let newest = (place, KnownCommit { committed_at, landing, trailer });
        let known = std::mem::take(&mut self.known).into_iter().chain([newest]);
        *self = Self::new(self.lineage.grown(place, [id]), known);
    }

    /// About how many bytes of memory it takes by itself; the ids of commits are shared.
    #[must_use]
    pub fn bytes(&self) -> usize {
        /// What an `Arc` counts in.
        const COUNTS: usize = 16;
        let known = self.known.iter().map(|(_, known)| {
            let trailer = known.trailer.as_ref().map_or(0, |_| COUNTS + size_of::<StageTrailer>() + 64);
            let by = if let Landing::Merged(by) = &known.landing { by.len() + COUNTS } else { 0 };
            size_of::<(usize, KnownCommit)>() + trailer + by
        });
        size_of::<Self>() + COUNTS + self.lineage.bytes() + known.sum::<usize>()
    }
}

impl FromIterator<DeployCommit> for DeployHead {
    fn from_iter<I: IntoIterator<Item = DeployCommit>>(commits: I) -> Self {
        let known = |commit: DeployCommit| {
            let DeployCommit { id, committed_at, landing, trailer } = commit;
            (id, KnownCommit { committed_at, landing, trailer })
        };
        let (ids, known): (Vec<CommitId>, Vec<KnownCommit>) = commits.into_iter().map(known).unzip();
        Self::new(ids.into(), known.into_iter().enumerate())
    }
}

impl From<Vec<DeployCommit>> for DeployHead {
    fn from(commits: Vec<DeployCommit>) -> Self {
        commits.into_iter().collect()
    }
}

impl From<DeployHead> for Vec<DeployCommit> {
    fn from(head: DeployHead) -> Self {
        head.commits()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn commits() -> impl Strategy<Value = Vec<DeployCommit>> {
        let landing = prop_oneof![
            4 => Just(Landing::Pushed),
            1 => Just(Landing::Unknown),
            1 => Just(Landing::Merged("Alice".to_owned())),
        ];
        let stage = proptest::option::weighted(0.2, 0_u8..3);
        proptest::collection::vec((0_i64..3, landing, stage), 0..200).prop_map(|commits| {
            let commit = |(number, (second, landing, stage)): (usize, (i64, Landing, Option<u8>))| DeployCommit {
                id: format!("{number:040x}").parse().unwrap(),
                committed_at: Timestamp::from_second(second).unwrap(),
                landing,
                trailer: stage.map(trailer).map(Arc::new),
            };
            commits.into_iter().enumerate().map(commit).collect()
        })
    }

    fn trailer(number: u8) -> StageTrailer {
        let rollout = format!("{number:012x}").parse().unwrap();
        StageTrailer { cluster: "prod".parse().unwrap(), rollout, stage: crate::StageName::Cilium.into() }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_of_what_is_known_of_commits(commits in commits(), place in 0_usize..200) {
            let mut head: DeployHead = commits.clone().into();
            prop_assert_eq!(&head.commits(), &commits);
            let mut pushed = DeployHead::default();
            commits.iter().for_each(|commit| pushed.push(commit.clone()));
            prop_assert_eq!(&pushed, &head);
            let trailers: Vec<_> = commits.iter().filter_map(|commit| commit.trailer.as_deref()).collect();
            prop_assert_eq!(head.trailers().collect::<Vec<_>>(), trailers);
            let text = serde_json::to_string(&head).unwrap();
            prop_assert_eq!(&text, &serde_json::to_string(&commits).unwrap());
            prop_assert_eq!(&serde_json::from_str::<DeployHead>(&text).unwrap(), &head);
            prop_assert_eq!(head.commit(), commits.last().map(|commit| &commit.id));
            let of = |number| move |of: &StageTrailer| *of == trailer(number);
            for number in 0..3 {
                let known = |commit: &DeployCommit| commit.trailer.as_deref().is_some_and(of(number));
                let expected = commits.iter().rposition(known);
                let found = head.newest(of(number));
                prop_assert_eq!(found.map(|it| it.place), expected);
                let same = |it: Landed<'_>| {
                    let commit = &commits[it.place];
                    (it.id, it.committed_at, it.landing) == (&commit.id, commit.committed_at, &commit.landing)
                };
                prop_assert!(found.is_none_or(same));
            }
            // What is known later of one says nothing of the others.
            if let Some(commit) = commits.get(place).filter(|commit| commit.trailer.is_some()) {
                let at = Timestamp::from_second(7).unwrap();
                let mut expected = commits.clone();
                expected[place] =
                    DeployCommit { committed_at: at, landing: Landing::Unknown, ..commit.clone() };
                head.tell(place, Landing::Unknown, Some(at));
                prop_assert_eq!(head, DeployHead::from(expected));
            }
        }
    }

    #[test]
    fn commits_of_others_take_no_memory_of_their_own() {
        let commits = |count: usize| -> DeployHead {
            let commit = |number: usize| DeployCommit {
                id: format!("{number:040x}").parse().unwrap(),
                committed_at: Timestamp::UNIX_EPOCH,
                landing: Landing::Pushed,
                trailer: (number == 0).then(|| Arc::new(trailer(0))),
            };
            (0..count).map(commit).collect()
        };
        assert!(commits(1000).bytes() < commits(1).bytes() + 300, "{}", commits(1000).bytes());
    }
}
