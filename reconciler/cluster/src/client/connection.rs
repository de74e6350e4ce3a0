//! Connections to API servers: by kubeconfig, from inside a cluster, and to workload clusters through their Secrets.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::Uri;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::authorities::Authorities;
use super::credentials::{Credentials, configuration};
use super::limit::RateLimit;
use super::shared_read::SharedReads;
use crate::read::known::Known;
use crate::write::leadership::Leadership;

/// How long a single request may take, connecting included.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may take to be made: longer than a request, so that the request is said to
/// have had no answer, and connections of before are left.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(REQUEST_TIMEOUT.as_secs() + 1);

/// How long a connection may be silent on which something is waited for: longer than any watch lasts. A watch whose answer does not even begin, because
/// what is between has lost it, has no other end.
const SILENCE: Duration = Duration::from_secs(300);

/// How many requests one API server gets in a second, where nothing else is asked for; twice as many
/// may go at once. Ten clusters that move at once are held up by half of it; Argo CD's measurements
/// of large fleets found no use in more than 150.
pub const REQUESTS_PER_SECOND: u32 = 100;

/// Where the credentials of an API server come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionSource {
    /// The service account of the pod that this program runs in.
    InCluster,
    /// A kubeconfig file.
    Kubeconfig {
        /// The file; without one `KUBECONFIG`, then `~/.kube/config`.
        path: Option<PathBuf>,
        /// The context; without one the file's current context.
        context: Option<String>,
    },
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The kubeconfig cannot be used.
    #[error("could not use kubeconfig {place}: {reason}; try `kubectl get namespaces` with the same one")]
    Kubeconfig {
        /// The file, or where it is looked for.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The pod's service account cannot be used.
    #[error(
        "could not use the in-cluster configuration: {reason}; run inside a cluster with a service account's token mounted, or name a kubeconfig"
    )]
    InCluster {
        /// What is missing.
        reason: String,
    },
    /// The kubeconfig of a workload cluster cannot be used.
    #[error("could not use Secret {namespace}/{name} of the workload cluster: {reason}")]
    Secret {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret, `<cluster>-kubeconfig`.
        name: String,
        /// What is wrong with it; never its content.
        reason: String,
    },
}

/// A connection to one API server. Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    pub(crate) client: Client,
    pub(crate) server: String,
    pub(crate) timeout: Duration,
    pub(crate) requests_per_second: u32,
    pub(crate) known: Arc<Known>,
    /// While this process leads, where others may: it writes nothing otherwise.
    pub(crate) fence: Option<Leadership>,
    credentials: Arc<Credentials>,
    silence: Arc<Silence>,
    host: String,
    port: u16,
    limit: Arc<RateLimit>,
    pub(super) shared_reads: Arc<SharedReads>,
}

