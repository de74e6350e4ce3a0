//! The deploy branch as decisions see it: the commits since the running rollout began, and who else wrote there.
//!
//! Architecture Invariant: foreign changes stop us. The ledger records the digest of the cluster's
//! directory; a different digest found later means that somebody else wrote there. It is reported
//! and never overwritten. A squashed commit without our trailers is known by the ledgers that it
//! holds.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use overlays::Remembered;
use rollout::{DeployHead, ForeignChange, KnownCommit, Landing, Ledger, Lineage, StageTrailer};

use crate::reconcile::clusters::directory::ledger_path;
use git::{Chain, Changes, DeployLayout, GitError, HistoryEntry, Older, Reach, Repository, StageTrailers};
use host::memory::Part;
use planning::{ClusterDirectory, DeployedLedger};

/// How far back a cluster's directory is followed before its rollout counts as lost.
pub const LONGEST_ROLLOUT: usize = 500;

/// What the deploy branch's history says about one cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterHistory {
    /// The commits that a decision looks at: from the first one of the ledger's rollout to the head.
    pub head: DeployHead,
    /// How many of them only this cluster keeps.
    pub unshared: usize,
    /// The commit that the ledger's rollout started from: the newest older one that changed the cluster's directory.
    pub base: Option<CommitId>,
}

/// Histories of directories that were read before.
#[derive(Debug)]
pub struct Histories {
    read: Mutex<Remembered<ClusterName, ReadHistory>>,
    /// Which clusters commits changed, once for all clusters.
    changes: Mutex<Changes>,
    /// The deploy branch, once for all clusters.
    chain: Mutex<Chain>,
}

/// The history of a directory, where it was read and at which head.
#[derive(Clone, Debug)]
struct ReadHistory {
    head: CommitId,
    layout: DeployLayout,
    /// The newest commits that changed it, as far back as was asked.
    entries: Arc<[HistoryEntry]>,
    /// How far back there are no older ones; none where they were not looked for.
    ends: Option<Reach>,
    /// From which commit on this cluster's history was walked by itself, and what that found.
    walked: Option<(CommitId, Arc<[HistoryEntry]>)>,
}

impl Default for Histories {
    fn default() -> Self {
        Self {
            read: Mutex::new(Remembered::new(Part::Histories.bytes())),
            changes: Mutex::new(Changes::new(Part::Changes.bytes())),
            chain: Mutex::new(Chain::new(Part::Chain.bytes())),
        }
    }
}

