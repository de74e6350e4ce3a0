//! Manifests over HTTPS, from the hosts that `stepgate.yaml` allows and from nowhere else.
//!
//! A host may send on to others that the allow-list names, as GitHub does: each hop is judged as the first address is.

use std::sync::Arc;

use overlays::{FetchError, Manifests};
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode, Url, redirect};

use super::http::{FetchOptions, Http, MAXIMUM_REDIRECTS, authority, wait_for};
use host::http_body::{body, chain};

/// Fetches manifests over HTTPS.
#[derive(Clone, Debug)]
pub struct Https(Http);

impl Https {
    /// A fetcher with these options.
    ///
    /// # Errors
    /// When TLS cannot be set up, for example without any root certificate on the machine.
    pub fn new(options: FetchOptions) -> Result<Self, reqwest::Error> {
        Self::with_scheme(options, "https")
    }

    fn with_scheme(options: FetchOptions, scheme: &'static str) -> Result<Self, reqwest::Error> {
        Ok(Self(Http::new(options, scheme, redirect::Policy::none())?))
    }

    /// The address, if it may be fetched.
    fn check(&self, uri: &str) -> Result<Url, FetchError> {
        let not_found = |searched: String| FetchError::NotFound { uri: uri.to_owned(), searched };
        let url = Url::parse(uri).map_err(|_| not_found("it is not an address that can be fetched".to_owned()))?;
        // Such an address is served by another source, or by none.
        let is_foreign = url.scheme() != self.0.scheme || !url.username().is_empty() || url.password().is_some();
        match self.0.refusal(&url) {
            Some(message) if is_foreign => Err(not_found(message)),
            Some(message) => Err(FetchError::Failed { uri: uri.to_owned(), message }),
            None if self.0.options.allow.allows(&authority(&url), url.path()) => Ok(url),
            None => Err(FetchError::NotAllowed { uri: uri.to_owned() }),
        }
    }

    async fn fetch(&self, uri: &str, url: Url) -> Result<Arc<[u8]>, FetchError> {
        let failed = |message: String| FetchError::Failed { uri: uri.to_owned(), message };
        // Each hop has a time-out of its own; together they have no more time than one of them.
        let answer = tokio::time::timeout(self.0.options.timeout, self.follow(uri, url)).await;
        let response = answer.map_err(|_| failed("timed out on the way through redirects".to_owned()))??;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                let searched = format!("the server says {}", response.status());
                return Err(FetchError::NotFound { uri: uri.to_owned(), searched });
            }
            status => return Err(failed(format!("the server says {status}"))),
        }
        body(response, self.0.options.maximum_bytes).await.map(Arc::from).map_err(failed)
    }

    /// The answer at the end of the redirects from `url`. Each hop is judged as the first address is: scheme, address, allow-list.
    async fn follow(&self, uri: &str, mut url: Url) -> Result<Response, FetchError> {
        let failed = |message: String| FetchError::Failed { uri: uri.to_owned(), message };
        for _ in 0..=MAXIMUM_REDIRECTS {
            let response = self.0.client.get(url.clone()).send().await.map_err(|error| failed(chain(error)))?;
            // That is every answer of 3xx; one without an address, such as 304, is no answer either.
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let next = location.and_then(|location| url.join(location).ok());
            url = next.ok_or_else(|| failed("it redirects to no address".to_owned()))?;
            let host = authority(&url);
            if let Some(message) = self.0.refusal(&url) {
                return Err(failed(format!("it is sent on to {host}: {message}")));
            }
            if !self.0.options.allow.allows(&host, url.path()) {
                return Err(FetchError::SentOn { uri: uri.to_owned(), host });
            }
        }
        Err(failed(format!("more than {MAXIMUM_REDIRECTS} redirects")))
    }
}

impl Manifests for Https {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        let url = self.check(uri)?;
        wait_for(uri, self.fetch(uri, url))
    }
}

#[cfg(test)]
#[path = "https_tests.rs"]
mod tests;
