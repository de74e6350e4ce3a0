//! What is proposed now and what people said of it, read once for all clusters of a pass: a branch, a pull request and the comments below it
//! are about many of them.
//!
//! Architecture Invariant: who waits for a forge waits alone. No lock is held while anything is
//! asked for: whoever wants the very same answer waits for it, and nobody else. Everything is asked
//! for once a pass, not once a cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{ClusterName, CommitId, PlanDigest};
use rollout::ApprovalScope;

use super::stack::Stack;
use super::thread::{Permissions, Thread};
use crate::reconcile::planner::{FleetReading, Planner};
use approvals::PREFIX;
use approvals::metadata::PullRequestMetadata;
use domain::BranchName;
use forge::{Forge, ForgeError, PullRequest, PullRequestState};
use git::{GitError, Repository, StageTrailers};
use host::once::Once;

/// How far below the head of a merged branch its commits are looked for.
const LONGEST: usize = 1000;

/// What has been read so far. While something is asked for, whoever wants the very same waits for that answer, and nobody else does.
#[derive(Debug, Default)]
pub struct ProposalCache {
    known: Mutex<Known>,
    permissions: Permissions,
}

type Asked<T> = Result<T, ForgeError>;

/// The place of an answer: whoever comes first asks.
type Place<T> = Arc<Once<T>>;

type Stacks = BTreeMap<BranchName, Arc<Stack>>;

#[derive(Debug, Default)]
struct Known {
    stacks: Place<Stacks>,
    /// Branches that cannot be read: what is asked there is not known.
    unreadable: BTreeMap<BranchName, GitError>,
    pulls: BTreeMap<BranchName, Place<Asked<Vec<PullRequest>>>>,
    recent: Place<Asked<Vec<PullRequest>>>,
    threads: BTreeMap<(u64, bool), Place<Asked<Arc<Thread>>>>,
    /// The open pull request of a branch, as an earlier pass found it.
    open: OpenOnes,
    /// By the number of a pull request, that of the one before it of the same branch; 0 where it is the first.
    before: BTreeMap<u64, u64>,
}

/// The open pull request of each branch. It is asked for by its number, which tells everything at once; a list tells neither
/// who merged it nor whether anybody has said something.
pub type OpenOnes = BTreeMap<BranchName, OpenOne>;

/// An open pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOne {
    /// Its number.
    number: u64,
    /// The number of the one before it of the same branch.
    before: u64,
}

/// The number that stands for one that is not known: there is none after it.
const NOT_KNOWN: u64 = u64::MAX;

impl Known {
    /// The number of the pull request before this one of the same branch.
    fn before(&self, number: u64) -> u64 {
        self.before.get(&number).copied().unwrap_or(NOT_KNOWN)
    }

    /// Notes which of these, of one branch, came before which. Numbers only grow, so that what is known stays.
    fn order(&mut self, pulls: &[PullRequest]) {
        for pull in pulls {
            let earlier = pulls.iter().map(|other| other.number).filter(|other| *other < pull.number).max();
            self.before.entry(pull.number).or_insert(earlier.unwrap_or_default());
        }
    }
}

impl ProposalCache {
    /// A board for which these were open before.
    pub fn knowing(open: OpenOnes) -> Self {
        let before = open.values().map(|open| (open.number, open.before)).collect();
        Self { known: Mutex::new(Known { open, before, ..Known::default() }), permissions: Permissions::default() }
    }

    /// Never held while anything is asked for.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open ones, where nothing else of their branches matters: one that somebody closed goes on counting beside the next.
    pub fn open_ones(&self) -> OpenOnes {
        let known = self.known();
        let mut open = known.open.clone();
        for (branch, pulls) in &known.pulls {
            let pulls = pulls.get().and_then(|pulls| pulls.as_deref().ok()).unwrap_or_default();
            let closed = pulls.iter().any(|pull| matches!(pull.state, PullRequestState::Closed { .. }));
            match pulls.iter().find(|pull| pull.state == PullRequestState::Open).filter(|_| !closed) {
                Some(pull) => {
                    open.insert(branch.clone(), OpenOne { number: pull.number, before: known.before(pull.number) })
                }
                None => open.remove(branch),
            };
        }
        open
    }

