//! A cluster of machines in memory, the extension with its controller, and kubelets that run what upgrades nodes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::kubernetes::in_place_definitions;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use simulator::{DesiredMachines, DesiredObject};
use tests::servers::manifests::{apply, define, kind, kind_in, list, set};
use tests::servers::{ApiServer, ApiServerOptions, ClusterApi, Folder, Process, Programs};
use tests::waiting::until_within;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::kubelets::{Kubelets, upgraders, workload};
use crate::machines::{MACHINE, is_true};
use crate::simulator::machines::MachineProvider;

pub const NAME: &str = "inplace";
pub const OLD: &str = "v1.35.0";
pub const NEW: &str = "v1.36.0";
pub const CONTROL_PLANE: (&str, &str) = ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane");
pub const WORKERS: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "MachineDeployment");
pub const EXTENSION_CONFIG: (&str, &str) = ("runtime.cluster.x-k8s.io/v1beta2", "ExtensionConfig");
pub const SYSTEM: &str = "stepgate-system";

/// How long the machines of an owner may take: on an idle machine two minutes.
const LIMIT: Duration = Duration::from_secs(900);

/// Where the extension listens: the test has namespaces of its own.
pub const PORT: u16 = 9540;

/// What Cluster API writes on a Machine that it updates in place.
const IN_PROGRESS: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";

pub const ON_DECLINE: &str = "inplace.stepgate.dev/on-decline";

/// What has to be built for it.
pub fn needed() -> Vec<&'static str> {
    let servers = ["etcd", "kube-apiserver", "kube-controller-manager"];
    servers.into_iter().chain(ClusterApi::NEEDED).collect()
}

pub struct Bench {
    pub folder: Folder,
    pub server: ApiServer,
    pub client: Client,
    pub provider: MachineProvider,
    pub extension: Process,
}

