//! People of the management cluster: it knows them by their token, and says what each may do, by one verb an action.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cluster::kubernetes::{Connection, KnownUser, known_user, may_on_rollout};
use overlays::Remembered;
use ring::digest::{SHA256, digest};
use secrecy::SecretString;

use super::error::Refusal;

/// The audience that a token has to be made for: one for something else lets nobody in here.
const AUDIENCE: &str = "stepgate";

/// How long an answer of the API server is believed.
const BELIEVED: Duration = Duration::from_secs(30);

/// How many answers are remembered, by digest.
const ANSWERS: usize = 1024;

type Digest = [u8; 32];

/// Asks the management cluster about people.
pub(super) struct Reviewer {
    connection: Connection,
    namespace: String,
    users: Mutex<Remembered<Digest, (Instant, Option<KnownUser>)>>,
    rights: Mutex<Remembered<Digest, (Instant, bool)>>,
}

impl Reviewer {
    /// A reviewer with a connection of its own: strangers' tokens must not queue before the controller's requests. `namespace` is where
    /// `Rollout` objects are.
    pub(super) fn new(connection: Connection, namespace: &str) -> Self {
        let (users, rights) = (Mutex::new(Remembered::new(ANSWERS)), Mutex::new(Remembered::new(ANSWERS)));
        Self { connection, namespace: namespace.to_owned(), users, rights }
    }

    /// Who shows this token.
    pub(super) async fn user(&self, token: &str) -> Result<KnownUser, Refusal> {
        let key = key(&[token]);
        let known = self.users.lock().unwrap_or_else(PoisonError::into_inner).get(&key);
        let user = match known.filter(|(at, _)| at.elapsed() < BELIEVED) {
            Some((_, user)) => user,
            None => {
                let asked = known_user(&self.connection, &SecretString::from(token), Some(AUDIENCE)).await;
                let user = asked.map_err(|error| {
                    tracing::warn!(%error, "a token for the dashboard could not be reviewed");
                    Refusal::Unasked
                })?;
                let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
                users.insert(key, (Instant::now(), user.clone()), 1);
                user
            }
        };
        user.ok_or(Refusal::Unknown)
    }

    /// Whether somebody may do this to a cluster: to every one, where none is named.
    pub(super) async fn may(&self, user: &KnownUser, verb: &str, cluster: Option<&str>) -> Result<bool, Refusal> {
        let told = serde_json::to_string(user).unwrap_or_default();
        let key = key(&[&told, verb, cluster.unwrap_or_default()]);
        let known = self.rights.lock().unwrap_or_else(PoisonError::into_inner).get(&key);
        if let Some((_, granted)) = known.filter(|(at, _)| at.elapsed() < BELIEVED) {
            return Ok(granted);
        }
        let asked = may_on_rollout(&self.connection, user, verb, (&self.namespace, cluster)).await;
        let granted = asked.map_err(|error| {
            tracing::warn!(%error, "what somebody may do on the dashboard could not be reviewed");
            Refusal::Unasked
        })?;
        self.rights.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (Instant::now(), granted), 1);
        Ok(granted)
    }
}

fn key(parts: &[&str]) -> Digest {
    let mut key = [0; 32];
    let text = parts.join("\n");
    key.iter_mut().zip(digest(&SHA256, text.as_bytes()).as_ref()).for_each(|(to, from)| *to = *from);
    key
}
