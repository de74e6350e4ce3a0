//! Requests of sinks: bounded in time and size, never redirected, and silent about their addresses, which may be secrets.

use std::time::Duration;

use host::http_body::{body, chain};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url, redirect};
use serde_json::Value;

use crate::delivery::Delivery;
use crate::error::NotifyError;
use crate::plain::{bounded, plain};

/// The largest answer, in bytes.
const LARGEST: u64 = 256 << 10;

/// The longest that a sink is left alone, whatever it says.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// Of what a sink says about a failure, this many characters are told.
const TOLD: usize = 200;

#[derive(Debug)]
pub(crate) struct Http {
    client: Client,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) bytes: Vec<u8>,
    rest: Option<Duration>,
}

impl Http {
    pub(crate) fn new() -> Result<Self, NotifyError> {
        // Another part of the program may have installed it; either way there is one now.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("stepgate/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            // A redirect would take the secret somewhere else.
            .redirect(redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(15))
            .build()
            .map_err(|error| NotifyError::Client(error.to_string()))?;
        Ok(Self { client })
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }

    pub(crate) fn post(&self, url: Url) -> RequestBuilder {
        self.client.post(url)
    }

    /// A request with JSON in it.
    pub(crate) fn post_json(&self, url: Url, body: &Value) -> RequestBuilder {
        self.client.post(url).header("content-type", "application/json").body(body.to_string())
    }

    /// The answer, or why there is none.
    pub(crate) async fn ask(&self, request: RequestBuilder) -> Result<Answer, String> {
        let response = request.send().await.map_err(chain)?;
        let (status, rest) = (response.status(), rest(response.headers()));
        let bytes = body(response, LARGEST).await?;
        Ok(Answer { status, bytes, rest })
    }

    /// Whether a sink that takes everything with a success has taken it.
    pub(crate) async fn deliver(&self, request: RequestBuilder) -> Delivery {
        match self.ask(request).await {
            Ok(answer) => answer.delivery(),
            Err(reason) => Delivery::later(reason),
        }
    }
}

impl Answer {
    pub(crate) fn delivery(&self) -> Delivery {
        if self.status.is_success() {
            return Delivery::Taken(None);
        }
        let said = String::from_utf8_lossy(&self.bytes);
        let reason = format!("it answers {} {}", self.status.as_u16(), bounded(&plain(said.trim()), TOLD));
        let reason = reason.trim_end().to_owned();
        match self.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => {
                Delivery::Later { reason, rest: self.rest }
            }
            // Whoever runs Stepgate replaces what is wrong with the secret or the address.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
                Delivery::Later { reason, rest: self.rest }
            }
            status if status.is_client_error() => Delivery::Refused(reason),
            _ => Delivery::Later { reason, rest: self.rest },
        }
    }
}

fn rest(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_REST))
}
