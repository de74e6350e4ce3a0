//! The signature of Bundles: what it says, and what it does not cover.
//!
//! EKS Anywhere signs Bundles with a key in AWS KMS (ECDSA P-256, SHA-256, DER in base64, in an annotation). Before
//! signing it leaves out the metadata that a cluster writes and a list of paths that is compiled into its command line
//! and has grown twice; the list in the annotation beside the signature is information only and is never trusted here.
//! Paths and key: `aws/eks-anywhere`, `pkg/constants/constants.go`.

mod eksd;
mod signer;

pub use eksd::{EksdSignatureVerdict, eksd_signature_annotation, verify_eksd_reference, verify_eksd_release};

pub use signer::{SignerKey, SignerKeyError};

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use yaml::Node;
use yaml::json;

use crate::bundles::Bundles;

/// The annotation that holds the signature.
pub const SIGNATURE_ANNOTATION: &str = "anywhere.eks.amazonaws.com/signature";

/// The public key of EKS Anywhere: DER `SubjectPublicKeyInfo`, base64.
const PUBLIC_KEY: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEFZU/Z6VVMU9HioT7rGkPdJg3frC2xyQZhWFIrz5HeZEfeQ2nAdnJMLrs2Qr3V9xVrJrHA54wnIHDoPGbEhojqg==";

/// Fields of `metadata` that a cluster writes; `status` is left out as well.
const METADATA: [&str; 7] =
    ["annotations", "creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid"];

/// Sections of a versionsBundle that no signature has ever covered.
const SECTIONS: [&str; 20] = [
    "bootstrap",
    "bottlerocketHostContainers",
    "certManager",
    "cilium",
    "cloudStack",
    "clusterAPI",
    "controlPlane",
    "docker",
    "eksa",
    "etcdadmBootstrap",
    "etcdadmController",
    "flux",
    "haproxy",
    "kindnetd",
    "nutanix",
    "packageController",
    "snow",
    "tinkerbell",
    "upgrader",
    "vSphere",
];

/// Which compiled-in list of left out paths a signature was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignatureEra {
    /// From 2025-01-23: the component sections.
    Sections,
    /// From 2025-02-11: also `eksD.components` and `eksD.manifestUrl`.
    EksDAddresses,
    /// From 2025-11-19: also `bottlerocketBootstrapContainers`.
    BootstrapContainers,
}

/// What checking a signature gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureVerdict {
    /// The signature is of EKS Anywhere's key and fits what it covers. That is little: see
    /// [`SignatureVerdict::statement`].
    Valid {
        /// The list of left out paths it was made with.
        era: SignatureEra,
        /// What the file holds and the signature does not cover: `certManager`, `eksD.manifestUrl`, sorted.
        not_covered: Vec<String>,
    },
    /// There is a signature, and it does not fit.
    Invalid {
        /// Why.
        reason: String,
    },
    /// The object carries no signature.
    Missing,
}

impl SignatureEra {
    /// Every era, newest first.
    pub const ALL: [Self; 3] = [Self::BootstrapContainers, Self::EksDAddresses, Self::Sections];

    /// The first day of the era.
    #[must_use]
    pub fn since(self) -> &'static str {
        match self {
            Self::Sections => "2025-01-23",
            Self::EksDAddresses => "2025-02-11",
            Self::BootstrapContainers => "2025-11-19",
        }
    }

    /// Whether the key at `path` (of maps, list items have no part in it) is left out before signing.
    fn leaves_out(self, path: &[&str], key: &str) -> bool {
        match path {
            ["spec", "versionsBundles"] => {
                SECTIONS.contains(&key) || self >= Self::BootstrapContainers && key == "bottlerocketBootstrapContainers"
            }
            ["spec", "versionsBundles", "eksD"] => {
                self >= Self::EksDAddresses && matches!(key, "components" | "manifestUrl")
            }
            _ => is_written_by_cluster(path, key),
        }
    }
}

