//! One reading of a cluster: what the expectations look at, and no more.
//!
//! Architecture Invariant: causes are read before what they cause: Flux, then EKS Anywhere's
//! Cluster, then Cluster API's owners, then machines. So a word of "done" is never newer than what
//! is taken for its effect. A gate of machines asks for that word, since until it comes the objects
//! look as settled as they did before the commit.

pub(crate) mod interests;
mod managed;
mod own;
mod pods;
mod presence;
mod reads;
mod tanzu;
mod templates;

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use kube::core::DynamicObject;
use rollout::{
    Condition, ConditionStatus, FluxKustomization, Identification, ObjectReference, Observation, Reachability,
    TakenField,
};

pub(crate) use self::managed::{kind_of, noted_by_flux, source_of};
use self::pods::ToldPods;
use self::reads::Reads;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::identity::NotProven;
use crate::client::kind::Kind;
use crate::client::request::ServedVersions;
use crate::kubernetes::{Applied, KubernetesCluster};
use crate::read::workload::Opened;
use crate::read::{drain, fargate, inspect};
use crate::watch::Workloads;
use crate::{Cluster as _, ClusterError, DeployedObjects, Freshness, ObserveRequest, objects};
use rollout::FluxReference;

/// The Kustomizations that a request looks at.
pub(crate) fn kustomizations(request: &ObserveRequest) -> BTreeSet<FluxReference> {
    Reads::of(request).kustomizations
}

/// The workloads that a request looks at.
pub(crate) fn workloads(request: &ObserveRequest) -> Workloads<'_> {
    let Reads { deployments, daemon_sets, .. } = Reads::of(request);
    Workloads { deployments, daemon_sets }
}

/// Reads the cluster. Every read is a fresh GET or LIST without a `resourceVersion`, which the server answers from etcd.
pub(crate) async fn observe(cluster: &KubernetesCluster, request: &ObserveRequest) -> Observation {
    let reads = Reads::of(request);
    let started = tokio::time::Instant::now();
    let mut reading = Reading::new(request);
    let own = cluster.own.connect(&cluster.management).await;
    // Held by every caller otherwise, and it is large.
    let identified = Box::pin(cluster.identified(own.as_ref(), request.freshness));
    let (identity, served) = futures::join!(identified, async {
        reading.unreachable = not_ready(&cluster.management, own.as_ref().ok(), &reads).await;
        let is_read = reading.unreachable.is_none() && reads.needs_management();
        if is_read { reading.served(&cluster.management, &reads).await } else { None }
    });
    let own = own.map(|opened| opened.connection);
    if reading.unreachable.is_none() {
        // Flux is the cause of everything else; what follows from it in several ways is read at once.
        match request.freshness {
            Freshness::WatchEvidence | Freshness::Fresh => {
                reading.add(reading.flux(&cluster.management, served.as_ref(), &reads).await);
                if reading.unreachable.is_none() {
                    let told = ToldPods::default();
                    let followers = reading.followers(cluster, &own, served.as_ref(), &reads, &told);
                    reading.add(Box::pin(followers).await);
                }
            }
            Freshness::Again => {
                let told = cluster.told_of_workloads(request).map(|told| ToldPods::of(&told)).unwrap_or_default();
                let flux = reading.flux(&cluster.management, served.as_ref(), &reads);
                let followers = Box::pin(reading.followers(cluster, &own, served.as_ref(), &reads, &told));
                let (flux, followers) = futures::join!(flux, followers);
                reading.add(flux);
                reading.add(followers);
            }
        }
    }
    let Reading { mut observation, mut unreachable, .. } = reading;
    observation.identity = match identity {
        Ok(identity) => Identification::Proven { identity },
        Err(not) => {
            if let NotProven::Unreachable(error) = &not {
                unreachable.get_or_insert_with(|| error.to_string());
            }
            not.into()
        }
    };
    if let Some(reason) = unreachable {
        observation.reachable = Reachability::Unreachable { reason };
        // Whoever waited for an answer in vain waits again before asking once more.
        let waited = SignedDuration::try_from(started.elapsed()).unwrap_or_default();
        observation.read_at = observation.read_at.checked_add(waited).unwrap_or(observation.read_at);
    }
    if reads.backup {
        (observation.backup, observation.backup_failure) = cluster.backup_state();
    }
    let applied = cluster.memory.applied.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    add_applied(&applied, &mut observation);
    observation
}

