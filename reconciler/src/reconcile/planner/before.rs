//! Which earlier policies judge what is pushed, and where Stepgate wrote by them.
//!
//! Where a cluster was deployed before is found in the history of the source branch, never at the
//! place that a push names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::CommitId;
use domain::{ProblemCode, RepoPath};
use overlays::Remembered;
use policy::{Deploy, Policy};

use super::Planner;
use crate::reconcile::cache::inputs::SourceReading;
use crate::reconcile::clusters::directory::path;
use domain::BranchName;
use domain::ObjectId;
use git::{DeployLayout, GitError, GitSnapshot, Limit, WrittenCommit};
use host::memory::Part;
use planning::ClusterDirectory;
use planning::policies::{Before, Befores};

/// The file that is the policy.
const POLICY: &str = "stepgate.yaml";

/// Policies that were read before, and where they let Stepgate write.
pub(super) struct KnownPolicies {
    policies: Mutex<Remembered<CommitId, Arc<Policy>>>,
    /// By the source commit that was the newest: every place that its history names, and those that count beside the one that it names itself.
    places: Mutex<Option<KnownPlaces>>,
    /// Whether a commit comes after the one that is trusted.
    later: Mutex<Remembered<CommitId, bool>>,
}

/// The commit, every place that its history names, and those that count beside its own.
type KnownPlaces = (CommitId, Arc<[Deploy]>, Places);

impl Default for KnownPolicies {
    fn default() -> Self {
        Self {
            policies: Mutex::new(Remembered::new(Part::Policies.bytes() / 10 * 6)),
            places: Mutex::default(),
            later: Mutex::new(Remembered::new(Part::Policies.bytes() / 10)),
        }
    }
}

