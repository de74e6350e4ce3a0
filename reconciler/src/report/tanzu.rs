//! Where a cluster of Tanzu stands.

use rollout::{AddonStanding, TanzuPhase, TanzuStanding};
use serde::Serialize;

/// Where a cluster of Tanzu stands.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TanzuStatus {
    /// `creating`, `running`, `updating`, `updateFailed`, `deleting` or `failed`; null where what tells it was not read.
    pub phase: Option<String>,
    /// Its add-ons, each by itself.
    pub addons: Vec<AddonStatus>,
    /// All of it in a line.
    #[serde(skip)]
    pub line: String,
}

/// Where one add-on stands.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonStatus {
    /// Its name.
    pub name: String,
    /// Its version, where it is known.
    pub version: Option<String>,
    /// `pending`, `applied`, `error` or `unmanaged`.
    pub status: String,
    /// What went wrong last.
    pub last_error_message: Option<String>,
}

impl From<&TanzuStanding> for TanzuStatus {
    fn from(standing: &TanzuStanding) -> Self {
        let addon = |addon: &AddonStanding| AddonStatus {
            name: addon.name.clone(),
            version: addon.version.clone(),
            status: addon.status.as_str().to_owned(),
            last_error_message: addon.last_error_message.clone(),
        };
        let phase = standing.phase.map(TanzuPhase::as_str).map(str::to_owned);
        Self { phase, addons: standing.addons.iter().map(addon).collect(), line: standing.line() }
    }
}