/// Why nothing that these servers say counts: one that has just begun does not know of objects that there are, and who
/// waits for something to go would believe it.
async fn not_ready(management: &Connection, own: Option<&Opened>, reads: &Reads<'_>) -> Option<String> {
    let own = own.map(|opened| &opened.connection).filter(|own| reads.needs_own() && !own.is_same(management));
    let asks_management = reads.needs_management() || (reads.needs_own() && own.is_none());
    let of_management = async { if asks_management { management.ready().await } else { Ok(()) } };
    let of_own = async { if let Some(own) = own { own.ready().await } else { Ok(()) } };
    let (of_management, of_own) = futures::join!(of_management, of_own);
    of_management.and(of_own).err().map(|error| error.to_string())
}

/// A reading, or a part of one that goes on beside others.
struct Reading<'a> {
    observation: Observation,
    deployed: &'a DeployedObjects,
    unreachable: Option<String>,
}

impl<'a> Reading<'a> {
    fn new(request: &'a ObserveRequest) -> Self {
        Self { observation: Observation::empty(request.at), deployed: &request.deployed, unreachable: None }
    }

    /// A part of this reading, with nothing in it yet.
    fn part(&self) -> Self {
        Self { observation: Observation::empty(self.observation.read_at), deployed: self.deployed, unreachable: None }
    }

    /// What follows from Flux' work: machines, and what is in the cluster itself.
    async fn followers(
        &self,
        cluster: &KubernetesCluster,
        own: &Result<Connection, ClusterError>,
        served: Option<&ServedVersions>,
        reads: &Reads<'_>,
        told: &ToldPods,
    ) -> Self {
        let mut part = self.part();
        let own = match reads.needs_own().then_some(own.as_ref()).transpose() {
            Ok(own) => own,
            Err(error) => {
                part.unreachable = Some(error.to_string());
                return part;
            }
        };
        let own_connection = own;
        let machines = part.machines(&cluster.management, served, own, reads);
        let inspect = |own, checks| Box::pin(inspect::inspect(&cluster.management, own, checks, self.deployed));
        let inspection = async { Some(inspect(own?, reads.checks?).await) };
        let (machines, inspection, own) = futures::join!(machines, inspection, Box::pin(part.own(own, reads, told)));
        part.add(machines);
        part.observation.inspection = inspection;
        own.into_iter().for_each(|own| part.add(own));
        if let Some(connection) = own_connection.filter(|_| reads.drains && part.unreachable.is_none()) {
            let nodes = rollout::drained_nodes(&part.observation);
            part.observation.drains = Some(drain::read(connection, nodes).await);
        }
        if let Some(connection) = own_connection.filter(|_| reads.api_requests && part.unreachable.is_none()) {
            let counters = &cluster.memory.api_counters;
            match counters.read(connection, part.observation.read_at).await {
                Ok(read) => part.observation.api_requests = Some(read),
                Err(error) => part.unreachable = Some(error.to_string()),
            }
        }
        if let (Some(connection), Some((version, restarts))) = (own_connection, reads.fargate)
            && part.unreachable.is_none()
        {
            let (read, awaited) = fargate::read(connection, &part.observation.nodes, version, restarts).await;
            part.observation.fargate = Some(read);
            cluster.watched.iter().for_each(|watched| watched.awaits(awaited.clone()));
        }
        part
    }

