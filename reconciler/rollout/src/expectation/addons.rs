//! What gates expect of the add-ons of a rendered `TanzuKubernetesCluster`.

use serde::{Deserialize, Serialize};

/// The add-ons of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddonsExpectation {
    /// Each by its name.
    pub addons: Vec<ExpectedAddon>,
}

/// One add-on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedAddon {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What is expected of it.
    #[serde(flatten)]
    pub state: ExpectedAddonState,
}

/// What is expected of an add-on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "state")]
pub enum ExpectedAddonState {
    /// It is applied, by this Kustomization of Flux; none where Stepgate applies it itself.
    Applied {
        /// Namespace and name of the Kustomization.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kustomization: Option<(String, String)>,
    },
    /// It cannot be read, and why.
    Unreadable {
        /// Why.
        message: String,
    },
    /// Others look after it.
    Unmanaged,
}
