//! A whole minor of a cluster of EKS: the program commits, a pipeline runs eksctl, and the gates read the cluster.
//!
//! The API server is real. What eksctl and EKS would do, the tests do: they raise the version, make and drain nodes.

mod applied;
mod endpoint;
mod late;
mod mover;
mod pipeline;
mod real;
mod refused;
mod replicas;
mod skewed;
mod taken_back;
mod whole;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, kind_in};
use tests::servers::{
    ApiServer, ApiServerOptions, FleetRepository, Folder, Gitea, Process, Programs, Registry, isolated,
};
use tests::waiting::until;

use super::scene::forge;
use endpoint::Endpoint;

const NEEDED: &[&str] = &["etcd", "kube-apiserver", "registry"];
const CLUSTER: &str = "shop";
const FILE: &str = "aws/shop.yaml";
/// The label by which eksctl tells of what group a node is.
const GROUP: &str = "alpha.eksctl.io/nodegroup-name";
const DEPLOYED: &str = "clusters/shop/cluster/shop.yaml";

const POLICY: &str = "\
apiVersion: stepgate.dev/v1alpha1
kind: Policy
apply: pipeline
soak: 0s
timeout: 30m
clusters: {shop: {workerOrder: [istio, others], forceDrain: [{group: ng-shared, after: 1s, pods: 1}]}}
";

const CONFIG: &str = "\
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata: {name: shop, region: eu-west-1, version: \"1.31\"} # once a quarter
addons:
- {name: coredns, version: v1.11.3-eksbuild.1}
managedNodeGroups:
- name: ng-shared-1-31 # everybody's
  minSize: 2
- {name: istio-1-31-gen2, minSize: 1}
";

const STAGES: [&str; 8] = [
    "verify",
    "control-plane",
    "addons/coredns",
    "workers/istio-1-32",
    "workers/istio-1-31-gen2",
    "workers/ng-shared-1-32",
    "workers/ng-shared-1-31",
    "verify",
];

struct Scene {
    folder: Folder,
    repository: FleetRepository,
    client: Client,
    endpoint: Endpoint,
    registry: Registry,
    /// What the program is told besides, by its environment.
    environment: BTreeMap<&'static str, OsString>,
    server: ApiServer,
}