impl Bench {
    /// Three control-plane machines and two workers, none to spare, with the extension registered.
    pub async fn start(programs: &Programs, on_decline: &str) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let options = ApiServerOptions { controllers: true, ..ApiServerOptions::default() };
        let server = ApiServer::start(programs, &folder.path().join("management"), options).await?;
        let client = server.client().await?;
        let provider = MachineProvider::start_with_in_place_updates(programs, &server).await?;
        let extension = extension(folder.path(), &server, &server.kubeconfig()).await?;
        let bench = Self { folder, server, client, provider, extension };
        define(&bench.client, &in_place_definitions()).await?;
        let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let registration = bench.registration("stepgate");
        apply(&bench.client, &[namespace(NAME), namespace(SYSTEM), upgraders(NAME, NEW), registration]).await?;
        bench.is_discovered("stepgate").await?;
        apply(&bench.client, &bench.objects(on_decline)?).await?;
        bench.all_are(CONTROL_PLANE, 3, OLD).await?;
        bench.all_are(WORKERS, 2, OLD).await?;
        Ok(bench)
    }

    fn objects(&self, on_decline: &str) -> anyhow::Result<Vec<Value>> {
        let machines = |name: &str, replicas| DesiredMachines {
            namespace: NAME.to_owned(),
            name: name.to_owned(),
            replicas,
            version: OLD.to_owned(),
            template: format!("{name}-1s"),
            bootstrap_template: None,
        };
        let control_plane = DesiredObject::ControlPlane { machines: machines(NAME, 3), kube_vip: None };
        let workers = DesiredObject::Workers { group: "blue".parse()?, machines: machines("blue", 2) };
        let mut objects = self.provider.manifest(NAME, &control_plane)?;
        objects.extend(self.provider.manifest(NAME, &workers)?);
        let marked = json!({ON_DECLINE: on_decline});
        for object in &mut objects {
            match kind(object) {
                "KubeadmControlPlane" => {
                    object["spec"]["rollout"] =
                        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}});
                    object["spec"]["machineTemplate"]["metadata"] = json!({"annotations": marked});
                }
                "MachineDeployment" => {
                    object["spec"]["rollout"] = json!({"strategy": {"type": "RollingUpdate",
                        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
                    object["spec"]["template"]["metadata"] = json!({"annotations": marked});
                }
                _ => {}
            }
        }
        Ok(objects)
    }

    /// What registers the extension under this name.
    pub fn registration(&self, name: &str) -> Value {
        registration(&self.server, name)
    }

    pub async fn is_discovered(&self, name: &str) -> anyhow::Result<()> {
        is_discovered(&self.client, name).await
    }

    /// The UIDs of all machines.
    pub async fn uids(&self) -> anyhow::Result<BTreeSet<String>> {
        Ok(self.machines().await?.iter().filter_map(kube::ResourceExt::uid).collect())
    }

    async fn machines(&self) -> anyhow::Result<Vec<DynamicObject>> {
        list(&self.client, MACHINE, NAME).await
    }

    async fn patch(&self, what: (&str, &str), name: &str, patch: Value) -> anyhow::Result<()> {
        let api = kind_in(&self.client, what, NAME).await?;
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    pub async fn set_version(&self, what: (&str, &str), version: &str) -> anyhow::Result<()> {
        if what == CONTROL_PLANE {
            return self.patch(what, NAME, json!({"spec": {"version": version}})).await;
        }
        self.patch(what, "blue", json!({"spec": {"template": {"spec": {"version": version}}}})).await
    }

    /// What is to happen to control-plane machines that cannot be upgraded in place.
    pub async fn choose(&self, on_decline: &str) -> anyhow::Result<()> {
        let annotations = json!({ON_DECLINE: on_decline});
        self.patch(
            CONTROL_PLANE,
            NAME,
            json!({"spec": {"machineTemplate": {"metadata": {"annotations": annotations}}}}),
        )
        .await
    }

    /// Another template of control-plane machines.
    pub async fn change_machines(&self) -> anyhow::Result<()> {
        let templates = ("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachineTemplate");
        let api = kind_in(&self.client, templates, NAME).await?;
        let spec = api.get(&format!("{NAME}-1s")).await?.data["spec"].clone();
        let name = format!("{NAME}-other");
        let mut template = json!({"apiVersion": templates.0, "kind": templates.1,
            "metadata": {"namespace": NAME, "name": name}, "spec": spec});
        set(&mut template, "/spec/template/spec/backend/inMemory/vm/provisioning/startupDuration", json!("2s"))?;
        apply(&self.client, &[template]).await?;
        let reference = json!({"infrastructureRef": {"name": name}});
        self.patch(CONTROL_PLANE, NAME, json!({"spec": {"machineTemplate": {"spec": reference}}})).await
    }

    /// Waits until all machines of an owner are of this version and well.
    pub async fn all_are(&self, what: (&str, &str), count: usize, version: &str) -> anyhow::Result<()> {
        let of_control_plane = what == CONTROL_PLANE;
        let is_done = async || {
            let machines = self.machines().await?;
            let mut own = machines
                .iter()
                .filter(|machine| machine.labels().contains_key("cluster.x-k8s.io/control-plane") == of_control_plane);
            let well = |machine: &&DynamicObject| {
                machine.data.pointer("/spec/version") == Some(&json!(version))
                    && is_true(machine, "UpToDate")
                    && is_true(machine, "Available")
                    && !machine.annotations().contains_key(IN_PROGRESS)
            };
            let all = own.clone().count();
            Ok((all == count && own.all(|machine| well(&machine))).then_some(()))
        };
        let told = until_within(&format!("{} at {version}", what.1), LIMIT, is_done).await;
        told.with_context(|| format!("extension: {}", self.extension.last_lines()))
    }

    /// Waits until Cluster API has begun with a machine.
    pub async fn first_is_under_way(&self) -> anyhow::Result<()> {
        let begun = async || {
            let machines = self.machines().await?;
            Ok(machines.iter().any(|machine| machine.annotations().contains_key(IN_PROGRESS)).then_some(()))
        };
        until_within("a machine is updated in place", LIMIT, begun).await
    }

    /// Waits until the extension has declined because of this field.
    pub async fn declined(&self, field: &str) -> anyhow::Result<()> {
        let says = async || Ok(self.extension.last_lines().contains(field).then_some(()));
        until_within(&format!("the extension names {field}"), LIMIT, says)
            .await
            .with_context(|| self.extension.last_lines())
    }

    /// Changes the control plane until Cluster API begins: after errors it waits ever longer for a change, and it may still
    /// know the extension that has just gone when the first one comes.
    pub async fn wake_control_plane(&self) -> anyhow::Result<()> {
        let mut times = 0_u32;
        let mut begun = async || {
            times += 1;
            let touched = json!({"metadata": {"annotations": {"example.com/touched": times.to_string()}}});
            self.patch(CONTROL_PLANE, NAME, touched).await?;
            let machines = self.machines().await?;
            Ok(machines.iter().any(|machine| machine.annotations().contains_key(IN_PROGRESS)).then_some(()))
        };
        until_within("a machine is updated in place", LIMIT, &mut begun).await
    }

    pub async fn control_plane_manager_says(&self, text: &str) -> anyhow::Result<()> {
        let log = self.server.folder().join("cluster-api-control-plane.log");
        let says = async || Ok(std::fs::read_to_string(&log)?.contains(text).then_some(()));
        until_within(&format!("the control plane's manager says {text}"), LIMIT, says).await
    }

    /// Starts the kubelets, which run what upgrades nodes.
    pub async fn start_kubelets(&self) -> anyhow::Result<(Kubelets, Watcher)> {
        let kubelets = Kubelets::start(workload(&self.client, NAME, NAME).await?, OLD);
        let most_at_once = Arc::new(AtomicUsize::new(0));
        let (client, told) = (self.client.clone(), Arc::clone(&most_at_once));
        let task = tokio::spawn(async move {
            loop {
                if let Ok(machines) = list(&client, MACHINE, NAME).await {
                    let under_way = machines.iter().filter(|machine| machine.annotations().contains_key(IN_PROGRESS));
                    told.fetch_max(under_way.count(), Ordering::Relaxed);
                }
                // Samples, at a pace at which no machine is missed.
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        Ok((kubelets, Watcher { task, most_at_once }))
    }
}

/// Looks at machines as long as it is there.
pub struct Watcher {
    task: JoinHandle<()>,
    most_at_once: Arc<AtomicUsize>,
}

impl Watcher {
    /// How many machines were under way at the same time.
    pub fn most_at_once(&self) -> usize {
        self.most_at_once.load(Ordering::Relaxed)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What registers the extension under this name.
pub fn registration(server: &ApiServer, name: &str) -> Value {
    json!({"apiVersion": EXTENSION_CONFIG.0, "kind": EXTENSION_CONFIG.1, "metadata": {"name": name}, "spec": {
        "clientConfig": {"url": format!("https://127.0.0.1:{PORT}/"), "caBundle": STANDARD.encode(server.authority().certificate())},
        "namespaceSelector": {},
    }})
}

/// Waits until Cluster API knows the extension of this name.
pub async fn is_discovered(client: &Client, name: &str) -> anyhow::Result<()> {
    let api = tests::servers::manifests::kind_of_cluster(client, EXTENSION_CONFIG).await?;
    let discovered = async || Ok(is_true(&api.get(name).await?, "Discovered").then_some(()));
    until_within(&format!("extension {name} is discovered"), LIMIT, discovered).await
}

/// The extension with its controller, as the user of a kubeconfig.
pub async fn extension(folder: &Path, server: &ApiServer, kubeconfig: &Path) -> anyhow::Result<Process> {
    let certificates = folder.join("extension-tls");
    server.authority().server()?.write(&certificates, "tls")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
    command
        .args(["extension", "--soak", "2s", "--listen", &format!("127.0.0.1:{PORT}"), "--tls-dir"])
        .arg(&certificates)
        .env("STEPGATE_KUBECONFIG", kubeconfig);
    let mut process = Process::start(folder, "extension", command)?;
    process.wait_until(async || TcpStream::connect(("127.0.0.1", PORT)).await.is_ok()).await?;
    ensure!(certificates.join("tls.key").exists(), "no key");
    Ok(process)
}