/// Whether the server's last answer is still waited for.
#[derive(Debug, Default)]
struct Silence {
    lasts: AtomicBool,
    ended: Notify,
    /// Whether it began with an answer that did not come: the network may have lost connections and told nobody.
    is_suspect: AtomicBool,
    suspect_ended: Notify,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Connection {
    /// Reads the credentials. No request is made yet: whether the server answers shows at the first read.
    ///
    /// # Errors
    /// When the credentials cannot be read or are no credentials.
    pub async fn open(source: &ConnectionSource) -> Result<Self, ConnectionError> {
        let config = configuration(source).await?;
        let server = server(&config);
        Self::of(config, Some(source.clone())).map_err(|reason| match source {
            ConnectionSource::InCluster => ConnectionError::InCluster { reason },
            ConnectionSource::Kubeconfig { .. } => ConnectionError::Kubeconfig { place: server, reason },
        })
    }

    /// A connection with the kubeconfig that Cluster API keeps for a workload cluster.
    ///
    /// Whoever may write that Secret must not thereby run programs or read files here, so it has to carry its credentials in itself.
    pub(crate) async fn from_secret(namespace: &str, name: &str, text: &str) -> Result<Self, ConnectionError> {
        let failed = |reason: &str| ConnectionError::Secret {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            reason: reason.to_owned(),
        };
        // The parser quotes what it reads: its message would show credentials.
        let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| failed("key `value` is not a valid kubeconfig"))?;
        for user in kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref()) {
            if user.exec.is_some() || user.auth_provider.is_some() {
                return Err(failed(
                    "it runs a program for its credentials, which is refused; write them into the kubeconfig",
                ));
            }
            if user.token_file.is_some() || user.client_certificate.is_some() || user.client_key.is_some() {
                return Err(failed(
                    "it names files for its credentials, which is refused; write them into the kubeconfig",
                ));
            }
        }
        for cluster in kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref()) {
            if cluster.certificate_authority.is_some() {
                return Err(failed(
                    "it names a file for its certificate authority, which is refused; write it into the kubeconfig",
                ));
            }
            // Every request would go where it says, which the endpoint of the Cluster says nothing of.
            if cluster.proxy_url.is_some() {
                return Err(failed(
                    "it sends requests through a proxy, which is refused; take `proxy-url` out, and set HTTPS_PROXY for \
                     this process where it needs one",
                ));
            }
        }
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|_| failed("its current context cannot be used"))?;
        let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_here = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        if config.cluster_url.scheme_str() == Some("http") && !is_here {
            return Err(failed("its server is asked in the clear, which is refused; it has to begin with https://"));
        }
        if config.accept_invalid_certs {
            return Err(failed("it trusts whoever answers, which is refused; take `insecure-skip-tls-verify` out"));
        }
        Self::new(config).map_err(|_| failed("its certificates cannot be used"))
    }

    pub(crate) fn new(config: Config) -> Result<Self, String> {
        Self::of(config, None)
    }

    fn of(config: Config, source: Option<ConnectionSource>) -> Result<Self, String> {
        let server = server(&config);
        let (host, port) = host_and_port(&config);
        let namespace = config.default_namespace.clone();
        let credentials = Credentials::new(config, source)?;
        let client = credentials.client(&namespace);
        let limit = Arc::new(RateLimit::new(REQUESTS_PER_SECOND, 2 * REQUESTS_PER_SECOND));
        let requests_per_second = REQUESTS_PER_SECOND;
        let (timeout, known) = (REQUEST_TIMEOUT, Arc::default());
        let (fence, silence, shared_reads) = (None, Arc::default(), Arc::default());
        Ok(Self {
            client,
            server,
            timeout,
            requests_per_second,
            known,
            fence,
            credentials,
            silence,
            host,
            port,
            limit,
            shared_reads,
        })
    }

    /// The same connection with another limit for single requests.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        // What others send ends by their limit.
        self.shared_reads = Arc::default();
        self
    }

    /// The same connection with a limit of its own: so many requests in a second, and twice as many at once.
    #[must_use]
    pub fn with_requests_per_second(mut self, requests: u32) -> Self {
        self.limit = Arc::new(RateLimit::new(requests, requests.saturating_mul(2)));
        self.requests_per_second = requests;
        self.shared_reads = Arc::default();
        self
    }

    /// The same connection, by which nothing is written but while this process leads.
    #[must_use]
    pub fn fenced(self, fence: Option<Leadership>) -> Self {
        Self { fence, ..self }
    }

    /// Waits until one more request may be sent.
    pub(crate) async fn permit(&self) {
        self.limit.permit().await;
    }

    /// Whom the server is trusted by; none where that is the system's to say.
    pub(crate) fn authorities(&self) -> Arc<Authorities> {
        self.credentials.authorities()
    }

    /// Notes whether the server has answered, whatever it said.
    pub(crate) fn has_answered(&self, answered: bool) {
        let was_silent = self.silence.lasts.swap(!answered, Ordering::Relaxed);
        if was_silent && answered {
            self.silence.ended.notify_waiters();
            if self.silence.is_suspect.swap(false, Ordering::Relaxed) {
                self.silence.suspect_ended.notify_waiters();
            }
        }
    }

    /// A request that was sent then was not answered in time: nothing more is sent by the connections of before.
    pub(super) fn leave_connections(&self, sent: Instant) {
        self.silence.is_suspect.store(true, Ordering::Relaxed);
        self.credentials.reconnect(sent);
    }

    /// Returns when the server answers again after an answer that did not come: of what is still open from before, nobody knows whether it lives.
    pub(crate) fn connections_are_suspect(&self) -> Notified<'_> {
        self.silence.suspect_ended.notified()
    }

    /// Returns when a request is answered after one that was not.
    pub(crate) async fn answers_again(&self) {
        self.silence.ended.notified().await;
    }

    /// Whether both are one connection.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.limit, &other.limit)
    }

    /// Whether this is the server at a host and port.
    pub(crate) fn is_at(&self, (host, port): &(String, u16)) -> bool {
        let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        bare(&self.host) == bare(host) && self.port == *port
    }

    /// Address of the API server, without credentials.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }
}

/// The same configuration with our limits.
pub(super) fn prepare(mut config: Config) -> Config {
    // Another crate may have brought a second provider: without a choice made here, rustls would panic.
    let _ = rustls::crypto::ring::default_provider().install_default();
    config.cluster_url = without_login(config.cluster_url);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(SILENCE);
    config
}

/// The address alone: what stands before its `@` is used by nobody, and would be in the records of each request.
fn without_login(url: Uri) -> Uri {
    let mut parts = url.clone().into_parts();
    let host = parts.authority.as_ref().and_then(|authority| authority.as_str().rsplit_once('@')?.1.parse().ok());
    if host.is_none() {
        return url;
    }
    parts.authority = host;
    Uri::from_parts(parts).unwrap_or(url)
}

fn host_and_port(config: &Config) -> (String, u16) {
    let url = &config.cluster_url;
    let usual = if url.scheme_str() == Some("http") { 80 } else { 443 };
    (url.host().unwrap_or("unknown").to_owned(), url.port_u16().unwrap_or(usual))
}

/// Scheme, host and port, without credentials.
pub(super) fn server(config: &Config) -> String {
    let url = &config.cluster_url;
    let port = url.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme_str().unwrap_or("https"), url.host().unwrap_or("unknown"))
}
