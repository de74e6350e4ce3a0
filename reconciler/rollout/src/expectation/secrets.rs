//! Secrets that a cluster cannot be without.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observation::ObjectReference;

/// Secrets of the management cluster that a cluster cannot be without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretsExpectation {
    /// Namespace of the Cluster API `Cluster`.
    pub namespace: String,
    /// Its name.
    pub cluster: String,
    /// Which ones.
    pub secrets: Vec<ObjectReference>,
    /// What identified each when the rollout began, by its words in evidence; empty before that.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub before: BTreeMap<String, String>,
}
