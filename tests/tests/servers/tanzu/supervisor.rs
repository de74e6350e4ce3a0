//! A Supervisor as far as it can be seen: its objects on a real API server, which a test moves on as its controllers would, and the cluster that it
//! makes on another one.

use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, define, kind_in, kind_of_cluster, objects};
use tests::servers::{ApiServer, ApiServerOptions, Programs};

/// Namespace and name of the cluster.
pub const NAMESPACE: &str = "tenants";
pub const NAME: &str = "depot";

const DEFINITION: &str = include_str!("definition.yaml");

/// What differs from one Supervisor to another.
#[derive(Clone, Copy)]
pub struct Generation {
    /// The version of `TanzuKubernetesCluster` that it serves.
    pub version: &'static str,
    /// That of Cluster API.
    pub machines: &'static str,
    /// Group, version and kind of what carries a machine.
    pub infrastructure: (&'static str, &'static str, &'static str, &'static str),
    /// How the label of a node writes the `+` of its release.
    pub plus: &'static str,
}

/// A machine: its name, its MachineDeployment if it is a worker, its release and its class.
pub type Made<'a> = (&'a str, Option<&'a str>, &'a str, &'a str);

pub struct Supervisor {
    pub generation: Generation,
    pub server: ApiServer,
    pub client: Client,
    _workload: ApiServer,
    nodes: Client,
}

