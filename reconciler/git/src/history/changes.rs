//! Which commits changed the folders of which clusters, found once for all clusters and only as far back as anybody asks.
//!
//! The history of one cluster is a few commits among those of all others. Walking these for each cluster by itself would read as many commits as
//! there are, times as many clusters as there are.

use std::collections::{HashMap, VecDeque};

use domain::{ClusterName, CommitId, RepoPath};
use git2::Oid;

use super::deploy_history::{DeployLayout, HistoryEntry, below, entry, folder_of_all};
use crate::error::GitError;
use crate::refs::object_id::{commit_id, oid};
use crate::repository::Repository;
use crate::store::object::Objects;
use crate::store::tree::{Mode, Tree};

/// About how many bytes of memory it takes that one commit changed one cluster.
const CHANGE: usize = 2 * size_of::<Oid>();

/// A cluster that commits have changed, beside the changes.
const CLUSTER: usize = 160;

/// So many commits are looked at before others may use the repository, and before [`crate::Limit::HistoryBytes`] is counted anew.
const LOOK: usize = 10_000;

/// The changes of the newest commits of a deploy branch, as far as each has one parent.
#[derive(Clone, Debug)]
pub struct Changes {
    layout: Option<DeployLayout>,
    head: Option<Oid>,
    /// By the name of a cluster's folder, newest first.
    clusters: HashMap<Vec<u8>, VecDeque<Oid>>,
    changes: usize,
    end: End,
    /// How many bytes it may take.
    most: usize,
}

/// Where what is known ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// This commit comes next, and was not looked at.
    Open(Oid),
    /// From this commit on the histories of clusters part: it is a merge, or there is no room.
    Parted(Oid),
    /// Everything is known.
    Whole,
}

/// How far back the history of a cluster is looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To the first commit of all.
    Everything,
    /// Not much further than to where its folder was made: who was added to a large fleet yesterday has none of its old commits.
    Lifetime,
}

/// What comes next in the history of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Older {
    /// This commit changed it.
    Entry(Box<HistoryEntry>),
    /// What this commit and those before it changed is to be looked for in [`Repository::history`].
    From(CommitId),
    /// Nothing.
    Nothing,
}

/// What is to be known of a commit.
enum Step {
    /// The clusters that it changed, and its parent.
    Changed(Vec<Vec<u8>>, Option<Oid>),
    /// It has several parents, or what it changed cannot be told.
    Parted,
}

impl Changes {
    /// Nothing is known, and about so many bytes of memory may be taken.
    pub fn new(bytes: usize) -> Self {
        let (layout, head, clusters, end) = (None, None, HashMap::new(), End::Whole);
        Self { layout, head, clusters, changes: 0, end, most: bytes }
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.changes * CHANGE + self.clusters.len() * CLUSTER
    }

    fn restart(&mut self, layout: &DeployLayout, head: Oid) {
        *self = Self { layout: Some(layout.clone()), head: Some(head), end: End::Open(head), ..Self::new(self.most) };
    }

    /// Brings it to a newer head. Only the commits since are looked at.
    fn advance(&mut self, objects: &Objects<'_>, layout: &DeployLayout, head: Oid) -> Result<(), GitError> {
        if self.head == Some(head) && self.layout.as_ref() == Some(layout) {
            return Ok(());
        }
        if self.head.is_none() || self.layout.as_ref() != Some(layout) {
            self.restart(layout, head);
            return Ok(());
        }
        let (mut newer, mut next) = (Vec::new(), Some(head));
        while let Some(id) = next.filter(|id| self.head != Some(*id)) {
            match step(objects, layout, id)? {
                Step::Changed(names, parent) if newer.len() * CHANGE < self.most => {
                    newer.push((id, names));
                    next = parent;
                }
                Step::Changed(..) | Step::Parted => {
                    next = None;
                    break;
                }
            }
        }
        // It was written anew, or parts the histories of clusters.
        if next.is_none() {
            self.restart(layout, head);
            return Ok(());
        }
        for (id, names) in newer.into_iter().rev() {
            self.changes += names.len();
            for name in names {
                self.clusters.entry(name).or_default().push_front(id);
            }
        }
        self.head = Some(head);
        if self.bytes() > self.most {
            self.restart(layout, head);
        }
        Ok(())
    }

