//! Pauses of Flux as leases: owner, reason, end and what was before stand on the object itself, so that any process can end them.
//!
//! Flux knows no pause that ends by itself. Whoever runs next finds the lease, and a person's own suspend is never undone.
//!
//! Neither `suspend` nor the annotation `reconcile: disabled` ends by itself. So any process that
//! runs, leading or not, ends a pause within 10 s of its time, and one that starts within 10 s of
//! its start; `cli/serve.rs` looks at all pauses at least that often. While none runs, it lasts.

use jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::KUSTOMIZATION;
use crate::client::request::{FIELD_MANAGER, Selection};
use crate::objects::{self, PauseLease};
use rollout::FluxReference;

/// The label by which paused objects are found.
const LABEL: &str = "stepgate.dev/paused";

/// How often an object is looked at whose writers are quicker than we are: Flux writes its status at any time.
const ATTEMPTS: usize = 8;

/// What became of a Kustomization that was to be paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Paused {
    /// It is paused under this lease now.
    Ours,
    /// A person had suspended it: it stays as it is.
    Theirs {
        /// Who, as far as the object tells.
        by: Option<String>,
    },
    /// There is no such object.
    Absent,
}

/// Pauses these Kustomizations, or gives the pause that we have on them another end.
///
/// # Errors
/// When the API server refuses or does not answer; those before stay paused until their end.
pub(crate) async fn pause(
    connection: &Connection,
    kustomizations: &[FluxReference],
    lease: &PauseLease,
) -> Result<Vec<(FluxReference, Paused)>, RequestError> {
    let Some(resource) = resource(connection).await? else { return Ok(Vec::new()) };
    let mut outcomes = Vec::new();
    for reference in kustomizations {
        let mut attempts = ATTEMPTS;
        let outcome = loop {
            match pause_one(connection, &resource, reference, lease).await {
                Err(error) if error.is_conflict() && attempts > 1 => attempts -= 1,
                outcome => break outcome?,
            }
        };
        outcomes.push((reference.clone(), outcome));
    }
    Ok(outcomes)
}

async fn pause_one(
    connection: &Connection,
    resource: &ApiResource,
    reference: &FluxReference,
    lease: &PauseLease,
) -> Result<Paused, RequestError> {
    let Some(object) = connection.get(resource, Some(&reference.namespace), &reference.name).await? else {
        return Ok(Paused::Absent);
    };
    let ours = objects::pause_lease(&object);
    if is_suspended(&object) && ours.is_none() {
        return Ok(Paused::Theirs { by: objects::kustomization(&object).suspended_by });
    }
    let before = match ours {
        Some(ours) => ours.before,
        None => object.data.pointer("/spec/suspend").and_then(Value::as_bool),
    };
    let lease = serde_json::to_string(&PauseLease { before, ..lease.clone() }).unwrap_or_default();
    let metadata = json!({"resourceVersion": object.metadata.resource_version,
        "labels": {LABEL: "true"}, "annotations": {objects::PAUSE: lease}});
    let patch = json!({"metadata": metadata, "spec": {"suspend": true}});
    connection.merge(resource, Some(&reference.namespace), &reference.name, &patch, false).await?;
    Ok(Paused::Ours)
}

/// Ends our pauses of these Kustomizations. Answers with those that had one.
///
/// # Errors
/// When the API server refuses or does not answer.
pub(crate) async fn resume(
    connection: &Connection,
    kustomizations: &[FluxReference],
) -> Result<Vec<FluxReference>, RequestError> {
    let Some(resource) = resource(connection).await? else { return Ok(Vec::new()) };
    let mut ended = Vec::new();
    for reference in kustomizations {
        let mut attempts = ATTEMPTS;
        let is_ended = loop {
            match resume_one(connection, &resource, reference).await {
                Err(error) if error.is_conflict() && attempts > 1 => attempts -= 1,
                outcome => break outcome?,
            }
        };
        if is_ended {
            ended.push(reference.clone());
        }
    }
    Ok(ended)
}

/// Whether there was a pause of ours to end.
async fn resume_one(
    connection: &Connection,
    resource: &ApiResource,
    reference: &FluxReference,
) -> Result<bool, RequestError> {
    let found = connection.get(resource, Some(&reference.namespace), &reference.name).await?;
    let Some(object) = found.filter(|object| objects::pause_lease(object).is_some()) else { return Ok(false) };
    end(connection, resource, &object).await.map(|()| true)
}

/// Ends every pause of ours whose time is over, whoever made it. Answers with the end of the next.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn end_expired(connection: &Connection, now: Timestamp) -> Result<Option<Timestamp>, RequestError> {
    let Some(resource) = resource(connection).await? else { return Ok(None) };
    let label = format!("{LABEL}=true");
    let selection = Selection { labels: Some(&label), ..Selection::default() };
    let paused = connection.list_resource(&resource, None, selection, "list paused Kustomizations").await?;
    let mut next: Option<Timestamp> = None;
    for object in paused {
        // A lease that cannot be read has no end: it ends now, rather than never.
        match objects::pause_lease(&object).map(|lease| lease.until).filter(|until| *until > now) {
            Some(until) => next = Some(next.map_or(until, |next| next.min(until))),
            None => match end_now(connection, &resource, &object).await {
                // Somebody wrote it meanwhile: it is looked at again the next time.
                Ok(()) | Err(RequestError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            },
        }
    }
    Ok(next)
}

/// Ends the pause of a listed object. Lists do not tell who owns which field, and a person may want the suspend as well.
async fn end_now(connection: &Connection, resource: &ApiResource, listed: &DynamicObject) -> Result<(), RequestError> {
    let (namespace, name) = (listed.metadata.namespace.as_deref(), listed.metadata.name.as_deref().unwrap_or_default());
    match connection.get(resource, namespace, name).await? {
        Some(object) if object.metadata.resource_version == listed.metadata.resource_version => {
            end(connection, resource, &object).await
        }
        // Its lease may be another one now.
        _ => Ok(()),
    }
}

async fn resource(connection: &Connection) -> Result<Option<ApiResource>, RequestError> {
    let served = connection.served_versions().await?;
    Ok(served.version_of(&KUSTOMIZATION).map(|version| KUSTOMIZATION.resource(version)))
}

fn is_suspended(object: &DynamicObject) -> bool {
    object.data.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default()
}

/// Takes the lease away, and the suspend with it unless somebody else wants it too.
async fn end(connection: &Connection, resource: &ApiResource, object: &DynamicObject) -> Result<(), RequestError> {
    let metadata = &object.metadata;
    let marks = json!({"resourceVersion": metadata.resource_version, "labels": {LABEL: null}, "annotations": {objects::PAUSE: null}});
    let before = objects::pause_lease(object).and_then(|lease| lease.before);
    let others = objects::suspenders(object).iter().any(|manager| *manager != FIELD_MANAGER);
    let patch = if is_suspended(object) && !others {
        json!({"metadata": marks, "spec": {"suspend": before}})
    } else {
        json!({"metadata": marks})
    };
    let name = metadata.name.as_deref().unwrap_or_default();
    connection.merge(resource, metadata.namespace.as_deref(), name, &patch, false).await.map(drop)
}
