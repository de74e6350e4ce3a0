//! Where a cluster of Tanzu stands: its phase, and each of its add-ons.

use serde::{Deserialize, Serialize};

use crate::expectation::{Expectation, ExpectedAddon, ExpectedAddonState};
use crate::observation::{ConditionStatus, Observation, TanzuAddonState};
use crate::tanzu::phase::{TanzuPhase, front_phase, rendered_phase};

/// Where a cluster of Tanzu stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TanzuStanding {
    /// Its phase; none where what tells it was not read.
    pub phase: Option<TanzuPhase>,
    /// Its add-ons by name.
    pub addons: Vec<AddonStanding>,
}

/// Where one add-on stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddonStanding {
    /// Its name.
    pub name: String,
    /// Its version, where it is known.
    pub version: Option<String>,
    /// How far it is.
    pub status: TanzuAddonState,
    /// What went wrong last.
    pub last_error_message: Option<String>,
}

impl TanzuAddonState {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Applied => "applied",
            Self::Error => "error",
            Self::Unmanaged => "unmanaged",
        }
    }
}

impl TanzuStanding {
    /// The add-ons in a few words: how many are how far.
    #[must_use]
    pub fn summary(&self) -> String {
        use TanzuAddonState::{Applied, Error, Pending, Unmanaged};
        let count = |state: TanzuAddonState| self.addons.iter().filter(|addon| addon.status == state).count();
        let told = [Error, Pending, Applied, Unmanaged].into_iter().filter(|state| count(*state) > 0);
        told.map(|state| format!("{} {}", count(state), state.as_str())).collect::<Vec<_>>().join(", ")
    }

    /// A line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let phase = self.phase.map_or("phase not known", TanzuPhase::as_str);
        let addons = self.addons.iter().map(|addon| {
            let version = addon.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
            let why = addon.last_error_message.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("{}{version} {}{why}", addon.name, addon.status.as_str())
        });
        let addons: Vec<String> = addons.collect();
        if addons.is_empty() { phase.to_owned() } else { format!("{phase}; add-ons: {}", addons.join(", ")) }
    }
}

/// Where a cluster of Tanzu stands by a reading, as what its gates expect tells; none of other clusters.
#[must_use]
pub fn tanzu_standing<'a>(
    expectations: impl Iterator<Item = &'a Expectation> + Clone,
    observation: &Observation,
) -> Option<TanzuStanding> {
    let front = expectations.clone().find_map(|expectation| match expectation {
        Expectation::Tanzu(expected) => Some((&expected.namespace, &expected.name)),
        _ => None,
    });
    if let Some((namespace, name)) = front {
        let phase = front_phase(namespace, name, observation);
        let mut known = observation.tanzu_clusters.iter();
        let found = known.find(|known| known.namespace == *namespace && known.name == *name);
        let addons = found.iter().flat_map(|cluster| &cluster.addons).map(|addon| AddonStanding {
            name: addon.name.clone(),
            version: addon.version.clone(),
            status: addon.state,
            last_error_message: addon.message.clone(),
        });
        return Some(TanzuStanding { phase, addons: addons.collect() });
    }
    let (namespace, cluster) = expectations.clone().find_map(|expectation| match expectation {
        Expectation::Secrets(expected) => Some((&expected.namespace, &expected.cluster)),
        _ => None,
    })?;
    let addons = expectations.filter_map(|expectation| match expectation {
        Expectation::AddonsApplied(expected) => Some(&expected.addons),
        _ => None,
    });
    let addons = addons.flatten().map(|addon| standing(addon, observation)).collect();
    Some(TanzuStanding { phase: rendered_phase(namespace, cluster, observation), addons })
}

fn standing(addon: &ExpectedAddon, observation: &Observation) -> AddonStanding {
    let (status, message) = match &addon.state {
        ExpectedAddonState::Unmanaged => (TanzuAddonState::Unmanaged, None),
        ExpectedAddonState::Unreadable { message } => (TanzuAddonState::Error, Some(message.clone())),
        ExpectedAddonState::Applied { kustomization } => by_flux(kustomization.as_ref(), observation),
    };
    let (name, version) = (addon.name.clone(), Some(addon.version.clone()).filter(|version| !version.is_empty()));
    AddonStanding { name, version, status, last_error_message: message }
}

/// How far Flux is with an add-on. What nobody has applied in git yet is not asked here: its stage is still ahead.
fn by_flux(place: Option<&(String, String)>, observation: &Observation) -> (TanzuAddonState, Option<String>) {
    // Stepgate applies it itself, with everything else.
    let Some((namespace, name)) = place else { return (TanzuAddonState::Applied, None) };
    let mut known = observation.flux.kustomizations.iter();
    let found = known.find(|known| known.namespace == *namespace && known.name == *name);
    match found.and_then(|known| known.ready.as_ref()) {
        Some(ready) if ready.status == ConditionStatus::True => (TanzuAddonState::Applied, None),
        Some(ready) if ready.status == ConditionStatus::False => {
            (TanzuAddonState::Error, Some(ready.message.clone()).filter(|message| !message.is_empty()))
        }
        Some(_) | None => (TanzuAddonState::Pending, None),
    }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
