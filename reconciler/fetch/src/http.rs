//! What every fetch over the network keeps to: addresses that may be connected to, bounded answers, no proxies.
//!
//! A name is resolved once, and the connection goes to an address of that answer: a second answer with an inner address
//! (DNS rebinding) is never asked for. Proxies of the environment are not used, since a proxy would resolve the name by
//! itself.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use overlays::FetchError;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url, redirect};

use super::mirror::MAXIMUM_BYTES;
use super::network::{AllowList, is_public};

/// Redirects that are followed for one answer.
pub(super) const MAXIMUM_REDIRECTS: usize = 5;

/// What may be fetched, and how much of it.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Hosts and `host/path` prefixes.
    pub allow: AllowList,
    /// Hosts whose addresses may be loopback, link-local or private: a registry in the team's own network.
    pub private_hosts: Vec<String>,
    /// The largest answer, in bytes.
    pub maximum_bytes: u64,
    /// For one answer as a whole.
    pub timeout: Duration,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            allow: AllowList::default(),
            private_hosts: Vec::new(),
            maximum_bytes: MAXIMUM_BYTES,
            timeout: Duration::from_secs(60),
        }
    }
}

/// A client that connects to public addresses alone, or to those of the private hosts.
#[derive(Clone, Debug)]
pub(super) struct Http {
    pub client: Client,
    pub options: FetchOptions,
    /// `https`; tests on loopback use `http`.
    pub scheme: &'static str,
}

impl Http {
    /// A client that treats redirects as `redirects` says.
    pub fn new(options: FetchOptions, scheme: &'static str, redirects: redirect::Policy) -> reqwest::Result<Self> {
        // Another part of the program may have installed it; either way there is one now.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("stepgate/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .https_only(scheme == "https")
            .redirect(redirects)
            .dns_resolver(Resolver { private_hosts: options.private_hosts.clone() })
            // Every call has a runtime of its own, which no connection outlives.
            .pool_max_idle_per_host(0)
            .connect_timeout(options.timeout.min(Duration::from_secs(10)))
            .timeout(options.timeout)
            .build()?;
        Ok(Self { client, options, scheme })
    }

    /// Why `url` is not connected to, whatever the allow-list says; `None` when it may be.
    pub fn refusal(&self, url: &Url) -> Option<String> {
        if url.scheme() != self.scheme {
            return Some(format!("only {}:// is fetched", self.scheme));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Some("addresses with user information are not fetched".to_owned());
        }
        // The resolver is not asked about a literal address.
        let literal = url.host_str().and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
        let inner = literal.filter(|address| !is_public(*address))?;
        (!private_allowed(&self.options.private_hosts, &authority(url))).then(|| refused_address(inner))
    }
}

/// Runs `future` to its end on a thread of its own: callers may be on a thread of the controller's runtime, where waiting
/// is not allowed.
pub(super) fn wait_for<T: Send>(
    uri: &str,
    future: impl Future<Output = Result<T, FetchError>> + Send,
) -> Result<T, FetchError> {
    let failed = |message: String| FetchError::Failed { uri: uri.to_owned(), message };
    std::thread::scope(|scope| {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| failed(error.to_string()))?.block_on(future)
        };
        scope.spawn(run).join().unwrap_or_else(|_| Err(failed("fetching it broke off".to_owned())))
    })
}

/// Host, with the port where it is not the one of the scheme.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// `host` with or without port.
fn private_allowed(private_hosts: &[String], host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    private_hosts.iter().any(|entry| entry.eq_ignore_ascii_case(host) || entry.eq_ignore_ascii_case(name))
}

fn refused_address(address: IpAddr) -> String {
    format!("{address} is a loopback, link-local or private address; give the host as --private-host if that is meant")
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