    /// The commit that changed a folder before `known` newer ones did, if there is one before the end. Where the end is open, it is looked for again.
    fn find(&mut self, objects: &Objects<'_>, name: &[u8], known: usize) -> Result<Option<Oid>, GitError> {
        for _ in 0..LOOK {
            if let Some(id) = self.clusters.get(name).and_then(|changes| changes.get(known)) {
                return Ok(Some(*id));
            }
            let (End::Open(id), Some(layout)) = (self.end, &self.layout) else { break };
            match step(objects, layout, id)? {
                Step::Changed(names, parent) if self.bytes() + names.len() * (CHANGE + CLUSTER) <= self.most => {
                    self.changes += names.len();
                    for name in names {
                        self.clusters.entry(name).or_default().push_back(id);
                    }
                    self.end = parent.map_or(End::Whole, End::Open);
                }
                Step::Changed(..) | Step::Parted => self.end = End::Parted(id),
            }
        }
        Ok(None)
    }
}

/// The clusters that a commit changed.
///
/// A commit of ours names them. Of others, the list of all clusters' folders is compared with the one before, which takes a hundred times as long
/// in a fleet of ten thousand.
fn step(objects: &Objects<'_>, layout: &DeployLayout, id: Oid) -> Result<Step, GitError> {
    let fields = objects.commit(id)?;
    let parent = match fields.parents.as_slice() {
        [] => None,
        [parent] => Some(*parent),
        _ => return Ok(Step::Parted),
    };
    if fields.names_all {
        let names = fields.stages.iter().map(|stage| stage.cluster.as_str().as_bytes().to_vec());
        return Ok(Step::Changed(names.collect(), parent));
    }
    let what = || format!("clusters of commit {id}");
    let after = folder_of_all(id, &fields, objects, layout)?;
    let before = match parent {
        Some(parent) => folder_of_all(parent, &*objects.commit(parent)?, objects, layout)?,
        None => None,
    };
    if before == after {
        return Ok(Step::Changed(Vec::new(), parent));
    }
    let read = |folder: Option<Oid>| folder.map(|folder| objects.tree(folder, what)).transpose();
    let (old, new) = (read(before)?.unwrap_or_default(), read(after)?.unwrap_or_default());
    let Some(mut names) = old.differing(&new) else { return Ok(Step::Parted) };
    let is_folder = |tree: &Tree, name: &[u8]| tree.find(name).is_some_and(|entry| entry.mode == Mode::Folder);
    names.retain(|name| is_folder(&old, name) || is_folder(&new, name));
    names.dedup();
    Ok(Step::Changed(names, parent))
}

/// Whether a commit holds the folder of a cluster.
fn has_folder(objects: &Objects<'_>, layout: &DeployLayout, folder: &RepoPath, id: Oid) -> Result<bool, GitError> {
    let all = folder_of_all(id, &*objects.commit(id)?, objects, layout)?;
    Ok(below(all, folder.file_name(), objects, || format!("{folder} of commit {id}"))?.is_some())
}

impl Repository {
    /// What changed the folder of a cluster before `known` newer commits did, up to `head`. Commits are read as far back as that, and none twice.
    /// What a folder of that name held before it was made is told or not, as it is met, where the reach is its lifetime.
    ///
    /// # Errors
    /// What the commits and trees suffer from.
    pub fn older(
        &self,
        changes: &mut Changes,
        head: &CommitId,
        layout: &DeployLayout,
        cluster: &ClusterName,
        known: usize,
        reach: Reach,
    ) -> Result<Older, GitError> {
        let folder: RepoPath = layout.cluster(cluster)?;
        let head = oid(head)?;
        // Before the oldest change that is known, and as long as there was none, the folder is as it was then.
        let is_made_later = |objects: &Objects<'_>, id: Oid| {
            let is_over = known > 0 && reach == Reach::Lifetime;
            Ok::<_, GitError>(is_over && !has_folder(objects, layout, &folder, id)?)
        };
        loop {
            let older = self.with_objects(|objects| {
                changes.advance(objects, layout, head)?;
                let found = changes.find(objects, folder.file_name().as_bytes(), known)?;
                Ok(match (found, changes.end) {
                    (Some(id), _) => Some(Older::Entry(Box::new(entry(id, &*objects.commit(id)?, cluster)?))),
                    (None, End::Whole) => Some(Older::Nothing),
                    (None, End::Open(id) | End::Parted(id)) if is_made_later(objects, id)? => Some(Older::Nothing),
                    (None, End::Parted(id)) => Some(Older::From(commit_id(id)?)),
                    (None, End::Open(_)) => None,
                })
            })?;
            if let Some(older) = older {
                return Ok(older);
            }
        }
    }
}