fn definition((group, version, kind, plural): (&str, &str, &str, &str), scope: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

impl Supervisor {
    /// Starts both servers, and makes the objects of a cluster that is there.
    pub async fn start(programs: &Programs, folder: &Path, generation: Generation) -> anyhow::Result<Self> {
        let server = ApiServer::start(programs, &folder.join("supervisor"), ApiServerOptions::default()).await?;
        let workload = ApiServer::start(programs, &folder.join("workload"), ApiServerOptions::default()).await?;
        let (client, nodes) = (server.client().await?, workload.client().await?);
        let mut own = objects(DEFINITION)?.into_iter().next().context("no definition")?;
        let versions = own.pointer_mut("/spec/versions").and_then(Value::as_array_mut).context("no versions")?;
        versions.retain(|known| known["name"] == generation.version);
        let machines = generation.machines;
        let image = ("vmoperator.vmware.com", "v1alpha1", "VirtualMachineImage", "virtualmachineimages");
        let release = ("run.tanzu.vmware.com", "v1alpha1", "TanzuKubernetesRelease", "tanzukubernetesreleases");
        let definitions = [
            own,
            definition(("cluster.x-k8s.io", machines, "Cluster", "clusters"), "Namespaced"),
            definition(("cluster.x-k8s.io", machines, "Machine", "machines"), "Namespaced"),
            definition(generation.infrastructure, "Namespaced"),
            definition(image, "Cluster"),
            definition(release, "Cluster"),
        ];
        define(&client, &definitions).await?;
        let read = |path: &str| {
            std::fs::read(workload.folder().join("certificates").join(path)).map(|bytes| STANDARD.encode(bytes))
        };
        let kubeconfig = workload.portable_kubeconfig()?;
        let secret = |name: &str, data: Value| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{NAME}-{name}"), "namespace": NAMESPACE},
                "data": data})
        };
        let cluster = json!({"apiVersion": format!("cluster.x-k8s.io/{machines}"), "kind": "Cluster",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": workload.port()}}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        apply(&client, &[namespace]).await?;
        let secrets = [
            secret("kubeconfig", json!({"value": STANDARD.encode(&kubeconfig)})),
            secret("ca", json!({"tls.crt": read("authority.crt")?})),
        ];
        apply(&client, &[&secrets[..], &[cluster]].concat()).await?;
        Ok(Self { generation, server, client, _workload: workload, nodes })
    }

    /// A release with its image, which brings this version of the CNI.
    pub async fn release(&self, release: &str, cni: &str) -> anyhow::Result<()> {
        let name = release.replacen('+', "---", 1);
        let build = release.split_once("-tkg").context("not a release")?.0;
        let property = |name: &str| format!("vmware-system.guest.kubernetes.{name}");
        let distribution = json!({"distribution": {"version": release}, "kubernetes": {"version": build},
            "coredns": {"version": format!("dns-of-{build}")}});
        let image = json!({"apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineImage",
            "metadata": {"name": format!("photon-{name}"), "annotations": {
                property("distribution.image.version"): distribution.to_string(),
                property("addons.antrea"): json!({"version": cni, "type": "inline", "value": "kind: List"}).to_string(),
                property("addons.pvcsi"): json!({"type": "inline", "value": ""}).to_string()}}});
        let release = json!({"apiVersion": "run.tanzu.vmware.com/v1alpha1", "kind": "TanzuKubernetesRelease",
            "metadata": {"name": name}, "spec": {"version": release, "nodeImageRef": {"name": format!("photon-{name}")}}});
        apply(&self.client, &[image, release]).await
    }

    /// What the cluster's status says.
    pub async fn status(&self, status: Value) -> anyhow::Result<()> {
        let api_version = format!("run.tanzu.vmware.com/{}", self.generation.version);
        let clusters = kind_in(&self.client, (&api_version, "TanzuKubernetesCluster"), NAMESPACE).await?;
        let patch = Patch::Merge(json!({"status": status}));
        clusters.patch_status(NAME, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// A machine with its virtual machine and its node.
    pub async fn machine(&self, (name, owner, release, class): Made<'_>) -> anyhow::Result<()> {
        let Generation { machines, infrastructure: (group, version, kind, _), plus, .. } = self.generation;
        let build = release.split_once("-tkg").context("not a release")?.0;
        let mut labels = json!({"cluster.x-k8s.io/cluster-name": NAME});
        match owner {
            Some(owner) => labels["cluster.x-k8s.io/deployment-name"] = owner.into(),
            None => labels["cluster.x-k8s.io/control-plane"] = "".into(),
        }
        let api_version = format!("{group}/{version}");
        let carrier = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"className": class, "storageClass": "gold", "imageName": format!("photon-{release}")}});
        let machine = json!({"apiVersion": format!("cluster.x-k8s.io/{machines}"), "kind": "Machine",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
            "spec": {"clusterName": NAME, "version": build,
                "infrastructureRef": {"apiVersion": api_version, "kind": kind, "name": name}},
            "status": {"phase": "Running", "nodeRef": {"name": name}}});
        apply(&self.client, &[carrier, machine]).await?;
        let labels = json!({"run.tanzu.vmware.com/kubernetesDistributionVersion": release.replacen('+', plus, 1)});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        apply(&self.nodes, &[node]).await?;
        let info = json!({"kubeletVersion": build, "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux", "osImage": "",
            "systemUUID": ""});
        let ready = json!({"type": "Ready", "status": "True", "reason": "Test", "message": ""});
        let status = Patch::Merge(json!({"status": {"conditions": [ready], "nodeInfo": info}}));
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.nodes.clone());
        nodes.patch_status(name, &PatchParams::default(), &status).await?;
        Ok(())
    }

    /// A machine goes, and its node with it.
    pub async fn remove(&self, name: &str) -> anyhow::Result<()> {
        let nodes = kind_of_cluster(&self.nodes, ("v1", "Node")).await?;
        nodes.delete(name, &DeleteParams::default()).await?;
        let api_version = format!("cluster.x-k8s.io/{}", self.generation.machines);
        let machines = kind_in(&self.client, (&api_version, "Machine"), NAMESPACE).await?;
        machines.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The specification as it was applied.
    pub async fn specification(&self) -> anyhow::Result<Value> {
        let api_version = format!("run.tanzu.vmware.com/{}", self.generation.version);
        let clusters = kind_in(&self.client, (&api_version, "TanzuKubernetesCluster"), NAMESPACE).await?;
        Ok(clusters.get(NAME).await?.data["spec"].clone())
    }
}