    /// Takes over what a part has found. What was not asked for in a part is empty there.
    fn add(&mut self, part: Self) {
        let Self { observation: found, unreachable, .. } = part;
        self.unreachable = self.unreachable.take().or(unreachable);
        let all = &mut self.observation;
        for (kind, reason) in found.unread {
            all.unread.entry(kind).or_insert(reason);
        }
        all.flux.sources.extend(found.flux.sources);
        all.flux.kustomizations.extend(found.flux.kustomizations);
        all.flux.releases.extend(found.flux.releases);
        all.deployments.extend(found.deployments);
        all.daemon_sets.extend(found.daemon_sets);
        all.custom_resource_definitions.extend(found.custom_resource_definitions);
        all.webhooks.extend(found.webhooks);
        all.objects.extend(found.objects);
        all.taken.extend(found.taken);
        all.control_planes.extend(found.control_planes);
        all.machine_deployments.extend(found.machine_deployments);
        all.machine_pools.extend(found.machine_pools);
        all.machine_sets.extend(found.machine_sets);
        all.machines.extend(found.machines);
        all.etcd_clusters.extend(found.etcd_clusters);
        all.clusters.extend(found.clusters);
        all.eksa_clusters.extend(found.eksa_clusters);
        all.tanzu_clusters.extend(found.tanzu_clusters);
        all.nodes.extend(found.nodes);
        all.in_place.extend(found.in_place);
        all.runtime_extensions = all.runtime_extensions.take().or(found.runtime_extensions);
        all.server_version = all.server_version.take().or(found.server_version);
        all.eks = all.eks.take().or(found.eks);
        all.fargate = all.fargate.take().or(found.fargate);
        all.pods.extend(found.pods);
        all.virtual_address = all.virtual_address.take().or(found.virtual_address);
        all.api_requests = all.api_requests.take().or(found.api_requests);
        all.drains = all.drains.take().or(found.drains);
        all.survey = all.survey.take().or(found.survey);
        all.sidecars = all.sidecars.take().or(found.sidecars);
        all.templates = all.templates.take().or(found.templates);
        all.inspection = all.inspection.take().or(found.inspection);
        all.backup = all.backup.take().or(found.backup);
        all.backup_failure = all.backup_failure.take().or(found.backup_failure);
    }

    /// Notes what went wrong; the kind is unknown then, not absent.
    fn took<T: Default>(&mut self, kind: &str, result: Result<T, RequestError>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => {
                if error.is_unreachable() {
                    self.unreachable.get_or_insert_with(|| error.to_string());
                }
                self.observation.unread.insert(kind.to_owned(), error.to_string());
                T::default()
            }
        }
    }

    /// Notes which fields of an object somebody else has taken over.
    fn compare(&mut self, api_version: &str, kind: &str, object: &DynamicObject) {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let metadata = &object.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default());
        let Some(deployed) = self.deployed.find(group, kind, namespace, name) else { return };
        self.observation.taken.extend(objects::taken(&deployed, object).into_iter().map(|taken| TakenField {
            object: ObjectReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            },
            field: taken.field,
            added: taken.added,
            manager: taken.manager,
            at: taken.at,
        }));
    }

    /// A kind that is served only in versions of the future is unknown, not absent.
    fn refuse_unknown_versions(&mut self, kind: &Kind, served: &ServedVersions) {
        if let Some(versions) = served.not_understood(kind) {
            let reason = format!("served in {versions}, which this version of stepgate does not understand; update it");
            self.observation.unread.insert(kind.unread_name().to_owned(), reason);
        }
    }
}

/// What was applied without Flux stands in the place of its Kustomization.
fn add_applied(applied: &BTreeMap<FluxReference, Applied>, observation: &mut Observation) {
    for (reference, applied) in applied {
        let status = if applied.problem.is_none() { ConditionStatus::True } else { ConditionStatus::False };
        let succeeded = applied.problem.is_none().then(|| applied.commit.clone());
        observation
            .flux
            .kustomizations
            .retain(|known| (&known.namespace, &known.name) != (&reference.namespace, &reference.name));
        observation.flux.kustomizations.push(FluxKustomization {
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
            source: None,
            source_kind: rollout::SourceKind::default(),
            source_namespace: None,
            generation: 1,
            observed_generation: Some(1),
            suspended: false,
            reconcile_disabled: false,
            suspended_by: None,
            hold: None,
            ready: Some(Condition {
                status,
                reason: String::from(if applied.problem.is_none() { "Applied" } else { "ApplyFailed" }),
                message: applied.problem.clone().unwrap_or_default(),
                observed_generation: Some(1),
            }),
            last_applied_revision: succeeded,
            last_attempted_revision: Some(applied.commit.clone()),
            artifacts: rollout::Artifacts::default(),
            ready_since: Some(applied.at),
        });
    }
}