    /// Every proposed branch that can be read.
    ///
    /// # Errors
    /// [`GitError`] when branches cannot be read.
    pub(super) async fn stacks(&self, planner: &Planner, reading: &FleetReading) -> Result<Stacks, GitError> {
        let place = Arc::clone(&self.known().stacks);
        let read = async || {
            let repository = planner.repository();
            let (mut stacks, mut unreadable) = (Stacks::new(), BTreeMap::new());
            for branch in repository.refresh_below(PREFIX)? {
                match Stack::read(repository, reading, &branch) {
                    Ok(Some(stack)) => drop(stacks.insert(branch, Arc::new(stack))),
                    Ok(None) => {}
                    // It concerns those that are asked there, and nobody else.
                    Err(error) => {
                        tracing::warn!(git.branch = %branch, %error, "`{branch}` cannot be read");
                        unreadable.insert(branch, error);
                    }
                }
            }
            self.known().unreadable = unreadable;
            Ok(stacks)
        };
        place.get_or_try(read).await.cloned()
    }

    /// Every proposed branch, as it is now.
    ///
    /// # Errors
    /// As [`ProposalCache::stacks`].
    pub(super) async fn stacks_again(&self, planner: &Planner, reading: &FleetReading) -> Result<Stacks, GitError> {
        self.known().stacks = Place::default();
        self.stacks(planner, reading).await
    }

    /// What a branch holds.
    ///
    /// # Errors
    /// As [`ProposalCache::stacks`].
    pub(super) async fn stack(
        &self,
        planner: &Planner,
        reading: &FleetReading,
        branch: &BranchName,
    ) -> Result<Option<Arc<Stack>>, GitError> {
        let stack = self.stacks(planner, reading).await?.get(branch).cloned();
        match self.known().unreadable.get(branch) {
            Some(error) => Err(error.again(format!("read branch {branch}"))),
            None => Ok(stack),
        }
    }

    /// From now on a branch holds this; none where it is gone.
    pub(super) fn holds(&self, branch: &BranchName, stack: Option<Stack>) {
        let mut known = self.known();
        known.unreadable.remove(branch);
        // What is being read now may be from before.
        let Some(mut stacks) = known.stacks.get().cloned() else {
            known.stacks = Place::default();
            return;
        };
        match stack {
            Some(stack) => drop(stacks.insert(branch.clone(), Arc::new(stack))),
            None => drop(stacks.remove(branch)),
        }
        known.stacks = answered(stacks);
    }

    /// The newest pull requests of a branch, the newest first.
    pub(super) async fn pulls(
        &self,
        forge: &Forge,
        reading: &FleetReading,
        branch: &BranchName,
    ) -> Asked<Vec<PullRequest>> {
        let (place, open) = {
            let mut known = self.known();
            let place = Arc::clone(known.pulls.entry(branch.clone()).or_default());
            (place, known.open.get(branch).map(|open| open.number))
        };
        let newest = || forge.of_branch(reading.layout.branch.as_str(), branch.as_str());
        let ask = async || {
            let pulls = match open {
                None => newest().await,
                Some(number) => match forge.pull(number).await {
                    Ok(Some(pull)) if is_alone(&pull, branch) => Ok(vec![pull]),
                    Ok(_) => newest().await,
                    Err(error) => Err(error),
                },
            };
            if let Ok(pulls) = &pulls {
                self.known().order(pulls);
            }
            pulls
        };
        place.get_or_ask(ask).await.clone()
    }

    /// The same as they are now: what was read when the pass began may be another process' work by now.
    pub(super) async fn pulls_again(
        &self,
        forge: &Forge,
        reading: &FleetReading,
        branch: &BranchName,
    ) -> Asked<Vec<PullRequest>> {
        {
            let mut known = self.known();
            known.pulls.remove(branch);
            known.open.remove(branch);
        }
        self.pulls(forge, reading, branch).await
    }

    /// Keeps what became of a pull request that was opened or changed just now.
    pub(super) fn keep(&self, branch: &BranchName, pull: PullRequest) {
        let mut known = self.known();
        known.threads.retain(|(number, _), _| *number != pull.number);
        if let Some(Ok(mut pulls)) = known.pulls.get(branch).and_then(|pulls| pulls.get()).cloned() {
            pulls.retain(|it| it.number != pull.number);
            pulls.push(pull);
            pulls.sort_by_key(|pull| std::cmp::Reverse(pull.number));
            known.pulls.insert(branch.clone(), answered(Ok(pulls)));
        }
    }

    /// What was said below a pull request has changed just now.
    pub(super) fn forget(&self, number: u64) {
        self.known().threads.retain(|(known, _), _| *known != number);
    }

    /// A pull request that was opened just now, with these marks: nobody has said anything below it.
    pub(super) fn begin(&self, branch: &BranchName, pull: &PullRequest, marks: &PullRequestMetadata) {
        self.keep(branch, pull.clone());
        let mut known = self.known();
        if let Some(Ok(pulls)) = known.pulls.get(branch).and_then(|pulls| pulls.get()).cloned() {
            known.order(&pulls);
        }
        for reviews in [true, false] {
            let thread = Arc::new(Thread::silent(pull.clone(), marks.clone()));
            known.threads.insert((pull.number, reviews), answered(Ok(thread)));
        }
    }

