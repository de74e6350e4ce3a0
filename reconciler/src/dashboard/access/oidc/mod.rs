//! People whom an issuer knows: this program as a relying party of OpenID Connect, by the code flow with PKCE.
//!
//! The issuer, the client and the groups are the operator's word. An issuer that is away lets nobody in, and nobody out.

mod keys;
mod token;
#[cfg(test)]
mod token_tests;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use fetch::Issuer;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::error::{AccessError, Refusal};
use super::session::Sessions;
use crate::reconcile::actions::Verb;
use keys::KeySet;
use token::{Claims, Expected, TokenError, verify};

/// How long what an issuer says of itself is believed.
const BELIEVED: Duration = Duration::from_secs(60 * 60);

/// How soon its keys are asked for again, whoever shows a token of a key that is not known.
const AGAIN: Duration = Duration::from_secs(30);

/// How long somebody may take to log in.
pub(super) const LOGIN: Duration = Duration::from_secs(10 * 60);

/// Where an issuer sends people back to.
pub(in crate::dashboard) const RETURN: &str = "/login/return";

/// An issuer, and what its groups may do.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    /// Its address, as its tokens have it.
    pub issuer: String,
    /// What this program is called there.
    pub client: String,
    /// The secret that proves it; none for a public client.
    pub secret: Option<SecretString>,
    /// The address of the dashboard, as browsers have it.
    pub address: String,
    /// What is asked for.
    pub scope: String,
    /// The claim with the groups.
    pub groups: String,
    /// Who may read; everybody whom the issuer knows, where no group is named.
    pub viewers: Vec<String>,
    /// Who may hold, resume and retry besides.
    pub operators: Vec<String>,
    /// Who may approve, reject and roll back besides.
    pub approvers: Vec<String>,
}

/// Somebody whom an issuer knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownPerson {
    /// The issuer.
    pub(super) issuer: String,
    /// Who they are there.
    pub(super) subject: String,
    /// Name and address of the author that they are; none where the issuer has verified no address: then they only read.
    pub(super) author: Option<String>,
    /// What they may do besides reading.
    pub(super) verbs: Vec<String>,
}

/// A login that is on its way over the issuer, as its cookie holds it.
#[derive(Serialize, Deserialize)]
pub(super) struct Login {
    state: String,
    nonce: String,
    verifier: String,
}

/// What an issuer says of itself.
#[derive(Clone, Debug, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
}

#[derive(Clone)]
struct Known {
    at: Instant,
    metadata: Metadata,
    keys: KeySet,
}

/// This program, as an issuer's client.
pub(super) struct RelyingParty {
    settings: OidcSettings,
    issuer: Issuer,
    known: Mutex<Option<Known>>,
}

/// What the issuer answers with when somebody comes back.
#[derive(Debug, Default, Deserialize)]
pub(in crate::dashboard) struct Returned {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    error: String,
    iss: Option<String>,
}

impl RelyingParty {
    pub(super) fn new(settings: OidcSettings) -> Result<Self, AccessError> {
        let issuer = Issuer::new().map_err(AccessError::Issuer)?;
        Ok(Self { settings, issuer, known: Mutex::new(None) })
    }

