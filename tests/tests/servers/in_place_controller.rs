//! Control planes of Cluster API whose machines stay: upgraded by our controller while their owner is paused.
//!
//! Machines are in memory, and this test is the kubelet that runs upgraders' Pods.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::kubernetes::{Connection, ConnectionSource, UpgradeController, in_place_definitions};
use in_place::objects::{CONTROLLER, LEASE, Lease, PAUSED, RETRY, STRATEGY, paused_words};
use in_place::order::Settings;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use simulator::{DesiredMachines, DesiredObject};
use stepgate::install::{CertificateMaker, Settings as InstallSettings, manifests};
use tests::servers::manifests::{apply, define, kind, kind_in, list};
use tests::servers::{ApiServer, ApiServerOptions, ClusterApi, Folder, Process, Programs, isolated};
use tests::waiting::until_within;

use super::in_place::bench::{PORT, extension};
use super::in_place::kubelets::{Kubelets, of, patch, upgraders, workload};
use super::machines::MACHINE;
use super::simulator::machines::MachineProvider;

const NAME: &str = "stays";
const SYSTEM: &str = "stepgate-system";
const OLD: &str = "v1.34.0";
const NEW: &str = "v1.35.0";
const NEWER: &str = "v1.35.1";
const KUBEADM_CONTROL_PLANE: (&str, &str) = ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane");
const HEALTH_CHECK: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "MachineHealthCheck");
const GROUP: (&str, &str) = ("inplace.stepgate.dev/v1alpha1", "ControlPlaneKubeadmUpgrade");
const NODE: (&str, &str) = ("inplace.stepgate.dev/v1alpha1", "NodeKubeadmUpgrade");

/// How long one thing may take that takes a minute or less on an idle machine.
const LIMIT: Duration = Duration::from_secs(480);

/// The longest time after which the controller is killed.
const LONGEST_LIFE: u64 = 9_000;

