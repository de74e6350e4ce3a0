//! The machines of EKS Anywhere's management cluster, as its controllers leave them when nothing changes. A bump of components replaces no
//! machine; where Kubernetes is bumped too, [`FakeEksAnywhere::rolling`] writes them anew.

#![expect(clippy::indexing_slicing, reason = "fields of JSON objects that are made here")]

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::servers::kubernetes::manifests::{apply, kind_in, list};

/// The management cluster.
pub const CLUSTER: &str = "mgmt";

/// Where EKS Anywhere keeps Cluster API's objects.
const NAMESPACE: &str = "eksa-system";

/// Its nodes, named as their machines.
pub const NODES: [&str; 5] = ["mgmt-cp-0", "mgmt-cp-1", "mgmt-cp-2", "mgmt-md-0", "mgmt-md-1"];

/// Where kubelets show their static pods.
const KUBE_SYSTEM: &str = "kube-system";

const CORE: &str = "cluster.x-k8s.io/v1beta2";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta2";
const EKSA: &str = "anywhere.eks.amazonaws.com/v1alpha1";

/// EKS Anywhere's `Cluster`.
pub const EKSA_CLUSTER: (&str, &str) = (EKSA, "Cluster");

/// Writes what Cluster API would have written of a cluster that runs this version, and kube-vip that carries the address of its control plane.
///
/// # Errors
/// When an object is refused.
pub async fn create(client: &Client, version: &str) -> anyhow::Result<()> {
    apply(client, &kube_vip()).await?;
    write(client, version, version).await
}

/// The static pods as kubelets show them, and the Lease of the one that holds the address.
fn kube_vip() -> Vec<Value> {
    let holders: Vec<&str> = NODES.into_iter().filter(|name| is_of_control_plane(name)).collect();
    let containers = json!([{"name": "kube-vip", "image": "public.ecr.aws/l0g8r8j6/kube-vip/kube-vip:v1.2.0"}]);
    let pods = holders.iter().map(|node| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("kube-vip-{node}"), "namespace": KUBE_SYSTEM,
            "annotations": {"kubernetes.io/config.mirror": "0"}}, "spec": {"nodeName": node, "containers": containers}})
    });
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "plndr-cp-lock", "namespace": KUBE_SYSTEM},
        "spec": {"holderIdentity": holders.last(), "leaseDurationSeconds": 15}});
    pods.chain([lease]).collect()
}

fn is_of_control_plane(machine: &str) -> bool {
    machine.starts_with("mgmt-cp")
}

/// Writes them with the versions of the control plane and of the workers.
async fn write(client: &Client, version: &str, of_workers: &str) -> anyhow::Result<()> {
    let cluster = object(
        (CORE, "Cluster"),
        CLUSTER,
        &json!({}),
        &json!({
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": CLUSTER},
            "infrastructureRef": infrastructure("VSphereCluster", CLUSTER),
        }),
    );
    let control_plane = object(
        (CONTROL_PLANE, "KubeadmControlPlane"),
        CLUSTER,
        &json!({}),
        &json!({
            "replicas": 3, "version": version, "kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"local": {"imageTag": "v3.5.21"}}}},
            "machineTemplate": {"spec": {"infrastructureRef": infrastructure("VSphereMachineTemplate", "mgmt-control-plane-1")}},
        }),
    );
    let template = json!({
        "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/deployment-name": "mgmt-md-0"}},
        "spec": machine(of_workers, "VSphereMachineTemplate", "mgmt-md-0-1"),
    });
    let selector = json!({"matchLabels": {"cluster.x-k8s.io/deployment-name": "mgmt-md-0"}});
    let workers = json!({"clusterName": CLUSTER, "replicas": 2, "selector": selector, "template": template});
    let deployment = object((CORE, "MachineDeployment"), "mgmt-md-0", &json!({}), &workers);
    let labels = json!({"cluster.x-k8s.io/deployment-name": "mgmt-md-0"});
    let set = object((CORE, "MachineSet"), "mgmt-md-0-1", &labels, &workers);
    let owners = [cluster, control_plane, deployment, set];
    apply(client, &owners).await?;
    let mut machines = Vec::new();
    for name in NODES {
        let is_control_plane = is_of_control_plane(name);
        let version = if is_control_plane { version } else { of_workers };
        let (labels, owner) = if is_control_plane {
            (json!({"cluster.x-k8s.io/control-plane": ""}), ((CONTROL_PLANE, "KubeadmControlPlane"), CLUSTER))
        } else {
            (labels.clone(), ((CORE, "MachineSet"), "mgmt-md-0-1"))
        };
        let ((api_version, kind), owner) = owner;
        let uid = kind_in(client, (api_version, kind), NAMESPACE).await?.get(owner).await?.uid();
        let mut object = object((CORE, "Machine"), name, &labels, &machine(version, "VSphereMachine", name));
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": api_version, "kind": kind, "name": owner, "uid": uid, "controller": true}]);
        machines.push(object);
    }
    apply(client, &machines).await?;
    for object in owners.iter().chain(&machines) {
        settle(client, object).await?;
    }
    Ok(())
}

fn object((api_version, kind): (&str, &str), name: &str, labels: &Value, spec: &Value) -> Value {
    let mut labels = labels.clone();
    labels["cluster.x-k8s.io/cluster-name"] = json!(CLUSTER);
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": spec})
}