    /// Where to send somebody who logs in, and what to remember of it meanwhile.
    pub(super) async fn begin(&self, sessions: &Sessions) -> Result<(String, Login), Refusal> {
        let known = self.known(false).await?;
        let text = || sessions.unguessable().ok_or(Refusal::Unasked);
        let login = Login { state: text()?, nonce: text()?, verifier: text()? };
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, login.verifier.as_bytes()));
        let OidcSettings { client, scope, .. } = &self.settings;
        let returned_to = self.returned_to();
        let query = form(&[
            ("response_type", "code"),
            ("client_id", client.as_str()),
            ("redirect_uri", returned_to.as_str()),
            ("scope", scope.as_str()),
            ("state", login.state.as_str()),
            ("nonce", login.nonce.as_str()),
            ("code_challenge", challenge.as_str()),
            ("code_challenge_method", "S256"),
        ]);
        let endpoint = &known.metadata.authorization_endpoint;
        let joined = if endpoint.contains('?') { '&' } else { '?' };
        Ok((format!("{endpoint}{joined}{query}"), login))
    }

    /// Who has come back from the login that this browser began.
    pub(super) async fn end(&self, login: &Login, returned: &Returned, now: Timestamp) -> Result<KnownPerson, Refusal> {
        let denied = |why: &str| Refusal::Denied(format!("the login did not succeed: {why}"));
        if returned.state != login.state {
            return Err(denied("it is not the one that this browser began"));
        }
        // Mixed up with another issuer (RFC 9207).
        if returned.iss.as_ref().is_some_and(|issuer| *issuer != self.settings.issuer) {
            return Err(denied("another issuer answers"));
        }
        if !returned.error.is_empty() || returned.code.is_empty() {
            let said: String = returned.error.chars().filter(|it| it.is_ascii_graphic()).take(60).collect();
            return Err(denied(&format!("the issuer says {said}")));
        }
        let token = self.token(&returned.code, &login.verifier).await?;
        let claims = self.claims(&token, &login.nonce, now).await.map_err(|error| {
            tracing::warn!(%error, "an ID token was refused");
            denied(&error.to_string())
        })?;
        self.person(&claims)
    }

    /// The ID token for a code.
    async fn token(&self, code: &str, verifier: &str) -> Result<String, Refusal> {
        #[derive(Deserialize)]
        struct Tokens {
            id_token: String,
        }
        let known = self.known(false).await?;
        let OidcSettings { client, secret, .. } = &self.settings;
        let returned_to = self.returned_to();
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", returned_to.as_str()),
            ("code_verifier", verifier),
        ];
        let basic = secret.as_ref().map(|secret| {
            let pair = format!("{}:{}", encoded(client), encoded(secret.expose_secret()));
            format!("Basic {}", STANDARD.encode(pair))
        });
        if basic.is_none() {
            fields.push(("client_id", client.as_str()));
        }
        let answer = self.issuer.post(&known.metadata.token_endpoint, form(&fields), basic.as_deref()).await;
        let answer = answer.and_then(|bytes| {
            serde_json::from_slice::<Tokens>(&bytes).map_err(|_| "the answer holds no ID token".to_owned())
        });
        answer.map(|tokens| tokens.id_token).map_err(|error| unasked(&error))
    }

    async fn claims(&self, token: &str, nonce: &str, now: Timestamp) -> Result<Claims, TokenError> {
        let OidcSettings { issuer, client, .. } = &self.settings;
        let expected = Expected { issuer, client, nonce };
        let known = self.known(false).await.map_err(|_| TokenError::UnknownKey)?;
        match verify(token, &known.keys, expected, now) {
            Err(TokenError::UnknownKey) if known.at.elapsed() > AGAIN => {
                // It may have a new one.
                let known = self.known(true).await.map_err(|_| TokenError::UnknownKey)?;
                verify(token, &known.keys, expected, now)
            }
            answer => answer,
        }
    }

    /// What the operator lets somebody do.
    fn person(&self, claims: &Claims) -> Result<KnownPerson, Refusal> {
        let settings = &self.settings;
        let groups = claims.groups(&settings.groups);
        let is_in = |wanted: &[String]| wanted.iter().any(|group| groups.contains(group));
        let (operates, approves) = (is_in(&settings.operators), is_in(&settings.approvers));
        if !(settings.viewers.is_empty() || is_in(&settings.viewers) || operates || approves) {
            return Err(Refusal::Denied("you are in no group that may read this dashboard".to_owned()));
        }
        let may = |verb: &Verb| match verb {
            Verb::Hold | Verb::Resume | Verb::Retry => operates,
            Verb::Approve | Verb::Reject | Verb::Rollback => approves,
        };
        let author = claims.email.as_ref().map(|email| {
            let name = claims.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
            format!("{} <{email}>", name.unwrap_or(email))
        });
        Ok(KnownPerson {
            issuer: settings.issuer.clone(),
            subject: claims.subject.clone(),
            author,
            verbs: Verb::ALL.iter().filter(|verb| may(verb)).map(|verb| verb.word().to_owned()).collect(),
        })
    }

    /// What the issuer says of itself, and its keys; anew where that is wanted, or what is known is old.
    async fn known(&self, anew: bool) -> Result<Known, Refusal> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| !anew && known.at.elapsed() < BELIEVED) {
            return Ok(known);
        }
        let known = self.ask().await.map_err(|error| unasked(&error))?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
        Ok(known)
    }

    async fn ask(&self) -> Result<Known, String> {
        let issuer = &self.settings.issuer;
        let address = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let metadata: Metadata = serde_json::from_slice(&self.issuer.get(&address).await?)
            .map_err(|error| format!("{address} is no description of an issuer: {error}"))?;
        if metadata.issuer != *issuer {
            return Err(format!("{address} describes another issuer: {}", metadata.issuer));
        }
        let keys = KeySet::read(&self.issuer.get(&metadata.jwks_uri).await?);
        let keys = keys.ok_or_else(|| format!("{} is no set of keys", metadata.jwks_uri))?;
        Ok(Known { at: Instant::now(), metadata, keys })
    }

    fn returned_to(&self) -> String {
        format!("{}{RETURN}", self.settings.address.trim_end_matches('/'))
    }
}

fn unasked(error: &str) -> Refusal {
    tracing::warn!(%error, "the issuer that knows people could not be asked");
    Refusal::Unasked
}

/// Fields as a form or a query has them.
fn form(fields: &[(&str, &str)]) -> String {
    let fields = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    fields.collect::<Vec<_>>().join("&")
}

fn encoded(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}
