//! Upgrades on the machines that are there, as whoever carries them out tells of them: our controller, or EKS Anywhere's.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One object that tells of an upgrade in place: of a group of machines, or of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpgrade {
    /// Its kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its resource, for `kubectl`.
    pub resource: String,
    /// The version that it leads to.
    pub version: String,
    /// Where it stands.
    pub state: InPlaceState,
    /// That in words.
    pub told: String,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
}

/// Where an upgrade in place stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InPlaceState {
    /// It goes on.
    Underway,
    /// It goes on when somebody has looked at it.
    Failed,
    /// Done.
    Done,
}
