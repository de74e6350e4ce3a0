//! From the clusters of a fleet to connections.
//!
//! Handles are kept by name, namespace, management cluster and identity: what is corrected takes
//! effect with the next pass. Which cluster was read is part of the evidence.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{self, BoxFuture};
use jiff::Timestamp;
use overlays::ClusterSpec;
use rollout::{BackupReport, Identification, Observation, Reachability};

use crate::reconcile::clusters::reference::unrecorded;
use cluster::eksctl::EksPrograms;
use cluster::kubernetes::{BackupPlace, Changes, Connection, KubernetesCluster, ManagementWatches};
use cluster::{ApplyReport, ApplyRequest, BackupRequest, Cluster, ClusterError, ClusterReference, ObserveRequest};
use rollout::FluxReference;

/// The clusters of a fleet, by specification.
pub trait Clusters: Send + Sync {
    /// The cluster that a specification describes, of which nothing else is known.
    fn cluster(&self, cluster: &ClusterSpec) -> Arc<dyn Cluster>;

    /// The same cluster, by what ledgers record of it and of the cluster that manages it as well.
    fn referred(&self, cluster: &ClusterSpec, _: &ClusterReference) -> Arc<dyn Cluster> {
        self.cluster(cluster)
    }

    /// The programs that the operator has named for clusters of EKS; none where there are none.
    fn eks_programs(&self) -> Option<&EksPrograms> {
        None
    }

    /// Whether anybody has said how they are reached.
    fn can_be_asked(&self) -> bool {
        true
    }

    /// Which of them have changed, as far as they tell.
    fn changes(&self) -> Option<&Changes> {
        None
    }
}

/// Clusters behind real API servers: one connection to the management cluster, the others through their kubeconfig Secrets.
///
/// There is one handle for each cluster that is meant. One that leads elsewhere by now (another name, namespace, management cluster or identity) is
/// another one, so that what people correct takes effect at once.
pub struct KubernetesClusters {
    management: Connection,
    named: Option<String>,
    programs: EksPrograms,
    watches: Arc<ManagementWatches>,
    backups: BackupPlace,
    open: Mutex<BTreeMap<String, Arc<KubernetesCluster>>>,
}

impl KubernetesClusters {
    /// Clusters reached from the management cluster. Backups go below `backups`, one folder a cluster.
    pub fn new(management: Connection, backups: impl Into<BackupPlace>) -> Self {
        let backups = backups.into();
        Self {
            management,
            named: None,
            programs: EksPrograms::default(),
            watches: Arc::default(),
            backups,
            open: Mutex::default(),
        }
    }

    /// The same, where the operator says which cluster the connection leads to.
    #[must_use]
    pub fn connected_to(self, named: Option<String>) -> Self {
        Self { named, ..self }
    }

    /// The same, with programs for what is of EKS. When a run of eksctl ends, its cluster has changed.
    #[must_use]
    pub fn with_programs(self, EksPrograms { eksctl, aws }: EksPrograms) -> Self {
        let eksctl = eksctl.map(|eksctl| eksctl.telling(Arc::clone(self.watches.changes())));
        Self { programs: EksPrograms { eksctl, aws }, ..self }
    }
}

impl Clusters for KubernetesClusters {
    fn cluster(&self, cluster: &ClusterSpec) -> Arc<dyn Cluster> {
        self.referred(cluster, &unrecorded(cluster))
    }

    fn referred(&self, cluster: &ClusterSpec, reference: &ClusterReference) -> Arc<dyn Cluster> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match open.get(&cluster.name) {
            Some(known) if known.reference() == reference => return Arc::clone(known) as Arc<dyn Cluster>,
            Some(known) if !known.reference().leads_elsewhere(reference) => known.known_as(reference.clone()),
            known => {
                if let Some(known) = known {
                    tracing::info!(cluster.name = %cluster.name, "`{}` is looked for elsewhere from now on", cluster.name);
                    known.unwatched();
                }
                let (backups, named) = (self.backups.of_cluster(&cluster.name), self.named.clone());
                let opened = KubernetesCluster::new(self.management.clone(), reference.clone(), named, backups);
                opened.watched(&cluster.name, &self.watches)
            }
        };
        let known = Arc::new(known);
        open.insert(cluster.name.clone(), Arc::clone(&known));
        known
    }

    fn eks_programs(&self) -> Option<&EksPrograms> {
        Some(&self.programs)
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

    fn can_be_asked(&self) -> bool {
        false
    }
}

