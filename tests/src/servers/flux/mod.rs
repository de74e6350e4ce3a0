//! Flux: its source and kustomize controllers, and those that a test asks for.

pub(in crate::servers) mod artifacts;
pub(in crate::servers) mod fake;

use std::process::Command;

use serde_json::{Value, json};

use crate::servers::kubernetes::api_server::ApiServer;
use crate::servers::kubernetes::manifests::{apply, define, kustomized};
use crate::servers::port::free_port;
use crate::servers::process::{Process, answers};
use crate::servers::programs::Programs;

/// The namespace that Flux's own objects are in.
pub const FLUX_NAMESPACE: &str = "flux-system";

/// Two running controllers of Flux; they end when dropped.
pub struct Flux {
    /// Fetches sources.
    pub source: Process,
    /// Applies them.
    pub kustomize: Process,
    /// Where events are taken; empty before [`Flux::notification`].
    pub events: String,
}

impl Flux {
    /// What has to be built for it.
    pub const NEEDED: [&'static str; 2] = ["source-controller", "kustomize-controller"];

    /// Defines Flux's kinds and starts the controllers beside an API server.
    ///
    /// # Errors
    /// When one of them does not start; with the end of its log.
    pub async fn start(programs: &Programs, server: &ApiServer) -> anyhow::Result<Self> {
        let client = server.client().await?;
        apply(&client, &[namespace()]).await?;
        for name in Self::NEEDED {
            let module = programs.module(name, &format!("github.com/fluxcd/{name}"))?;
            define(&client, &kustomized(&module, "config/crd")?).await?;
        }
        let storage = server.folder().join("source-controller");
        std::fs::create_dir_all(&storage)?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let (source, source_health) = start(programs, server, "source-controller", |command| {
            command
                .arg(format!("--storage-path={}", storage.display()))
                .arg(format!("--storage-addr={address}"))
                .arg(format!("--storage-adv-addr={address}"));
        })?;
        let (kustomize, kustomize_health) = start(programs, server, "kustomize-controller", |_| {})?;
        let mut started = Self { source, kustomize, events: String::new() };
        started.source.wait_until(async || answers(source_health, "/readyz").await).await?;
        started.kustomize.wait_until(async || answers(kustomize_health, "/readyz").await).await?;
        Ok(started)
    }

    /// What has to be built for [`Flux::helm`].
    pub const HELM: &'static str = "helm-controller";

    /// Defines `HelmReleases` and starts the controller that installs their charts.
    ///
    /// # Errors
    /// When it does not start; with the end of its log.
    pub async fn helm(programs: &Programs, server: &ApiServer) -> anyhow::Result<Process> {
        let module = programs.module(Self::HELM, "github.com/fluxcd/helm-controller")?;
        define(&server.client().await?, &kustomized(&module, "config/crd")?).await?;
        let (mut helm, health) = start(programs, server, Self::HELM, |_| {})?;
        helm.wait_until(async || answers(health, "/readyz").await).await?;
        Ok(helm)
    }

    /// What has to be built for [`Flux::notification`].
    pub const NOTIFICATION: &'static str = "notification-controller";

    /// Defines `Alerts`, `Providers` and `Receivers`, starts the controller that tells others of events, and has the kustomize controller tell it of
    /// what it does from now on.
    ///
    /// # Errors
    /// When one of them does not start; with the end of its log.
    pub async fn notification(&mut self, programs: &Programs, server: &ApiServer) -> anyhow::Result<Process> {
        let (notification, events) = Self::notification_alone(programs, server).await?;
        self.kustomize.kill()?;
        let (kustomize, health) = start(programs, server, Self::NEEDED[1], |command| {
            command.arg(format!("--events-addr={events}"));
        })?;
        self.kustomize = kustomize;
        self.events = events;
        self.kustomize.wait_until(async || answers(health, "/readyz").await).await?;
        Ok(notification)
    }

    /// As [`Flux::notification`] for a cluster that Flux applies nothing to; with the address where events are taken.
    ///
    /// # Errors
    /// When it does not start; with the end of its log.
    pub async fn notification_alone(programs: &Programs, server: &ApiServer) -> anyhow::Result<(Process, String)> {
        let client = server.client().await?;
        apply(&client, &[namespace()]).await?;
        let module = programs.module(Self::NOTIFICATION, "github.com/fluxcd/notification-controller")?;
        define(&client, &kustomized(&module, "config/crd")?).await?;
        let events = format!("127.0.0.1:{}", free_port()?);
        let receiver = format!("127.0.0.1:{}", free_port()?);
        let (mut notification, health) = start(programs, server, Self::NOTIFICATION, |command| {
            command.arg(format!("--events-addr={events}")).arg(format!("--receiverAddr={receiver}"));
        })?;
        notification.wait_until(async || answers(health, "/readyz").await).await?;
        Ok((notification, format!("http://{events}/")))
    }
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLUX_NAMESPACE}})
}

/// Starts a controller and returns the port of its health endpoint.
fn start(
    programs: &Programs,
    server: &ApiServer,
    name: &str,
    configure: impl FnOnce(&mut Command),
) -> anyhow::Result<(Process, u16)> {
    let health = free_port()?;
    let mut command = Command::new(programs.path(name));
    command
        .env("KUBECONFIG", server.kubeconfig())
        .env("RUNTIME_NAMESPACE", FLUX_NAMESPACE)
        .arg(format!("--health-addr=127.0.0.1:{health}"))
        .arg(format!("--metrics-addr=127.0.0.1:{}", free_port()?));
    configure(&mut command);
    Ok((Process::start(server.folder(), name, command)?, health))
}
