//! What Bundles manifests say and what changed between two of them.
//!
//! [`parse`] reads Bundles, `EKSARelease` and EKS-D Release objects of every era, [`compare()`] gives a class to every
//! component and artifact, [`verify_signature`] and [`recompute_build_metadata`] say what can be trusted, [`Lock`] pins
//! the manifests that a bundle points to.
//!
//! Architecture Invariant: this package does no I/O and holds no policy. It says what changed, never whether that may
//! be rolled out.

pub mod build_metadata;
pub mod bundles;
pub mod change;
pub mod compare;
pub mod component;
pub mod digest;
pub mod eks_d;
pub mod eksa_release;
pub mod eksd_release;
pub mod eksd_signature;
pub mod error;
mod field;
pub mod image;
pub mod kubernetes;
pub mod lock;
pub mod manifest;
pub mod signature;
mod truncation;
pub mod version;

pub use build_metadata::{BuildMetadataVerdict, recompute_build_metadata};
pub use bundles::{Bundles, EksDReference, ManifestReference, VersionsBundle};
pub use change::{ArtifactChange, Change, ChangeClass, Changes};
pub use compare::{Locks, compare, compare_versions_bundles};
pub use component::{Artifact, ArtifactKind, Component};
pub use digest::Digest;
pub use eks_d::EksDVersion;
pub use eksa_release::EksaRelease;
pub use eksd_release::{EksdAsset, EksdComponent, EksdRelease};
pub use eksd_signature::{EksdSignatureVerdict, eksd_signature_annotation, verify_eksd_reference, verify_eksd_release};
pub use error::BundleError;
pub use image::ImageReference;
pub use kubernetes::{KubernetesMinor, KubernetesVersion};
pub use lock::{Lock, LockError};
pub use manifest::{Manifest, parse, parse_bundles};
pub use signature::{SignatureEra, SignatureVerdict, verify_signature};
pub use version::{SemanticVersion, Version, VersionForm};
