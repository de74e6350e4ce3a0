//! The webhook endpoint: a push to a forge makes the watch look at once.
//!
//! The body is authenticated and then thrown away: nothing in it is read, so nothing in it can do harm.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use ring::digest::{SHA256, digest};
use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};

use super::{Noticed, Nudge};

/// A shared secret of a webhook. Never empty, never shown.
#[derive(Clone)]
pub struct WebhookSecret(SecretString);

impl WebhookSecret {
    /// Takes a secret; line breaks at its end (files of mounted secrets have them) are cut off.
    ///
    /// # Errors
    /// [`WebhookError::EmptySecret`]: with an empty secret everybody could sign.
    pub fn new(text: &str) -> Result<Self, WebhookError> {
        let text = text.trim_end_matches(['\n', '\r']);
        if text.trim().is_empty() { Err(WebhookError::EmptySecret) } else { Ok(Self(SecretString::from(text))) }
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WebhookSecret(***)")
    }
}

/// Why a webhook endpoint cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// The secret is empty or blank.
    #[error("the webhook secret must not be empty")]
    EmptySecret,
    /// No secret is given at all.
    #[error("a webhook endpoint needs at least one secret")]
    NoSecret,
}

/// How webhooks are accepted.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Accepted secrets; several while one is being replaced.
    pub secrets: Vec<WebhookSecret>,
    /// Largest body in bytes; larger ones are answered 413 unread. A missed event is made up for by the poll.
    pub largest_body: usize,
    /// How many deliveries are remembered, so that a repeated one is refused.
    pub remembered: usize,
}

impl WebhookSettings {
    /// Accepts one secret, bodies up to 1 MiB, and remembers 10,000 deliveries.
    pub fn new(secret: WebhookSecret) -> Self {
        Self { secrets: vec![secret], largest_body: 1 << 20, remembered: 10_000 }
    }
}

/// A router that answers `POST /` for GitHub (`X-Hub-Signature-256`), Gitea and Forgejo (`X-Gitea-Signature`) and GitLab
/// (`X-Gitlab-Token`), and nudges a watch.
///
/// Answers: 202 looked at, 200 a ping, 401 not authenticated, 400 no delivery id, 409 seen before, 413 too large.
///
/// # Errors
/// [`WebhookError::NoSecret`].
pub fn webhook(settings: &WebhookSettings, nudge: Nudge) -> Result<Router, WebhookError> {
    if settings.secrets.is_empty() {
        return Err(WebhookError::NoSecret);
    }
    let endpoint = Endpoint {
        keys: settings.secrets.iter().map(Key::new).collect(),
        seen: Mutex::new(Seen { ids: HashSet::new(), order: VecDeque::new(), limit: settings.remembered.max(1) }),
        nudge,
    };
    Ok(Router::new()
        .route("/", post(receive))
        .layer(DefaultBodyLimit::max(settings.largest_body))
        .with_state(Arc::new(endpoint)))
}

struct Endpoint {
    keys: Vec<Key>,
    seen: Mutex<Seen>,
    nudge: Nudge,
}

struct Key {
    key: hmac::Key,
    /// Tag of the secret itself under the key: comparing tags compares secrets of any length in constant time.
    token: hmac::Tag,
}

impl Key {
    fn new(secret: &WebhookSecret) -> Self {
        let bytes = secret.0.expose_secret().as_bytes();
        let key = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let token = hmac::sign(&key, bytes);
        Self { key, token }
    }
}

/// The deliveries of late, as digests, so that their number bounds the memory.
struct Seen {
    ids: HashSet<[u8; 32]>,
    order: VecDeque<[u8; 32]>,
    limit: usize,
}

impl Seen {
    /// Notes all of `ids`; false when one of them is known already.
    fn note(&mut self, ids: &[[u8; 32]]) -> bool {
        if ids.iter().any(|id| self.ids.contains(id)) {
            return false;
        }
        for id in ids {
            self.ids.insert(*id);
            self.order.push_back(*id);
        }
        while self.order.len() > self.limit {
            if let Some(oldest) = self.order.pop_front() {
                self.ids.remove(&oldest);
            }
        }
        true
    }
}

async fn receive(State(endpoint): State<Arc<Endpoint>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let Some(signatures) = authenticated(&endpoint.keys, &headers, &body) else {
        tracing::warn!("refused a webhook without a valid signature");
        return StatusCode::UNAUTHORIZED;
    };
    let one = |names: &[&str]| names.iter().find_map(|name| headers.get(*name)).map(|value| value.as_bytes());
    let delivery =
        one(&["x-github-delivery", "x-gitea-delivery", "x-forgejo-delivery", "x-gitlab-event-uuid", "idempotency-key"]);
    let Some(delivery) = delivery.filter(|id| !id.is_empty()) else { return StatusCode::BAD_REQUEST };
    // The delivery id is not part of what is signed, so the signature itself counts as well.
    let ids: Vec<[u8; 32]> =
        std::iter::once(delivery).chain(signatures.iter().map(Vec::as_slice)).map(fingerprint).collect();
    let new = endpoint.seen.lock().unwrap_or_else(PoisonError::into_inner).note(&ids);
    if !new {
        return StatusCode::CONFLICT;
    }
    if one(&["x-github-event", "x-gitea-event"]) == Some(b"ping") {
        return StatusCode::OK;
    }
    endpoint.nudge.look(Noticed::Webhook);
    StatusCode::ACCEPTED
}

/// The signatures over the body, when every proof that the request carries is right and there is at least one. `GitLab`
/// proves itself by a token and signs nothing.
fn authenticated(keys: &[Key], headers: &HeaderMap, body: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut proven = false;
    let mut signatures = Vec::new();
    for (name, prefix) in [("x-hub-signature-256", "sha256="), ("x-gitea-signature", ""), ("x-forgejo-signature", "")] {
        let mut values = headers.get_all(name).iter();
        let Some(value) = values.next() else { continue };
        if values.next().is_some() {
            return None;
        }
        let tag = hexadecimal(value.to_str().ok()?.strip_prefix(prefix)?)?;
        if !keys.iter().any(|key| hmac::verify(&key.key, body, &tag).is_ok()) {
            return None;
        }
        proven = true;
        if !signatures.contains(&tag) {
            signatures.push(tag);
        }
    }
    let mut tokens = headers.get_all("x-gitlab-token").iter();
    if let Some(token) = tokens.next() {
        let right = |key: &Key| hmac::verify(&key.key, token.as_bytes(), key.token.as_ref()).is_ok();
        if tokens.next().is_some() || !keys.iter().any(right) {
            return None;
        }
        proven = true;
    }
    proven.then_some(signatures)
}

fn fingerprint(bytes: &[u8]) -> [u8; 32] {
    let mut id = [0; 32];
    for (to, from) in id.iter_mut().zip(digest(&SHA256, bytes).as_ref()) {
        *to = *from;
    }
    id
}

/// Exactly 32 bytes in hexadecimal.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    Some(digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte * 16 + digit)).collect())
}
