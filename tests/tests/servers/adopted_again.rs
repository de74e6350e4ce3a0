//! Cluster API loses a running cluster, gets it back, and goes on with the machines that there are.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster, read_backup};
use cluster::{BackupRequest, Cluster as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use tests::servers::manifests::{kind_in, list};
use tests::servers::{Registry, isolated};

use super::machines::{self, CLUSTER, CLUSTER_KIND, FILE, MACHINE, NAMESPACE, is_true};
use super::scene::{POLICY, Scene};

const CONTROL_PLANE: (&str, &str) = ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane");
const OLD: &str = "v1.34.0";

/// How long nothing may happen that nobody asked for.
const QUIET: Duration = Duration::from_secs(25);

/// The machines of a cluster as Cluster API sees them, and as they are: provider id by name, UID of each node by name.
#[derive(Debug, PartialEq, Eq)]
struct Machines {
    known: BTreeMap<String, String>,
    nodes: BTreeMap<String, String>,
}

impl Machines {
    async fn read(client: &Client) -> anyhow::Result<Self> {
        let text =
            |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let machines = list(client, MACHINE, NAMESPACE).await?;
        let known = machines.iter().map(|machine| (machine.name_any(), text(&machine.data, "/spec/providerID")));
        let nodes: Api<Node> = Api::all(inside(client).await?);
        let nodes = nodes.list(&ListParams::default()).await?;
        let nodes = nodes.iter().map(|node| (node.name_any(), node.uid().unwrap_or_default()));
        Ok(Self { known: known.collect(), nodes: nodes.collect() })
    }
}

/// A client of the cluster itself.
async fn inside(client: &Client) -> anyhow::Result<Client> {
    let secret = kind_in(client, ("v1", "Secret"), NAMESPACE).await?.get(&format!("{CLUSTER}-kubeconfig")).await?;
    let value = secret.data.pointer("/data/value").and_then(Value::as_str).context("no kubeconfig")?;
    let kubeconfig = Kubeconfig::from_yaml(&String::from_utf8(STANDARD.decode(value)?)?)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn back_up(scene: &Scene) -> anyhow::Result<PathBuf> {
    let source = ConnectionSource::Kubeconfig { path: Some(scene.server.kubeconfig()), context: None };
    let connection = Connection::open(&source).await?;
    let cluster = KubernetesCluster::workload(connection, NAMESPACE, CLUSTER, scene.file("backups").join(CLUSTER));
    let request = BackupRequest { rollout: "0123456789ab".parse()?, at: Timestamp::now(), keep: 5, keep_for: None };
    Ok(PathBuf::from(cluster.back_up(&request).await?.location))
}

/// Takes every saved object away without anybody cleaning up after it: paused, and its finalizers taken off.
async fn lose(scene: &Scene, saved: &[Value]) -> anyhow::Result<()> {
    let clusters = kind_in(&scene.client, CLUSTER_KIND, NAMESPACE).await?;
    let pause = Patch::Merge(json!({"spec": {"paused": true}}));
    clusters.patch(CLUSTER, &PatchParams::default(), &pause).await?;
    scene
        .until("the cluster is paused", || async {
            for kind in [CLUSTER_KIND, CONTROL_PLANE, MACHINE] {
                let objects = list(&scene.client, kind, NAMESPACE).await?;
                if !objects.iter().all(|object| is_true(object, "Paused")) {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await?;
    let ours = |object: &&Value| object["metadata"]["namespace"] == NAMESPACE;
    scene
        .until("everything is gone", || async {
            let mut left = 0;
            for object in saved.iter().filter(ours) {
                let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
                let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
                let name = text(&object["metadata"]["name"]);
                let api = kind_in(&scene.client, (&api_version, &kind), NAMESPACE).await?;
                let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                match api.patch(&name, &PatchParams::default(), &bare).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => continue,
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    patched => drop(patched?),
                }
                left += 1;
                let _ = api.delete(&name, &DeleteParams::default()).await;
            }
            Ok((left == 0).then_some(()))
        })
        .await
}

fn restored(scene: &Scene, arguments: &[&str]) -> anyhow::Result<(String, i32)> {
    let arguments = [&["restore", CLUSTER, "--as", "Ops <ops@example.com>"], arguments].concat();
    let output = scene.stepgate(&arguments).output()?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok((said, output.status.code().unwrap_or(-1)))
}

#[test]
fn a_cluster_that_was_lost_goes_on_with_the_machines_it_has() {
    let name = "adopted_again::a_cluster_that_was_lost_goes_on_with_the_machines_it_has";
    let needed: Vec<&str> = machines::needed().into_iter().chain(["registry"]).collect();
    isolated(name, &needed, async |programs| {
        let mut scene = Scene::start(&programs).await?;
        let _cluster_api = machines::create(&scene, &programs, OLD, POLICY).await?;
        let backup = back_up(&scene).await?;
        let saved = read_backup(&backup, &[])?.objects;
        let before = Machines::read(&scene.client).await?;
        ensure!(before.known.len() == 6 && before.nodes.len() == 6, "{before:?}");
        let (said, code) = restored(&scene, &[])?;
        ensure!(code == 0 && said.contains("nothing is to be restored"), "{said}");

        lose(&scene, &saved).await?;
        ensure!(list(&scene.client, MACHINE, NAMESPACE).await?.is_empty());
        let (said, code) = restored(&scene, &[])?;
        ensure!(code == 0 && said.contains("missing  Cluster fleet/machines"), "{said}");
        let (said, code) = restored(&scene, &["--yes"])?;
        ensure!(code == 0 && said.contains("on they go: Cluster fleet/machines"), "{said}");

        // Adopted: everything is up with the nodes that there were, and stays so.
        scene
            .until("the cluster is up again", || async {
                let clusters = list(&scene.client, CLUSTER_KIND, NAMESPACE).await?;
                let ready = clusters.iter().any(|cluster| {
                    let count = |part: &str| cluster.data.pointer(&format!("/status/{part}/upToDateReplicas")).cloned();
                    is_true(cluster, "Available")
                        && count("controlPlane") == Some(json!(3))
                        && count("workers") == Some(json!(3))
                });
                Ok(ready.then_some(()))
            })
            .await?;
        let restored_at = Instant::now();
        scene
            .until("some time has passed", || async {
                assert_eq!(Machines::read(&scene.client).await?, before);
                Ok((restored_at.elapsed() > QUIET).then_some(()))
            })
            .await?;
        let control_planes = list(&scene.client, CONTROL_PLANE, NAMESPACE).await?;
        ensure!(!control_planes.iter().any(|object| is_true(object, "RollingOut")), "{control_planes:?}");
        let (said, code) = restored(&scene, &[])?;
        ensure!(code == 0 && said.contains("nothing is to be restored"), "{said}");

        // A rollout saves it as well, to the folder and to a registry, for the operator alone to open.
        let registry = Registry::start(&programs, &scene.file("registry"))?;
        let key = Identity::generate();
        std::fs::write(scene.file("backup.key"), key.to_string().expose_secret())?;
        let folder = format!("oci://{}/ops/backups", registry.address());
        scene.environment.extend([
            ("STEPGATE_BACKUP_REGISTRY", OsString::from(&folder)),
            ("STEPGATE_BACKUP_RECIPIENTS", key.to_public().to_string().into()),
            ("STEPGATE_PRIVATE_HOSTS", "127.0.0.1".into()),
            ("SSL_CERT_FILE", registry.authority().into()),
        ]);
        let controller = scene.controller()?;
        scene.repository.push("Kubernetes 1.35", &[(FILE, &machines::cluster("v1.35.0"))])?;
        scene.stage_is(CLUSTER, "control-plane").await?;
        // What was saved is older than what is there once Flux has applied the stage, as the controller asks it to.
        scene
            .until("the stage is applied", || async {
                let planes = list(&scene.client, CONTROL_PLANE, NAMESPACE).await?;
                let is_new = |plane: &DynamicObject| plane.data.pointer("/spec/version") == Some(&json!("v1.35.0"));
                Ok(planes.iter().any(is_new).then_some(()))
            })
            .await?;
        drop(controller);
        let names = std::fs::read_dir(scene.file("backups").join(CLUSTER))?;
        let names: Vec<String> =
            names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<anyhow::Result<_>>()?;
        let rollout = names
            .iter()
            .find(|name| !["0123456789ab", "dumps"].contains(&name.as_str()))
            .context("no backup was taken")?;
        let (pushed, key) = (format!("{folder}/{CLUSTER}:{rollout}"), scene.file("backup.key").display().to_string());

        // Two do not write the same objects: while a rollout is under way, somebody has to hold it.
        let (said, code) = restored(&scene, &["--from", "0123456789ab", "--yes"])?;
        ensure!(code == 2 && said.contains("is under way, and nobody holds it"), "{said}");
        ensure!(said.contains("stepgate hold machines"), "{said}");
        let hold = ["hold", CLUSTER, "--reason", "restoring", "--as", "Ops <ops@example.com>", "--yes"];
        ensure!(scene.stepgate(&hold).status()?.success(), "stepgate hold");
        for from in [rollout, &pushed] {
            let (said, code) = restored(&scene, &["--from", from, "--identity", &key])?;
            ensure!(code == 3 && said.contains("newer") && said.contains(&format!("{from}, saved")), "{said}");
            let (said, code) = restored(&scene, &["--from", from])?;
            ensure!(code == 2 && said.contains("no identity was given"), "{said}");
        }
        let (said, code) = restored(&scene, &["--from", &format!("{folder}/{CLUSTER}:0123456789ab")])?;
        ensure!(code == 2 && said.contains("is not there"), "{said}");
        let (said, code) = restored(&scene, &["--from", &format!("{pushed}@sha256:{}", "0".repeat(64))])?;
        ensure!(code == 2 && said.contains("is not there"), "{said}");
        scene.folder.done();
        Ok(())
    });
}