struct Bench {
    server: ApiServer,
    client: Client,
    _provider: MachineProvider,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Bench {
    async fn start(programs: &Programs, folder: &Folder, replicas: u32) -> anyhow::Result<Self> {
        let server = ApiServer::start(programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        define(&client, &in_place_definitions()).await?;
        let provider = MachineProvider::start(programs, &server).await?;
        let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        apply(&client, &[namespace(NAME), namespace(SYSTEM)]).await?;
        let machines = DesiredMachines {
            namespace: NAME.to_owned(),
            name: NAME.to_owned(),
            replicas,
            version: OLD.to_owned(),
            template: format!("{NAME}-1s"),
            bootstrap_template: None,
        };
        let mut objects = provider.manifest(NAME, &DesiredObject::ControlPlane { machines, kube_vip: None })?;
        for object in objects.iter_mut().filter(|object| kind(object) == KUBEADM_CONTROL_PLANE.1) {
            object["metadata"]["annotations"] = json!({STRATEGY: CONTROLLER});
        }
        objects.extend([
            upgraders(NAME, NEW),
            json!({"apiVersion": HEALTH_CHECK.0, "kind": HEALTH_CHECK.1, "metadata": {"name": "unhealthy", "namespace": NAME},
                "spec": {"clusterName": NAME, "selector": {"matchLabels": {"cluster.x-k8s.io/control-plane": ""}},
                    "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 3600}]}}}),
        ]);
        apply(&client, &objects).await?;
        let bench = Self { server, client, _provider: provider, tasks: Vec::new() };
        let is_up = async || {
            let known = bench.control_plane().await?;
            Ok((known.data.pointer("/status/availableReplicas") == Some(&json!(replicas))).then_some(()))
        };
        until_within("the control plane is up", LIMIT, is_up).await?;
        Ok(bench)
    }

    async fn control_plane(&self) -> anyhow::Result<DynamicObject> {
        Ok(kind_in(&self.client, KUBEADM_CONTROL_PLANE, NAME).await?.get(NAME).await?)
    }

    async fn workload(&self) -> anyhow::Result<Client> {
        workload(&self.client, NAME, NAME).await
    }

    /// Machines by name, with what identifies them.
    async fn machines(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let machines = list(&self.client, MACHINE, NAME).await?;
        machines.iter().map(|machine| Ok((machine.name_any(), machine.uid().context("no UID")?))).collect()
    }

    /// Works, and is killed at any moment, again and again.
    async fn run_controller(&mut self) -> anyhow::Result<()> {
        let kubeconfig = self.server.user("extension", "system:masters")?;
        let source = ConnectionSource::Kubeconfig { path: Some(kubeconfig), context: None };
        let settings = Settings { soak: SignedDuration::from_secs(2), ..Settings::default() };
        self.tasks.push(tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(7);
            loop {
                let Ok(connection) = Connection::open(&source).await else { continue };
                let controller = UpgradeController::new(connection, settings);
                let life = async {
                    loop {
                        match controller.turn(Timestamp::now()).await {
                            Ok(turns) => turns
                                .iter()
                                .filter_map(|turn| turn.error.as_ref())
                                .for_each(|error| println!("{error}")),
                            Err(error) => println!("{error}"),
                        }
                        tokio::time::sleep(Duration::from_millis(500)).await;
                    }
                };
                let _killed = tokio::time::timeout(Duration::from_millis(random.u64(200..LONGEST_LIFE)), life).await;
            }
        }));
        Ok(())
    }

    /// The version reaches the control plane, paused in the same write.
    async fn bump(&self) -> anyhow::Result<()> {
        self.change(json!({"version": NEW})).await
    }

    /// The same for anything that it wants of its machines.
    async fn change(&self, spec: Value) -> anyhow::Result<()> {
        let lease = Lease::new("a new version", Timestamp::now());
        let annotations = json!({PAUSED: paused_words(&lease), LEASE: serde_json::to_string(&lease)?});
        let changed = json!({"metadata": {"annotations": annotations}, "spec": spec});
        patch(&kind_in(&self.client, KUBEADM_CONTROL_PLANE, NAME).await?, NAME, &changed).await
    }

    /// A version is written as Flux writes it, with no word of a pause.
    async fn apply_version(&self, version: &str) -> anyhow::Result<DynamicObject> {
        self.apply_as(version, PatchParams::apply("kustomize-controller").force()).await
    }

    async fn apply_as(&self, version: &str, parameters: PatchParams) -> anyhow::Result<DynamicObject> {
        let object = json!({"apiVersion": KUBEADM_CONTROL_PLANE.0, "kind": KUBEADM_CONTROL_PLANE.1,
            "metadata": {"name": NAME, "namespace": NAME}, "spec": {"version": version}});
        let api = kind_in(&self.client, KUBEADM_CONTROL_PLANE, NAME).await?;
        Ok(api.patch(NAME, &parameters, &Patch::Apply(object)).await?)
    }

    /// Waits until the API server, which tells nobody that it has taken notice, asks the extension.
    async fn webhook_is_called(&self) -> anyhow::Result<()> {
        let parameters = PatchParams { dry_run: true, ..PatchParams::apply("kustomize-controller").force() };
        let is_called = async || {
            let written = self.apply_as(NEW, parameters.clone()).await?;
            Ok(written.annotations().contains_key(PAUSED).then_some(()))
        };
        until_within("the extension is asked", LIMIT, is_called).await
    }

    /// Waits until the control plane is its own again, with the same machines at the new version.
    async fn upgraded(&self, before: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let replicas = json!(before.len());
        let is_so = async || {
            ensure!(self.machines().await? == *before, "machines were replaced");
            let known = self.control_plane().await?;
            let at = |place: &str| known.data.pointer(place).cloned().unwrap_or_default();
            let is_paused = known.annotations().contains_key(PAUSED);
            let is_current = known.metadata.generation.map(|it| json!(it)) == Some(at("/status/observedGeneration"));
            let is_done = at("/status/version") == json!(NEW) && at("/status/upToDateReplicas") == replicas;
            let ready =
                list(&self.client, GROUP, NAME).await?.iter().any(|group| group.data["status"]["ready"] == true);
            Ok((!is_paused && is_current && is_done && at("/status/replicas") == replicas && ready).then_some(()))
        };
        until_within("the control plane finds nothing outdated", LIMIT, is_so).await?;
        for check in list(&self.client, HEALTH_CHECK, NAME).await? {
            ensure!(!check.annotations().contains_key(PAUSED), "{} stays paused", check.name_any());
        }
        let upgrades = list(&self.client, NODE, NAME).await?;
        ensure!(upgrades.len() == before.len(), "{upgrades:?}");
        for node in of(&self.workload().await?, "Node", None).list(&ListParams::default()).await? {
            assert_eq!(node.data["status"]["nodeInfo"]["kubeletVersion"], NEW);
        }
        Ok(())
    }
}

/// What is installed beside the extension: what it may do, and who has owners paused.
pub async fn start_extension(folder: &Path, server: &ApiServer, client: &Client) -> anyhow::Result<Process> {
    let text = manifests(&installation())?;
    let mut objects = Vec::new();
    for node in overlays::objects_of(text.as_bytes()) {
        objects.push(serde_json::from_str::<Value>(&yaml::json::to_json(&node))?);
    }
    objects.retain(|object| match kind(object) {
        "ClusterRole" | "ClusterRoleBinding" => object["metadata"]["name"] == "stepgate-extension",
        "MutatingWebhookConfiguration" => true,
        _ => false,
    });
    ensure!(objects.len() == 3, "{objects:?}");
    for object in &mut objects {
        match kind(object) {
            "ClusterRoleBinding" => {
                object["subjects"] =
                    json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "extension"}]);
            }
            "MutatingWebhookConfiguration" => {
                let path = object["webhooks"][0]["clientConfig"]["service"]["path"].as_str().unwrap_or_default();
                object["webhooks"][0]["clientConfig"] = json!({"url": format!("https://127.0.0.1:{PORT}{path}"),
                    "caBundle": STANDARD.encode(server.authority().certificate())});
            }
            _ => {}
        }
    }
    let (last, others) = objects.split_last().context("nothing is installed")?;
    apply(client, others).await?;
    let extension = extension(folder, server, &server.user("extension", "extensions")?).await?;
    apply(client, std::slice::from_ref(last)).await?;
    Ok(extension)
}

