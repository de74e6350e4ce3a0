//! The simulated cluster behind the same trait as a real one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::{self, BoxFuture};
use jiff::Timestamp;
use rollout::{BackupReport, ClusterIdentity, Expectation, FluxReference, Identification, MarkChange, Observation};
use simulator::{DeployedCommit, SimulatedCluster};

use super::{ApplyReport, ApplyRequest, BackupRequest, Cluster, ClusterError, Freshness, ObserveRequest};

/// A simulated cluster that several tasks may use. Its time is that of the requests.
#[derive(Debug)]
pub struct Simulated {
    cluster: Mutex<SimulatedCluster>,
    identity: Option<ClusterIdentity>,
}

impl Simulated {
    /// Wraps a simulated cluster.
    #[must_use]
    pub fn new(cluster: SimulatedCluster) -> Self {
        Self { cluster: Mutex::new(cluster), identity: None }
    }

    /// The same, whose readings say that they are of this cluster: where a simulation stands for a real one, whose ledger records it.
    #[must_use]
    pub fn known_as(self, identity: Option<ClusterIdentity>) -> Self {
        Self { identity, ..self }
    }

    fn identification(&self, found: Identification) -> Identification {
        let identity = self.identity.clone().map(|identity| Identification::Proven { identity });
        identity.unwrap_or(found)
    }

    /// A commit was pushed to the deploy branch.
    pub fn commit(&self, commit: &DeployedCommit, at: Timestamp) {
        self.cluster().commit(commit, at);
    }

    /// The cluster itself, for what no real one offers: faults, its own clock.
    pub fn cluster(&self) -> MutexGuard<'_, SimulatedCluster> {
        // A panic of another task leaves the simulation as it was between two events.
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster for Simulated {
    fn identify(&self) -> BoxFuture<'_, Identification> {
        let mut cluster = self.cluster();
        let now = cluster.now();
        let found = cluster.observe_afresh(now).identity;
        Box::pin(future::ready(self.identification(found)))
    }

    fn observe<'a>(&'a self, request: &'a ObserveRequest) -> BoxFuture<'a, Observation> {
        let mut cluster = self.cluster();
        // Whatever the deploy branch has ever named is told anyway.
        cluster.ask_for(request.expectations.iter().flat_map(|expectation| match expectation {
            Expectation::Absent { object } => std::slice::from_ref(object).to_vec(),
            Expectation::Verified(verified) => verified.leftovers.clone(),
            Expectation::Secrets(expected) => expected.secrets.clone(),
            _ => Vec::new(),
        }));
        let mut observation = match request.freshness {
            Freshness::WatchEvidence => cluster.observe(request.at),
            Freshness::Fresh | Freshness::Again => cluster.observe_afresh(request.at),
        };
        observation.identity = self.identification(observation.identity);
        Box::pin(future::ready(observation))
    }

    fn back_up<'a>(&'a self, request: &'a BackupRequest) -> BoxFuture<'a, Result<BackupReport, ClusterError>> {
        let mut cluster = self.cluster();
        cluster.back_up(&request.rollout, request.at);
        let report = cluster.observe_afresh(request.at).backup.ok_or(ClusterError::Simulated("read the backup back"));
        Box::pin(future::ready(report))
    }

    fn act_on_etcd<'a>(&'a self, act: &'a rollout::EtcdAct, at: Timestamp) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.cluster().act_on_etcd(act, at);
        Box::pin(future::ready(Ok(())))
    }

    fn act<'a>(&'a self, act: &'a rollout::ClusterAct, at: Timestamp) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.cluster().act(act, at);
        Box::pin(future::ready(Ok(())))
    }

    fn order_machines<'a>(
        &'a self,
        changes: &'a [MarkChange],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.cluster().order_machines(changes, at);
        Box::pin(future::ready(Ok(())))
    }

    /// The simulated Flux fetches at its own pace: a nudge only lets time pass.
    fn nudge<'a>(&'a self, _: &'a [FluxReference], at: Timestamp) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.cluster().advance(at);
        Box::pin(future::ready(Ok(())))
    }

    fn apply<'a>(&'a self, _: &'a ApplyRequest, _: Timestamp) -> BoxFuture<'a, Result<ApplyReport, ClusterError>> {
        Box::pin(future::ready(Err(ClusterError::Simulated("apply manifests without Flux"))))
    }
}

#[cfg(test)]
mod tests {
    use rollout::Reachability;
    use simulator::{ClusterShape, Etcd, Fault, Injection, MachineStrategy, Trigger};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn request(second: i64, freshness: Freshness) -> ObserveRequest {
        let expectations = vec![Expectation::ClusterHealthy { cluster: None }];
        ObserveRequest {
            expectations,
            kustomizations: Vec::new(),
            deployed: std::sync::Arc::default(),
            freshness,
            at: at(second),
        }
    }

    fn simulated() -> Box<dyn Cluster> {
        let shape = ClusterShape {
            name: "demo".parse().unwrap(),
            namespace: String::from("eksa-system"),
            kubernetes_version: String::from("v1.34.1"),
            control_plane_replicas: 3,
            worker_groups: Vec::new(),
            etcd: Etcd::Stacked,
            strategy: MachineStrategy::Rolling,
        };
        let mut cluster = SimulatedCluster::new(&shape, 1, at(0));
        cluster.inject(&Injection { fault: Fault::ApiOutage, from: Trigger::At(at(600)), lasts: None });
        Box::new(Simulated::new(cluster))
    }

    #[tokio::test]
    async fn a_simulated_cluster_is_read_as_a_real_one() {
        let cluster = simulated();
        let observation = cluster.observe(&request(300, Freshness::Fresh)).await;
        assert_eq!((observation.nodes.len(), observation.confirmed, observation.read_at), (3, true, at(300)));
        assert!(!cluster.observe(&request(301, Freshness::WatchEvidence)).await.confirmed);
        let observation = cluster.observe(&request(700, Freshness::Fresh)).await;
        assert!(matches!(observation.reachable, Reachability::Unreachable { .. }), "{observation:?}");
    }

    #[tokio::test]
    async fn a_simulated_backup_names_its_rollout_and_nothing_is_applied_past_flux() {
        let cluster = simulated();
        let backup = BackupRequest { rollout: "0123456789ab".parse().unwrap(), at: at(10), keep: 5, keep_for: None };
        assert_eq!(cluster.back_up(&backup).await.unwrap().rollout, backup.rollout);
        cluster.nudge(&[], at(11)).await.unwrap();
        let (cluster_name, commit) = ("demo".parse().unwrap(), "0".repeat(40).parse().unwrap());
        let (sets, delete_data) = (Vec::new(), Vec::new());
        let request = ApplyRequest { cluster: cluster_name, commit, sets, delete_data };
        assert!(cluster.apply(&request, at(12)).await.is_err());
    }
}
