//! What `run` listens on: health, metrics, webhooks.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use clap::Args;
use tokio::task::JoinHandle;

use crate::cli::common::error::CommandError;
use crate::endpoint::{Endpoint, TlsFiles};
use crate::telemetry::{Health, Metrics, MetricsAccess, Reviewer, health_router, metrics_router};
use crate::watch::{Nudge, WebhookSecret, WebhookSettings, webhook};
use cluster::kubernetes::Connection;
use host::disk;

/// The largest file with a webhook's secret, in bytes.
const LARGEST_SECRET: u64 = 16 << 10;

/// How many requests in a second are made for strangers' tokens, of which each costs two.
pub(crate) const REVIEW_REQUESTS_PER_SECOND: u32 = 5;

/// Where the process is reached.
#[derive(Debug, Args)]
pub struct EndpointArguments {
    /// Address for push webhooks of GitHub, GitLab and Gitea, such as `127.0.0.1:9292`; none, when left out.
    #[arg(long, env = "STEPGATE_WEBHOOK_ADDRESS", value_name = "ADDRESS")]
    webhook_address: Option<SocketAddr>,
    /// File with the secret that webhooks are signed with.
    #[arg(long, env = "STEPGATE_WEBHOOK_SECRET_FILE", value_name = "FILE", requires = "webhook_address")]
    webhook_secret_file: Option<PathBuf>,
    /// Folder with `tls.crt` and `tls.key`, in PEM form: webhooks come by TLS then. Replaced files count from the next connection on.
    #[arg(long, env = "STEPGATE_WEBHOOK_TLS_DIR", value_name = "DIR", requires = "webhook_address")]
    webhook_tls_dir: Option<PathBuf>,
    /// Address of `/healthz` and `/readyz` alone, or `off`. Left out, it is 127.0.0.1:8081 where nobody else has that.
    #[arg(long, env = "STEPGATE_HEALTH_ADDRESS", value_name = "ADDRESS|off")]
    health_address: Option<Listen>,
    /// Address of `/metrics`, with `/healthz` and `/readyz` beside it, or `off`. Left out, it is 127.0.0.1:8080 where nobody else has that.
    #[arg(long, env = "STEPGATE_LISTEN", value_name = "ADDRESS|off")]
    listen: Option<Listen>,
    /// Who may see `/metrics`, which name the fleet's clusters. Left out, whoever reaches them on loopback, and nobody at any other address.
    #[arg(long, env = "STEPGATE_METRICS_AUTHENTICATION", value_enum, value_name = "WAY")]
    metrics_authentication: Option<MetricsAuthentication>,
    /// Folder with `tls.crt` and `tls.key`, in PEM form: whatever `--listen` answers goes by TLS then.
    #[arg(long, env = "STEPGATE_METRICS_TLS_DIR", value_name = "DIR")]
    metrics_tls_dir: Option<PathBuf>,
}

/// Who may see metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MetricsAuthentication {
    /// Whoever reaches them.
    None,
    /// Whose bearer token the management cluster knows (`TokenReview`) and lets `get` the path `/metrics` (`SubjectAccessReview`).
    Kubernetes,
}

/// An address, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    Off,
    /// At this address.
    At(SocketAddr),
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse()
            .map(Self::At)
            .map_err(|_| format!("expected an address such as 127.0.0.1:8080, or off, not {text}"))
    }
}

/// Endpoints that may be served: whatever they need was found.
pub struct Endpoints {
    webhooks: Option<(SocketAddr, WebhookSecret, Option<TlsFiles>)>,
    metrics: (Option<Listen>, Option<TlsFiles>, Option<MetricsAuthentication>),
    health: Option<Listen>,
}

impl EndpointArguments {
    /// Reads the files that are named.
    ///
    /// # Errors
    /// When one cannot be used, or webhooks would be anybody's.
    pub(crate) fn read(&self) -> Result<Endpoints, CommandError> {
        let tls = |folder: &Option<PathBuf>| folder.as_deref().map(TlsFiles::open).transpose();
        let webhooks = match (self.webhook_address, &self.webhook_secret_file) {
            (None, _) => None,
            (Some(_), None) => {
                let error = CommandError::new(
                    "webhooks need a secret: without one, whoever reaches --webhook-address could send them",
                );
                return Err(error.hint("name its file with --webhook-secret-file (STEPGATE_WEBHOOK_SECRET_FILE)"));
            }
            (Some(address), Some(file)) => Some((address, secret(file)?, tls(&self.webhook_tls_dir)?)),
        };
        let metrics = (self.listen, tls(&self.metrics_tls_dir)?, self.metrics_authentication);
        Ok(Endpoints { webhooks, metrics, health: self.health_address })
    }

