//! One reading of a cluster: what the expectations look at, and no more.

pub(super) mod interests;
mod managed;
mod own;
mod reads;

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt as _};
use rollout::{
    Condition, ConditionStatus, FluxKustomization, ObjectPresence, ObjectReference, Observation, Reachability,
};

pub(super) use self::managed::source_of;
use self::reads::Reads;
use super::connection::Connection;
use super::error::RequestError;
use super::kind::Kind;
use super::request::{Address, ServedVersions};
use super::{Applied, KubernetesCluster};
use crate::cluster::{FluxReference, ObserveRequest};

/// Requests under way at once to one server.
const CONCURRENT: usize = 8;

/// Reads the cluster. Every read is a fresh GET or LIST without a `resourceVersion`, which the server answers from etcd.
pub(super) async fn observe(cluster: &KubernetesCluster, request: &ObserveRequest) -> Observation {
    let mut observation = Observation::empty(request.at);
    let reads = Reads::of(request);
    let mut reading = Reading { observation: &mut observation, unreachable: None };
    if reads.needs_management() {
        reading.management(&cluster.management, &reads).await;
    }
    if reads.needs_own() && reading.unreachable.is_none() {
        match cluster.own.connect(&cluster.management).await {
            Ok(connection) => reading.own(&connection, &reads).await,
            Err(error) => reading.unreachable = Some(error.to_string()),
        }
    }
    if let Some(reason) = reading.unreachable {
        observation.reachable = Reachability::Unreachable { reason };
    }
    if reads.backup {
        observation.backup = cluster.newest_backup();
    }
    let applied = cluster.applied.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    add_applied(&applied, &mut observation);
    observation
}

struct Reading<'a> {
    observation: &'a mut Observation,
    unreachable: Option<String>,
}

impl Reading<'_> {
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

    /// A kind that is served only in versions of the future is unknown, not absent.
    fn refuse_unknown_versions(&mut self, kind: &Kind, served: &ServedVersions) {
        if let Some(versions) = served.not_understood(kind) {
            let reason = format!("served in {versions}, which this version of stepgate does not understand; update it");
            self.observation.unread.insert(kind.unread_name().to_owned(), reason);
        }
    }

    /// Whether single objects exist. Kinds are looked up once for each version.
    async fn objects(&mut self, connection: &Connection, reads: &Reads<'_>, wanted: fn(&ObjectReference) -> bool) {
        let wanted: Vec<&ObjectReference> = reads.objects.iter().copied().filter(|known| wanted(known)).collect();
        let versions: BTreeSet<&str> = wanted.iter().map(|reference| reference.api_version.as_str()).collect();
        let mut kinds = BTreeMap::new();
        for api_version in versions {
            if self.unreachable.is_some() {
                return;
            }
            kinds.insert(api_version, connection.kinds(api_version).await);
        }
        let requests: Vec<_> = wanted.into_iter().map(|reference| presence(connection, &kinds, reference)).collect();
        let found = stream::iter(requests).buffered(CONCURRENT).collect::<Vec<_>>();
        for (kind, found) in found.await {
            let found = self.took(kind, found.map(Some));
            self.observation.objects.extend(found);
        }
    }
}

/// The kinds of each version, as far as they could be read.
type Kinds<'a> = BTreeMap<&'a str, Result<Vec<Address>, RequestError>>;

/// An object of a kind that is not served is not there.
async fn presence<'a>(
    connection: &Connection,
    kinds: &Kinds<'_>,
    reference: &'a ObjectReference,
) -> (&'a str, Result<ObjectPresence, RequestError>) {
    let found = match kinds.get(reference.api_version.as_str()) {
        Some(Err(error)) => Err(error.clone()),
        Some(Ok(kinds)) => match kinds.iter().find(|known| known.resource.kind == reference.kind) {
            Some(address) => {
                let namespace = reference.namespace.as_deref().filter(|_| address.namespaced);
                connection.get(&address.resource, namespace, &reference.name).await
            }
            None => Ok(None),
        },
        None => Ok(None),
    };
    let presence = found.map(|object| ObjectPresence {
        reference: reference.clone(),
        present: object.is_some(),
        generation: object.as_ref().and_then(|object| object.metadata.generation),
        deleting: object.is_some_and(|object| object.metadata.deletion_timestamp.is_some()),
    });
    (&reference.kind, presence)
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
            source_namespace: None,
            generation: 1,
            observed_generation: Some(1),
            suspended: false,
            reconcile_disabled: false,
            suspended_by: None,
            ready: Some(Condition {
                status,
                reason: String::from(if applied.problem.is_none() { "Applied" } else { "ApplyFailed" }),
                message: applied.problem.clone().unwrap_or_default(),
                observed_generation: Some(1),
            }),
            last_applied_revision: succeeded,
            last_attempted_revision: Some(applied.commit.clone()),
            ready_since: Some(applied.at),
        });
    }
}