    /// What was said below a pull request; with the reviews where they matter.
    pub(super) async fn thread(
        &self,
        forge: &Forge,
        reading: &FleetReading,
        pull: &PullRequest,
        reviews: bool,
    ) -> Asked<Arc<Thread>> {
        let (place, before) = {
            let mut known = self.known();
            let more = known.threads.get(&(pull.number, true)).and_then(|thread| thread.get());
            if let Some(thread) = more.filter(|thread| thread.is_ok()) {
                return thread.clone();
            }
            let place = Arc::clone(known.threads.entry((pull.number, reviews)).or_default());
            (place, known.before(pull.number))
        };
        let ask = async || {
            let thread = Thread::read(forge, reading, (pull, before), reviews, &self.permissions).await;
            thread.map(Arc::new)
        };
        place.get_or_ask(ask).await.clone()
    }

    /// The pull request by which this plan of a cluster came onto the deploy branch. One stands for several clusters, and its branch
    /// may have another one by now, so it is known by what it showed.
    pub(super) async fn merged(
        &self,
        planner: &Planner,
        reading: &FleetReading,
        branch: &BranchName,
        landed: &Landed<'_>,
    ) -> Asked<Option<Arc<Thread>>> {
        let Some(forge) = planner.forge(reading)? else { return Ok(None) };
        let seal = forge.seal()?;
        let of_branch = self.pulls(&forge, reading, branch).await?;
        let before = self.known().before.clone();
        // What Stepgate merged itself, on the word of people, a forge takes for closed.
        let showed = |pull: &&PullRequest| {
            let before = before.get(&pull.number).copied().unwrap_or(NOT_KNOWN);
            PullRequestMetadata::sealed_in(pull, before, &seal).of(landed.cluster, landed.plan).is_some()
        };
        // One that was merged before its text was brought up to its commits is known by these.
        let brought = |pull: &&PullRequest| {
            matches!(pull.state, PullRequestState::Merged { .. })
                && (showed(pull) || landed.lies_on(planner.repository(), pull))
        };
        let found = match of_branch.iter().find(brought).or_else(|| of_branch.iter().find(showed)) {
            Some(found) => Some(found.clone()),
            // The policy may have named the branch otherwise then.
            None => self.recent(&forge, reading).await?.iter().find(brought).cloned(),
        };
        match found {
            Some(pull) => self.thread(&forge, reading, &pull, true).await.map(Some),
            None => Ok(None),
        }
    }

    async fn recent(&self, forge: &Forge, reading: &FleetReading) -> Asked<Vec<PullRequest>> {
        let place = Arc::clone(&self.known().recent);
        place.get_or_ask(async || forge.recent_ones(reading.layout.branch.as_str()).await).await.clone()
    }
}

/// The place of an answer that is there.
fn answered<T>(answer: T) -> Place<T> {
    Arc::new(Once::answered(answer))
}

/// Whether nothing but this pull request matters of a branch: one that was closed counts on beside others.
fn is_alone(pull: &PullRequest, branch: &BranchName) -> bool {
    pull.branch == branch.as_str() && !matches!(pull.state, PullRequestState::Closed { .. })
}

/// What has landed.
pub(super) struct Landed<'a> {
    pub cluster: &'a ClusterName,
    pub plan: &'a PlanDigest,
    pub scope: &'a ApprovalScope,
}

impl Landed<'_> {
    /// Whether it is among the commits of a pull request.
    fn lies_on(&self, repository: &Repository, pull: &PullRequest) -> bool {
        pull.head.parse::<CommitId>().is_ok_and(|head| self.is_below(repository, head).unwrap_or_default())
    }

    fn is_below(&self, repository: &Repository, head: CommitId) -> Result<bool, GitError> {
        let (mut next, mut proposed) = (Some(head), false);
        for _ in 0..LONGEST {
            let Some(commit) = next.take() else { break };
            match StageTrailers::parse(&repository.message(&commit)?) {
                Some(trailers) => {
                    proposed = true;
                    let same_scope = match self.scope {
                        ApprovalScope::Stage(stage) => stage == &trailers.stage,
                        ApprovalScope::Rollout => true,
                    };
                    if &trailers.cluster == self.cluster && &trailers.plan == self.plan && same_scope {
                        return Ok(true);
                    }
                }
                None if proposed => break,
                None => {}
            }
            next = repository.parent(&commit)?;
        }
        Ok(false)
    }
}
