//! Releases of Tanzu Kubernetes Grid: what an object of one says, and which one a version hint means.
//!
//! A Supervisor resolves hints when an object is applied, so that the same commit means another version on another day.
//! [`resolve`] does the same from recorded objects alone.

mod addon;
mod components;
mod machine_image;
mod os_image;
mod release;
mod resolve;
mod version;

pub use addon::{AddonContent, ImageAddon};
pub use components::{ComponentImage, Components};
pub use machine_image::MachineImage;
pub use os_image::{LabelQuery, LabelQueryError, OsImage};
pub use release::{ImageReferences, Standing, TanzuRelease};
pub use resolve::{Refusal, Request, resolve};
pub use version::{DistributionVersion, DistributionVersionError, VersionHint};

/// Why a recorded object is not usable, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RecordError {
    /// What is wrong.
    pub message: String,
    /// Path of the field.
    pub field: Vec<&'static str>,
    /// What to do.
    pub hint: &'static str,
}

impl RecordError {
    fn new(field: &[&'static str], message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), field: field.to_vec(), hint }
    }
}

/// What helps where an object is not as a Supervisor writes it.
const RECORD_ANEW: &str = "record it anew, as `kubectl get … -o yaml` prints it";

#[cfg(test)]
mod tests;
