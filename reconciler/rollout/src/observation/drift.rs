//! What is not as the deploy branch has it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ObjectReference;

/// An object that differs from what the deploy branch holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// The object.
    pub object: ObjectReference,
    /// How it differs.
    pub kind: DriftKind,
}

/// How an object differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriftKind {
    /// It is not there.
    Gone,
    /// Somebody changed fields that the deploy branch sets.
    Changed {
        /// The fields, such as `spec.replicas`.
        fields: Vec<String>,
        /// The field manager; empty where the API server does not say.
        manager: String,
        /// When that manager wrote the object last.
        at: Option<Timestamp>,
    },
}
