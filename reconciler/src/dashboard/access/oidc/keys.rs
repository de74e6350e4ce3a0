//! The public keys of an issuer (RFC 7517), as far as they sign what is taken here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;

/// The most keys of a set that are looked at.
const MOST: usize = 64;

/// The longest number of a key, in bytes: 8192 bits.
const LONGEST: usize = 1024;

/// How a token may be signed. What is not here is signed by nobody: no secret, and nothing at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// The algorithm with this name (RFC 7518, 3.1; RFC 8037).
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "PS256" => Self::Ps256,
            "ES256" => Self::Es256,
            "EdDSA" => Self::EdDsa,
            _ => return None,
        })
    }
}

/// A key, by its kind: it alone says by which algorithms it signs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Public {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256 { point: Vec<u8> },
    Ed25519 { point: Vec<u8> },
}

#[derive(Clone, Debug)]
struct Key {
    id: Option<String>,
    /// The one algorithm that its issuer keeps it for.
    algorithm: Option<String>,
    public: Public,
}

/// The keys of an issuer.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySet(Vec<Key>);

/// A key as it is written. A set may hold others too, which are left out one by one.
#[derive(Deserialize)]
struct Written {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    kid: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// The keys of a document; none where it is no set.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<serde_json::Value>,
        }
        let set: Set = serde_json::from_slice(text).ok()?;
        let written = set.keys.into_iter().take(MOST).filter_map(|key| serde_json::from_value::<Written>(key).ok());
        Some(Self(written.filter_map(key).collect()))
    }

    /// Whether one of the keys with this name has signed a text so; none where no key has the name.
    pub(super) fn has_signed(&self, id: Option<&str>, by: Algorithm, text: &[u8], signature: &[u8]) -> Option<bool> {
        let named = |key: &&Key| id.is_none() || key.id.as_deref() == id;
        let mut keys = self.0.iter().filter(named).peekable();
        keys.peek()?;
        Some(keys.any(|key| key.has_signed(by, text, signature)))
    }
}

impl Key {
    fn has_signed(&self, by: Algorithm, text: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.as_deref().is_some_and(|own| Algorithm::of(own) != Some(by)) {
            return false;
        }
        match (&self.public, by) {
            (Public::Rsa { modulus, exponent }, Algorithm::Rs256) => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, text, signature).is_ok()
            }
            (Public::Rsa { modulus, exponent }, Algorithm::Ps256) => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PSS_2048_8192_SHA256, text, signature).is_ok()
            }
            (Public::P256 { point }, Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(text, signature).is_ok()
            }
            (Public::Ed25519 { point }, Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, point).verify(text, signature).is_ok()
            }
            (Public::Rsa { .. } | Public::P256 { .. } | Public::Ed25519 { .. }, _) => false,
        }
    }
}

fn key(written: Written) -> Option<Key> {
    if written.usage.is_some_and(|usage| usage != "sig") {
        return None;
    }
    let public = match (written.kty.as_str(), written.crv.as_deref()) {
        ("RSA", _) => Public::Rsa { modulus: number(written.n?)?, exponent: number(written.e?)? },
        ("EC", Some("P-256")) => {
            let (x, y) = (number(written.x?)?, number(written.y?)?);
            // An uncompressed point (SEC 1, 2.3.3).
            let point = [&[4], x.as_slice(), y.as_slice()].concat();
            Public::P256 { point: Some(point).filter(|_| x.len() == 32 && y.len() == 32)? }
        }
        ("OKP", Some("Ed25519")) => Public::Ed25519 { point: number(written.x?).filter(|point| point.len() == 32)? },
        _ => return None,
    };
    Some(Key { id: written.kid, algorithm: written.alg, public })
}

fn number(text: String) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| !bytes.is_empty() && bytes.len() <= LONGEST)
}
