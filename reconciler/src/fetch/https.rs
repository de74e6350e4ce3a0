//! Manifests over HTTPS, from the hosts that `stepgate.yaml` allows and from nowhere else.
//!
//! Redirects stay on the host and on the allow-list.

use std::sync::Arc;

use overlays::{FetchError, Manifests};
use reqwest::{StatusCode, Url, redirect};

use super::http::{FetchOptions, Http, MAXIMUM_REDIRECTS, authority, wait_for};
use super::network::AllowList;
use crate::answer::{body, chain};

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
        let redirects = redirect_policy(options.allow.clone());
        Ok(Self(Http::new(options, scheme, redirects)?))
    }

    /// The address, if it may be fetched.
    fn check(&self, uri: &str) -> Result<Url, FetchError> {
        let not_found = |searched: String| FetchError::NotFound { uri: uri.to_owned(), searched };
        let url = Url::parse(uri).map_err(|_| not_found("it is no address that can be fetched".to_owned()))?;
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
        let response = self.0.client.get(url).send().await.map_err(|error| failed(chain(error)))?;
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
}

impl Manifests for Https {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        let url = self.check(uri)?;
        wait_for(uri, self.fetch(uri, url))
    }
}

fn redirect_policy(allow: AllowList) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        let first = attempt.previous().first();
        let same = first.is_some_and(|first| {
            first.scheme() == attempt.url().scheme() && authority(first) == authority(attempt.url())
        });
        let allowed = allow.allows(&authority(attempt.url()), attempt.url().path());
        let to = format!("{}{}", authority(attempt.url()), attempt.url().path());
        if attempt.previous().len() > MAXIMUM_REDIRECTS {
            attempt.error(format!("more than {MAXIMUM_REDIRECTS} redirects"))
        } else if !same || !allowed {
            attempt.error(format!("it redirects to {to}, which is another host or not on the allow-list"))
        } else {
            attempt.follow()
        }
    })
}

#[cfg(test)]
#[path = "https_tests.rs"]
mod tests;
