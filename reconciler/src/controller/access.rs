//! From the clusters of a fleet to connections.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{self, BoxFuture};
use jiff::Timestamp;
use overlays::{ClusterSpec, Management};
use rollout::{BackupReport, Observation, Reachability, RolloutId};

use super::expectation::cluster_api_namespace;
use crate::cluster::kubernetes::{Changes, Connection, KubernetesCluster, ManagementWatches};
use crate::cluster::{ApplyReport, ApplyRequest, Cluster, ClusterError, FluxReference, ObserveRequest};

/// The clusters of a fleet, by specification.
pub trait Clusters: Send + Sync {
    /// The cluster that a specification describes.
    fn cluster(&self, cluster: &ClusterSpec) -> Arc<dyn Cluster>;

    /// Which of them have changed, as far as they tell.
    fn changes(&self) -> Option<&Changes> {
        None
    }
}

/// Clusters behind real API servers: one connection to the management cluster, the others through their kubeconfig Secrets.
pub struct KubernetesClusters {
    management: Connection,
    watches: Arc<ManagementWatches>,
    backups: PathBuf,
    open: Mutex<BTreeMap<String, Arc<KubernetesCluster>>>,
}

impl KubernetesClusters {
    /// Clusters reached from the management cluster. Backups go below `backups`, one folder a cluster.
    pub fn new(management: Connection, backups: PathBuf) -> Self {
        Self { management, watches: Arc::default(), backups, open: Mutex::default() }
    }
}

impl Clusters for KubernetesClusters {
    fn cluster(&self, cluster: &ClusterSpec) -> Arc<dyn Cluster> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.entry(cluster.name.clone()).or_insert_with(|| {
            let backups = self.backups.join(&cluster.name);
            let management = self.management.clone();
            let opened = match cluster.management {
                Management::SelfManaged => KubernetesCluster::management(management, backups),
                Management::ManagedBy(_) => {
                    KubernetesCluster::workload(management, &cluster_api_namespace(cluster), &cluster.name, backups)
                }
            };
            Arc::new(opened.watched(&cluster.name, &self.watches))
        });
        Arc::clone(known) as Arc<dyn Cluster>
    }

    fn changes(&self) -> Option<&Changes> {
        Some(self.watches.changes())
    }
}

/// No access to any cluster: every reading says so, so that gates wait with that reason.
pub struct NoAccess {
    reason: String,
}

impl NoAccess {
    /// Readings that are unreachable for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl Clusters for NoAccess {
    fn cluster(&self, _: &ClusterSpec) -> Arc<dyn Cluster> {
        Arc::new(Self { reason: self.reason.clone() })
    }
}

impl Cluster for NoAccess {
    fn observe<'a>(&'a self, request: &'a ObserveRequest) -> BoxFuture<'a, Observation> {
        let reachable = Reachability::Unreachable { reason: self.reason.clone() };
        Box::pin(future::ready(Observation { reachable, ..Observation::empty(request.at) }))
    }

    fn back_up<'a>(&'a self, _: &'a RolloutId, _: Timestamp) -> BoxFuture<'a, Result<BackupReport, ClusterError>> {
        Box::pin(future::ready(Err(ClusterError::Simulated("save Cluster API objects"))))
    }

    fn nudge<'a>(&'a self, _: &'a [FluxReference], _: Timestamp) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(future::ready(Ok(())))
    }

    fn apply<'a>(&'a self, _: &'a ApplyRequest, _: Timestamp) -> BoxFuture<'a, Result<ApplyReport, ClusterError>> {
        Box::pin(future::ready(Err(ClusterError::Simulated("apply manifests"))))
    }
}
