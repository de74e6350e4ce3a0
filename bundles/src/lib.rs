//! What Bundles manifests say and what changed between two of them.
//!
//! [`parse`] reads Bundles, `EKSARelease` and EKS-D Release objects of every era, [`compare()`] gives a class to every
//! component and artifact, [`verify_signature`] and [`recompute_build_metadata`] say what can be trusted, [`Lock`] pins
//! the manifests that a bundle points to.
//!
//! Architecture Invariant: this package does no I/O and holds no policy. It says what changed, never whether that may
//! be rolled out.

pub mod bundles;
pub mod compare;
pub mod component;
pub mod digest;
pub mod eks_d;
pub mod eksa_release;
pub mod error;
mod field;
#[cfg(test)]
mod fuzzed;
pub mod image;
pub mod kubernetes;
pub mod lock;
pub mod manifest;
pub mod releases;
pub mod signature;
pub mod tanzu;
pub mod version;

pub use bundles::{Bundles, EksDReference, ManifestReference, VersionsBundle};
pub use compare::{ArtifactChange, Change, ChangeClass, Changes, Locks, compare, compare_versions_bundles};
pub use component::{Artifact, ArtifactKind, Component};
pub use digest::Digest;
pub use eks_d::{EksDVersion, EksdAsset, EksdComponent, EksdRelease};
pub use eksa_release::EksaRelease;
pub use error::BundleError;
pub use image::ImageReference;
pub use kubernetes::{KubernetesMinor, KubernetesVersion};
pub use lock::{Lock, LockError};
pub use manifest::{Manifest, parse, parse_bundles};
pub use releases::{PublishedRelease, parse_releases};
pub use signature::{
    EksdSignatureVerdict, SignatureEra, SignatureVerdict, SignerKey, SignerKeyError, eksd_signature_annotation,
    verify_eksd_reference, verify_eksd_release, verify_signature,
};
pub use version::{BuildMetadataVerdict, SemanticVersion, Version, VersionForm, recompute_build_metadata};
