//! Clusters that something happens at whenever a controller acts on them.

use std::sync::Arc;

use cluster::kubernetes::Changes;
use cluster::{ApplyReport, ApplyRequest, BackupRequest, Cluster, ClusterError, ObserveRequest};
use futures::FutureExt as _;
use futures::future::{self, BoxFuture};
use jiff::Timestamp;
use overlays::ClusterSpec;
use rollout::{BackupReport, Expectation, FluxObservation, Observation, WorkloadObservation};
use rollout::{FluxReference, MarkChange};
use stepgate::reconcile::clusters::access::Clusters;
use stepgate::simulation::SimulatedFleet;

/// The acts of a controller on a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    Observe,
    /// Reads what Flux says, and nothing else.
    Glance,
    /// Looks at what watches have told of Flux.
    Look,
    /// Looks at what they have told of workloads.
    LookAtWorkloads,
    /// Reads that and what one gate expects, which no machines are part of.
    Confirm,
    BackUp,
    /// Follows every push at once.
    Nudge,
}

/// What happens when a controller is about to act on a cluster of this name. False: the process is killed there.
pub type Hook = Arc<dyn Fn(&str, Act) -> bool + Send + Sync>;

/// The clusters.
pub struct Hooked {
    inner: Arc<SimulatedFleet>,
    hook: Hook,
    changes: Option<Arc<Changes>>,
    told: Told,
}

/// What watches have told of.
#[derive(Clone, Copy, Default)]
struct Told {
    flux: bool,
    workloads: bool,
}

impl Hooked {
    pub fn new(fleet: &Arc<SimulatedFleet>, hook: Hook) -> Self {
        Self { inner: Arc::clone(fleet), hook, changes: None, told: Told::default() }
    }

    /// The same, of which somebody tells when they change.
    pub fn telling(self, changes: &Arc<Changes>) -> Self {
        Self { changes: Some(Arc::clone(changes)), ..self }
    }

    /// The same, of whose Flux watches tell.
    pub fn telling_of_flux(self) -> Self {
        Self { told: Told { flux: true, ..self.told }, ..self }
    }

    /// The same, of whose Flux and workloads they tell.
    pub fn telling_of_workloads(self) -> Self {
        Self { told: Told { flux: true, workloads: true }, ..self }
    }
}

struct HookedCluster {
    name: String,
    inner: Arc<dyn Cluster>,
    hook: Hook,
    told: Told,
}

impl Clusters for Hooked {
    fn cluster(&self, cluster: &ClusterSpec) -> Arc<dyn Cluster> {
        let (name, hook) = (cluster.name.clone(), Arc::clone(&self.hook));
        Arc::new(HookedCluster { name, inner: self.inner.cluster(cluster), hook, told: self.told })
    }

    fn changes(&self) -> Option<&Changes> {
        self.changes.as_deref()
    }
}

impl Cluster for HookedCluster {
    fn observe<'a>(&'a self, request: &'a ObserveRequest) -> BoxFuture<'a, Observation> {
        let is_flux = |expectation: &Expectation| matches!(expectation, Expectation::Flux { .. });
        let act = match request.expectations.as_slice() {
            [] => Act::Observe,
            expectations if expectations.iter().all(is_flux) => Act::Glance,
            expectations if !expectations.iter().any(Expectation::is_of_machines) => Act::Confirm,
            _ => Act::Observe,
        };
        if !(self.hook)(&self.name, act) {
            return Box::pin(future::pending());
        }
        self.inner.observe(request)
    }

    fn told_of_flux(&self, request: &ObserveRequest) -> Option<FluxObservation> {
        if !self.told.flux || !(self.hook)(&self.name, Act::Look) {
            return None;
        }
        // A simulated cluster answers at once.
        self.inner.observe(request).now_or_never().map(|observation| observation.flux)
    }

    fn told_of_workloads(&self, request: &ObserveRequest) -> Option<WorkloadObservation> {
        if !self.told.workloads || !(self.hook)(&self.name, Act::LookAtWorkloads) {
            return None;
        }
        let Observation { deployments, daemon_sets, .. } = self.inner.observe(request).now_or_never()?;
        Some(WorkloadObservation { deployments, daemon_sets })
    }

    fn back_up<'a>(&'a self, request: &'a BackupRequest) -> BoxFuture<'a, Result<BackupReport, ClusterError>> {
        if !(self.hook)(&self.name, Act::BackUp) {
            return Box::pin(future::pending());
        }
        self.inner.back_up(request)
    }

    fn order_machines<'a>(
        &'a self,
        changes: &'a [MarkChange],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.inner.order_machines(changes, at)
    }

    fn nudge<'a>(
        &'a self,
        kustomizations: &'a [FluxReference],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        if !(self.hook)(&self.name, Act::Nudge) {
            return Box::pin(future::pending());
        }
        self.inner.nudge(kustomizations, at)
    }

    fn apply<'a>(
        &'a self,
        request: &'a ApplyRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<ApplyReport, ClusterError>> {
        self.inner.apply(request, at)
    }
}