/// What is installed for the extension.
fn installation() -> InstallSettings {
    let text = str::to_owned;
    InstallSettings {
        namespace: text(SYSTEM),
        image: text("registry.example.com/stepgate:v1"),
        repository: text("ssh://git@git.example.com/fleet.git"),
        source_branch: text("main"),
        helm_image: text("registry.example.com/helm:v4"),
        management_cluster: None,
        pull_secrets: Vec::new(),
        guard: None,
        in_place: Some(CertificateMaker::Stepgate),
        runbooks: None,
    }
}

fn needed() -> Vec<&'static str> {
    ["etcd", "kube-apiserver", "kube-controller-manager"].into_iter().chain(ClusterApi::NEEDED).collect()
}

#[test]
fn a_single_control_plane_keeps_its_machine() {
    let name = "in_place_controller::a_single_control_plane_keeps_its_machine";
    isolated(name, &needed(), async |programs| {
        let folder = Folder::new()?;
        let bench = Bench::start(&programs, &folder, 1).await?;
        let before = bench.machines().await?;
        let kubelets = Kubelets::start(bench.workload().await?, OLD);
        let mut extension = start_extension(folder.path(), &bench.server, &bench.client).await?;
        bench.webhook_is_called().await?;
        let written = bench.apply_version(NEW).await?;
        ensure!(written.annotations().contains_key(PAUSED), "read unpaused, its machine would be replaced");
        let begun = async || Ok(list(&bench.client, NODE, NAME).await?.into_iter().next());
        until_within("a node is begun", LIMIT, begun).await?;
        extension.kill()?;
        let refused = bench.apply_version("v1.35.9").await.err().context("written with nobody to pause it")?;
        ensure!(format!("{refused:#}").contains("pause-owners.inplace.stepgate.dev"), "{refused:#}");
        extension.restart()?;
        bench.upgraded(&before).await.with_context(|| extension.last_lines())?;
        assert_eq!(kubelets.upgraded()?.len(), 1, "once");
        let again = bench.apply_version(NEW).await?;
        ensure!(!again.annotations().contains_key(PAUSED), "paused for nothing");
        folder.done();
        Ok(())
    });
}

