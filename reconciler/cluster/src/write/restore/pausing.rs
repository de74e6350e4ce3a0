//! What stands still while a cluster is restored, and what says so on it.
//!
//! Cluster API leaves everything of a paused Cluster alone, EKS Anywhere everything of a Cluster
//! with its annotation; a `ClusterResourceSet` would apply its resources again while its bindings
//! are missing. The pause lasts until everything is there: a restore that was broken off is ended by
//! restoring again, and by nothing else.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::object::{Key, key, text};
use crate::client::kind::{CLUSTER, EKSA_CLUSTER};

/// The annotation on what a restore keeps still.
pub(crate) const RESTORING: &str = "stepgate.dev/restoring";

/// By this annotation Cluster API leaves an object alone.
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// By this annotation EKS Anywhere leaves a Cluster alone.
const EKSA_PAUSED: &str = "anywhere.eks.amazonaws.com/paused";

/// What is written on an object that is kept still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RestoreMark {
    /// Who restores.
    pub(crate) owner: String,
    /// Why it stands still.
    pub(crate) reason: String,
    /// Since when.
    pub(crate) since: Timestamp,
    /// Whether it was paused before, by somebody else.
    pub(crate) paused_before: bool,
    /// The API server of the management cluster that it was moved to: here it never goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) moved_to: Option<String>,
}

/// How an object is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// `spec.paused`.
    Field,
    /// An annotation of this name.
    Annotation(&'static str),
}

/// How this object is paused; none for what follows the Cluster that it belongs to.
pub(super) fn pause_of(object: &Key) -> Option<Pause> {
    match (object.group.as_str(), object.kind.as_str()) {
        (group, "Cluster") if group == CLUSTER.group => Some(Pause::Field),
        (group, "Cluster") if group == EKSA_CLUSTER.group => Some(Pause::Annotation(EKSA_PAUSED)),
        ("addons.cluster.x-k8s.io", "ClusterResourceSet") => Some(Pause::Annotation(PAUSED)),
        _ => None,
    }
}

/// What a restore has written on an object.
pub(super) fn mark_of(object: &Value) -> Option<RestoreMark> {
    serde_json::from_str(text(object, &annotation(RESTORING))).ok()
}

/// Whether an object was paused by anybody but a restore.
pub(super) fn was_paused(object: &Value) -> bool {
    if let Some(mark) = mark_of(object) {
        return mark.paused_before;
    }
    match pause_of(&key(object)) {
        Some(Pause::Field) => object.pointer("/spec/paused").and_then(Value::as_bool).unwrap_or_default(),
        Some(Pause::Annotation(name)) => object.pointer(&annotation(name)).is_some(),
        None => false,
    }
}

fn annotation(name: &str) -> String {
    format!("/metadata/annotations/{}", name.replace('/', "~1"))
}

/// A merge patch that keeps an object still, under this mark.
pub(super) fn pausing(pause: Pause, mark: &RestoreMark) -> Value {
    let text = serde_json::to_string(mark).unwrap_or_default();
    match pause {
        Pause::Field => json!({"metadata": {"annotations": {RESTORING: text}}, "spec": {"paused": true}}),
        Pause::Annotation(name) => json!({"metadata": {"annotations": {RESTORING: text, name: "true"}}}),
    }
}

/// A merge patch that lets an object go on, unless somebody else had paused it.
pub(super) fn going_on(pause: Pause, mark: &RestoreMark) -> Value {
    match (pause, mark.paused_before) {
        (Pause::Field, before) => {
            // Version v1beta1 keeps `false`, later ones keep nothing: either says that it goes on.
            let before = if before { json!(true) } else { json!(null) };
            json!({"metadata": {"annotations": {RESTORING: null}}, "spec": {"paused": before}})
        }
        (Pause::Annotation(_), true) => json!({"metadata": {"annotations": {RESTORING: null}}}),
        (Pause::Annotation(name), false) => json!({"metadata": {"annotations": {RESTORING: null, name: null}}}),
    }
}
