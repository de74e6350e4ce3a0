//! Restores of Cluster API objects from a backup: compared, made anew with their owners, let go.
//!
//! Everything that is missing is made while its Cluster is paused, linked to the UIDs that its
//! owners have now, and the Clusters go on once all of it is there. Each step looks first at what is
//! there, so that a restore that was broken off at any moment goes on by being run again.

mod act;
mod certificates;
mod compare;
mod object;
mod order;
mod pausing;
mod read;
mod selection;
#[cfg(test)]
mod tests;

use std::path::Path;

use jiff::Timestamp;
use kube::core::DynamicObject;
use rollout::FluxReference;
use serde_json::Value;

pub use self::act::{RestoreOptions, Restored};
pub use self::certificates::with_certificates_of;
pub use self::compare::{ComparedObject, SavedState};
use self::object::key;
use self::pausing::RESTORING;
use self::selection::{Scope, select};
use crate::ClusterError;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::identity::not_proven;
use crate::client::kind::{CLUSTER, KUSTOMIZATION};
use crate::kubernetes::KubernetesCluster;
use crate::read::workload::Own;
use crate::write::backup::{self, Backup, BackupError};

/// Why nothing is restored, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The backup cannot be used for this cluster.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// It is not proven that the backup is of this server.
    #[error(transparent)]
    Identity(#[from] Box<ClusterError>),
    /// The backup has nothing of the cluster.
    #[error("backup {location} does not hold Cluster {cluster}; name a backup of it by --from")]
    Without {
        /// Where the backup lies.
        location: String,
        /// `namespace/name`.
        cluster: String,
    },
    /// The objects were in another management cluster.
    #[error(
        "backup {location} was taken in another management cluster ({found}) than {server} ({wanted}); where that one \
         is gone, or its objects are to move, name the other one by --to"
    )]
    OtherManagement {
        /// Where the backup lies.
        location: String,
        /// UID of `kube-system` there.
        found: String,
        /// The server that is connected to.
        server: String,
        /// UID of `kube-system` here.
        wanted: String,
    },
    /// The other management cluster is none.
    #[error("{server} is the management cluster that backup {location} was taken in; leave --to out")]
    SameManagement {
        /// Where the backup lies.
        location: String,
        /// The server that --to leads to.
        server: String,
    },
    /// The bootstrap data of a machine does not hold what its cluster trusts.
    #[error("Machine {machine} does not give the certificates of its cluster back: {reason}")]
    NoCertificates {
        /// The machine.
        machine: String,
        /// Why.
        reason: String,
    },
    /// Something is in the way.
    #[error("nothing was restored: {}", obstacles.join("; "))]
    InTheWay {
        /// What it is, and what helps.
        obstacles: Vec<String>,
    },
    /// Others write what is restored.
    #[error(
        "{} still differ after {passes} attempts, and the clusters stay paused: {}; stop what writes them, and restore again",
        differing.len(),
        differing.join("; ")
    )]
    Unsettled {
        /// How often everything was compared.
        passes: usize,
        /// What differs still.
        differing: Vec<String>,
    },
}

/// How a backup stands to what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Each object of the cluster, those that differ first.
    pub objects: Vec<ComparedObject>,
    /// Clusters that a restore which was broken off keeps paused, each with who began it and when.
    pub kept_still: Vec<String>,
    /// Clusters that another management cluster has now, each with where it is.
    pub moved: Vec<String>,
    /// What is restored otherwise than it was saved.
    pub remarks: Vec<String>,
}

impl Comparison {
    /// How many objects stand so.
    #[must_use]
    pub fn count(&self, state: SavedState) -> usize {
        self.objects.iter().filter(|object| object.state == state).count()
    }

    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.kept_still.is_empty() && self.objects.iter().all(|object| object.state == SavedState::Same)
    }

    /// What keeps the backup from being restored, one line each with what helps.
    #[must_use]
    pub fn obstacles(&self, overwrite_newer: bool) -> Vec<String> {
        let in_the_way = |object: &ComparedObject| {
            let ComparedObject { object, state, detail } = object;
            let help = match state {
                SavedState::Newer if !overwrite_newer => {
                    "take a newer backup, or --overwrite-newer to lose what was changed"
                }
                SavedState::Leaving => "wait until it is gone, or look at what its finalizers wait for",
                SavedState::NotServed => "install the providers of the backup first",
                SavedState::Newer | SavedState::Missing | SavedState::Changed | SavedState::Same => return None,
            };
            Some(format!("{object} is {} ({detail}): {help}", state.word()))
        };
        let elsewhere =
            |moved: &String| format!("{moved}: restore it there, or take {RESTORING} off where it is gone from there");
        self.moved.iter().map(elsewhere).chain(self.objects.iter().filter_map(in_the_way)).collect()
    }
}

/// What is restored, and where.
#[derive(Debug)]
pub struct Restore {
    connection: Connection,
    objects: Vec<Value>,
    taken_at: Timestamp,
}