#[test]
fn a_failing_node_stops_its_control_plane_until_it_is_repaired() {
    let name = "in_place_controller::a_failing_node_stops_its_control_plane_until_it_is_repaired";
    isolated(name, &needed(), async |programs| {
        let folder = Folder::new()?;
        let mut bench = Bench::start(&programs, &folder, 3).await?;
        let before = bench.machines().await?;
        let kubelets = Kubelets::start(bench.workload().await?, OLD);
        let nodes = of(&bench.workload().await?, "Node", None).list(&ListParams::default()).await?;
        kubelets.fail_on(nodes.iter().map(kube::ResourceExt::name_any))?;
        bench.run_controller().await?;
        bench.bump().await?;
        let failed = async || {
            ensure!(bench.machines().await? == before, "machines were replaced");
            let groups = list(&bench.client, GROUP, NAME).await?;
            let told = groups.iter().find_map(|group| group.data["status"]["message"].as_str().map(str::to_owned));
            Ok(told.filter(|told| told.contains("the node is as it was before")))
        };
        let told = until_within("the control plane stops", LIMIT, failed).await?;
        ensure!(told.contains("the disk is full") && told.contains("containerd"), "{told}");
        let upgrades = list(&bench.client, NODE, NAME).await?;
        ensure!(upgrades.len() == 1, "another node was begun: {upgrades:?}");
        kubelets.fail_on([])?;
        let retry = json!({"metadata": {"annotations": {RETRY: "1"}}});
        patch(&kind_in(&bench.client, NODE, NAME).await?, &upgrades[0].name_any(), &retry).await?;
        bench.upgraded(&before).await?;
        assert_eq!(kubelets.upgraded()?.len(), before.len(), "each once");
        folder.done();
        Ok(())
    });
}

#[test]
fn a_new_target_waits_for_the_node_that_is_under_way() {
    let name = "in_place_controller::a_new_target_waits_for_the_node_that_is_under_way";
    isolated(name, &needed(), async |programs| {
        let folder = Folder::new()?;
        let mut bench = Bench::start(&programs, &folder, 1).await?;
        let before = bench.machines().await?;
        let mut images = upgraders(NAME, NEWER);
        images["data"][NEW] = images["data"][NEWER].clone();
        apply(&bench.client, &[images]).await?;
        let kubelets = Kubelets::start(bench.workload().await?, OLD);
        bench.run_controller().await?;

        // What no step of the node upgrader brings about is not told of the machine either.
        let files = json!([{"path": "/etc/motd", "owner": "root:root", "permissions": "0644", "content": "new"}]);
        bench.change(json!({"version": NEW, "kubeadmConfigSpec": {"files": files}})).await?;
        let declined = async || {
            let groups = list(&bench.client, GROUP, NAME).await?;
            let told = groups.iter().find_map(|group| group.data["status"]["message"].as_str().map(str::to_owned));
            Ok(told.filter(|told| told.contains("not changed in place")))
        };
        let told = until_within("the files are named", LIMIT, declined).await?;
        ensure!(told.contains("files") && told.contains("nothing was begun"), "{told}");
        ensure!(list(&bench.client, NODE, NAME).await?.is_empty(), "a node was begun");

        bench.change(json!({"version": NEW, "kubeadmConfigSpec": {"files": null}})).await?;
        let under_way = async || {
            let upgrades = list(&bench.client, NODE, NAME).await?;
            let is_it = |upgrade: &DynamicObject| {
                ["Running", "Proving"].contains(&upgrade.data["status"]["phase"].as_str().unwrap_or_default())
            };
            Ok(upgrades.iter().any(is_it).then_some(()))
        };
        until_within("the node is under way", LIMIT, under_way).await?;
        let is_paused = async || {
            let checks = list(&bench.client, HEALTH_CHECK, NAME).await?;
            Ok::<_, anyhow::Error>(checks.iter().all(|check| check.annotations().contains_key(PAUSED)))
        };
        ensure!(is_paused().await?, "a MachineHealthCheck looks at a node that is under way");
        bench.change(json!({"version": NEWER})).await?;
        let is_over = async || {
            ensure!(bench.machines().await? == before, "machines were replaced");
            let known = bench.control_plane().await?;
            let is_done = known.data.pointer("/status/version") == Some(&json!(NEWER));
            let groups = list(&bench.client, GROUP, NAME).await?;
            let is_ready = groups
                .iter()
                .all(|group| group.data["spec"]["kubernetesVersion"] == NEWER && group.data["status"]["ready"] == true);
            Ok((is_done && is_ready && !known.annotations().contains_key(PAUSED)).then_some(()))
        };
        until_within("the control plane is at the newer version", LIMIT, is_over).await?;
        ensure!(!is_paused().await?, "the MachineHealthCheck stays paused");
        assert_eq!(kubelets.upgraded()?.len(), 2, "to the first target, then to the second");
        folder.done();
        Ok(())
    });
}
