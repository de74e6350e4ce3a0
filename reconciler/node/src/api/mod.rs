//! The few calls to the API server that a node's upgrade needs, without a runtime.

pub mod credentials;
pub mod node_object;
pub(crate) mod pods;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use ureq::http::{Method, Request};
use ureq::tls::{TlsConfig, TlsProvider};

use crate::api::credentials::{Credentials, Token};

/// One request takes no longer.
const REQUEST: Duration = Duration::from_secs(30);

/// A server that was just restarted refuses everybody for a while, until it knows who may do what.
const FORBIDDEN: Duration = Duration::from_secs(120);

/// No answer is longer.
const MOST_BYTES: u64 = 64 << 20;

/// A connection to the API server.
pub struct Api {
    agent: ureq::Agent,
    credentials: Credentials,
}

/// What it answered.
#[derive(Debug, Clone)]
pub struct Response {
    /// Of HTTP.
    pub status: u16,
    /// An object, or a `Status`.
    pub body: Value,
}

impl Response {
    /// What it says went wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        self.body.get("message").and_then(Value::as_str).unwrap_or("the answer has no message")
    }
}

/// How a body changes an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads.
    Get,
    /// Makes.
    Post,
    /// Changes the fields that are given.
    MergePatch,
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::MergePatch => "PATCH",
        })
    }
}

impl Api {
    /// Connects when it is asked.
    #[must_use]
    pub fn new(credentials: Credentials) -> Self {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(credentials.authorities())
            .client_cert(credentials.certificate())
            .build();
        // Neither a proxy from the environment nor a redirection: the server is the one that was named.
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(REQUEST))
            .build();
        Self { agent: config.into(), credentials }
    }

    /// One request, whatever is answered.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn once(&self, verb: Verb, path: &str, body: Option<&Value>) -> anyhow::Result<Response> {
        let (method, content) = match verb {
            Verb::Get => (Method::GET, "application/json"),
            Verb::Post => (Method::POST, "application/json"),
            Verb::MergePatch => (Method::PATCH, "application/merge-patch+json"),
        };
        let url = format!("{}{path}", self.credentials.server());
        let mut request = Request::builder().method(method).uri(&url).header("accept", "application/json");
        match self.credentials.token()? {
            Token::None => {}
            Token::Bearer(token) => request = request.header("authorization", format!("Bearer {token}")),
        }
        let what = || format!("{verb} {url}");
        let answered = match body {
            None => self.agent.run(request.body(())?),
            Some(body) => self.agent.run(request.header("content-type", content).body(body.to_string())?),
        };
        let mut answer = answered.with_context(what)?;
        let text = answer.body_mut().with_config().limit(MOST_BYTES).read_to_string().with_context(what)?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Response { status: answer.status().as_u16(), body })
    }

    /// A request that is repeated until the server is there and knows us: answers of 200 to 299, 404, 409 and 422, and
    /// 429 to a POST, are the caller's.
    ///
    /// # Errors
    /// The last answer, when `deadline` is over, or after two minutes of "forbidden".
    pub fn request(&self, verb: Verb, path: &str, body: Option<&Value>, deadline: Instant) -> anyhow::Result<Response> {
        let mut forbidden = None;
        loop {
            let error = match self.once(verb, path, body) {
                Ok(response) if matches!(response.status, 200..=299 | 404 | 409 | 422) => return Ok(response),
                Ok(response) if response.status == 429 && verb == Verb::Post => return Ok(response),
                Ok(response) => {
                    let error = anyhow::anyhow!("{verb} {path}: {} {}", response.status, response.message());
                    if matches!(response.status, 401 | 403) {
                        if forbidden.get_or_insert_with(Instant::now).elapsed() > FORBIDDEN {
                            return Err(error);
                        }
                    } else if response.status < 429 {
                        return Err(error);
                    } else {
                        forbidden = None;
                    }
                    error
                }
                Err(error) => {
                    forbidden = None;
                    error
                }
            };
            if Instant::now() > deadline {
                bail!("the time is over: {error:#}");
            }
            // A server that restarts tells nobody when it is back.
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// An object; none when there is none of this name.
    ///
    /// # Errors
    /// As [`Api::request`].
    pub fn get(&self, path: &str, deadline: Instant) -> anyhow::Result<Option<Value>> {
        let response = self.request(Verb::Get, path, None, deadline)?;
        Ok((response.status != 404).then_some(response.body))
    }

    /// The objects of a list.
    ///
    /// # Errors
    /// As [`Api::request`].
    pub fn list(&self, path: &str, deadline: Instant) -> anyhow::Result<Vec<Value>> {
        match self.get(path, deadline)?.as_ref().and_then(|list| list.get("items")).and_then(Value::as_array) {
            Some(items) => Ok(items.clone()),
            None => bail!("GET {path}: the answer is not a list"),
        }
    }
}