impl KubernetesCluster {
    /// What this backup holds of this cluster, to be restored where it was taken.
    ///
    /// # Errors
    /// When the backup is of another cluster, or was taken in another management cluster.
    pub async fn restore(&self, backup: &Backup) -> Result<Restore, RestoreError> {
        let location = &backup.header.report.location;
        let here = self.management.identity().await?;
        if backup.header.management.is_none() {
            // Backups of the first format do not say where they were taken.
            let proven = self.prove_management_of_it().await;
            proven.map_err(|not| Box::new(not_proven("restore Cluster API objects", not)))?;
        }
        if let Some(there) = &backup.header.management
            && !there.is_of_same_cluster(&here)
        {
            let uid = |identity: &rollout::ClusterIdentity| identity.uid.clone().unwrap_or_else(|| "none".to_owned());
            return Err(RestoreError::OtherManagement {
                location: location.clone(),
                found: uid(there),
                server: self.management.server().to_owned(),
                wanted: uid(&here),
            });
        }
        self.restore_at(self.management.clone(), backup)
    }

    /// Which of these Kustomizations Flux applies: they are there, and nobody has suspended them.
    ///
    /// # Errors
    /// When the API server does not answer, or not to us.
    pub async fn applied_by_flux(&self, kustomizations: &[FluxReference]) -> Result<Vec<String>, RequestError> {
        let served = self.management.served_versions().await?;
        let Some(version) = served.version_of(&KUSTOMIZATION) else { return Ok(Vec::new()) };
        let resource = KUSTOMIZATION.resource(version);
        let mut applied = Vec::new();
        for FluxReference { namespace, name } in kustomizations {
            let found = self.management.get(&resource, Some(namespace), name).await?;
            let is_suspended =
                |object: &DynamicObject| object.data.pointer("/spec/suspend") == Some(&Value::Bool(true));
            if found.is_some_and(|object| !is_suspended(&object)) {
                applied.push(format!("{namespace}/{name}"));
            }
        }
        Ok(applied)
    }

    /// Whether the management cluster holds the cluster's Cluster API `Cluster`.
    ///
    /// # Errors
    /// When the API server does not answer, or not to us.
    pub async fn is_held_there(&self) -> Result<bool, RequestError> {
        let served = self.management.served_versions().await?;
        let Some(version) = served.version_of(&CLUSTER) else { return Ok(false) };
        let (namespace, name) = (&self.reference.namespace, &self.reference.name);
        Ok(self.management.get(&CLUSTER.resource(version), Some(namespace), name).await?.is_some())
    }

    /// What a backup would hold of what is there now, without writing one.
    ///
    /// # Errors
    /// When an object cannot be listed, or it is not proven that the server manages this cluster.
    pub async fn as_it_is(&self, at: Timestamp) -> Result<Backup, RestoreError> {
        let proven = self.prove_management_of_it().await;
        proven.map_err(|not| Box::new(not_proven("read Cluster API objects", not)))?;
        Ok(backup::in_memory(&self.management, self.subject().await?, at).await?)
    }

    /// What this backup holds of this cluster, to be restored in another management cluster.
    ///
    /// # Errors
    /// When the backup is of another cluster, or was taken in that management cluster.
    pub async fn restore_to(&self, target: Connection, backup: &Backup) -> Result<Restore, RestoreError> {
        let there = target.identity().await?;
        if backup.header.management.as_ref().is_some_and(|taken_in| taken_in.is_of_same_cluster(&there)) {
            let location = backup.header.report.location.clone();
            return Err(RestoreError::SameManagement { location, server: target.server().to_owned() });
        }
        self.restore_at(target, backup)
    }

    fn restore_at(&self, target: Connection, backup: &Backup) -> Result<Restore, RestoreError> {
        let (name, namespace) = (&self.reference.name, &self.reference.namespace);
        let header = &backup.header;
        header.must_be_of(name, namespace, Path::new(&header.report.location))?;
        let manages_itself = match &header.cluster {
            Some(cluster) => cluster.manages_itself,
            None => matches!(self.own, Own::Management),
        };
        let scope = if manages_itself { Scope::Everything } else { Scope::Of(namespace, name) };
        let objects: Vec<Value> = select(&backup.objects, scope).into_iter().cloned().collect();
        let is_it = |object: &Value| {
            let key = key(object);
            (key.group.as_str(), key.kind.as_str()) == (CLUSTER.group, CLUSTER.kind)
                && (&key.namespace, &key.name) == (namespace, name)
        };
        if scope != Scope::Everything && !objects.iter().any(is_it) {
            let cluster = format!("{namespace}/{name}");
            return Err(RestoreError::Without { location: header.report.location.clone(), cluster });
        }
        Ok(Restore { connection: target, objects, taken_at: header.report.taken_at })
    }
}
