//! The watches of one cluster: on the server that manages it, shared with others, and on its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rollout::{FluxObservation, FluxReference, WorkloadObservation};

use super::{ChangeScope, Changes, Watches};
use crate::ObserveRequest;
use crate::client::connection::Connection;
use crate::kubernetes::KubernetesCluster;
use crate::read::fargate::Awaited;
use crate::read::observe;
use crate::read::workload::Own;

/// Whom a cluster tells of changes, and what watches for it.
#[derive(Debug)]
pub(crate) struct Watched {
    cluster: String,
    changes: Arc<Changes>,
    /// Those on the management cluster's server.
    management: Arc<ManagementWatches>,
    /// Those on the cluster's own server, where it has one, with the connection they go through.
    own: Mutex<Option<(Connection, Watches)>>,
    /// How often it was said what is to be followed.
    turn: AtomicU64,
    /// What the next restart on Fargate waits for, as it was read last.
    awaited: Mutex<Awaited>,
}

/// The watches on the management cluster's server, for every cluster that is read from it.
#[derive(Debug)]
pub struct ManagementWatches {
    changes: Arc<Changes>,
    watches: Watches,
}

impl Default for ManagementWatches {
    fn default() -> Self {
        let changes = Arc::new(Changes::default());
        Self { watches: Watches::new(Arc::clone(&changes)), changes }
    }
}

impl ManagementWatches {
    /// Who has changed.
    #[must_use]
    pub fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    /// How many objects the watches know of.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.watches.objects()
    }
}

impl Watched {
    pub(crate) fn new(cluster: &str, management: Arc<ManagementWatches>) -> Self {
        Self {
            cluster: cluster.to_owned(),
            changes: Arc::clone(&management.changes),
            management,
            own: Mutex::default(),
            turn: AtomicU64::new(0),
            awaited: Mutex::default(),
        }
    }

    /// Follows what the requests look at, of which the second looks at what concerns the running gate alone. A server that does not answer is followed
    /// the next time.
    pub(crate) async fn follow(&self, cluster: &KubernetesCluster, request: &ObserveRequest, gate: &ObserveRequest) {
        self.next_turn();
        let awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut own = observe::interests::own(request, &awaited, ChangeScope::More);
        own.extend(observe::interests::own(gate, &awaited, ChangeScope::Gate));
        if let Ok(served) = cluster.management.lately_served_versions().await {
            let mut managed = observe::interests::managed(request, &served, ChangeScope::More);
            managed.extend(observe::interests::managed(gate, &served, ChangeScope::Gate));
            if matches!(cluster.own, Own::Management) {
                managed.extend(own);
                self.management.watches.follow(&cluster.management, &self.cluster, managed);
                return;
            }
            self.management.watches.follow(&cluster.management, &self.cluster, managed);
        }
        let connection = match cluster.own.last(&cluster.management).await {
            Some(connection) => Some(connection),
            None => cluster.own.connect(&cluster.management).await.ok().map(|opened| opened.connection),
        };
        if let Some(connection) = connection {
            let mut known = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            // New credentials make a new connection, and the watches of the old one would end with it.
            if known.as_ref().is_none_or(|(before, _)| !before.is_same(&connection)) {
                *known = Some((connection.clone(), Watches::new(Arc::clone(&self.changes))));
            }
            if let Some((_, watches)) = known.as_ref() {
                watches.follow(&connection, &self.cluster, own);
            }
        }
    }

    /// This is what the next restart on Fargate waits for, and is followed from the next visit on. That is asked for at once where there is
    /// more of it than before: until then nothing is told of it.
    pub(crate) fn awaits(&self, awaited: Awaited) {
        let mut known = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let is_followed = awaited.is_within(&known);
        *known = awaited;
        if !is_followed {
            self.changes.note(&self.cluster, ChangeScope::More);
        }
    }

    /// What the watches have told of Flux, which is in the management cluster.
    pub(crate) fn told_of_flux(&self, request: &ObserveRequest) -> Option<FluxObservation> {
        self.management.watches.told_of_flux(&observe::kustomizations(request))
    }

    /// What the watches have told of workloads, which are in the cluster itself.
    pub(crate) fn told_of_workloads(
        &self,
        cluster: &KubernetesCluster,
        request: &ObserveRequest,
    ) -> Option<WorkloadObservation> {
        let workloads = observe::workloads(request);
        if matches!(cluster.own, Own::Management) {
            return self.management.watches.told_of_workloads(&workloads);
        }
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.as_ref().and_then(|(_, watches)| watches.told_of_workloads(&workloads))
    }

    /// Nothing is waited for any more but that Flux fails at one of these. A server that does not answer is followed the next time.
    /// Nobody waits for the answer.
    pub(crate) fn rest(self: &Arc<Self>, management: &Connection, kustomizations: &[FluxReference]) {
        if kustomizations.is_empty() {
            return self.end();
        }
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let turn = self.next_turn();
        let (watched, management, kustomizations) = (Arc::clone(self), management.clone(), kustomizations.to_vec());
        tokio::spawn(async move {
            let Ok(served) = management.lately_served_versions().await else { return };
            // Since then it may have begun to be followed again.
            if watched.turn.load(Ordering::Relaxed) == turn {
                let interest = observe::interests::at_rest(&kustomizations, &served);
                watched.management.watches.follow(&management, &watched.cluster, interest);
                watched.management.watches.end_unwanted();
            }
        });
    }

    fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Nothing is followed any more.
    pub(crate) fn end(&self) {
        self.next_turn();
        self.management.watches.forget(&self.cluster);
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
