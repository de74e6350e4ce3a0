//! The signatures of EKS-D releases: Bundles carry one for each release channel, in an annotation.
//!
//! EKS Anywhere checks them before it lets a cluster into extended support (`pkg/signature/manifest.go`, key in
//! `pkg/constants/constants.go`). Signed is the Release object without what a cluster writes, and `status` is among that: the
//! list of images and archives is not covered. What is left is the name, the channel and the number.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use yaml::json;
use yaml::{Mapping, Node, Value};

use super::{best, is_written_by_cluster, signer};
use crate::bundles::{Bundles, EksDReference};
use crate::eks_d::EksdRelease;

/// The public key of EKS-D: DER `SubjectPublicKeyInfo`, base64.
const PUBLIC_KEY: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEfqjUloL1WPdxB5JPOY18mIgjx0zD0SyWe9N1Fxjv7A8JwyKQycqirw2us7zoxoC5bnWD4lT53uv8skx3E/cHaw==";

/// What the signature of an EKS-D release says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EksdSignatureVerdict {
    /// The Bundles object carries none for this channel.
    Missing,
    /// It is not that of this release.
    Invalid {
        /// Why, in words.
        reason: String,
    },
    /// It fits: name, channel and number are as signed. Nothing else is covered.
    Valid,
}

impl EksdSignatureVerdict {
    /// What the verdict means, in plain words for people.
    #[must_use]
    pub fn statement(&self) -> String {
        match self {
            Self::Missing => "the bundle carries no signature for it".to_owned(),
            Self::Invalid { reason } => format!("the signature does not fit: {reason}"),
            Self::Valid => {
                "the signature fits; it covers the name, the channel and the number of the release, and none \
                            of its images and archives"
                    .to_owned()
            }
        }
    }
}

/// The annotation of Bundles with the signature for a release channel: `…/signature-1-31`.
#[must_use]
pub fn eksd_signature_annotation(channel: &str) -> String {
    format!("distro.eks.amazonaws.com/signature-{channel}")
}

/// Checks the signature that `bundles` carries for an EKS-D release.
#[must_use]
pub fn verify_eksd_release(bundles: &Bundles, release: &EksdRelease) -> EksdSignatureVerdict {
    verified(bundles, &release.channel, &release.node)
}

/// Checks the signature for the release that a section `eksD` names, without its manifest: everything that is signed is in
/// its name.
#[must_use]
pub fn verify_eksd_reference(bundles: &Bundles, reference: &EksDReference) -> EksdSignatureVerdict {
    match named(reference) {
        Some((channel, release)) => verified(bundles, &channel, &release),
        None => EksdSignatureVerdict::Invalid { reason: "the bundle does not name the release".to_owned() },
    }
}

/// Against the public key of EKS-D, and those that the operator has named.
fn verified(bundles: &Bundles, channel: &str, release: &Node) -> EksdSignatureVerdict {
    let verdicts = signer::points(PUBLIC_KEY).into_iter().map(|point| verify_with(bundles, channel, release, &point));
    best(verdicts, |verdict| *verdict == EksdSignatureVerdict::Valid).unwrap_or(EksdSignatureVerdict::Missing)
}

/// Channel of the release, and as much of its object as is signed.
fn named(reference: &EksDReference) -> Option<(String, Node)> {
    let (name, channel) = (reference.name.clone()?, reference.channel.clone()?);
    let map = |entries: Vec<(&str, Node)>| -> Node {
        Node::from(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Mapping>())
    };
    let number = Node::from(Value::Uint(reference.number?));
    let release = map(vec![
        ("apiVersion", Node::from("distro.eks.amazonaws.com/v1alpha1")),
        ("kind", Node::from("Release")),
        ("metadata", map(vec![("name", Node::from(name.as_str()))])),
        ("spec", map(vec![("channel", Node::from(channel.as_str())), ("number", number)])),
    ]);
    Some((channel, release))
}

fn verify_with(bundles: &Bundles, channel: &str, release: &Node, point: &[u8]) -> EksdSignatureVerdict {
    let annotation = eksd_signature_annotation(channel);
    let Some(text) = bundles.annotations.get(&annotation).filter(|text| !text.is_empty()) else {
        return EksdSignatureVerdict::Missing;
    };
    let signature = match STANDARD.decode(text) {
        Ok(signature) => signature,
        Err(error) => {
            return EksdSignatureVerdict::Invalid {
                reason: format!("the annotation {annotation} is not base64: {error}"),
            };
        }
    };
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
    match key.verify(signed_form(release).as_bytes(), &signature) {
        Ok(()) => EksdSignatureVerdict::Valid,
        Err(_) => EksdSignatureVerdict::Invalid {
            reason: format!(
                "{annotation} was not made for this release; take bundle and release anew from where they are published"
            ),
        },
    }
}

/// The text that the signature is made over.
fn signed_form(release: &Node) -> String {
    json::to_json_with(release, &|path, key| !is_written_by_cluster(path, key))
}

#[cfg(test)]
#[path = "eksd_tests.rs"]
mod tests;