/// Where the policies of a history let Stepgate write: each place once, with the newest commit that says so, the newest first.
pub type Places = Arc<[(CommitId, Deploy)]>;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Planner {
    /// The policies of before that count for a cluster, whose rollout began from `base`.
    pub(super) fn befores(&self, directory: &ClusterDirectory, base: Option<&CommitId>) -> Befores {
        let ledger = directory.ledger().map(|ledger| &ledger.source);
        // Of a cluster that has no record nothing was before, but what whoever runs Stepgate says.
        let pinned = self.trusted.as_ref().filter(|_| ledger.is_none());
        let mut commits: Vec<CommitId> = Vec::new();
        for source in base.into_iter().chain(ledger).chain(pinned) {
            let commit = self.not_before_trusted(source);
            if !commits.contains(&commit) {
                commits.push(commit);
            }
        }
        let mut befores = Befores::default();
        for commit in commits {
            match self.policy_at(&commit) {
                Ok(policy) => befores.known.push(Before { commit, policy }),
                Err(reason) => befores.unreadable.push((commit, reason)),
            }
        }
        befores
    }

    /// The commit, or the one that is trusted where that is not older.
    fn not_before_trusted(&self, commit: &CommitId) -> CommitId {
        let Some(trusted) = self.trusted.as_ref().filter(|trusted| *trusted != commit) else { return commit.clone() };
        let known = lock(&self.policies.later).get(commit);
        let is_later = known.unwrap_or_else(|| {
            let is_later = self.repository.lineage(trusted, commit).is_ok_and(|lineage| !lineage.is_empty());
            lock(&self.policies.later).insert(commit.clone(), is_later, 128);
            is_later
        });
        if is_later { commit.clone() } else { trusted.clone() }
    }

    /// What the policy says in a commit of the source branch, or why that is not known.
    fn policy_at(&self, commit: &CommitId) -> Result<Arc<Policy>, String> {
        if let Some(known) = lock(&self.policies.policies).get(commit) {
            return Ok(known);
        }
        let read = || -> Result<Option<Arc<[u8]>>, GitError> { policy_file(&self.repository.snapshot_of(commit)?) };
        let bytes = read().map_err(|error| error.to_string())?.unwrap_or_default();
        let mut policy = parsed(&bytes)?;
        if self.rehearses {
            policy.ask_nobody();
        }
        let policy = Arc::new(policy);
        lock(&self.policies.policies).insert(commit.clone(), Arc::clone(&policy), 4096 + bytes.len() * 4);
        Ok(policy)
    }

    /// Where earlier policies on the way to a source commit let Stepgate write, if that is elsewhere than this one says. What comes before the
    /// commit that is trusted does not count, nor what was pushed and put back since.
    pub(super) fn earlier_places(&self, source: &SourceReading) -> Result<Places, GitError> {
        let (head, declared) = (source.files.snapshot().commit(), &source.fleet.policy.deploy);
        let known = lock(&self.policies.places).clone();
        if let Some((_, _, earlier)) = known.as_ref().filter(|(at, ..)| at == head) {
            return Ok(Arc::clone(earlier));
        }
        // Only what is new is looked through, as long as nothing was rewritten.
        let known =
            known.filter(|(at, ..)| self.repository.between(Some(head), at, 1).is_ok_and(|lost| lost.is_empty()));
        let base = known.as_ref().map(|(at, ..)| at).or(self.trusted.as_ref());
        let said = self.said(base, head)?;
        let mut all: Vec<Deploy> = known.iter().flat_map(|(_, all, _)| all.iter().cloned()).collect();
        for place in said.iter().filter_map(|(_, place)| place.clone()) {
            if !all.contains(&place) {
                all.push(place);
            }
        }
        let earlier = if all.iter().all(|place| place == declared) {
            Places::default()
        } else {
            self.not_put_back(head, declared)?
        };
        *lock(&self.policies.places) = Some((head.clone(), all.into(), Arc::clone(&earlier)));
        Ok(earlier)
    }

    /// Where each commit from `base` on lets Stepgate write, as far as its policy can be read, and that of the trusted commit.
    fn said(&self, base: Option<&CommitId>, head: &CommitId) -> Result<Vec<(WrittenCommit, Option<Deploy>)>, GitError> {
        let mut read: HashMap<Option<ObjectId>, Option<Deploy>> = HashMap::new();
        let mut said = Vec::new();
        let longest = usize::try_from(self.repository.limits().get(Limit::Commits)).unwrap_or(usize::MAX);
        for commit in self.repository.between(base, head, longest)? {
            let place = self.place_in(&commit.id, &mut read)?;
            said.push((commit, place));
        }
        Ok(said)
    }

    fn place_in(
        &self,
        commit: &CommitId,
        read: &mut HashMap<Option<ObjectId>, Option<Deploy>>,
    ) -> Result<Option<Deploy>, GitError> {
        let Ok(snapshot) = self.repository.snapshot_of(commit) else { return Ok(None) };
        let Ok(id) = snapshot.tree_id(&path(POLICY)?) else { return Ok(None) };
        let place = || {
            let bytes = policy_file(&snapshot).ok()?.unwrap_or_default();
            Some(parsed(&bytes).ok()?.deploy)
        };
        Ok(read.entry(id).or_insert_with(place).clone())
    }

    /// Other places than this one, by commits that do not come after any which says this one: what does was pushed, and put back.
    fn not_put_back(&self, head: &CommitId, declared: &Deploy) -> Result<Places, GitError> {
        let trusted = self.trusted.as_ref();
        let said = self.said(trusted, head)?;
        let commits: HashMap<&CommitId, &(WrittenCommit, Option<Deploy>)> =
            said.iter().map(|entry| (&entry.0.id, entry)).collect();
        let pinned = match trusted {
            Some(trusted) => self.place_in(trusted, &mut HashMap::new())?,
            None => None,
        };
        // What comes before all of these is behind the commit that is trusted, if there is one.
        let mut after: HashMap<&CommitId, bool> = HashMap::new();
        let mut pending = vec![(head, false)];
        while let Some((id, is_seen)) = pending.pop() {
            let Some((commit, place)) = commits.get(id).filter(|_| !after.contains_key(id)) else { continue };
            if is_seen {
                let behind = |parent: &CommitId| match commits.contains_key(parent) {
                    true => after.get(parent).copied().unwrap_or_default(),
                    false => pinned.as_ref() == Some(declared),
                };
                let is_after = place.as_ref() == Some(declared) || commit.parents.iter().any(behind);
                after.insert(id, is_after);
            } else {
                pending.push((id, true));
                pending.extend(commit.parents.iter().map(|parent| (parent, false)));
            }
        }
        let mut found: Vec<(CommitId, Deploy)> = Vec::new();
        let of_history = said.iter().filter(|(commit, _)| after.get(&commit.id) == Some(&false));
        let of_history = of_history.filter_map(|(commit, place)| Some((commit.id.clone(), place.clone()?)));
        let of_trusted = trusted.cloned().zip(pinned).filter(|(_, place)| place != declared);
        for (commit, place) in of_history.chain(of_trusted) {
            if !found.iter().any(|(_, other)| *other == place) {
                found.push((commit, place));
            }
        }
        Ok(found.into())
    }

    /// Where what is deployed lies, if that is not where the newest policy says: the oldest of these places that holds a ledger.
    pub(super) fn moved(
        &self,
        declared: &DeployLayout,
        places: &Places,
    ) -> Result<Option<(DeployLayout, CommitId, Deploy)>, GitError> {
        for (commit, place) in places.iter().rev() {
            let Some(layout) = layout(place).filter(|layout| layout != declared) else { continue };
            let Some(head) = self.repository.head(&layout.branch)? else { continue };
            let Ok(snapshot) = self.repository.deploy_snapshot(&layout, &head) else { continue };
            if holds_a_ledger(&snapshot)? {
                return Ok(Some((layout, commit.clone(), place.clone())));
            }
        }
        Ok(None)
    }
}

/// The branches of these places.
pub(super) fn branches(places: &Places) -> Vec<BranchName> {
    places.iter().filter_map(|(_, place)| Some(layout(place)?.branch)).collect()
}

fn layout(place: &Deploy) -> Option<DeployLayout> {
    Some(DeployLayout { branch: place.branch.parse().ok()?, prefix: place.path.clone() })
}

fn holds_a_ledger(deploy: &GitSnapshot) -> Result<bool, GitError> {
    for (name, _) in deploy.folders(&path("clusters")?).unwrap_or_default() {
        let Ok(ledger) = RepoPath::new(format!("clusters/{name}/rollout.yaml")) else { continue };
        if deploy.tree_id(&ledger)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The bytes of the policy; none where the commit has none.
fn policy_file(snapshot: &GitSnapshot) -> Result<Option<Arc<[u8]>>, GitError> {
    match snapshot.read(&path(POLICY)?) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(GitError::MissingPath { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A policy, as far as it can be read at all: single fields that are wrong are told to whoever pushes them.
fn parsed(bytes: &[u8]) -> Result<Policy, String> {
    let path = RepoPath::new(POLICY).map_err(|error| error.to_string())?;
    let (policy, problems) = policy::read_policy(&path, bytes);
    match problems.iter().find(|problem| problem.code != ProblemCode::BadPolicy) {
        None => Ok(policy),
        Some(problem) => Err(problem.to_string()),
    }
}