    /// Whether tokens are shown to the management cluster.
    pub(crate) fn reviews_tokens(&self) -> bool {
        self.metrics_authentication == Some(MetricsAuthentication::Kubernetes) && self.listen != Some(Listen::Off)
    }
}

fn secret(file: &Path) -> Result<WebhookSecret, CommandError> {
    let text = disk::read_text(file, LARGEST_SECRET)
        .map_err(|error| CommandError::from(error).context(format!("reading {}", file.display())))?;
    Ok(WebhookSecret::new(text.trim())?)
}

impl Endpoints {
    /// Begins to answer. `review` is the connection for tokens, where they are reviewed. Without an address the usual one is tried, and somebody
    /// else who has it is no error.
    ///
    /// # Errors
    /// When an address that was named cannot be listened on.
    pub(crate) async fn serve(
        self,
        nudge: Nudge,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
        review: Option<Connection>,
    ) -> Result<Vec<JoinHandle<()>>, CommandError> {
        let (listen, tls, authentication) = self.metrics;
        let on_loopback = !matches!(listen, Some(Listen::At(address)) if !address.ip().is_loopback());
        let access = match (authentication, review) {
            (Some(MetricsAuthentication::Kubernetes), Some(connection)) => {
                MetricsAccess::Reviewed(Box::new(Reviewer::new(connection)))
            }
            (Some(MetricsAuthentication::Kubernetes), None) => MetricsAccess::Nobody,
            (Some(MetricsAuthentication::None), _) => MetricsAccess::Everybody,
            (None, _) if on_loopback => MetricsAccess::Everybody,
            (None, _) => {
                tracing::warn!("/metrics are shown to nobody: say who may see them with --metrics-authentication");
                MetricsAccess::Nobody
            }
        };
        let mut tasks = Vec::new();
        if let Some((address, secret, tls)) = self.webhooks {
            let router = webhook(&WebhookSettings::new(secret), nudge)?;
            tasks.push(begin(bind("webhook", address, router).await?.with_tls(tls)));
        }
        let shown = metrics_router(metrics, access).merge(health_router(Arc::clone(&health)));
        let mut others =
            [("health", self.health, 8081, health_router(health), None), ("metrics", listen, 8080, shown, tls)];
        // An address that was named is never taken by an endpoint that has none of its own.
        others.sort_by_key(|(_, listen, ..)| listen.is_none());
        for (name, listen, port, router, tls) in others {
            if let Some(endpoint) = usual(name, listen, port, router).await? {
                tasks.push(begin(endpoint.with_tls(tls)));
            }
        }
        Ok(tasks)
    }
}

fn begin(endpoint: Endpoint) -> JoinHandle<()> {
    tracing::info!("{endpoint}");
    endpoint.serve()
}

async fn bind(name: &'static str, address: SocketAddr, router: Router) -> Result<Endpoint, CommandError> {
    let bound = Endpoint::bind(name, address, router).await;
    bound.map_err(|error| CommandError::from(error).context(format!("listening on {address} for {name}")))
}

/// The endpoint at the address that was named, or else at the usual one on loopback.
async fn usual(
    name: &'static str,
    listen: Option<Listen>,
    port: u16,
    router: Router,
) -> Result<Option<Endpoint>, CommandError> {
    let address = match listen {
        Some(Listen::Off) => return Ok(None),
        Some(Listen::At(address)) => return bind(name, address, router).await.map(Some),
        None => SocketAddr::from(([127, 0, 0, 1], port)),
    };
    match Endpoint::bind(name, address, router).await {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(error) => {
            tracing::warn!(%error, "{name} is not answered: somebody else has {address}; name another address, or `off`");
            Ok(None)
        }
    }
}