impl Scene {
    async fn start(programs: &Programs) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        Self::around(programs, folder, repository, BTreeMap::new()).await
    }

    /// The repository lies on a forge, where alice and the program read and write it.
    async fn on_forge(programs: &Programs) -> anyhow::Result<(Self, Gitea)> {
        let folder = Folder::new()?;
        let (gitea, repository, environment) = forge(programs, folder.path()).await?;
        Ok((Self::around(programs, folder, repository, environment).await?, gitea))
    }

    async fn around(
        programs: &Programs,
        folder: Folder,
        repository: FleetRepository,
        environment: BTreeMap<&'static str, OsString>,
    ) -> anyhow::Result<Self> {
        let server = ApiServer::start(programs, &folder.path().join("eks"), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let endpoint = Endpoint::start(&server, folder.path(), "v1.31.9-eks-1").await?;
        let registry = Registry::start(programs, &folder.path().join("registry"))?;
        let scene = Self { folder, repository, client, endpoint, registry, environment, server };
        // Nobody makes it where no controller runs.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "default"}});
        apply(&scene.client, &[account]).await?;
        for (name, group) in [("a", "ng-shared-1-31"), ("b", "ng-shared-1-31"), ("c", "istio-1-31-gen2")] {
            scene.node(name, json!({"alpha.eksctl.io/nodegroup-name": group}), "v1.31.4-eks-1").await?;
        }
        scene.node("fargate-1", json!({"eks.amazonaws.com/compute-type": "fargate"}), "v1.31.4-eks-1").await?;
        scene.coredns("v1.11.3-eksbuild.1").await?;
        Ok(scene)
    }

    /// A node that is ready.
    async fn node(&self, name: &str, labels: Value, kubelet: &str) -> anyhow::Result<()> {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        apply(&self.client, &[node]).await?;
        let condition =
            |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "Test", "message": ""});
        let info = json!({"kubeletVersion": kubelet, "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux", "osImage": "",
            "systemUUID": ""});
        let status = json!({"status": {"conditions": [condition("Ready", "True")], "nodeInfo": info}});
        self.nodes().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    fn nodes(&self) -> Api<k8s_openapi::api::core::v1::Node> {
        Api::all(self.client.clone())
    }

    /// As its controller does: with a taint that says since when.
    async fn cordon(&self, name: &str) -> anyhow::Result<()> {
        let since = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second())?;
        let taint = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
            "timeAdded": since.to_string()});
        let cordoned = json!({"spec": {"unschedulable": true, "taints": [taint]}});
        self.nodes().patch(name, &PatchParams::default(), &Patch::Merge(cordoned)).await?;
        Ok(())
    }

    async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.nodes().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// `CoreDNS` at a version, rolled out.
    async fn coredns(&self, version: &str) -> anyhow::Result<()> {
        let labels = json!({"k8s-app": "kube-dns"});
        let image = format!("602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/coredns:{version}");
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "coredns", "namespace": "kube-system"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "coredns", "image": image}]}}}});
        apply(&self.client, &[deployment]).await?;
        let deployments = kind_in(&self.client, ("apps/v1", "Deployment"), "kube-system").await?;
        let generation = deployments.get("coredns").await?.metadata.generation;
        let status = json!({"status": {"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": 1, "availableReplicas": 1}});
        deployments.patch_status("coredns", &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// A ready pod of a Deployment on a node.
    async fn pod(&self, deployment: &str, name: &str, node: &str) -> anyhow::Result<()> {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{deployment}-abc"),
            "uid": "00000000-0000-4000-8000-000000000001", "controller": true});
        let labels = json!({"app": deployment, "pod-template-hash": "abc"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
            "labels": labels, "ownerReferences": [owner]},
            "spec": {"nodeName": node, "containers": [{"name": "web", "image": "registry.example.com/web:1"}]}});
        apply(&self.client, &[pod]).await?;
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let pods = kind_in(&self.client, ("v1", "Pod"), "default").await?;
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// A pod that asks for Vault's agent, and has none.
    async fn bare_of_sidecar(&self, name: &str) -> anyhow::Result<()> {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
            "annotations": {"vault.hashicorp.com/agent-inject": "true"}},
            "spec": {"nodeName": "d", "containers": [{"name": "web", "image": "registry.example.com/web:1"}]}});
        apply(&self.client, &[pod]).await
    }

    async fn delete_pod(&self, name: &str) -> anyhow::Result<()> {
        let pods = kind_in(&self.client, ("v1", "Pod"), "default").await?;
        pods.delete(name, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await?;
        Ok(())
    }

    /// Whether somebody has asked for the deletion of a pod.
    async fn is_ending(&self, name: &str) -> anyhow::Result<bool> {
        let pods = kind_in(&self.client, ("v1", "Pod"), "default").await?;
        Ok(pods.get(name).await?.metadata.deletion_timestamp.is_some())
    }

    /// A Deployment of one pod, rolled out.
    async fn deployment(&self, name: &str) -> anyhow::Result<()> {
        let labels = json!({"app": name});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1"}]}}}});
        apply(&self.client, &[deployment]).await?;
        self.rolled_out(name).await
    }

    /// As the controller of Deployments says it when it is done.
    async fn rolled_out(&self, name: &str) -> anyhow::Result<()> {
        let deployments = kind_in(&self.client, ("apps/v1", "Deployment"), "default").await?;
        let generation = deployments.get(name).await?.metadata.generation;
        let status = json!({"status": {"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": 1, "availableReplicas": 1}});
        deployments.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// A budget that lets no pod of a Deployment go.
    async fn budget(&self, deployment: &str) -> anyhow::Result<()> {
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": deployment, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": deployment}}}});
        apply(&self.client, &[budget]).await?;
        let budgets = kind_in(&self.client, ("policy/v1", "PodDisruptionBudget"), "default").await?;
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
            "desiredHealthy": 1, "expectedPods": 1}});
        budgets.patch_status(deployment, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(arguments)
            .env("STEPGATE_REPO", self.repository.bare())
            .env("STEPGATE_KUBECONFIG", self.endpoint.kubeconfig())
            .env("STEPGATE_MANAGEMENT_CLUSTER", CLUSTER)
            .env("STEPGATE_MIRROR", self.folder.path().join("mirror"))
            .env("STEPGATE_BACKUPS", self.folder.path().join("backups"))
            .env("STEPGATE_BACKUP_REGISTRY", format!("oci://{}/ops/dumps", self.registry.address()))
            .env("STEPGATE_PRIVATE_HOSTS", "127.0.0.1")
            .env("SSL_CERT_FILE", self.registry.authority())
            .envs(&self.environment);
        command
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        Ok(self.command(arguments).output()?)
    }

    fn said(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(arguments)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!("{}{}", text(&output.stdout), text(&output.stderr)))
    }

    /// Waits until this many stages are committed, and nothing more.
    async fn stages_are(&self, count: usize) -> anyhow::Result<()> {
        self.commits_are(&STAGES[..count]).await
    }

    /// Waits until these stages are committed, and nothing more.
    async fn commits_are(&self, stages: &[&str]) -> anyhow::Result<()> {
        let committed = async || Ok((self.repository.stages()?.len() >= stages.len()).then_some(()));
        if let Err(error) = until(&format!("{stages:?} are committed"), committed).await {
            return Err(error.context(format!("{:?}: {}", self.repository.stages()?, self.said(&["why", CLUSTER])?)));
        }
        assert_eq!(self.repository.stages()?, stages);
        Ok(())
    }

    /// Waits until `why` says this of a gate that waits.
    async fn waits_for(&self, text: &str) -> anyhow::Result<()> {
        let mut said = String::new();
        let is_said = async || {
            said = self.said(&["why", CLUSTER])?;
            Ok(said.contains(text).then_some(()))
        };
        let waited = until(&format!("`why` says {text:?}"), is_said).await;
        waited.with_context(|| format!("said instead: {said}"))
    }
}

