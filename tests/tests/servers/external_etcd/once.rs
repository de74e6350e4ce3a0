//! Bumps of etcd and Kubernetes together, from git to machines: real members, Cluster API's own
//! control plane, and Flux.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use simulator::{DesiredMachines, DesiredObject};
use tests::servers::manifests::{apply, define, kind, kind_in, list};
use tests::servers::{Programs, isolated};
use tests::waiting::{LONG_PATIENCE, until, until_within};
use tokio::task::JoinHandle;

use super::bench::{BROKEN, Bench, CLUSTER, CONTROL_PLANE, ETCD, ETCDADM, NAMESPACE, definitions};
use crate::ending::assert_committed_once;
use crate::machines::{self, CLUSTER_KIND, MACHINE};
use crate::scene::{POLICY, Scene};
use crate::simulator::machines::MachineProvider;

const FILE: &str = "clusters/shop/cluster.yaml";

/// The commits of the deploy branch: recorded, a stage that is taken back, the same stage with
/// members that come up, and so on.
const STAGES: [&str; 6] = ["verify", "etcd", "etcd", "etcd", "control-plane", "verify"];
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// What the marks of the step of etcd begin with.
const MARKS: [&str; 2] = [PAUSED, "etcdcluster.cluster.x-k8s.io/"];

pub const OLD: (&str, &str) = ("v1.34.0", "etcd-1");
pub const NEW: (&str, &str) = ("v1.35.0", "etcd-2");
const FAILING: (&str, &str) = ("v1.35.0", BROKEN);

/// Time enough for a member that comes up.
pub const UNDONE: &str = "stages: {etcd: {timeout: 25s, onFailure: revert}}\n";

/// The objects of the cluster at a version of Kubernetes and a template of members.
pub fn objects(provider: &MachineProvider, (version, template): (&str, &str)) -> anyhow::Result<Vec<Value>> {
    let machines = DesiredMachines {
        namespace: NAMESPACE.to_owned(),
        name: CLUSTER.to_owned(),
        replicas: 1,
        version: version.to_owned(),
        template: format!("{CLUSTER}-1s"),
        bootstrap_template: None,
    };
    let mut objects = provider.manifest(CLUSTER, &DesiredObject::ControlPlane { machines, kube_vip: None })?;
    for object in objects.iter_mut().filter(|object| kind(object) == "Cluster") {
        object["metadata"]["annotations"] = json!({"stepgate.dev/management-cluster": "management"});
    }
    with_external_etcd(&mut objects, template);
    Ok(objects)
}

/// Gives the objects of a cluster an external etcd, whose members are made of this template.
pub fn with_external_etcd(objects: &mut Vec<Value>, template: &str) {
    for object in objects.iter_mut() {
        match kind(object) {
            "Cluster" => {
                object["spec"]["managedExternalEtcdRef"] =
                    json!({"apiVersion": ETCDADM.0, "kind": ETCDADM.1, "name": ETCD});
            }
            "KubeadmControlPlane" => {
                let file = |name: &str| format!("/etc/kubernetes/pki/{name}");
                object["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"] = json!({"external": {
                    "endpoints": ["https://etcd.example.com:2379"], "caFile": file("etcd/ca.crt"),
                    "certFile": file("apiserver-etcd-client.crt"), "keyFile": file("apiserver-etcd-client.key")}});
            }
            _ => {}
        }
    }
    let infrastructure = "infrastructure.cluster.x-k8s.io/v1beta1";
    let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER});
    objects.extend([
        json!({"apiVersion": infrastructure, "kind": "TestMachineTemplate",
            "metadata": {"name": template, "namespace": NAMESPACE}, "spec": {"template": {"spec": {}}}}),
        json!({"apiVersion": ETCDADM.0, "kind": ETCDADM.1, "metadata": {"name": ETCD, "namespace": NAMESPACE, "labels": labels},
            "spec": {"replicas": 3, "etcdadmConfigSpec": {"cloudInitConfig": {"version": "3.7.1"}},
                "infrastructureTemplate": {"apiVersion": infrastructure, "kind": "TestMachineTemplate", "name": template}}}),
    ]);
}

