//! What stands on a Cluster of machines that did not come up.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::stage::StageId;
use domain::RolloutId;

/// The annotation of a Cluster that records them.
pub const ATTEMPTS: &str = "stepgate.dev/attempts";

/// The annotation of what a rollout makes or changes that names the rollout.
pub const MADE_IN: &str = "stepgate.dev/rollout";

/// Attempts of one stage that have failed. They stand on the Cluster itself, so that whoever goes on knows how many are left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempts {
    /// The rollout.
    pub rollout: RolloutId,
    /// The stage.
    pub stage: StageId,
    /// Oldest first.
    pub failed: Vec<FailedAttempt>,
}

/// One attempt that has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedAttempt {
    /// When its time was over.
    pub at: Timestamp,
    /// Machines that had no node by then.
    pub machines: Vec<MachineId>,
}

/// One Machine, and no other that is called the same later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineId {
    /// Its name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}