impl Histories {
    /// The commits from `first` to `head`, and where among them each of these is. They are shared, as far as the chain reaches back; how many are not
    /// is told too.
    fn lineage<'a>(
        &self,
        repository: &Repository,
        first: &CommitId,
        head: &CommitId,
        own: impl Iterator<Item = &'a HistoryEntry>,
    ) -> Result<(Lineage, BTreeMap<usize, &'a HistoryEntry>, usize), GitError> {
        let chain = self.chain_to(repository, head)?;
        if let Some(start) = chain.place(first) {
            let place = |entry: &'a HistoryEntry| Some((chain.place(&entry.commit)?.checked_sub(start)?, entry));
            return Ok((chain.since(first).unwrap_or_default(), own.filter_map(place).collect(), 0));
        }
        drop(chain);
        let lineage: Lineage = repository.lineage(first, head)?.into();
        let known: HashMap<&CommitId, &HistoryEntry> = own.map(|entry| (&entry.commit, entry)).collect();
        let place = |(place, id)| Some((place, *known.get(id)?));
        let places = lineage.iter().enumerate().filter_map(place).collect();
        let unshared = lineage.len();
        Ok((lineage, places, unshared))
    }

    /// The newest commits that changed the directory of `cluster`, newest first: so many, or all as far as the reach.
    ///
    /// # Errors
    /// [`GitError`] when commits cannot be read.
    pub fn newest(
        &self,
        repository: &Repository,
        layout: &DeployLayout,
        cluster: &ClusterName,
        head: &CommitId,
        (limit, reach): (usize, Reach),
    ) -> Result<Vec<HistoryEntry>, GitError> {
        if limit <= LONGEST_ROLLOUT {
            let entries = self.read(repository, layout, cluster, head, reach, |entries| entries.len() >= limit)?;
            return Ok(entries.iter().take(limit).cloned().collect());
        }
        let mut entries = repository.history(head, layout, cluster, limit)?;
        recognise(repository, layout, cluster, entries.iter_mut().filter(|entry| entry.is_foreign()))?;
        Ok(entries)
    }

    /// Whether the chain to this head holds the commit.
    pub fn holds(&self, repository: &Repository, commit: &CommitId, head: &CommitId) -> Result<bool, GitError> {
        Ok(self.chain_to(repository, head)?.place(commit).is_some())
    }

    fn chain_to(&self, repository: &Repository, head: &CommitId) -> Result<MutexGuard<'_, Chain>, GitError> {
        let mut chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        if chain.head() != Some(head) {
            repository.extend(&mut chain, head)?;
        }
        Ok(chain)
    }

    /// The commits that changed the directory of `cluster`, newest first, back to where there are `enough`: in a large fleet nearly all commits are
    /// others', and nearly all of them are old.
    fn read(
        &self,
        repository: &Repository,
        layout: &DeployLayout,
        cluster: &ClusterName,
        head: &CommitId,
        reach: Reach,
        enough: impl Fn(&[HistoryEntry]) -> bool,
    ) -> Result<Arc<[HistoryEntry]>, GitError> {
        let known = self.read.lock().unwrap_or_else(PoisonError::into_inner).get(cluster);
        let known = known.filter(|known| known.layout == *layout);
        let current = known.as_ref().filter(|known| known.head == *head);
        if let Some(known) = current.filter(|known| {
            let is_whole = known.ends.is_some_and(|ends| ends == Reach::Everything || ends == reach);
            is_whole || enough(&known.entries)
        }) {
            return Ok(Arc::clone(&known.entries));
        }
        let recognised = known.as_ref().map(|known| known.entries.as_ref()).unwrap_or_default();
        let mut walked = known.as_ref().and_then(|known| known.walked.clone());
        let (mut entries, mut is_whole) = (Vec::new(), false);
        while !is_whole && !enough(&entries) {
            let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            let older = repository.older(&mut changes, head, layout, cluster, entries.len(), reach)?;
            drop(changes);
            match older {
                Older::Entry(entry) => {
                    let entry = match recognised.iter().find(|known| known.commit == entry.commit) {
                        Some(known) => known.clone(),
                        None => {
                            let mut entry = *entry;
                            recognise(
                                repository,
                                layout,
                                cluster,
                                entry.is_foreign().then_some(&mut entry).into_iter(),
                            )?;
                            entry
                        }
                    };
                    entries.push(entry);
                }
                Older::From(commit) => {
                    let found = walk(repository, layout, cluster, &commit, walked.as_ref())?;
                    entries.extend(found.iter().cloned());
                    walked = Some((commit, found));
                    is_whole = true;
                }
                Older::Nothing => is_whole = true,
            }
            is_whole |= entries.len() >= LONGEST_ROLLOUT;
        }
        entries.truncate(LONGEST_ROLLOUT);
        let entries: Arc<[HistoryEntry]> = entries.into();
        let bytes = 256 + (entries.len() + walked.as_ref().map_or(0, |(_, entries)| entries.len())) * 512;
        let (head, layout) = (head.clone(), layout.clone());
        let read = ReadHistory { head, layout, entries: Arc::clone(&entries), ends: is_whole.then_some(reach), walked };
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(cluster.clone(), read, bytes);
        Ok(entries)
    }
}

/// The history of a cluster from this commit on by itself. Of what was walked before only the commits since are read.
fn walk(
    repository: &Repository,
    layout: &DeployLayout,
    cluster: &ClusterName,
    from: &CommitId,
    known: Option<&(CommitId, Arc<[HistoryEntry]>)>,
) -> Result<Arc<[HistoryEntry]>, GitError> {
    if let Some((_, entries)) = known.filter(|(commit, _)| commit == from) {
        return Ok(Arc::clone(entries));
    }
    let known = known.map(|(commit, entries)| (commit, entries.as_ref()));
    let mut entries = repository.history_since(from, known, layout, cluster, LONGEST_ROLLOUT)?;
    let known = known.map(|(_, entries)| entries).unwrap_or_default();
    let is_new = |entry: &&mut HistoryEntry| !known.iter().any(|known| known.commit == entry.commit);
    recognise(repository, layout, cluster, entries.iter_mut().filter(|entry| entry.is_foreign()).filter(is_new))?;
    Ok(entries.into())
}

