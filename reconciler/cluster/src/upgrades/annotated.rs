//! Annotations by which Cluster API leaves an object alone, and whose they are.

use in_place::objects::{LEASE, Lease, OUR_WORDS, PAUSED, paused_words};
use in_place::order::{Mark, Pause};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use super::snapshot::annotation;
use crate::client::connection::Connection;
use crate::client::error::RequestError;

/// Cluster API does not replace a machine that has it.
const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";

/// How often an object is looked at whose controllers write it at the same time.
const ATTEMPTS: usize = 8;

/// Who has paused an object.
pub(super) fn pause(object: &DynamicObject) -> Pause {
    let lease = annotation(object, LEASE).and_then(|text| serde_json::from_str::<Lease>(text).ok());
    match (annotation(object, PAUSED), lease) {
        (None, _) => Pause::None,
        (Some(words), Some(lease)) if words.starts_with(OUR_WORDS) => Pause::Ours(lease),
        (Some(_), _) => Pause::Others,
    }
}

/// Whether, and by whom, a machine is kept from remediation.
pub(super) fn skips_remediation(object: &DynamicObject) -> Mark {
    match annotation(object, SKIP_REMEDIATION) {
        None => Mark::None,
        Some(words) if words.starts_with(OUR_WORDS) => Mark::Ours,
        Some(_) => Mark::Others,
    }
}

/// Pauses an object, or gives the pause that we have on it another end. That of somebody else stays as it is.
pub(super) async fn pause_object(
    connection: &Connection,
    place: (&ApiResource, &str, &str),
    lease: &Lease,
) -> Result<(), RequestError> {
    let words = paused_words(lease);
    let text = serde_json::to_string(lease).unwrap_or_default();
    let annotations = json!({PAUSED: words, LEASE: text});
    change(connection, place, |object| (pause(object) != Pause::Others).then(|| annotations.clone())).await
}

/// Ends our pause of an object.
pub(super) async fn resume_object(
    connection: &Connection,
    place: (&ApiResource, &str, &str),
) -> Result<(), RequestError> {
    let annotations = json!({PAUSED: null, LEASE: null});
    change(connection, place, |object| matches!(pause(object), Pause::Ours(_)).then(|| annotations.clone())).await
}

/// Keeps a machine from remediation, or no more.
pub(super) async fn skip_remediation(
    connection: &Connection,
    place: (&ApiResource, &str, &str),
    on: bool,
) -> Result<(), RequestError> {
    let words = on.then(|| format!("{OUR_WORDS}its upgrade in place has failed"));
    let annotations = json!({SKIP_REMEDIATION: words});
    change(connection, place, |object| (skips_remediation(object) != Mark::Others).then(|| annotations.clone())).await
}

/// Changes annotations of an object as it was read.
async fn change(
    connection: &Connection,
    (resource, namespace, name): (&ApiResource, &str, &str),
    annotations: impl Fn(&DynamicObject) -> Option<Value>,
) -> Result<(), RequestError> {
    let mut attempts = ATTEMPTS;
    loop {
        let Some(object) = connection.get(resource, Some(namespace), name).await? else { return Ok(()) };
        let Some(annotations) = annotations(&object) else { return Ok(()) };
        let metadata = json!({"resourceVersion": object.metadata.resource_version, "annotations": annotations});
        let patch = json!({"metadata": metadata});
        match connection.merge(resource, Some(namespace), name, &patch, false).await {
            Err(error) if error.is_conflict() && attempts > 1 => attempts -= 1,
            outcome => return outcome.map(drop),
        }
    }
}
