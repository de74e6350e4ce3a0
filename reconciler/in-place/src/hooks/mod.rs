//! The wire of `hooks.runtime.cluster.x-k8s.io/v1alpha1`, as far as in-place updates need it.
//!
//! Bytes in, bytes out. Cluster API names no content type, sends objects without status and UID, and wants patches in
//! base64.

mod answer;
mod discovery;
mod progress;
mod request;

pub use answer::{Progress, can_update, failure, update_machine};
pub use discovery::discovered;
pub use request::{CanUpdate, ON_DECLINE, Objects, OnDecline, RequestError, UpdateMachine};

use std::fmt;

/// The only version of the hooks that there is.
pub const API_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// The largest request that is read, in bytes: six objects as large as an API server keeps.
pub const LARGEST_REQUEST: usize = 12 << 20;

/// A hook that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// What is answered at all.
    Discovery,
    /// Which differences of a control-plane machine are brought about in place.
    CanUpdateMachine,
    /// The same for the machines of a set.
    CanUpdateMachineSet,
    /// Brings a machine to what is desired; asked again until it is done.
    UpdateMachine,
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Discovery, Self::CanUpdateMachine, Self::CanUpdateMachineSet, Self::UpdateMachine];

    /// Its name, as in `status.handlers` of an `ExtensionConfig`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Discovery => "Discovery",
            Self::CanUpdateMachine => "CanUpdateMachine",
            Self::CanUpdateMachineSet => "CanUpdateMachineSet",
            Self::UpdateMachine => "UpdateMachine",
        }
    }

    /// The name of its handler, which a path ends with. Discovery has none.
    #[must_use]
    pub fn handler(self) -> Option<&'static str> {
        match self {
            Self::Discovery => None,
            Self::CanUpdateMachine => Some("can-update-machine"),
            Self::CanUpdateMachineSet => Some("can-update-machine-set"),
            Self::UpdateMachine => Some("update-machine"),
        }
    }

    /// The path that Cluster API calls it by.
    #[must_use]
    pub fn path(self) -> String {
        let hook = format!("/{API_VERSION}/{}", self.name().to_lowercase());
        self.handler().map_or_else(|| hook.clone(), |handler| format!("{hook}/{handler}"))
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
