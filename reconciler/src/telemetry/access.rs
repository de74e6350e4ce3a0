//! Who may see the metrics.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use overlays::Remembered;
use ring::digest::{SHA256, digest};
use secrecy::SecretString;

use cluster::kubernetes::{Connection, Permit, review};

/// How long an answer of the API server about a token is believed.
const BELIEVED: Duration = Duration::from_secs(60);

/// How many tokens are remembered, by digest.
const TOKENS: usize = 256;

/// Who may see the metrics of an endpoint.
#[derive(Debug)]
pub enum MetricsAccess {
    /// Whoever reaches it.
    Everybody,
    /// Nobody: others than this machine reach the endpoint, and nobody has said who may see them.
    Nobody,
    /// Whose token the management cluster knows, and lets `get` the path `/metrics`.
    Reviewed(Box<Reviewer>),
}

/// Why the metrics are not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody has said who may see them.
    Closed,
    /// There is no token, or none that the API server knows.
    Unknown,
    /// The API server does not let its owner see them.
    Denied,
    /// The API server does not answer.
    Unreviewed,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Closed => (
                StatusCode::FORBIDDEN,
                "metrics are shown on loopback only; say who may see them elsewhere with --metrics-authentication\n",
            )
                .into_response(),
            Self::Unknown => (
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, "Bearer")],
                "show a token that the management cluster knows\n",
            )
                .into_response(),
            Self::Denied => {
                (StatusCode::FORBIDDEN, "the management cluster does not let you get /metrics\n").into_response()
            }
            Self::Unreviewed => {
                (StatusCode::SERVICE_UNAVAILABLE, "the token could not be reviewed; see Stepgate's log\n")
                    .into_response()
            }
        }
    }
}

impl MetricsAccess {
    /// Whether whoever sent these headers may see the metrics.
    ///
    /// # Errors
    /// [`Refusal`], which is the answer.
    pub async fn admit(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match self {
            Self::Everybody => Ok(()),
            Self::Nobody => Err(Refusal::Closed),
            Self::Reviewed(reviewer) => match bearer(headers) {
                Some(token) => reviewer.admit(token).await,
                None => Err(Refusal::Unknown),
            },
        }
    }
}

/// The token of `Authorization: Bearer`, where there is exactly one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Asks the API server of the management cluster about tokens, each once a minute at most.
#[derive(Debug)]
pub struct Reviewer {
    connection: Connection,
    known: Mutex<Remembered<[u8; 32], (Instant, Permit)>>,
}

impl Reviewer {
    /// A reviewer with a connection of its own: strangers' tokens must not queue before the controller's requests.
    #[must_use]
    pub fn new(connection: Connection) -> Self {
        Self { connection, known: Mutex::new(Remembered::new(2 * TOKENS)) }
    }

    async fn admit(&self, token: &str) -> Result<(), Refusal> {
        let mut key = [0; 32];
        key.iter_mut().zip(digest(&SHA256, token.as_bytes()).as_ref()).for_each(|(to, from)| *to = *from);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key);
        let permit = match known.filter(|(at, _)| at.elapsed() < BELIEVED) {
            Some((_, permit)) => permit,
            None => {
                let permit =
                    review(&self.connection, &SecretString::from(token), "/metrics").await.map_err(|error| {
                        tracing::warn!(%error, "a token for the metrics could not be reviewed");
                        Refusal::Unreviewed
                    })?;
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(key, (Instant::now(), permit), 1);
                permit
            }
        };
        match permit {
            Permit::Granted => Ok(()),
            Permit::Denied => Err(Refusal::Denied),
            Permit::Unknown => Err(Refusal::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (header::AUTHORIZATION, value.parse().unwrap())).collect()
    }

    #[test]
    fn one_bearer_token_counts_and_nothing_else() {
        for (values, expected) in [
            (&["Bearer a.b.c"][..], Some("a.b.c")),
            (&["bearer  a"], Some("a")),
            (&["Bearer "], None),
            (&["Basic YTpi"], None),
            (&["Bearer a", "Bearer b"], None),
            (&[], None),
        ] {
            assert_eq!(bearer(&headers(values)), expected, "{values:?}");
        }
    }
}