/// Says of commits without our message which stage they brought, if any.
///
/// # Errors
/// [`GitError`] when commits cannot be read.
fn recognise<'a>(
    repository: &Repository,
    layout: &DeployLayout,
    cluster: &ClusterName,
    foreign: impl Iterator<Item = &'a mut HistoryEntry>,
) -> Result<(), GitError> {
    for entry in foreign {
        entry.stage = squashed(repository, layout, cluster, &entry.commit)?;
        entry.squashed = entry.stage.is_some();
    }
    Ok(())
}

/// The stage that a commit without our message put on the branch: a squashed proposal keeps its ledger alone.
fn squashed(
    repository: &Repository,
    layout: &DeployLayout,
    cluster: &ClusterName,
    commit: &CommitId,
) -> Result<Option<StageTrailers>, GitError> {
    let after = directory_at(repository, layout, cluster, commit)?;
    let Some(ledger) = after.ledger() else { return Ok(None) };
    if after.files.digest() != ledger.tree {
        return Ok(None);
    }
    let before = match repository.parent(commit)? {
        Some(parent) => Some(directory_at(repository, layout, cluster, &parent)?),
        None => None,
    };
    let before = before.as_ref().and_then(ClusterDirectory::ledger).filter(|before| before.rollout == ledger.rollout);
    let known = before.map_or(0, |before| before.stages.len());
    let new = ledger.stages.last().filter(|_| ledger.stages.len() == known + 1);
    Ok(new.map(|record| StageTrailers {
        rollout: ledger.rollout.clone(),
        cluster: ledger.cluster.clone(),
        stage: record.stage.clone(),
        plan: ledger.plan.clone(),
        source: ledger.source.clone(),
    }))
}

/// The commit by which somebody took the ledger of `cluster` away, and its author; none where the history knows no ledger of it.
///
/// # Errors
/// [`GitError`] when commits cannot be read.
pub fn removed(
    repository: &Repository,
    histories: &Histories,
    layout: &DeployLayout,
    cluster: &ClusterName,
    head: &CommitId,
) -> Result<Option<(CommitId, String)>, GitError> {
    let history = histories.read(repository, layout, cluster, head, Reach::Everything, |_| false)?;
    let ledger = ledger_path(cluster)?;
    // The newest commit that still had it, and the one after that.
    let mut after: Option<&HistoryEntry> = None;
    for entry in history.iter() {
        if repository.deploy_snapshot(layout, &entry.commit)?.tree_id(&ledger)?.is_some() {
            return Ok(after.map(|after| (after.commit.clone(), after.author.clone())));
        }
        after = Some(entry);
    }
    Ok(None)
}

fn directory_at(
    repository: &Repository,
    layout: &DeployLayout,
    cluster: &ClusterName,
    commit: &CommitId,
) -> Result<ClusterDirectory, GitError> {
    crate::reconcile::clusters::directory::read(&repository.deploy_snapshot(layout, commit)?, cluster)
}

