//! The certificate authorities that a server is trusted by.

use std::collections::BTreeSet;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};

/// Fingerprints (SHA-256) of certificates of authorities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Authorities(BTreeSet<[u8; 32]>);

impl Authorities {
    /// Those of these certificates (DER).
    pub(crate) fn of<'a>(certificates: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self(certificates.into_iter().map(|certificate| Sha256::digest(certificate).into()).collect())
    }

    /// Those of the certificates in a text (PEM); none where it holds something else.
    pub(crate) fn of_pem(text: &[u8]) -> Option<Self> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        let known = Self::of(certificates.ok()?.iter().map(AsRef::as_ref));
        (!known.0.is_empty()).then_some(known)
    }

    /// Whether there is one, and all of them are among the others.
    pub(crate) fn are_among(&self, others: &Self) -> bool {
        !self.0.is_empty() && self.0.is_subset(&others.0)
    }

    /// `sha256:…`: the fingerprint of the only one, as `openssl x509 -fingerprint -sha256` has it, or the digest of all fingerprints in order.
    pub(crate) fn digest(&self) -> Option<String> {
        let mut known = self.0.iter();
        let digest: [u8; 32] = match (known.next()?, known.next()) {
            (only, None) => *only,
            (_, Some(_)) => Sha256::digest(self.0.iter().flatten().copied().collect::<Vec<u8>>()).into(),
        };
        Some(format!("sha256:{}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_trusted_by_no_other_authority_than_is_known() {
        let (none, one, two) = (Authorities::of([]), Authorities::of([&b"a"[..]]), Authorities::of([&b"b"[..], b"a"]));
        assert!(one.are_among(&two) && one.are_among(&one) && !two.are_among(&one));
        assert!(!none.are_among(&two), "who is trusted by anybody is not known");
        assert_eq!(none.digest(), None);
        // The digest of the letter itself.
        let letter = "sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
        assert_eq!(one.digest().as_deref(), Some(letter));
        assert!(two.digest().is_some_and(|digest| digest != letter && digest.len() == letter.len()));
    }

    #[test]
    fn a_text_without_a_certificate_names_no_authority() {
        for text in ["", "hunter2", "-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n"] {
            assert_eq!(Authorities::of_pem(text.as_bytes()), None, "{text}");
        }
        let text = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";
        assert_eq!(Authorities::of_pem(text.as_bytes()), Some(Authorities::of([&b"a"[..]])));
    }
}