#[test]
fn a_minor_goes_stage_by_stage_as_a_pipeline_carries_it_out() {
    let name = "eksctl::a_minor_goes_stage_by_stage_as_a_pipeline_carries_it_out";
    isolated(name, NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        scene.repository.push("Describe the shop", &[("stepgate.yaml", POLICY), (FILE, CONFIG)])?;
        let said = scene.said(&["adopt", "--yes"])?;
        ensure!(said.contains("shop: recorded what the source branch says"), "{said}");
        ensure!(!said.contains("warning"), "{said}");
        assert_eq!(scene.repository.deployed(DEPLOYED)?, CONFIG);
        let log: PathBuf = scene.folder.path().to_owned();
        let _controller = Process::start(&log, "stepgate", scene.command(&["run", "--listen", "off"]))?;

        // A budget that would keep a node of a group that goes, for ever.
        scene.pod("web", "web-0", "c").await?;
        scene.budget("web").await?;
        let next = CONFIG.replace("\"1.31\"", "\"1.32\"").replace("v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2");
        scene.repository.push("Kubernetes 1.32", &[(FILE, &next)])?;
        scene.waits_for("can never be evicted and the drain never ends").await?;
        scene.delete_pod("web-0").await?;
        scene.stages_are(2).await?;
        // The version alone: add-ons and groups are as they were.
        assert_eq!(scene.repository.deployed(DEPLOYED)?, CONFIG.replace("\"1.31\"", "\"1.32\""));
        scene.waits_for("v1.31.9-eks-1, 1.32 expected").await?;
        scene.endpoint.raise("v1.32.2-eks-2");

        scene.stages_are(3).await?;
        scene.waits_for("v1.11.4-eksbuild.2 expected").await?;
        // No node is newer yet: EKS would take the control plane back.
        scene.waits_for("way back: EKS takes a control plane back from 1.32 to 1.31 within 7 days").await?;
        for verb in ["status", "plan"] {
            let said = scene.said(&[verb])?;
            let words: Vec<&str> = said.split_whitespace().collect();
            ensure!(words.join(" ").contains("it is open until"), "{said}");
        }
        scene.coredns("v1.11.4-eksbuild.2").await?;

        scene.stages_are(4).await?;
        let both = scene.repository.deployed(DEPLOYED)?;
        ensure!(both.contains("name: istio-1-32,") && both.contains("name: istio-1-31-gen2,"), "{both}");
        scene.waits_for("0 of 1 nodes are ready").await?;
        scene.node("d", json!({"alpha.eksctl.io/nodegroup-name": "istio-1-32"}), "v1.32.1-eks-1").await?;

        scene.stages_are(5).await?;
        scene.waits_for("Node c").await?;
        ensure!(!scene.said(&["why", CLUSTER])?.contains("way back"), "{}", scene.said(&["why", CLUSTER])?);
        scene.pod("web", "web-1", "c").await?;
        scene.budget("web").await?;
        scene.cordon("c").await?;
        scene.waits_for("is cordoned and still there").await?;
        // Who keeps the node, and what helps.
        scene.waits_for("its eviction from Node c is refused").await?;
        scene.waits_for("kubectl scale deployment web -n default --replicas=2").await?;
        scene.delete_pod("web-1").await?;
        scene.delete("c").await?;

        scene.stages_are(6).await?;
        let managed = json!({"eks.amazonaws.com/nodegroup": "ng-shared-1-32"});
        scene.node("e", managed.clone(), "v1.32.1-eks-1").await?;
        scene.waits_for("1 of 2 nodes are ready").await?;
        scene.node("f", managed, "v1.32.1-eks-1").await?;

        scene.stages_are(7).await?;
        // The policy lets one pod of this group be deleted past its budget, and no more.
        scene.pod("web", "web-2", "a").await?;
        scene.cordon("a").await?;
        until("a pod is deleted past its budget", async || Ok(scene.is_ending("web-2").await?.then_some(()))).await?;
        scene.pod("web", "web-3", "a").await?;
        scene.delete_pod("web-2").await?;
        scene.waits_for("Pod default/web-3 of Deployment default/web").await?;
        let budgets = kind_in(&scene.client, ("policy/v1", "PodDisruptionBudget"), "default").await?;
        let counted = budgets.get("web").await?.metadata.annotations.unwrap_or_default();
        let counted = counted.get("forced.stepgate.dev/ng-shared-1-31").context("nothing is counted")?;
        ensure!(counted.ends_with("/1") && !scene.is_ending("web-3").await?, "{counted}");
        scene.waits_for("1 pod of ng-shared-1-31 went past their budget in this rollout: no more may").await?;
        scene.delete_pod("web-3").await?;
        for node in ["a", "b"] {
            scene.cordon(node).await?;
            scene.delete(node).await?;
        }
        // A group that nobody has recorded, and what Fargate made, which nothing drains.
        scene.node("g", json!({"alpha.eksctl.io/nodegroup-name": "lost-1-31"}), "v1.31.4-eks-1").await?;
        scene.waits_for("is of Fargate at v1.31.4-eks-1").await?;
        scene.delete("fargate-1").await?;
        scene.waits_for("eksctl delete nodegroup --cluster shop --name lost-1-31 --drain").await?;
        scene.delete("g").await?;

        // A pod that runs without the sidecar that it asks for.
        scene.bare_of_sidecar("vaulted").await?;
        scene.waits_for("1 of 1 pods lack vault").await?;
        scene.waits_for("kubectl delete pod vaulted -n default").await?;
        scene.delete_pod("vaulted").await?;

        scene.stages_are(8).await?;
        let wanted = next.replace("ng-shared-1-31", "ng-shared-1-32").replace("istio-1-31-gen2", "istio-1-32");
        assert_eq!(scene.repository.deployed(DEPLOYED)?, wanted);
        // The dump from before is compared from the registry, where its folder is lost.
        std::fs::remove_dir_all(scene.folder.path().join("backups"))?;
        let compared = scene.said(&["compare", CLUSTER])?;
        ensure!(compared.contains("v1.32.1-eks-1") && compared.contains("before: v1.31.4-eks-1"), "{compared}");
        scene.folder.done();
        Ok(())
    });
}
