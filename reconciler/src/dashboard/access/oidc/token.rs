//! Reading an ID token (OpenID Connect Core, 3.1.3.7): whose it is, or why it is nobody's.
//!
//! Architecture Invariant: the key decides by which algorithm a token is verified, never the token. Nothing of it is believed before its
//! signature is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::keys::{Algorithm, KeySet};

/// The longest token, in bytes.
const LONGEST: usize = 16 << 10;

/// How far the clocks of two machines are apart, in seconds.
const APART: i64 = 60;

/// How old a token may be that was just asked for, in seconds.
const OLDEST: i64 = 600;

/// What a token has to be for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    /// The issuer.
    pub(super) issuer: &'a str,
    /// The client that asked for it.
    pub(super) client: &'a str,
    /// What that client made up for this one login.
    pub(super) nonce: &'a str,
}

/// Why a token is nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    #[error("it is no signed token")]
    Malformed,
    #[error("it asks for something that is not understood")]
    Critical,
    #[error("it is signed in a way that is not taken")]
    Algorithm,
    #[error("it is signed by a key that its issuer does not have")]
    UnknownKey,
    #[error("its signature does not hold")]
    Signature,
    #[error("it is of another issuer")]
    Issuer,
    #[error("it is for somebody else")]
    Audience,
    #[error("it is not of this login")]
    Nonce,
    #[error("its time is over, or has not come")]
    Time,
    #[error("it names nobody")]
    Subject,
}

/// What an issuer says of somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claims {
    /// Who they are to the issuer, for ever.
    pub(super) subject: String,
    /// Their name; the address where there is none.
    pub(super) name: Option<String>,
    /// Their address, where the issuer has verified that it is theirs.
    pub(super) email: Option<String>,
    /// All that the token says, for the claim that holds groups.
    all: serde_json::Map<String, Value>,
}

impl Claims {
    /// The groups that a claim lists.
    pub(super) fn groups(&self, claim: &str) -> Vec<String> {
        match self.all.get(claim) {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
struct Standard {
    iss: String,
    sub: String,
    aud: Audience,
    azp: Option<String>,
    exp: i64,
    iat: i64,
    nbf: Option<i64>,
    nonce: Option<String>,
    name: Option<String>,
    email: Option<String>,
    #[serde(default)]
    email_verified: Value,
}

/// What the issuer says in a token, where all of it holds.
///
/// # Errors
/// [`TokenError`], the first that is found.
pub(super) fn verify(token: &str, keys: &KeySet, expected: Expected<'_>, now: Timestamp) -> Result<Claims, TokenError> {
    if token.len() > LONGEST {
        return Err(TokenError::Malformed);
    }
    let parts: Vec<&str> = token.split('.').collect();
    let [header, claims, signature] = parts.as_slice() else { return Err(TokenError::Malformed) };
    let signed = token.get(..header.len() + 1 + claims.len()).ok_or(TokenError::Malformed)?;
    let header: Header = serde_json::from_slice(&decoded(header)?).map_err(|_| TokenError::Malformed)?;
    if header.crit.is_some() {
        return Err(TokenError::Critical);
    }
    let algorithm = Algorithm::of(&header.alg).ok_or(TokenError::Algorithm)?;
    match keys.has_signed(header.kid.as_deref(), algorithm, signed.as_bytes(), &decoded(signature)?) {
        None => return Err(TokenError::UnknownKey),
        Some(false) => return Err(TokenError::Signature),
        Some(true) => {}
    }
    let claims = decoded(claims)?;
    let all = serde_json::from_slice(&claims).map_err(|_| TokenError::Malformed)?;
    let claims: Standard = serde_json::from_slice(&claims).map_err(|_| TokenError::Malformed)?;
    if claims.iss != expected.issuer {
        return Err(TokenError::Issuer);
    }
    let is_ours = |audience: &str| audience == expected.client;
    let (is_meant, is_alone) = match &claims.aud {
        Audience::One(one) => (is_ours(one), true),
        Audience::Many(many) => (many.iter().any(|one| is_ours(one)), many.len() == 1),
    };
    let is_party = claims.azp.as_deref().map_or(is_alone, is_ours);
    if !is_meant || !is_party {
        return Err(TokenError::Audience);
    }
    if claims.nonce.as_deref() != Some(expected.nonce) {
        return Err(TokenError::Nonce);
    }
    let now = now.as_second();
    let is_now = claims.exp.saturating_add(APART) > now
        && claims.iat.saturating_sub(APART) <= now
        && claims.iat.saturating_add(OLDEST) > now
        && claims.nbf.is_none_or(|since| since.saturating_sub(APART) <= now);
    if !is_now {
        return Err(TokenError::Time);
    }
    if claims.sub.is_empty() || claims.sub.len() > 255 {
        return Err(TokenError::Subject);
    }
    let email = claims.email.filter(|_| claims.email_verified == Value::Bool(true));
    Ok(Claims { subject: claims.sub, name: claims.name, email, all })
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}