fn infrastructure(kind: &str, name: &str) -> Value {
    json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": name})
}

fn machine(version: &str, kind: &str, name: &str) -> Value {
    json!({"clusterName": CLUSTER, "version": version, "bootstrap": {"dataSecretName": name}, "infrastructureRef": infrastructure(kind, name)})
}

/// The status of an object in which nothing is left to do.
async fn settle(client: &Client, object: &Value) -> anyhow::Result<()> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    let api = kind_in(client, (api_version, kind), NAMESPACE).await?;
    let generation = api.get(name).await?.metadata.generation;
    let condition = |(kind, holds): (&str, bool)| {
        json!({"type": kind, "status": if holds { "True" } else { "False" }, "reason": "Settled", "message": "",
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let never = ["RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting", "Updating", "Paused"]
        .map(|name| (name, false));
    let always = [
        "MachinesUpToDate",
        "MachinesReady",
        "Available",
        "UpToDate",
        "NodeHealthy",
        "Ready",
        "ControlPlaneComponentsHealthy",
        "CertificatesAvailable",
        "EtcdClusterHealthy",
        "EtcdMemberHealthy",
    ]
    .map(|name| (name, true));
    let conditions: Vec<Value> = never.into_iter().chain(always).map(condition).collect();
    let mut status = json!({"observedGeneration": generation, "conditions": conditions});
    match kind {
        "Machine" => {
            status["nodeRef"] = json!({"name": name});
            status["phase"] = json!("Running");
        }
        "Cluster" => {}
        _ => {
            let replicas = object.pointer("/spec/replicas").cloned().unwrap_or_default();
            for count in ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"] {
                status[count] = replicas.clone();
            }
            if kind == "KubeadmControlPlane" {
                status["version"] = object.pointer("/spec/version").cloned().unwrap_or_default();
            }
        }
    }
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status})))
        .await
        .with_context(|| format!("status of {kind} {name}"))?;
    Ok(())
}

/// Says of each specification that it was carried out, in the place of EKS Anywhere's controller; ends when dropped.
pub struct FakeEksAnywhere(JoinHandle<()>);

impl FakeEksAnywhere {
    /// Starts to say so.
    #[must_use]
    pub fn start(client: &Client) -> Self {
        Self::run(client, false)
    }

    /// Starts to say so, once the machines are of the version that is specified, as Cluster API would leave them. None of them is replaced.
    #[must_use]
    pub fn rolling(client: &Client) -> Self {
        Self::run(client, true)
    }

    fn run(client: &Client, rolls: bool) -> Self {
        let client = client.clone();
        Self(tokio::spawn(async move {
            loop {
                // What could not be told is told the next time.
                let _ = carry_out(&client, rolls).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }))
    }
}

impl Drop for FakeEksAnywhere {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn carry_out(client: &Client, rolls: bool) -> anyhow::Result<()> {
    let api = kind_in(client, EKSA_CLUSTER, "default").await?;
    let cluster: DynamicObject = api.get(CLUSTER).await?;
    if rolls {
        roll(client, &cluster).await?;
    }
    let mut children = 0;
    for kind in ["VSphereDatacenterConfig", "VSphereMachineConfig", "DockerDatacenterConfig"] {
        // A fleet has one provider.
        let found = list(client, (EKSA, kind), "default").await.unwrap_or_default();
        children += found.iter().filter_map(|child| child.metadata.generation).sum::<i64>();
    }
    let generation = json!(cluster.metadata.generation);
    let status = json!({"observedGeneration": generation, "reconciledGeneration": generation, "childrenReconciledGeneration": children});
    let told = |field: &str| cluster.data.pointer(&format!("/status/{field}")) == status.get(field);
    if !["reconciledGeneration", "childrenReconciledGeneration"].into_iter().all(told) {
        api.patch_status(CLUSTER, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    }
    Ok(())
}

/// Writes machines and Nodes anew where they are of another version than is specified.
async fn roll(client: &Client, cluster: &DynamicObject) -> anyhow::Result<()> {
    let text = |path: &str| cluster.data.pointer(path).and_then(Value::as_str);
    let wanted = text("/spec/kubernetesVersion").context("no version")?;
    let of_workers = text("/spec/workerNodeGroupConfigurations/0/kubernetesVersion").unwrap_or(wanted);
    let nodes: Api<Node> = Api::all(client.clone());
    let runs = async |name: &str, minor: &str| {
        let info = nodes.get(name).await?.status.and_then(|status| status.node_info).unwrap_or_default();
        anyhow::Ok(info.kubelet_version.starts_with(&format!("v{minor}.")))
    };
    if runs("mgmt-cp-2", wanted).await? && runs("mgmt-md-1", of_workers).await? {
        return Ok(());
    }
    let full = |minor: &str| format!("v{minor}.1");
    write(client, &full(wanted), &full(of_workers)).await?;
    // Last, since this is what is looked at.
    for name in NODES {
        let minor = if is_of_control_plane(name) { wanted } else { of_workers };
        let status = json!({"status": {"nodeInfo": {"kubeletVersion": full(minor)}}});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(status)).await?;
    }
    Ok(())
}