impl Cluster for NoAccess {
    fn identify(&self) -> BoxFuture<'_, Identification> {
        let help = "name a kubeconfig: `--kubeconfig FILE`".to_owned();
        Box::pin(future::ready(Identification::Unproven { reason: self.reason.clone(), help }))
    }

    fn observe<'a>(&'a self, request: &'a ObserveRequest) -> BoxFuture<'a, Observation> {
        let reachable = Reachability::Unreachable { reason: self.reason.clone() };
        Box::pin(future::ready(Observation { reachable, ..Observation::empty(request.at) }))
    }

    fn back_up<'a>(&'a self, _: &'a BackupRequest) -> BoxFuture<'a, Result<BackupReport, ClusterError>> {
        Box::pin(future::ready(Err(ClusterError::Simulated("save Cluster API objects"))))
    }

    fn nudge<'a>(&'a self, _: &'a [FluxReference], _: Timestamp) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(future::ready(Ok(())))
    }

    fn apply<'a>(&'a self, _: &'a ApplyRequest, _: Timestamp) -> BoxFuture<'a, Result<ApplyReport, ClusterError>> {
        Box::pin(future::ready(Err(ClusterError::Simulated("apply manifests"))))
    }
}

#[cfg(test)]
mod tests {
    use rollout::ClusterIdentity;

    use super::*;
    use cluster::ManagementReference;
    use cluster::kubernetes::ConnectionSource;

    async fn clusters(folder: &std::path::Path) -> KubernetesClusters {
        let path = folder.join("config");
        let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                    users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n";
        std::fs::write(&path, text).unwrap();
        let source = ConnectionSource::Kubeconfig { path: Some(path), context: None };
        KubernetesClusters::new(Connection::open(&source).await.unwrap(), folder.to_owned())
    }

    fn specification() -> ClusterSpec {
        let text = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: prod, namespace: a}\n\
                    spec: {topology: {version: v1.36.0, classRef: {name: c}}}\n";
        let path = domain::RepoPath::new("clusters/prod/cluster.yaml").unwrap();
        let files: overlays::MemoryFiles = [(path, text.as_bytes().to_vec())].into_iter().collect();
        overlays::read_fleet(&files).cluster("prod").unwrap().clone()
    }

    #[tokio::test]
    async fn there_is_one_handle_for_what_is_meant_and_another_for_what_leads_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (clusters, cluster) = (clusters(folder.path()).await, specification());
        let identity = |uid: &str| {
            let (uid, endpoint) = (Some(uid.to_owned()), "https://a:6443".to_owned());
            Some(ClusterIdentity { uid, endpoint, certificate_authority: None })
        };
        let first = unrecorded(&cluster);
        let known = clusters.referred(&cluster, &first);
        assert!(Arc::ptr_eq(&known, &clusters.referred(&cluster, &first)));
        for other in [
            ClusterReference { recorded: identity("u"), ..first.clone() },
            ClusterReference { recorded: identity("v"), ..first.clone() },
            ClusterReference { namespace: "b".to_owned(), ..first.clone() },
            ClusterReference { management: ManagementReference::Itself { is_presumed: false }, ..first.clone() },
        ] {
            let handle = clusters.referred(&cluster, &other);
            assert!(!Arc::ptr_eq(&known, &handle), "{other:?}");
            assert!(Arc::ptr_eq(&handle, &clusters.referred(&cluster, &other)), "{other:?}");
        }
    }
}