impl SignatureVerdict {
    /// Whether the signature fits.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        matches!(self, Self::Valid { .. })
    }

    /// What the verdict means, in plain words for people.
    #[must_use]
    pub fn statement(&self) -> String {
        match self {
            Self::Missing => "the Bundles object is not signed".to_owned(),
            Self::Invalid { reason } => format!("the signature does not fit: {reason}"),
            Self::Valid { not_covered, .. } => {
                let covered = "the signature fits; it covers the name, the number, the Kubernetes versions, their end of \
                    standard support and the rest of eksD";
                if not_covered.is_empty() {
                    return covered.to_owned();
                }
                format!(
                    "{covered}. It does not cover {}: their versions, images, digests and addresses can be changed and \
                     it still fits. What protects them is the digest of each image, bundles.lock and the history of \
                     the repository",
                    not_covered.join(", ")
                )
            }
        }
    }
}

/// Checks the signature of Bundles against the public key of EKS Anywhere, and those that the operator has named.
#[must_use]
pub fn verify_signature(bundles: &Bundles) -> SignatureVerdict {
    let verdicts = signer::points(PUBLIC_KEY).into_iter().map(|point| verify_with(bundles, &point));
    best(verdicts, SignatureVerdict::is_valid).unwrap_or(SignatureVerdict::Missing)
}

/// The first verdict that is good, else the first.
fn best<T>(mut verdicts: impl Iterator<Item = T>, is_good: impl Fn(&T) -> bool) -> Option<T> {
    let first = verdicts.next()?;
    if is_good(&first) { Some(first) } else { Some(verdicts.find(|verdict| is_good(verdict)).unwrap_or(first)) }
}

/// The uncompressed point of a P-256 `SubjectPublicKeyInfo` in base64: its last 65 bytes.
pub(crate) fn point(public_key: &str) -> Vec<u8> {
    let key = STANDARD.decode(public_key).unwrap_or_default();
    key.last_chunk::<65>().map(|point| point.to_vec()).unwrap_or_default()
}

/// Fields of an object that are left out before anything of it is signed: what a cluster writes.
pub(crate) fn is_written_by_cluster(path: &[&str], key: &str) -> bool {
    match path {
        [] => key == "status",
        ["metadata"] => METADATA.contains(&key),
        _ => false,
    }
}

/// Checks the signature against an uncompressed P-256 point.
fn verify_with(bundles: &Bundles, point: &[u8]) -> SignatureVerdict {
    let Some(text) = bundles.annotations.get(SIGNATURE_ANNOTATION).filter(|text| !text.is_empty()) else {
        return SignatureVerdict::Missing;
    };
    let invalid = |reason: String| SignatureVerdict::Invalid { reason };
    let signature = match STANDARD.decode(text) {
        Ok(signature) => signature,
        Err(error) => return invalid(format!("the annotation {SIGNATURE_ANNOTATION} is not base64: {error}")),
    };
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
    let fits = |era: &SignatureEra| key.verify(canonical_form(&bundles.node, *era).as_bytes(), &signature).is_ok();
    match SignatureEra::ALL.into_iter().find(fits) {
        Some(era) => SignatureVerdict::Valid { era, not_covered: not_covered(bundles, era) },
        None => invalid(
            "what it covers was changed after signing, or another key signed it; take the file anew from its release"
                .to_owned(),
        ),
    }
}

/// The text that a signature of `era` is made over: the JSON that Go prints for what is left of the object.
fn canonical_form(node: &Node, era: SignatureEra) -> String {
    json::to_json_with(node, &|path, key| !era.leaves_out(path, key))
}

/// The left out paths that a versionsBundle of this file has.
fn not_covered(bundles: &Bundles, era: SignatureEra) -> Vec<String> {
    let path = ["spec", "versionsBundles"];
    let sections = bundles.node.at(&path).and_then(Node::as_sequence).unwrap_or_default();
    let mut found = BTreeSet::new();
    for entry in sections.iter().filter_map(Node::as_mapping).flatten() {
        if era.leaves_out(&path, &entry.key) {
            found.insert(entry.key.to_string());
        } else {
            let [spec, list] = path;
            let inner = entry.value.as_mapping().into_iter().flatten();
            let inner = inner.filter(|field| era.leaves_out(&[spec, list, &entry.key], &field.key));
            found.extend(inner.map(|field| format!("{}.{}", entry.key, field.key)));
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests;
