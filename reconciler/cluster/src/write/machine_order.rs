//! Marks of Machines that tell Cluster API when they go: leases that stand on the Machines themselves, so that any process ends them.
//!
//! A process that decides takes them away as soon as nothing wants them. What a killed one has left ends with its time:
//! any process that runs, leading or not, looks for that every 10 s and at its start. While none runs, marks last; by
//! hand they go by `kubectl annotate`, since the annotation is all that counts.

use jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject};
use rollout::{MarkChange, MarkKind, Marked};
use serde_json::{Value, json};

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::MACHINE;
use crate::client::request::Selection;
use crate::objects;

/// The label by which marked Machines are found.
const LABEL: &str = "stepgate.dev/marked";

/// How often a Machine is looked at whose controllers write it at the same time.
const ATTEMPTS: usize = 8;

const KINDS: [MarkKind; 2] = [MarkKind::DeleteFirst, MarkKind::Brake];

/// Sets these marks, and takes ours away. A mark of somebody else stays as it is.
///
/// # Errors
/// When the API server refuses or does not answer; what was changed before stays so.
pub(crate) async fn mark(connection: &Connection, changes: &[MarkChange]) -> Result<(), RequestError> {
    let Some(resource) = resource(connection).await? else { return Ok(()) };
    for change in changes {
        let mut attempts = ATTEMPTS;
        loop {
            match mark_one(connection, &resource, change).await {
                Err(error) if error.is_conflict() && attempts > 1 => attempts -= 1,
                // It went meanwhile.
                Err(error) if error.is_not_found() => break,
                outcome => break outcome?,
            }
        }
    }
    Ok(())
}

async fn mark_one(connection: &Connection, resource: &ApiResource, change: &MarkChange) -> Result<(), RequestError> {
    let MarkChange { namespace, machine, kind, mark } = change;
    let Some(object) = connection.get(resource, Some(namespace), machine).await? else { return Ok(()) };
    match (objects::marked(&object, kind.annotation()), mark) {
        (Some(Marked::Others), _) | (None, None) => Ok(()),
        (_, mark) => {
            let text = mark.as_ref().and_then(|mark| serde_json::to_string(mark).ok());
            write(connection, resource, &object, &[(*kind, text)]).await
        }
    }
}

/// Writes annotations of an object as it was read, and the label by which it is found as long as one of ours stands there.
async fn write(
    connection: &Connection,
    resource: &ApiResource,
    object: &DynamicObject,
    marks: &[(MarkKind, Option<String>)],
) -> Result<(), RequestError> {
    let is_left = |kind: MarkKind| match marks.iter().find(|(changed, _)| *changed == kind) {
        Some((_, text)) => text.is_some(),
        None => objects::marked(object, kind.annotation()).is_some_and(|marked| marked.ours().is_some()),
    };
    let label = KINDS.into_iter().any(is_left).then_some("true");
    let annotations: serde_json::Map<String, Value> =
        marks.iter().map(|(kind, text)| (kind.annotation().to_owned(), json!(text))).collect();
    let metadata = &object.metadata;
    let patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "labels": {LABEL: label},
        "annotations": annotations}});
    let name = metadata.name.as_deref().unwrap_or_default();
    connection.merge(resource, metadata.namespace.as_deref(), name, &patch, false).await.map(drop)
}

/// Takes away every mark of ours whose time is over, whoever made it. Answers with the end of the next.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn end_expired(connection: &Connection, now: Timestamp) -> Result<Option<Timestamp>, RequestError> {
    let Some(resource) = resource(connection).await? else { return Ok(None) };
    let label = format!("{LABEL}=true");
    let selection = Selection { labels: Some(&label), ..Selection::default() };
    let marked = connection.list_resource(&resource, None, selection, "list marked machines").await?;
    let mut next: Option<Timestamp> = None;
    for object in marked {
        let ours = |kind: &MarkKind| match objects::marked(&object, kind.annotation()) {
            Some(Marked::Us { mark }) => Some((*kind, mark.until)),
            Some(Marked::Others) | None => None,
        };
        let (over, lasting): (Vec<_>, Vec<_>) = KINDS.iter().filter_map(ours).partition(|(_, until)| *until <= now);
        next = lasting.into_iter().map(|(_, until)| until).chain(next).min();
        if over.is_empty() {
            continue;
        }
        let marks: Vec<(MarkKind, Option<String>)> = over.into_iter().map(|(kind, _)| (kind, None)).collect();
        match write(connection, &resource, &object, &marks).await {
            // Somebody wrote it meanwhile: it is looked at again the next time.
            Ok(()) | Err(RequestError::Conflict { .. }) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(next)
}

async fn resource(connection: &Connection) -> Result<Option<ApiResource>, RequestError> {
    let served = connection.lately_served_versions().await?;
    Ok(served.version_of(&MACHINE).map(|version| MACHINE.resource(version)))
}
