//! A small fake kubelet and scheduler: Pods run and are ready as soon as they are seen. What else of a cluster is not real here is in
//! [`crate::servers::FakeWebhooks`] and [`crate::servers::kubernetes::settled`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Time between two signs of life.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Why a container does not run, in the words of a kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Its image cannot be pulled.
    ImagePullBackOff,
    /// Its image takes long to be pulled.
    ContainerCreating,
    /// It ends again and again.
    CrashLoopBackOff,
}

impl Trouble {
    fn reason(self) -> &'static str {
        match self {
            Self::ImagePullBackOff => "ImagePullBackOff",
            Self::ContainerCreating => "ContainerCreating",
            Self::CrashLoopBackOff => "CrashLoopBackOff",
        }
    }
}

/// Images whose containers do not run, and why.
type Troubles = Mutex<BTreeMap<String, Trouble>>;

/// Nodes without machines; ends when dropped.
pub struct FakeKubelet {
    client: Client,
    troubles: Arc<Troubles>,
    tasks: [JoinHandle<()>; 2],
}

impl FakeKubelet {
    /// Registers Nodes of these names, running a kubelet of `version`, and starts to run the Pods of the cluster on them.
    ///
    /// # Errors
    /// When a Node cannot be registered.
    pub async fn start(client: &Client, nodes: &[&str], version: &str) -> anyhow::Result<Self> {
        for name in nodes {
            register(client, name, version).await.with_context(|| format!("could not register Node {name}"))?;
        }
        let troubles: Arc<Troubles> = Arc::default();
        let (kept, client, seen) = (client.clone(), client.clone(), Arc::clone(&troubles));
        let first = nodes.first().copied().unwrap_or("node").to_owned();
        let names: Vec<String> = nodes.iter().map(|name| (*name).to_owned()).collect();
        let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
        let heart = tokio::spawn(async move {
            loop {
                for name in &names {
                    // The next beat comes in time.
                    let _ = beat(&leases, name).await;
                }
                tokio::time::sleep(HEARTBEAT).await;
            }
        });
        let pods = tokio::spawn(async move {
            let pods = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default())
                .default_backoff()
                .applied_objects();
            pin_mut!(pods);
            while let Some(pod) = pods.next().await {
                let Ok(pod) = pod else { continue };
                // A Pod that changed meanwhile is seen again.
                let _ = tend(&client, &pod, &first, &seen).await;
            }
        });
        Ok(Self { client: kept, troubles, tasks: [heart, pods] })
    }

    /// From now on new containers of this image are in trouble.
    pub fn trouble(&self, image: &str, trouble: Trouble) {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).insert(image.to_owned(), trouble);
    }

    /// From now on containers of these images run, those that are in trouble included.
    ///
    /// # Errors
    /// When their Pods cannot be read or written.
    pub async fn recover(&self, images: &[String]) -> Result<(), kube::Error> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).retain(|image, _| !images.contains(image));
        for pod in Api::<Pod>::all(self.client.clone()).list(&ListParams::default()).await? {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let concerned =
                containers.filter_map(|container| container.image.as_ref()).any(|image| images.contains(image));
            let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            if concerned && is_bound && pod.metadata.deletion_timestamp.is_none() {
                report(&self.client, &pod, &self.troubles).await?;
            }
        }
        Ok(())
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn beat(leases: &Api<Lease>, name: &str) -> Result<(), kube::Error> {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}});
    leases.patch(name, &PatchParams::apply("tests").force(), &Patch::Apply(lease)).await.map(drop)
}

async fn register(client: &Client, name: &str, version: &str) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    let node = serde_json::from_value(node)?;
    nodes.create(&PostParams::default(), &node).await?;
    let status = json!({"status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "nodeInfo": {"kubeletVersion": version, "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.0.0",
            "kernelVersion": "6.1", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux", "osImage": "linux", "systemUUID": ""},
    }});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

async fn tend(client: &Client, pod: &Pod, first: &str, troubles: &Troubles) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    if pod.metadata.deletion_timestamp.is_some() {
        return pods.delete(&name, &DeleteParams::default().grace_period(0)).await.map(drop);
    }
    let Some(spec) = &pod.spec else { return Ok(()) };
    if spec.node_name.is_none() {
        let node = wanted_node(pod).unwrap_or_else(|| first.to_owned());
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        let bound: Result<Value, _> = pods.create_subresource("binding", &name, &PostParams::default(), &binding).await;
        return bound.map(drop);
    }
    let is_running = pod.status.as_ref().is_some_and(|status| status.container_statuses.is_some());
    if is_running {
        return Ok(());
    }
    report(client, pod, troubles).await
}

/// Writes how the containers of a Pod are.
async fn report(client: &Client, pod: &Pod, troubles: &Troubles) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let trouble = |image: &str| troubles.lock().unwrap_or_else(PoisonError::into_inner).get(image).copied();
    let containers: Vec<Value> = pod
        .spec
        .iter()
        .flat_map(|spec| &spec.containers)
        .map(|container| status_of(&container.name, container.image.as_deref().unwrap_or_default(), trouble))
        .collect();
    let ready = containers.iter().all(|container| container.get("ready") == Some(&json!(true)));
    let condition = |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {
        "phase": if ready { "Running" } else { "Pending" },
        "conditions": [condition("PodScheduled", true), condition("Initialized", true), condition("ContainersReady", ready), condition("Ready", ready)],
        "containerStatuses": containers,
    }});
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(status)).await.map(drop)
}

/// `DaemonSets` say by affinity which Node a Pod is for.
fn wanted_node(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    terms
        .iter()
        .flat_map(|term| term.match_fields.iter().flatten())
        .find_map(|field| field.values.as_ref()?.first().cloned())
}

fn status_of(name: &str, image: &str, trouble: impl Fn(&str) -> Option<Trouble>) -> Value {
    let trouble = trouble(image);
    // As containerd names it: the repository with the digest, without the tag.
    let id = match image.split_once('@') {
        Some((tagged, digest)) => {
            let slash = tagged.rfind('/').map_or(0, |at| at + 1);
            let repository = tagged
                .get(slash..)
                .and_then(|last| last.find(':'))
                .and_then(|at| tagged.get(..slash + at))
                .unwrap_or(tagged);
            format!("{repository}@{digest}")
        }
        None => image.to_owned(),
    };
    if let Some(trouble) = trouble {
        let waiting = json!({"waiting": {"reason": trouble.reason(), "message": format!("of image \"{image}\"")}});
        // An image is known by its digest once it is there.
        let id = if trouble == Trouble::CrashLoopBackOff { id } else { String::new() };
        return json!({"name": name, "image": image, "imageID": id, "ready": false, "restartCount": 0, "state": waiting});
    }
    json!({"name": name, "image": image, "imageID": id, "ready": true, "started": true, "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
}
