//! What happened to a cluster's directory on the deploy branch.

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use domain::RepoPath;
use domain::{ClusterName, CommitId};
use git2::Oid;
use jiff::Timestamp;

use super::commit_fields::CommitFields;
use super::snapshot::GitSnapshot;
use super::trailer::StageTrailers;
use crate::error::GitError;
use crate::refs::object_id::{commit_id, oid};
use crate::repository::Repository;
use crate::store::object::Objects;
use crate::store::tree::Mode;
use domain::BranchName;

/// The folder of the deploy tree that holds the directories of all clusters.
const CLUSTERS: &str = "clusters";

/// Where Stepgate writes: the deploy branch, and the folder on it when source and deploy share one branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployLayout {
    /// The branch, usually `deploy`.
    pub branch: BranchName,
    /// The folder, for the layout with a deploy path; none for the layout with a deploy branch.
    pub prefix: Option<RepoPath>,
}

impl DeployLayout {
    /// The directory of a cluster: `clusters/<name>`, below the prefix where there is one.
    ///
    /// # Errors
    /// [`GitError::RefusedPath`] when the name of the cluster is not a valid name of a folder.
    pub fn cluster(&self, cluster: &ClusterName) -> Result<RepoPath, GitError> {
        let path = format!("{CLUSTERS}/{cluster}");
        let joined = match &self.prefix {
            Some(prefix) => prefix.join(&path),
            None => RepoPath::new(path.clone()),
        };
        joined.map_err(|_| GitError::RefusedPath { path, reason: "it is not a valid path of a repository" })
    }
}

/// One commit that changed a cluster's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The commit.
    pub commit: CommitId,
    /// Its author, `Name <address>`.
    pub author: String,
    /// When it was committed, by its own word.
    pub committed_at: Timestamp,
    /// First line of its message.
    pub subject: String,
    /// Which stage of this cluster it is; none when a person (or another program) made it: a foreign change.
    pub stage: Option<StageTrailers>,
    /// Whether the stage is known by the ledger that the commit brings, since its message is a person's.
    pub squashed: bool,
}

impl HistoryEntry {
    /// Whether somebody else changed the directory.
    pub fn is_foreign(&self) -> bool {
        self.stage.is_none()
    }
}

impl Repository {
    /// The deploy tree of a commit: below the deploy path, where there is one.
    ///
    /// # Errors
    /// As [`Repository::snapshot_of`].
    pub fn deploy_snapshot(&self, layout: &DeployLayout, commit: &CommitId) -> Result<GitSnapshot, GitError> {
        let snapshot = self.snapshot_of(commit)?;
        match &layout.prefix {
            Some(prefix) => snapshot.below(prefix),
            None => Ok(snapshot),
        }
    }

