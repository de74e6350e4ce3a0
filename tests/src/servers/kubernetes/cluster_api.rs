//! Cluster API with machines that exist in memory only.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::servers::certificate::Authority;
use crate::servers::kubernetes::api_server::ApiServer;
use crate::servers::kubernetes::manifests::{apply, by_kind, define, kustomized};
use crate::servers::process::{Process, answers};
use crate::servers::programs::Programs;

/// One of the four managers. All bind every interface, hence the fixed ports: each test has namespaces of its own.
struct Component {
    program: &'static str,
    /// Folder of `tests/servers`, and the module that its manifests are from.
    module: (&'static str, &'static str),
    manifests: &'static str,
    features: &'static str,
    webhook: u16,
}

const CLUSTER_API: (&str, &str) = ("cluster-api", "sigs.k8s.io/cluster-api");

const CORE: Component = Component {
    program: "cluster-api-core",
    module: CLUSTER_API,
    manifests: "config/default",
    features: "ClusterTopology=true,RuntimeSDK=true,MachinePool=true,InPlaceUpdates=false",
    webhook: 9443,
};
const BOOTSTRAP: Component = Component {
    program: "cluster-api-bootstrap",
    module: CLUSTER_API,
    manifests: "bootstrap/kubeadm/config/default",
    features: "MachinePool=true",
    webhook: 9444,
};
const CONTROL_PLANE: Component = Component {
    program: "cluster-api-control-plane",
    module: CLUSTER_API,
    manifests: "controlplane/kubeadm/config/default",
    features: "ClusterTopology=true,InPlaceUpdates=false",
    webhook: 9445,
};
const INFRASTRUCTURE: Component = Component {
    program: "cluster-api-in-memory",
    module: ("cluster-api-in-memory", "sigs.k8s.io/cluster-api/test"),
    manifests: "infrastructure/docker/config/default",
    features: "ClusterTopology=true,MachinePool=true",
    webhook: 9446,
};

/// Four running managers; they end when dropped.
pub struct ClusterApi {
    /// Clusters, machine deployments, machine sets, machines.
    pub core: Process,
    /// kubeadm's configuration of machines.
    pub bootstrap: Process,
    /// kubeadm's control planes.
    pub control_plane: Process,
    /// Machines in memory, with the API servers and etcd members of their clusters.
    pub infrastructure: Process,
}

impl ClusterApi {
    /// What has to be built for it.
    pub const NEEDED: [&'static str; 4] =
        [CORE.program, BOOTSTRAP.program, CONTROL_PLANE.program, INFRASTRUCTURE.program];

    /// Defines Cluster API's kinds, starts the managers beside an API server and puts their webhooks in place.
    ///
    /// # Errors
    /// When one of them does not start; with the end of its log.
    pub async fn start(programs: &Programs, server: &ApiServer) -> anyhow::Result<Self> {
        Self::with(programs, server, false).await
    }

    /// The same with the gate of in-place updates open.
    ///
    /// # Errors
    /// As [`ClusterApi::start`].
    pub async fn start_with_in_place_updates(programs: &Programs, server: &ApiServer) -> anyhow::Result<Self> {
        Self::with(programs, server, true).await
    }

    async fn with(programs: &Programs, server: &ApiServer, in_place: bool) -> anyhow::Result<Self> {
        let client = server.client().await?;
        let certificates = server.folder().join("cluster-api");
        server.authority().server()?.write(&certificates, "tls")?;
        let manifests = Manifests::read(programs, server.authority())?;
        apply(&client, &manifests.namespaces).await?;
        define(&client, &manifests.definitions).await?;
        let start = |component: &Component| start(programs, server, &certificates, component, in_place);
        let mut started = Self {
            core: start(&CORE)?,
            bootstrap: start(&BOOTSTRAP)?,
            control_plane: start(&CONTROL_PLANE)?,
            infrastructure: start(&INFRASTRUCTURE)?,
        };
        started.wait_until_ready().await?;
        apply(&client, &manifests.webhooks).await?;
        Ok(started)
    }

    /// Defines Cluster API's kinds on a server without its managers.
    ///
    /// # Errors
    /// When a definition is refused.
    pub async fn define(programs: &Programs, server: &ApiServer) -> anyhow::Result<()> {
        define(&server.client().await?, &Manifests::read(programs, server.authority())?.definitions).await
    }

    /// Waits until all managers say that they are ready.
    ///
    /// # Errors
    /// When one of them does not become ready; with the end of its log.
    pub async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        for (process, component) in [
            (&mut self.core, CORE),
            (&mut self.bootstrap, BOOTSTRAP),
            (&mut self.control_plane, CONTROL_PLANE),
            (&mut self.infrastructure, INFRASTRUCTURE),
        ] {
            process.wait_until(async || answers(health(&component), "/readyz").await).await?;
        }
        Ok(())
    }
}

/// What the managers' modules want in the API server, but for what runs the managers themselves.
#[derive(Default)]
struct Manifests {
    definitions: Vec<Value>,
    namespaces: Vec<Value>,
    webhooks: Vec<Value>,
}

impl Manifests {
    fn read(programs: &Programs, authority: &Authority) -> anyhow::Result<Self> {
        let bundle = STANDARD.encode(authority.certificate());
        let mut manifests = Self::default();
        for component in [CORE, BOOTSTRAP, CONTROL_PLANE, INFRASTRUCTURE] {
            let module = programs.module(component.module.0, component.module.1)?;
            for (kind, objects) in by_kind(kustomized(&module, component.manifests)?) {
                let wanted = match kind.as_str() {
                    "CustomResourceDefinition" => &mut manifests.definitions,
                    "Namespace" => &mut manifests.namespaces,
                    "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => &mut manifests.webhooks,
                    _ => continue,
                };
                wanted.extend(objects.into_iter().map(|object| local(object, component.webhook, &bundle)));
            }
        }
        Ok(manifests)
    }
}

/// The port of a manager's health endpoint.
fn health(component: &Component) -> u16 {
    component.webhook + 100
}

fn start(
    programs: &Programs,
    server: &ApiServer,
    certificates: &Path,
    component: &Component,
    in_place: bool,
) -> anyhow::Result<Process> {
    let features = component.features.replace("InPlaceUpdates=false", &format!("InPlaceUpdates={in_place}"));
    let mut command = Command::new(programs.path(component.program));
    command
        .env("KUBECONFIG", server.kubeconfig())
        // Where the in-memory machines' API servers are said to be.
        .env("POD_IP", "127.0.0.1")
        .arg(format!("--webhook-cert-dir={}", certificates.display()))
        .arg(format!("--webhook-port={}", component.webhook))
        .arg(format!("--health-addr=127.0.0.1:{}", health(component)))
        .arg(format!("--diagnostics-address=127.0.0.1:{}", component.webhook + 200))
        .arg("--insecure-diagnostics=true")
        .arg(format!("--feature-gates={features}"));
    Process::start(server.folder(), component.program, command)
}

/// The object with webhooks on loopback in place of a Service, and their authority in place of cert-manager's.
fn local(mut object: Value, port: u16, bundle: &str) -> Value {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove("cert-manager.io/inject-ca-from");
    }
    let redirect = |client: &mut Value| {
        let path = client.pointer("/service/path").and_then(Value::as_str).unwrap_or_default();
        *client = json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": bundle});
    };
    if let Some(client) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
        redirect(client);
    }
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        webhook.get_mut("clientConfig").map(redirect);
    }
    object
}
