//! One reading of a cluster: what the expectations look at, and no more.

pub(super) mod interests;
mod managed;
mod own;
mod presence;
mod reads;

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt as _};
use kube::core::DynamicObject;
use rollout::{Condition, ConditionStatus, FluxKustomization, ObjectReference, Observation, Reachability, TakenField};

pub(super) use self::managed::source_of;
use self::reads::Reads;
use super::error::RequestError;
use super::kind::Kind;
use super::request::ServedVersions;
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
}

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