    /// The commits reachable from `head` that changed the directory of `cluster`, newest first, at most `limit`.
    ///
    /// A merge is followed to the side that the directory came from, as `git log -- DIRECTORY` does, so a merged pull
    /// request shows as the stage commit that it carried.
    ///
    /// # Errors
    /// What the commits and trees suffer from.
    pub fn history(
        &self,
        head: &CommitId,
        layout: &DeployLayout,
        cluster: &ClusterName,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>, GitError> {
        self.history_since(head, None, layout, cluster, limit)
    }

    /// As [`Repository::history`], where the history of an earlier head is known: only the commits since are read. The
    /// same limit must have been given then.
    ///
    /// # Errors
    /// As [`Repository::history`].
    pub fn history_since(
        &self,
        head: &CommitId,
        known: Option<(&CommitId, &[HistoryEntry])>,
        layout: &DeployLayout,
        cluster: &ClusterName,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>, GitError> {
        let mut found = Vec::new();
        let end = known.map(|(head, _)| oid(head)).transpose()?;
        let met = self.walk_history(head, end, layout, cluster, |entry| {
            found.push(entry);
            found.len() < limit
        })?;
        if let Some((_, known)) = known.filter(|_| met) {
            found.extend(known.iter().take(limit.saturating_sub(found.len())).cloned());
        }
        Ok(found)
    }

    /// The newest stage commit of `cluster`, and the foreign changes made to its directory since, newest first.
    /// Without a stage commit every change is foreign.
    ///
    /// # Errors
    /// What the commits and trees suffer from.
    pub fn stage_commit(
        &self,
        head: &CommitId,
        layout: &DeployLayout,
        cluster: &ClusterName,
    ) -> Result<(Option<HistoryEntry>, Vec<HistoryEntry>), GitError> {
        let (mut stage, mut foreign) = (None, Vec::new());
        self.walk_history(head, None, layout, cluster, |entry| {
            if entry.is_foreign() {
                foreign.push(entry);
                return true;
            }
            stage = Some(entry);
            false
        })?;
        Ok((stage, foreign))
    }

    /// The commits from `from` to `to`, both included, oldest first: every commit reachable from `to` that contains
    /// `from`. Empty when `to` does not contain `from` (the branch was rewritten).
    ///
    /// # Errors
    /// What the commits suffer from.
    pub fn lineage(&self, from: &CommitId, to: &CommitId) -> Result<Vec<CommitId>, GitError> {
        let (from, to) = (oid(from)?, oid(to)?);
        self.with_objects(|objects| lineage(objects, from, to)?.into_iter().map(commit_id).collect())
    }

    /// Visits the commits that changed the directory. Ends at `end`, and says so, when everything older is behind it.
    fn walk_history(
        &self,
        head: &CommitId,
        end: Option<Oid>,
        layout: &DeployLayout,
        cluster: &ClusterName,
        mut visit: impl FnMut(HistoryEntry) -> bool,
    ) -> Result<bool, GitError> {
        let folder = layout.cluster(cluster)?;
        let head = oid(head)?;
        self.with_objects(|objects| {
            let fields = objects.commit(head)?;
            let mut seen = HashSet::from([head]);
            let mut next = BinaryHeap::from([Visit::new(head, fields, objects, layout, &folder)?]);
            while let Some(visit_now) = next.pop() {
                if Some(visit_now.id) == end && next.is_empty() {
                    return Ok(true);
                }
                let parents = visit_now
                    .fields
                    .parents
                    .iter()
                    .map(|id| visit_now.parent(*id, objects.commit(*id)?, objects, layout, &folder))
                    .collect::<Result<Vec<_>, _>>()?;
                let same = parents.iter().position(|parent| parent.directory == visit_now.directory);
                let unchanged = same.is_some() || (parents.is_empty() && visit_now.directory.is_none());
                if !unchanged && !visit(entry(visit_now.id, &visit_now.fields, cluster)?) {
                    return Ok(false);
                }
                for (position, parent) in parents.into_iter().enumerate() {
                    let follow = same.is_none_or(|same| same == position);
                    if follow && seen.insert(parent.id) {
                        next.push(parent);
                    }
                }
            }
            Ok(false)
        })
    }
}

/// How much older than the first one a commit has to be, by its own clock, not to be looked behind, in seconds.
/// A gate only waits longer where clocks were further off than that.
const CLOCKS: i64 = 86_400;

/// So many such commits, one behind the other, are looked behind all the same: whoever merges chooses the time of the merge.
const BEHIND: u8 = 8;

/// The commits reachable from `to` that contain `from`, parents before children.
pub(crate) fn lineage(objects: &Objects<'_>, from: Oid, to: Oid) -> Result<Vec<Oid>, GitError> {
    let oldest = objects.commit(from)?.committed_at.saturating_sub(CLOCKS);
    let mut contains: HashMap<Oid, bool> = HashMap::from([(from, true)]);
    let mut lineage = vec![from];
    // Depth first without recursion: a commit is judged once all its parents are.
    let mut pending: Vec<(Oid, u8, Option<Vec<Oid>>)> = vec![(to, 0, None)];
    while let Some((id, old, parents)) = pending.pop() {
        match parents {
            None if contains.contains_key(&id) => {}
            None => {
                let fields = objects.commit(id)?;
                let old = if fields.committed_at < oldest { old.saturating_add(1) } else { 0 };
                let parents = if old > BEHIND { Vec::new() } else { fields.parents.clone() };
                let next: Vec<_> = parents.iter().map(|parent| (*parent, old, None)).collect();
                pending.push((id, old, Some(parents)));
                pending.extend(next);
            }
            Some(parents) => {
                let inside = parents.iter().any(|parent| contains.get(parent).copied().unwrap_or_default());
                if contains.insert(id, inside).is_none() && inside {
                    lineage.push(id);
                }
            }
        }
    }
    let found = contains.get(&to).copied().unwrap_or_default();
    Ok(if found { lineage } else { Vec::new() })
}

/// A commit on the way, with the ids of the directory in it and of the folder that holds the directories of all clusters.
struct Visit {
    id: Oid,
    fields: Arc<CommitFields>,
    all: Option<Oid>,
    directory: Option<Oid>,
}

impl Visit {
    fn new(
        id: Oid,
        fields: Arc<CommitFields>,
        objects: &Objects<'_>,
        layout: &DeployLayout,
        folder: &RepoPath,
    ) -> Result<Self, GitError> {
        let all = folder_of_all(id, &fields, objects, layout)?;
        let directory = below(all, folder.file_name(), objects, || format!("{folder} of commit {id}"))?;
        Ok(Self { id, fields, all, directory })
    }

    /// A parent of this commit. Most commits concern one cluster: which they are is found once for all of them.
    fn parent(
        &self,
        id: Oid,
        fields: Arc<CommitFields>,
        objects: &Objects<'_>,
        layout: &DeployLayout,
        folder: &RepoPath,
    ) -> Result<Self, GitError> {
        let all = folder_of_all(id, &fields, objects, layout)?;
        let what = || format!("{folder} of commit {id}");
        let same = match (all, self.all) {
            (before, after) if before == after => true,
            (Some(before), Some(after)) => objects.differing(before, after, what)?.is_some_and(|names| {
                names.binary_search_by(|name| name.as_slice().cmp(folder.file_name().as_bytes())).is_err()
            }),
            _ => false,
        };
        let directory = if same { self.directory } else { below(all, folder.file_name(), objects, what)? };
        Ok(Self { id, fields, all, directory })
    }
}

/// The folder of a commit that holds the directories of all clusters.
pub(super) fn folder_of_all(
    id: Oid,
    fields: &CommitFields,
    objects: &Objects<'_>,
    layout: &DeployLayout,
) -> Result<Option<Oid>, GitError> {
    let mut all = Some(fields.tree);
    let prefix = layout.prefix.as_ref().into_iter().flat_map(RepoPath::segments);
    for segment in prefix.chain([CLUSTERS]) {
        all = below(all, segment, objects, || format!("{CLUSTERS} of commit {id}"))?;
    }
    Ok(all)
}

/// The folder of this name in another one.
pub(super) fn below(
    tree: Option<Oid>,
    name: &str,
    objects: &Objects<'_>,
    what: impl Fn() -> String,
) -> Result<Option<Oid>, GitError> {
    let Some(tree) = tree else { return Ok(None) };
    let entries = objects.tree(tree, what)?;
    Ok(entries.find(name.as_bytes()).filter(|entry| entry.mode == Mode::Folder).map(|entry| entry.id))
}

/// What a commit says of itself, as part of the history of a cluster.
pub(super) fn entry(id: Oid, fields: &CommitFields, cluster: &ClusterName) -> Result<HistoryEntry, GitError> {
    Ok(HistoryEntry {
        commit: commit_id(id)?,
        author: fields.author.clone(),
        committed_at: Timestamp::from_second(fields.committed_at).unwrap_or(Timestamp::UNIX_EPOCH),
        subject: fields.message.lines().next().unwrap_or_default().to_owned(),
        stage: fields.stages.iter().find(|stage| stage.cluster == *cluster).cloned(),
        squashed: false,
    })
}

impl PartialEq for Visit {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Visit {}

impl PartialOrd for Visit {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Visit {
    /// Newest first; ids break ties, so that the order is the same everywhere.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.fields.committed_at, self.id).cmp(&(other.fields.committed_at, other.id))
    }
}
