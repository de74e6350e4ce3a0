//! `stepgate extension`: answers the hooks by which Cluster API upgrades machines in place.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use in_place::order::Settings;
use jiff::SignedDuration;
use tokio::signal::unix::{SignalKind, signal};

use super::common::error::CommandError;
use super::common::exit::Exit;
use super::run::verb::runtime;
use crate::endpoint::{Endpoint, TlsFiles};
use crate::in_place::certificate;
use crate::in_place::controller;
use crate::in_place::extension::{Updates, health_router, hooks_router, limits};
use crate::in_place::updates::of_cluster;
use cluster::kubernetes::{CertificateSecret, Connection, ConnectionSource, SYSTEM_NAMESPACE};

/// Arguments of `stepgate extension`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Address that hooks are answered at, by HTTPS.
    #[arg(long, env = "STEPGATE_EXTENSION_ADDRESS", default_value = "127.0.0.1:9443", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Folder with `tls.crt` and `tls.key`, in PEM form. Replaced files count from the next connection on.
    #[arg(long, env = "STEPGATE_EXTENSION_TLS_DIR", value_name = "DIR")]
    tls_dir: PathBuf,
    /// Make the certificate, keep it in this Secret and write it into the folder: for clusters without cert-manager.
    #[arg(long, env = "STEPGATE_EXTENSION_TLS_SECRET", value_name = "NAMESPACE/NAME", value_parser = object_name, requires = "tls_names")]
    tls_secret: Option<(String, String)>,
    /// A name that the extension is reached by. May be given several times.
    #[arg(long = "tls-name", env = "STEPGATE_EXTENSION_TLS_NAMES", value_delimiter = ',', value_name = "NAME")]
    tls_names: Vec<String>,
    /// Tell this `MutatingWebhookConfiguration` the authority of the certificate, as often as it does not know it.
    #[arg(long, env = "STEPGATE_EXTENSION_WEBHOOK", value_name = "NAME", requires = "tls_secret")]
    webhook: Option<String>,
    /// Address of `/healthz` and `/readyz`; none, when left out.
    #[arg(long, env = "STEPGATE_HEALTH_ADDRESS", value_name = "ADDRESS")]
    health_address: Option<SocketAddr>,
    /// Kubeconfig of the management cluster; without it `KUBECONFIG`, then `~/.kube/config`.
    #[arg(long, env = "STEPGATE_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, env = "STEPGATE_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// Use the service account of the pod that this program runs in.
    #[arg(long, env = "STEPGATE_IN_CLUSTER", conflicts_with_all = ["kubeconfig", "context"])]
    in_cluster: bool,
    /// Namespace of the Lease that nodes are upgraded under.
    #[arg(long, env = "STEPGATE_NAMESPACE", default_value = SYSTEM_NAMESPACE, value_name = "NAME")]
    namespace: String,
    /// How long an upgraded node has to be healthy without a break before the next one begins.
    #[arg(long, env = "STEPGATE_SOAK", default_value = "1m", value_name = "DURATION", value_parser = policy::parse_duration)]
    soak: Duration,
}

fn object_name(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err(format!("{text:?} is not NAMESPACE/NAME")),
    }
}

/// Answers until it is told to stop.
///
/// # Errors
/// When there is no certificate, no way to the management cluster, or an address cannot be listened on.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let source = if arguments.in_cluster {
        ConnectionSource::InCluster
    } else {
        ConnectionSource::Kubeconfig { path: arguments.kubeconfig.clone(), context: arguments.context.clone() }
    };
    runtime()?.block_on(async {
        if let Some((namespace, name)) = &arguments.tls_secret {
            let secret =
                CertificateSecret::new(Connection::open(&source).await?, namespace, name, &arguments.tls_names)
                    .with_webhook(arguments.webhook.clone());
            certificate::keep(&secret, &arguments.tls_dir)
                .await
                .map_err(|error| CommandError::new(error.to_string()))?;
            let folder = arguments.tls_dir.clone();
            // It ends with this process.
            let _renewals = tokio::spawn(async move { certificate::keep_on(secret, &folder).await });
        }
        let tls = TlsFiles::open(&arguments.tls_dir)?;
        let open = || Connection::open(&source);
        let updates = of_cluster(open().await?);
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| String::from("stepgate"));
        let identity = format!("{host}_{}", std::process::id());
        // The Lease has a connection of its own: queued behind a long reading it would be lost.
        let settings = Settings { soak: SignedDuration::try_from(arguments.soak)?, ..Settings::default() };
        let upgrades = controller::run(open().await?, open().await?, arguments.namespace.clone(), identity, settings);
        let upgrades = tokio::spawn(upgrades);
        let exit = serve(arguments, tls, updates).await;
        upgrades.abort();
        exit
    })
}

async fn serve(arguments: &Arguments, tls: TlsFiles, updates: Updates) -> Result<Exit, CommandError> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let bound = |address: SocketAddr| move |error| CommandError::from(error).context(format!("listening on {address}"));
    let hooks = Endpoint::bind("hooks", arguments.listen, hooks_router(&updates)).await;
    let hooks = hooks.map_err(bound(arguments.listen))?.with_tls(Some(tls)).with_limits(limits());
    tracing::info!("{hooks}");
    let mut tasks = vec![hooks.serve()];
    if let Some(address) = arguments.health_address {
        let health = Endpoint::bind("health", address, health_router()).await.map_err(bound(address))?;
        tracing::info!("{health}");
        tasks.push(health.serve());
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(Exit::Success)
}
