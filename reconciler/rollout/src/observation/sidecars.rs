//! Sidecars that pods ask for and lack.

use serde::{Deserialize, Serialize};

use crate::dump::MissingSidecar;

/// What was read of sidecars.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SidecarReading {
    /// Pods that were looked at.
    pub pods: u32,
    /// What is missing, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingSidecar>,
    /// Why something of it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}
