//! Whose signatures count besides those of EKS Anywhere and EKS-D.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::PUBLIC_KEY;

/// The length of an uncompressed point of P-256.
const POINT: usize = 65;

/// What the operator of this process has named, once.
static NAMED: OnceLock<Vec<SignerKey>> = OnceLock::new();

/// A public key that signs Bundles and EKS-D releases: an uncompressed point of P-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignerKey([u8; POINT]);

/// A file without public keys that could sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignerKeyError {
    /// It holds no public key.
    #[error("it holds no public key: `-----BEGIN PUBLIC KEY-----` is expected")]
    Missing,
    /// A key is of another kind.
    #[error("it holds a public key that is not of ECDSA on P-256, by which Bundles are signed")]
    OtherKind,
}

impl SignerKey {
    /// The public keys in a text, PEM each.
    ///
    /// # Errors
    /// [`SignerKeyError`] where there is none, or one of another kind.
    pub fn from_pem(text: &str) -> Result<Vec<Self>, SignerKeyError> {
        const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
        const END: &str = "-----END PUBLIC KEY-----";
        let bodies = text.split(BEGIN).skip(1).map(|rest| rest.split_once(END).map(|(body, _)| body));
        let keys: Vec<Self> = bodies
            .map(|body| Self::from_base64(&body.ok_or(SignerKeyError::Missing)?.split_whitespace().collect::<String>()))
            .collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(SignerKeyError::Missing) } else { Ok(keys) }
    }

    /// Of a `SubjectPublicKeyInfo` in base64.
    fn from_base64(text: &str) -> Result<Self, SignerKeyError> {
        let known = STANDARD.decode(PUBLIC_KEY).unwrap_or_default();
        let key = STANDARD.decode(text).map_err(|_| SignerKeyError::OtherKind)?;
        let algorithm = known.len().saturating_sub(POINT);
        let is_of_kind = key.len() == known.len() && key.get(..algorithm) == known.get(..algorithm);
        let point = key.last_chunk::<POINT>().filter(|_| is_of_kind);
        point.map(|point| Self(*point)).ok_or(SignerKeyError::OtherKind)
    }

    /// Lets signatures of these keys count in this process too. The first word stands.
    pub fn trust(keys: Vec<Self>) {
        let _ = NAMED.set(keys);
    }
}

/// The points of the keys that count: the one that is compiled in, then those that were named.
pub(super) fn points(compiled_in: &str) -> Vec<Vec<u8>> {
    let named = NAMED.get().into_iter().flatten().map(|key| key.0.to_vec());
    std::iter::once(super::point(compiled_in)).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_pem_and_others_are_refused() {
        let pem = |body: &str| format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n");
        let (first, second) = PUBLIC_KEY.split_at(64);
        let wrapped = pem(&format!("{first}\n{second}"));
        assert_eq!(SignerKey::from_pem(&wrapped).unwrap().len(), 1);
        assert_eq!(SignerKey::from_pem(&format!("ours\n{wrapped}{wrapped}")).unwrap().len(), 2);
        assert_eq!(SignerKey::from_pem("none"), Err(SignerKeyError::Missing));
        assert_eq!(SignerKey::from_pem(&pem("AAAA")), Err(SignerKeyError::OtherKind));
        assert_eq!(SignerKey::from_pem("-----BEGIN PUBLIC KEY-----\nAAAA"), Err(SignerKeyError::Missing));
    }
}
