//! Who suspended a Kustomization: a person, or we by a lease that stands on the object.

use jiff::Timestamp;
use kube::core::DynamicObject;
use serde::{Deserialize, Serialize};

use crate::objects::fields::{annotation, at};

/// The annotation that holds the lease.
pub(crate) const PAUSE: &str = "stepgate.dev/pause";

/// A pause as it stands on a Kustomization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseLease {
    /// Who wants it.
    pub owner: String,
    /// Why.
    pub reason: String,
    /// When it ends, if nobody ends it before.
    pub until: Timestamp,
    /// `spec.suspend` as it was; none where the object said nothing.
    #[serde(default)]
    pub before: Option<bool>,
}

impl From<PauseLease> for rollout::Hold {
    fn from(lease: PauseLease) -> Self {
        Self { owner: lease.owner, reason: lease.reason, until: lease.until }
    }
}

/// The lease on an object; none where there is none that can be read.
pub(crate) fn pause_lease(object: &DynamicObject) -> Option<PauseLease> {
    serde_json::from_str(annotation(object, PAUSE)?).ok()
}

/// The field managers that own `spec.suspend`, the newest last.
pub(crate) fn suspenders(object: &DynamicObject) -> Vec<&str> {
    let managers = object.metadata.managed_fields.as_deref().unwrap_or_default();
    let mut owners: Vec<_> = managers
        .iter()
        .filter(|entry| {
            entry.fields_v1.as_ref().is_some_and(|fields| at(&fields.0, &["f:spec", "f:suspend"]).is_some())
        })
        .collect();
    owners.sort_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    owners.into_iter().filter_map(|entry| entry.manager.as_deref()).collect()
}

/// Who wants it suspended, in words.
pub(in crate::objects) fn suspended_by(object: &DynamicObject) -> Option<String> {
    match pause_lease(object) {
        Some(lease) => Some(format!("{} until {} ({})", lease.owner, lease.until, lease.reason)),
        None => suspenders(object).last().map(|manager| (*manager).to_owned()),
    }
}
