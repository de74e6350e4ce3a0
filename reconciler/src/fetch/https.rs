//! Manifests over HTTPS, from the hosts that `stepgate.yaml` allows and from nowhere else.
//!
//! A name is resolved once, and the connection goes to an address of that answer: a second answer with an inner address
//! (DNS rebinding) is never asked for. Redirects stay on the host and on the allow-list. Proxies of the environment are
//! not used, since a proxy would resolve the name by itself.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use overlays::{FetchError, Manifests};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, StatusCode, Url, redirect};

use super::mirror::MAXIMUM_BYTES;
use super::network::{AllowList, is_public};

const MAXIMUM_REDIRECTS: usize = 5;

/// What may be fetched, and how much of it.
#[derive(Clone, Debug)]
pub struct HttpsOptions {
    /// Hosts and `host/path` prefixes.
    pub allow: AllowList,
    /// Hosts whose addresses may be loopback, link-local or private: a registry in the team's own network.
    pub private_hosts: Vec<String>,
    /// The largest answer, in bytes.
    pub maximum_bytes: u64,
    /// For one answer as a whole.
    pub timeout: Duration,
}

impl Default for HttpsOptions {
    fn default() -> Self {
        Self {
            allow: AllowList::default(),
            private_hosts: Vec::new(),
            maximum_bytes: MAXIMUM_BYTES,
            timeout: Duration::from_secs(60),
        }
    }
}

/// Fetches manifests over HTTPS.
#[derive(Clone, Debug)]
pub struct Https {
    client: Client,
    options: HttpsOptions,
    scheme: &'static str,
}

impl Https {
    /// A fetcher with these options.
    ///
    /// # Errors
    /// When TLS cannot be set up, for example without any root certificate on the machine.
    pub fn new(options: HttpsOptions) -> Result<Self, reqwest::Error> {
        Self::with_scheme(options, "https")
    }

    fn with_scheme(options: HttpsOptions, scheme: &'static str) -> Result<Self, reqwest::Error> {
        // Another part of the program may have installed it; either way there is one now.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("stepgate/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .https_only(scheme == "https")
            .redirect(redirect_policy(options.allow.clone()))
            .dns_resolver(Resolver { private_hosts: options.private_hosts.clone() })
            // Every call has a runtime of its own, which no connection outlives.
            .pool_max_idle_per_host(0)
            .connect_timeout(options.timeout.min(Duration::from_secs(10)))
            .timeout(options.timeout)
            .build()?;
        Ok(Self { client, options, scheme })
    }

    /// The address, if it may be fetched.
    fn check(&self, uri: &str) -> Result<Url, FetchError> {
        let not_found = |searched: &str| FetchError::NotFound { uri: uri.to_owned(), searched: searched.to_owned() };
        let url = Url::parse(uri).map_err(|_| not_found("it is no address that can be fetched"))?;
        if url.scheme() != self.scheme {
            return Err(not_found("only https:// is fetched"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(not_found("addresses with user information are not fetched"));
        }
        if !self.options.allow.allows(&authority(&url), url.path()) {
            return Err(FetchError::NotAllowed { uri: uri.to_owned() });
        }
        // The resolver is not asked about a literal address.
        let literal = url.host_str().and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
        match literal.filter(|address| !is_public(*address)) {
            Some(address) if !private_allowed(&self.options.private_hosts, &authority(&url)) => {
                Err(FetchError::Failed { uri: uri.to_owned(), message: refused_address(address) })
            }
            _ => Ok(url),
        }
    }

    async fn fetch(&self, uri: &str, url: Url) -> Result<Arc<[u8]>, FetchError> {
        let failed = |message: String| FetchError::Failed { uri: uri.to_owned(), message };
        let mut response = self.client.get(url).send().await.map_err(|error| failed(chain(&error)))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                let searched = format!("the server says {}", response.status());
                return Err(FetchError::NotFound { uri: uri.to_owned(), searched });
            }
            status => return Err(failed(format!("the server says {status}"))),
        }
        let too_large = || failed(format!("it has more than {} bytes", self.options.maximum_bytes));
        if response.content_length().is_some_and(|length| length > self.options.maximum_bytes) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(chain(&error)))? {
            if (bytes.len() + chunk.len()) as u64 > self.options.maximum_bytes {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.into())
    }
}

impl Manifests for Https {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        let url = self.check(uri)?;
        let failed = |message: String| FetchError::Failed { uri: uri.to_owned(), message };
        // Callers may be on a thread of the controller's runtime, where waiting is not allowed.
        std::thread::scope(|scope| {
            let fetch = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.map_err(|error| failed(error.to_string()))?.block_on(self.fetch(uri, url))
            };
            scope.spawn(fetch).join().unwrap_or_else(|_| Err(failed("fetching it broke off".to_owned())))
        })
    }
}

/// Host, with the port where it is not the one of the scheme.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// `host` with or without port.
fn private_allowed(private_hosts: &[String], host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    private_hosts.iter().any(|entry| entry.eq_ignore_ascii_case(host) || entry.eq_ignore_ascii_case(name))
}

fn refused_address(address: IpAddr) -> String {
    format!(
        "{address} is a loopback, link-local or private address; add the host to the private hosts if that is meant"
    )
}

fn redirect_policy(allow: AllowList) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        let first = attempt.previous().first();
        let same = first.is_some_and(|first| {
            first.scheme() == attempt.url().scheme() && authority(first) == authority(attempt.url())
        });
        let allowed = allow.allows(&authority(attempt.url()), attempt.url().path());
        let to = attempt.url().to_string();
        if attempt.previous().len() > MAXIMUM_REDIRECTS {
            attempt.error(format!("more than {MAXIMUM_REDIRECTS} redirects"))
        } else if !same || !allowed {
            attempt.error(format!("it redirects to {to}, which is another host or not on the allow-list"))
        } else {
            attempt.follow()
        }
    })
}

/// Resolves a name once and gives public addresses alone.
struct Resolver {
    private_hosts: Vec<String>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let private = private_allowed(&self.private_hosts, name.as_str());
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let first = found.first().map(SocketAddr::ip);
            let kept: Vec<SocketAddr> = found.into_iter().filter(|it| private || is_public(it.ip())).collect();
            match first.filter(|_| kept.is_empty()) {
                Some(address) => Err(refused_address(address).into()),
                None => Ok(Box::new(kept.into_iter()) as Addrs),
            }
        })
    }
}

/// An error with its causes: reqwest's own texts leave them out.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[cfg(test)]
#[path = "https_tests.rs"]
mod tests;