fn text(objects: &[Value]) -> String {
    objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")
}

/// Cluster API's definition lets a Cluster refer to an external etcd, as that of EKS Anywhere does.
async fn let_clusters_refer_to_etcd(client: &Client) -> anyhow::Result<()> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let name = "clusters.cluster.x-k8s.io";
    let mut versions = serde_json::to_value(definitions.get(name).await?.spec.versions)?;
    for version in versions.as_array_mut().context("no versions")? {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["managedExternalEtcdRef"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
    definitions.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The kinds of an external etcd, beside those of Cluster API.
pub async fn serve_external_etcd(client: &Client) -> anyhow::Result<()> {
    let kinds = definitions()?;
    let own = kinds.into_iter().filter(|definition| {
        let name = definition["metadata"]["name"].as_str();
        !["clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io"].map(Some).contains(&name)
    });
    define(client, &own.collect::<Vec<_>>()).await?;
    let_clusters_refer_to_etcd(client).await
}

/// Machines in memory sign a member's certificate with the key of etcd's authority, wherever etcd is:
/// they are given that of the cluster's own, beside the one that members are signed by.
pub async fn let_machines_in_memory_sign(client: &Client) -> anyhow::Result<()> {
    let secrets = kind_in(client, ("v1", "Secret"), NAMESPACE).await?;
    let name = |purpose: &str| format!("{CLUSTER}-{purpose}");
    let own = until("the cluster has an authority", async || Ok(secrets.get_opt(&name("ca")).await?)).await?;
    let known = secrets.get(&name("etcd")).await?;
    let certificate = |secret: &DynamicObject| {
        let text = secret.data["data"]["tls.crt"].as_str().context("no certificate")?;
        anyhow::Ok(STANDARD.decode(text)?)
    };
    let both = STANDARD.encode([certificate(&own)?, certificate(&known)?].concat());
    let patch = json!({"data": {"tls.crt": both, "tls.key": own.data["data"]["tls.key"]}});
    secrets.patch(&name("etcd"), &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// A cluster with members that are well and a control plane that is up, as [`OLD`] has it. Nothing
/// is in git yet.
pub struct Stand {
    pub scene: Scene,
    pub provider: MachineProvider,
    pub bench: Bench,
}

impl Stand {
    pub async fn start(programs: Programs) -> anyhow::Result<Self> {
        let scene = Scene::start(&programs).await?;
        let provider = MachineProvider::start(&programs, &scene.server).await?;
        serve_external_etcd(&scene.client).await?;
        apply(&scene.client, &[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})])
            .await?;
        let mut bench = Bench::beside(programs, &scene.file("etcd"), &scene.server).await?;
        apply(&scene.client, &objects(&provider, OLD)?).await?;
        let cluster = kind_in(&scene.client, CLUSTER_KIND, NAMESPACE).await?.get(CLUSTER).await?;
        ensure!(cluster.data.pointer("/spec/managedExternalEtcdRef/name") == Some(&json!(ETCD)), "{cluster:?}");
        bench.first().await?;
        let_machines_in_memory_sign(&scene.client).await?;
        let control_plane = kind_in(&scene.client, CONTROL_PLANE, NAMESPACE).await?;
        let is_up = async || {
            let known = control_plane.get(CLUSTER).await?;
            Ok((known.data.pointer("/status/availableReplicas") == Some(&json!(1))).then_some(()))
        };
        until_within("the control plane is up", LONG_PATIENCE, is_up).await?;
        Ok(Self { scene, provider, bench })
    }
}

/// The machines that there ever were, by UID.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub etcd: BTreeSet<String>,
    pub control_plane: BTreeSet<String>,
    /// Machines of the control plane while that was paused.
    pub while_paused: BTreeSet<String>,
    /// How many machines of etcd there had been when the control plane began to roll.
    pub etcd_before: Option<usize>,
}

pub struct Rolls {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Rolls {
    pub fn follow(client: &Client) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (client, told) = (client.clone(), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            loop {
                // What could not be read is looked at the next time.
                let _ = look(&client, &told).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        Self { seen, task }
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Rolls {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(client: &Client, seen: &Mutex<Seen>) -> anyhow::Result<()> {
    let control_plane = kind_in(client, CONTROL_PLANE, NAMESPACE).await?.get(CLUSTER).await?;
    let machines = list(client, MACHINE, NAMESPACE).await?;
    let (etcd, own): (Vec<_>, Vec<_>) =
        machines.iter().partition(|machine| machine.labels().contains_key("cluster.x-k8s.io/etcd-cluster"));
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.etcd.extend(etcd.iter().filter_map(|machine| machine.uid()));
    seen.control_plane.extend(own.iter().filter_map(|machine| machine.uid()));
    if control_plane.annotations().contains_key(PAUSED) {
        seen.while_paused.extend(own.iter().filter_map(|machine| machine.uid()));
    }
    if seen.control_plane.len() > 1 {
        let etcd = seen.etcd.len();
        seen.etcd_before.get_or_insert(etcd);
    }
    Ok(())
}

#[test]
fn a_first_member_is_undone_and_the_next_bump_rolls_everything_once() {
    let name = "external_etcd::once::a_first_member_is_undone_and_the_next_bump_rolls_everything_once";
    isolated(name, &machines::needed(), async |programs| {
        let Stand { scene, provider, mut bench } = Stand::start(programs).await?;
        let policy = format!("{POLICY}{UNDONE}");
        scene
            .repository
            .push("Describe the fleet", &[("stepgate.yaml", &policy), (FILE, &text(&objects(&provider, OLD)?))])?;
        scene.adopt()?;
        scene.connect_flux().await?;

        let rolls = Rolls::follow(&scene.client);
        let _controller = scene.controller()?;
        let carried = async {
            let push = |what: &str, state| {
                let file = text(&objects(&provider, state)?);
                scene.repository.push(what, &[(FILE, file.as_str())])
            };
            push("Kubernetes 1.35 and its etcd", FAILING)?;
            scene.stages_are(CLUSTER, &STAGES[..3]).await?;
            scene.why_says(CLUSTER, &["was committed once and reverted"]).await?;
            let undone = rolls.seen();
            ensure!(undone.etcd.len() == 4 && undone.control_plane.len() == 1, "{undone:?}");
            scene.repository.push("Take more time", &[("stepgate.yaml", POLICY)])?;
            push("Kubernetes 1.35 and etcd that comes up", NEW)?;
            scene.stages_are(CLUSTER, &STAGES).await
        };
        tokio::select! {
            failed = bench.follow(NEW.0) => bail!("etcd's controller ended: {failed:?}"),
            carried = carried => carried?,
        }
        assert_committed_once(&scene, &STAGES, 0)?;
        let seen = rolls.seen();
        assert_eq!((seen.etcd.len(), seen.control_plane.len()), (7, 2), "{seen:?}");
        assert_eq!((seen.while_paused.len(), seen.etcd_before), (1, Some(7)), "{seen:?}");
        for (kind, name) in [(CONTROL_PLANE, CLUSTER), (ETCDADM, ETCD)] {
            let object = kind_in(&scene.client, kind, NAMESPACE).await?.get(name).await?;
            let left = object.annotations().keys().find(|key| MARKS.iter().any(|mark| key.starts_with(mark)));
            ensure!(left.is_none(), "{} {name}: {left:?}", kind.1);
        }
        scene.assert_nothing_is_left()?;
        scene.folder.done();
        Ok(())
    });
}
