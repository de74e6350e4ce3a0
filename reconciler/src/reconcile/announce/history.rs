//! What has happened on the deploy branch since a commit of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ClusterName, CommitId, ObjectId};
use overlays::ComponentName;
use rollout::{Announcement, Ledger, StageName, announcements};

use crate::reconcile::clusters::directory::{ledger_path, path};
use git::{DeployLayout, GitError, GitSnapshot, Repository};
use planning::DeployedLedger;

/// So many commits are looked at one by one; of more only the first and the last.
const MOST_COMMITS: usize = 1000;

/// An announcement, with the deploy branch when it came to be so.
pub(super) struct Happening {
    pub(super) announcement: Announcement,
    pub(super) ledger: Arc<Ledger>,
    pub(super) snapshot: GitSnapshot,
}

/// What has happened after `since`, up to `head`, oldest first.
pub(super) fn happenings(
    repository: &Repository,
    layout: &DeployLayout,
    since: &CommitId,
    head: &CommitId,
) -> Result<Vec<Happening>, GitError> {
    let mut found = Vec::new();
    if since == head {
        return Ok(found);
    }
    // Where the branch was written anew, what was read last may be gone: it goes on from here.
    let Ok(mut before) = State::read(repository, layout, since) else { return Ok(found) };
    for commit in commits(repository, since, head)? {
        let after = State::read(repository, layout, &commit)?;
        for (cluster, folder) in &after.clusters {
            if before.clusters.get(cluster) == Some(folder) {
                continue;
            }
            let (known, ledger) = (before.ledger(cluster)?, after.ledger(cluster)?);
            let Some(ledger) = ledger else { continue };
            let snapshot = || after.snapshot.clone();
            let told = announcements(known.as_deref(), &ledger, &commit).into_iter();
            let ledger = || Arc::clone(&ledger);
            found.extend(told.map(|announcement| Happening { announcement, ledger: ledger(), snapshot: snapshot() }));
        }
        before = after;
    }
    Ok(found)
}

/// The states of the branch after `since`: each of its first parents, or its head alone where that does not lead back.
fn commits(repository: &Repository, since: &CommitId, head: &CommitId) -> Result<Vec<CommitId>, GitError> {
    let (mut commits, mut next) = (vec![head.clone()], head.clone());
    while let Some(parent) = repository.parent(&next)? {
        if &parent == since {
            commits.reverse();
            return Ok(commits);
        }
        if commits.len() == MOST_COMMITS {
            break;
        }
        commits.push(parent.clone());
        next = parent;
    }
    Ok(vec![head.clone()])
}

/// The deploy branch at one commit.
struct State {
    snapshot: GitSnapshot,
    clusters: BTreeMap<ClusterName, ObjectId>,
}

impl State {
    fn read(repository: &Repository, layout: &DeployLayout, commit: &CommitId) -> Result<Self, GitError> {
        let snapshot = repository.deploy_snapshot(layout, commit)?;
        let folders = snapshot.folders(&path("clusters")?)?;
        let clusters = folders.into_iter().filter_map(|(name, id)| Some((name.parse().ok()?, id))).collect();
        Ok(Self { snapshot, clusters })
    }

    /// The ledger of a cluster; none where there is none that can be read.
    fn ledger(&self, cluster: &ClusterName) -> Result<Option<Arc<Ledger>>, GitError> {
        if !self.clusters.contains_key(cluster) {
            return Ok(None);
        }
        ledger(&self.snapshot, cluster)
    }
}

/// The ledger of a cluster on the deploy branch; none where there is none that can be read.
pub(super) fn ledger(deploy: &GitSnapshot, cluster: &ClusterName) -> Result<Option<Arc<Ledger>>, GitError> {
    match deploy.read(&ledger_path(cluster)?) {
        Ok(bytes) => Ok(match DeployedLedger::of(&bytes) {
            DeployedLedger::Read(ledger) => Some(ledger),
            DeployedLedger::Absent | DeployedLedger::Unreadable(_) => None,
        }),
        Err(GitError::MissingPath { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Namespace and name of the Kustomization that applies what an announcement is about; none where Stepgate has made none.
pub(super) fn kustomization(
    deploy: &GitSnapshot,
    announcement: &Announcement,
) -> Result<Option<(String, String)>, GitError> {
    let component = announcement.stage.as_ref().map_or(ComponentName::Cluster, |stage| component(&stage.name));
    for component in [component, ComponentName::Cluster] {
        let file = overlays::kustomization_file(component);
        let file = path(&format!("{}/{file}", planning::flux_folder(&announcement.cluster)))?;
        let bytes = match deploy.read(&file) {
            Ok(bytes) => bytes,
            Err(GitError::MissingPath { .. }) => continue,
            Err(error) => return Err(error),
        };
        let named = overlays::objects_of(&bytes).into_iter().find_map(|object| {
            let text = |field: &str| object.at(&["metadata", field])?.as_str().map(str::to_owned);
            Some((text("namespace")?, text("name")?))
        });
        if named.is_some() {
            return Ok(named);
        }
    }
    Ok(None)
}

/// The directory that a stage changes.
fn component(stage: &StageName) -> ComponentName {
    match stage {
        StageName::CertManager => ComponentName::CertManager,
        StageName::Capi => ComponentName::Capi,
        StageName::EksA => ComponentName::EksA,
        StageName::Bundle => ComponentName::Bundle,
        StageName::CiliumPreflight => ComponentName::CiliumPreflight,
        StageName::Cilium => ComponentName::Cilium,
        StageName::Flux => ComponentName::Flux,
        StageName::Templates => ComponentName::Templates,
        StageName::Preflight
        | StageName::Backup
        | StageName::Etcd
        | StageName::ControlPlane
        | StageName::Addons
        | StageName::Addon(_)
        | StageName::Workers(_)
        | StageName::Fargate
        | StageName::Leftovers
        | StageName::Verify => ComponentName::Cluster,
    }
}
