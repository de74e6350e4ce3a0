//! The kubelets of nodes in memory: they run the containers of upgraders' Pods, and nodes tell what they run.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use in_place::objects::UPGRADERS;
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use tests::servers::manifests::{kind_in, list};
use tokio::task::JoinHandle;

use crate::machines::MACHINE;

/// Where upgraders' Pods are.
const PODS: &str = "stepgate-nodes";

/// Between two looks at Pods.
const PAUSE: Duration = Duration::from_millis(300);

/// Kubelets that run until they are dropped.
pub struct Kubelets {
    task: JoinHandle<()>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Nodes whose second step fails.
    broken: BTreeSet<String>,
    /// Upgrades that came to their end, one entry for each Pod.
    upgraded: Vec<String>,
}

/// What a node begins with that does not say what it runs.
enum Begin {
    At(&'static str),
    AsMachines { management: Client, namespace: &'static str },
}

impl Begin {
    /// Its version; none as long as no Machine says that the node is its own.
    async fn version_of(&self, node: &str) -> anyhow::Result<Option<String>> {
        match self {
            Self::At(version) => Ok(Some((*version).to_owned())),
            Self::AsMachines { management, namespace } => {
                let machines = list(management, MACHINE, namespace).await?;
                let text = |machine: &DynamicObject, path: &str| {
                    machine.data.pointer(path).and_then(Value::as_str).map(str::to_owned)
                };
                let own =
                    machines.iter().find(|machine| text(machine, "/status/nodeRef/name").as_deref() == Some(node));
                Ok(own.and_then(|machine| text(machine, "/spec/version")))
            }
        }
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Kubelets {
    /// Those of a cluster's own server, whose nodes say nothing of what they run, or this.
    pub fn start(client: Client, begins_at: &'static str) -> Self {
        Self::run(client, Begin::At(begins_at))
    }

    /// The same for nodes that say nothing, or what the Machine of each says in this namespace of its management cluster.
    pub fn start_as_machines(client: Client, management: Client, namespace: &'static str) -> Self {
        Self::run(client, Begin::AsMachines { management, namespace })
    }

    fn run(client: Client, begin: Begin) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let known = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                // What is refused now is done the next time.
                let _again = run(&client, &begin, &known).await;
                // These are kubelets: they look again at their own pace.
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { task, state }
    }

    /// From now on, the second step fails on these nodes and on no other.
    pub fn fail_on(&self, nodes: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
        self.state.lock().map_err(|_| anyhow::anyhow!("a kubelet has failed"))?.broken = nodes.into_iter().collect();
        Ok(())
    }

    /// The nodes that were upgraded, once for each time.
    pub fn upgraded(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.state.lock().map_err(|_| anyhow::anyhow!("a kubelet has failed"))?.upgraded.clone())
    }
}

/// The upgrader's image of one version, as the controller finds it.
pub fn upgraders(namespace: &str, version: &str) -> Value {
    let image = format!("registry.test/upgrader@sha256:{}", "0".repeat(64));
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": UPGRADERS, "namespace": namespace},
        "data": {version: image}})
}

/// A client of a cluster's own server, by the kubeconfig that Cluster API keeps in its namespace.
pub async fn workload(management: &Client, namespace: &str, name: &str) -> anyhow::Result<Client> {
    let secret = kind_in(management, ("v1", "Secret"), namespace).await?.get(&format!("{name}-kubeconfig")).await?;
    let value = secret.data.pointer("/data/value").and_then(Value::as_str).context("no kubeconfig")?;
    let kubeconfig = Kubeconfig::from_yaml(&String::from_utf8(STANDARD.decode(value)?)?)?;
    Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
}

/// A kind of the cluster's own server, which does not tell its kinds as a whole server does.
pub fn of(client: &Client, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

pub async fn patch(api: &Api<DynamicObject>, name: &str, changed: &Value) -> anyhow::Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(changed)).await?;
    Ok(())
}

async fn run(client: &Client, begin: &Begin, state: &Mutex<State>) -> anyhow::Result<()> {
    let nodes = of(client, "Node", None);
    for node in nodes.list(&ListParams::default()).await? {
        if node.data.pointer("/status/nodeInfo/osImage").and_then(Value::as_str).unwrap_or_default().is_empty() {
            let known = node.data.pointer("/status/nodeInfo/kubeletVersion").and_then(Value::as_str);
            let known = known.filter(|known| !known.is_empty()).map(str::to_owned);
            let Some(version) = (match known {
                Some(known) => Some(known),
                None => begin.version_of(&node.name_any()).await?,
            }) else {
                continue;
            };
            let info = json!({"kubeletVersion": version, "operatingSystem": "linux", "architecture": "amd64",
                "osImage": "Debian GNU/Linux 12"});
            patch(&nodes, &node.name_any(), &json!({"status": {"nodeInfo": info}})).await?;
        }
    }
    let pods = of(client, "Pod", Some(PODS));
    for pod in pods.list(&ListParams::default()).await? {
        let phase = pod.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
        if !["Succeeded", "Failed"].contains(&phase) {
            run_pod(client, &pods, &pod, state).await?;
        }
    }
    Ok(())
}

/// The containers of a Pod end: well, or at the second step where the node is broken.
async fn run_pod(
    client: &Client,
    pods: &Api<DynamicObject>,
    pod: &DynamicObject,
    state: &Mutex<State>,
) -> anyhow::Result<()> {
    let node = pod.data["spec"]["nodeName"].as_str().context("no node")?.to_owned();
    let steps = pod.data["spec"]["initContainers"].as_array().cloned().unwrap_or_default();
    let ended = |code: i32| {
        let at = format!("{:.0}", Timestamp::now());
        json!({"terminated": {"exitCode": code, "startedAt": at, "finishedAt": at, "message": "the disk is full"}})
    };
    let is_broken = state.lock().is_ok_and(|state| state.broken.contains(&node));
    let fails = is_broken && !steps.is_empty();
    let status = |(index, step): (usize, &Value)| {
        let state = match index {
            1 if fails => ended(4),
            _ if fails && index > 1 => json!({"waiting": {"reason": "PodInitializing"}}),
            _ => ended(0),
        };
        json!({"name": step["name"], "restartCount": 0, "state": state})
    };
    let statuses: Vec<Value> = steps.iter().enumerate().map(status).collect();
    if !fails && !steps.is_empty() {
        let target = &pod.annotations()["inplace.stepgate.dev/target"];
        let info = json!({"status": {"nodeInfo": {"kubeletVersion": target}}});
        patch(&of(client, "Node", None), &node, &info).await?;
    }
    let last = json!([{"name": pod.data["spec"]["containers"][0]["name"], "restartCount": 0, "state": ended(0)}]);
    let phase = if fails { "Pending" } else { "Succeeded" };
    let last = if fails { json!([]) } else { last };
    let changed = json!({"status": {"phase": phase, "initContainerStatuses": statuses, "containerStatuses": last}});
    patch(pods, &pod.name_any(), &changed).await?;
    if let (false, true, Ok(mut state)) = (fails, !steps.is_empty(), state.lock()) {
        state.upgraded.push(node);
    }
    Ok(())
}
