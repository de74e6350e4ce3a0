//! One reading of a cluster: what the expectations look at, and no more.

pub(super) mod interests;
mod managed;
mod own;
mod reads;

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt as _};
use kube::core::DynamicObject;
use rollout::{
    Condition, ConditionStatus, FluxKustomization, ObjectPresence, ObjectReference, Observation, Reachability,
    TakenField,
};

pub(super) use self::managed::source_of;
use self::reads::Reads;
use super::connection::Connection;
use super::error::RequestError;
use super::kind::Kind;
use super::request::{Address, ServedVersions};
use super::{Applied, KubernetesCluster};
use crate::cluster::{DeployedObjects, FluxReference, ObserveRequest, objects};

/// Requests under way at once to one server.
const CONCURRENT: usize = 8;

/// Reads the cluster. Every read is a fresh GET or LIST without a `resourceVersion`, which the server answers from etcd.
pub(super) async fn observe(cluster: &KubernetesCluster, request: &ObserveRequest) -> Observation {
    let mut observation = Observation::empty(request.at);
    let reads = Reads::of(request);
    let mut reading = Reading { observation: &mut observation, deployed: &request.deployed, unreachable: None };
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
    deployed: &'a DeployedObjects,
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

    /// Notes which fields of an object somebody else has taken over.
    fn compare(&mut self, api_version: &str, kind: &str, object: &DynamicObject) {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let metadata = &object.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default());
        let Some(deployed) = self.deployed.find(group, kind, namespace, name) else { return };
        self.observation.taken.extend(objects::taken(deployed, object).into_iter().map(|taken| TakenField {
            object: ObjectReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            },
            field: taken.field,
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
        let requests: Vec<_> = wanted.iter().map(|reference| found(connection, &kinds, reference)).collect();
        for (reference, found) in wanted.iter().zip(several(requests).await) {
            let is_known = found.is_ok();
            let object = self.took(&reference.kind, found);
            if let Some(object) = &object {
                self.compare(&reference.api_version, &reference.kind, object);
            }
            if is_known {
                self.observation.objects.push(presence(reference, object.as_ref()));
            }
        }
    }
}

/// The kinds of each version, as far as they could be read.
type Kinds<'a> = BTreeMap<&'a str, Result<Vec<Address>, RequestError>>;

/// The answers to several requests, in their order. Once the server cannot be reached no more are sent, and the rest is missing.
async fn several<T>(requests: Vec<impl Future<Output = Result<T, RequestError>>>) -> Vec<Result<T, RequestError>> {
    let mut answers = std::pin::pin!(stream::iter(requests).buffered(CONCURRENT));
    let mut read = Vec::new();
    while let Some(answer) = answers.next().await {
        let is_last = answer.as_ref().is_err_and(RequestError::is_unreachable);
        read.push(answer);
        if is_last {
            break;
        }
    }
    read
}

/// An object of a kind that is not served is not there. What is in it is not asked for: it may be large, or a Secret.
async fn found(
    connection: &Connection,
    kinds: &Kinds<'_>,
    reference: &ObjectReference,
) -> Result<Option<DynamicObject>, RequestError> {
    match kinds.get(reference.api_version.as_str()) {
        Some(Err(error)) => Err(error.clone()),
        Some(Ok(kinds)) => match kinds.iter().find(|known| known.resource.kind == reference.kind) {
            Some(address) => {
                let namespace = reference.namespace.as_deref().filter(|_| address.namespaced);
                connection.get_metadata(&address.resource, namespace, &reference.name).await
            }
            None => Ok(None),
        },
        None => Ok(None),
    }
}

fn presence(reference: &ObjectReference, object: Option<&DynamicObject>) -> ObjectPresence {
    ObjectPresence {
        reference: reference.clone(),
        present: object.is_some(),
        generation: object.and_then(|object| object.metadata.generation),
        deleting: object.is_some_and(|object| object.metadata.deletion_timestamp.is_some()),
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