/// Reads the history of `cluster` back to where the ledger's rollout began. `first_seen` says since when a commit is known here.
///
/// # Errors
/// [`GitError`] when commits cannot be read.
pub fn history(
    repository: &Repository,
    histories: &Histories,
    layout: &DeployLayout,
    cluster: &ClusterName,
    head: Option<&CommitId>,
    ledger: Option<&Ledger>,
    first_seen: impl Fn(&CommitId) -> Timestamp,
) -> Result<ClusterHistory, GitError> {
    let Some(head) = head else { return Ok(ClusterHistory::default()) };
    let belongs = |entry: &HistoryEntry| {
        let rollout = entry.stage.as_ref().map(|trailers| &trailers.rollout);
        rollout.is_some() && rollout == ledger.map(|ledger| &ledger.rollout)
    };
    // What came before the rollout is looked at no further than where it began from.
    let begins = |entry: &HistoryEntry| !entry.is_foreign() && !belongs(entry);
    let history =
        histories.read(repository, layout, cluster, head, Reach::Lifetime, |entries| entries.iter().any(begins))?;
    // A person's commit in between ends no rollout: once it is reverted, the stage before it is still the running one.
    let own = history
        .iter()
        .take_while(|entry| belongs(entry) || entry.is_foreign())
        .enumerate()
        .filter(|(_, entry)| belongs(entry))
        .last()
        .map_or(0, |(last, _)| last + 1);
    if own >= LONGEST_ROLLOUT {
        return Err(GitError::Library {
            action: format!("find where the rollout of {cluster} began"),
            message: format!("more than {LONGEST_ROLLOUT} commits have changed its folder since"),
        });
    }
    let base = history.iter().skip(own).find(|entry| !entry.is_foreign()).map(|entry| entry.commit.clone());
    let first = own.checked_sub(1).and_then(|last| history.get(last)).or_else(|| history.first());
    let Some(first) = first else { return Ok(ClusterHistory::default()) };
    let mut committed_at = match repository.parent(&first.commit)? {
        Some(parent) => repository.committed_at(&parent)?.min(first_seen(&first.commit)),
        None => first.committed_at,
    };
    // Other clusters' commits count for the lineage only; they take the time of the one before.
    let (lineage, known, unshared) = histories.lineage(repository, &first.commit, head, history.iter())?;
    let mut told = Vec::new();
    for (place, entry) in known {
        let (landing, landed_at) = match ledger.filter(|_| belongs(entry)) {
            Some(ledger) => landing(repository, entry, ledger, &lineage.since(place))?,
            None => (Landing::Pushed, None),
        };
        // By the clock of whoever made it, which is not earlier than what it follows on, nor later than when it was seen here.
        let at = landed_at.unwrap_or(entry.committed_at);
        committed_at = at.max(committed_at).min(first_seen(&entry.commit));
        let trailer = entry.stage.as_ref().map(|trailers| {
            let (cluster, rollout, stage) =
                (trailers.cluster.clone(), trailers.rollout.clone(), trailers.stage.clone());
            Arc::new(StageTrailer { cluster, rollout, stage })
        });
        told.push((place, KnownCommit { committed_at, landing, trailer }));
    }
    Ok(ClusterHistory { head: DeployHead::new(lineage, told), unshared, base })
}

/// How the commit of a stage came onto the branch, and when, where that was not when it was made. `later` are the commits that contain it.
fn landing(
    repository: &Repository,
    entry: &HistoryEntry,
    ledger: &Ledger,
    later: &Lineage,
) -> Result<(Landing, Option<Timestamp>), GitError> {
    if entry.squashed {
        return Ok((Landing::Merged(entry.author.clone()), None));
    }
    let stage = entry.stage.as_ref().map(|trailers| &trailers.stage);
    let was_proposed = ledger.approvals.iter().any(|approved| ledger.brought(approved) == stage);
    if !was_proposed {
        return Ok((Landing::Pushed, None));
    }
    Ok(match repository.merged_by(later, &entry.commit)? {
        Some((by, at)) => (Landing::Merged(by), Some(at)),
        None => (Landing::Unknown, None),
    })
}

/// Whether somebody else wrote to the cluster's directory: its digest is not the one that the ledger records.
///
/// # Errors
/// [`GitError`] when commits cannot be read.
pub fn foreign_change(
    repository: &Repository,
    layout: &DeployLayout,
    cluster: &ClusterName,
    head: Option<&CommitId>,
    directory: &ClusterDirectory,
) -> Result<Option<ForeignChange>, GitError> {
    let paths = match &directory.ledger {
        DeployedLedger::Absent => return Ok(None),
        DeployedLedger::Unreadable(message) => vec![format!("clusters/{cluster}/rollout.yaml: {message}")],
        DeployedLedger::Read(ledger) if directory.files.digest() == ledger.tree => return Ok(None),
        DeployedLedger::Read(_) => Vec::new(),
    };
    let Some(head) = head else { return Ok(None) };
    let (ours, foreign) = repository.stage_commit(head, layout, cluster)?;
    let paths = match ours {
        Some(ours) if paths.is_empty() => changed_paths(repository, layout, cluster, &ours.commit, directory)?,
        _ => paths,
    };
    let newest = foreign.first();
    Ok(Some(ForeignChange {
        commit: newest.map(|entry| entry.commit.clone()),
        author: newest.map(|entry| entry.author.clone()),
        paths,
    }))
}

fn changed_paths(
    repository: &Repository,
    layout: &DeployLayout,
    cluster: &ClusterName,
    ours: &CommitId,
    directory: &ClusterDirectory,
) -> Result<Vec<String>, GitError> {
    let before = directory_at(repository, layout, cluster, ours)?;
    Ok(before.files.diff(&directory.files).files.keys().map(ToString::to_string).collect())
}
