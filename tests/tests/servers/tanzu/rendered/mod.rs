//! A cluster of Tanzu without a Supervisor: rendered for real controllers of Cluster API, whose machines are in memory, and applied by Flux.
//!
//! Each movement has a cluster of its own, as small as it may be, so that they run beside each other.

mod addons;
mod attempts;
mod certificates;
mod killed;
mod moves;

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tests::servers::manifests::{apply, kind_in, kind_of_cluster, list};
use tests::servers::{ClusterApi, Programs};
use tests::waiting::{LONG_PATIENCE, until_within};

use crate::machines::{CLUSTER_KIND, MACHINE, NAMESPACE, is_true};
use crate::scene::Scene;

const NAME: &str = "depot";
const FILE: &str = "tenants/depot.yaml";
const RECORDS: &str = "supervisor.yaml";
const TEMPLATE: (&str, &str) = ("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachineTemplate");
const OLD: &str = "v1.34.2+vmware.1-tkg.1";
const NEW: &str = "v1.35.1+vmware.2-tkg.1";
const BEFORE_NEW: &str = "v1.35.0+vmware.1-tkg.1";
const POLICY: &str = "\
apiVersion: stepgate.dev/v1alpha1
kind: Policy
deploy: {branch: deploy}
soak: 1s
timeout: 30m
flux: {interval: 1h}
allowDowngrade: true
tanzu: {mode: render, infrastructure: in-memory}
";

/// How many machines a cluster has: of the control plane, of the pool `blue` and of the pool `green`.
type Size = [usize; 3];

const SMALL: Size = [1, 1, 1];

fn cluster(release: &str, class: &str, [plane, blue, green]: Size) -> String {
    format!(
        "\
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata:
  name: {NAME}
  namespace: {NAMESPACE}
  annotations: {{stepgate.dev/management-cluster: management}}
spec:
  topology:
    controlPlane: {{replicas: {plane}, vmClass: small, storageClass: gold, tkr: {{reference: {{name: {}}}}}}}
    nodePools:
    - {{name: blue, replicas: {blue}, vmClass: small, storageClass: gold}}
    - {{name: green, replicas: {green}, vmClass: {class}, storageClass: gold}}
",
        release.replacen('+', "---", 1)
    )
}

/// The images that are recorded, the newest under this name.
fn records(newest: &str) -> String {
    let images = [("image-old", OLD), ("image-between", BEFORE_NEW), (newest, NEW)];
    let image = |(name, release): (&str, &str)| {
        let distribution = json!({"distribution": {"version": release}}).to_string();
        let annotations = json!({"vmware-system.guest.kubernetes.distribution.image.version": distribution});
        json!({"apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineImage",
            "metadata": {"name": name, "annotations": annotations}})
        .to_string()
    };
    images.map(image).join("\n---\n")
}

/// Deletes an object; one in no namespace where `namespace` is empty.
async fn delete(client: &kube::Client, kind: (&str, &str), namespace: &str, name: &str) -> anyhow::Result<()> {
    let api = match namespace {
        "" => kind_of_cluster(client, kind).await?,
        namespace => kind_in(client, kind, namespace).await?,
    };
    api.delete(name, &kube::api::DeleteParams::default()).await?;
    Ok(())
}

struct Bench {
    scene: Scene,
    _cluster_api: ClusterApi,
    /// The stages that are committed so far.
    stages: Vec<&'static str>,
}

impl Bench {
    /// A cluster of this release that is up, and recorded.
    async fn start(programs: &Programs, release: &str, size: Size, policy: &str) -> anyhow::Result<Self> {
        let scene = Scene::start(programs).await?;
        let cluster_api = ClusterApi::start(programs, &scene.server).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        apply(&scene.client, &[namespace]).await?;
        let (cluster, records) = (cluster(release, "small", size), records("image-new"));
        scene
            .repository
            .push("Describe the depot", &[("stepgate.yaml", policy), (FILE, &cluster), (RECORDS, &records)])?;
        scene.adopt()?;
        scene.connect_flux().await?;
        let bench = Self { scene, _cluster_api: cluster_api, stages: vec!["verify"] };
        let is_up = async || {
            let clusters = list(&bench.scene.client, CLUSTER_KIND, NAMESPACE).await?;
            let machines = bench.machines().await?;
            let is_well = clusters.iter().any(|cluster| is_true(cluster, "Available"));
            Ok((is_well && machines.len() == size.iter().sum::<usize>()).then_some(()))
        };
        let up = until_within("the cluster is up", LONG_PATIENCE, is_up).await;
        up.with_context(|| format!("Flux: {}", bench.scene.folder.path().display()))?;
        Ok(bench)
    }

    async fn machines(&self) -> anyhow::Result<Vec<kube::api::DynamicObject>> {
        list(&self.scene.client, MACHINE, NAMESPACE).await
    }

    /// The UIDs of the machines of the control plane, or of one pool.
    async fn uids(&self, part: &str) -> anyhow::Result<BTreeSet<String>> {
        let is_its = |machine: &kube::api::DynamicObject| machine.name_any().starts_with(&format!("{NAME}-{part}-"));
        Ok(self.machines().await?.iter().filter(|machine| is_its(machine)).filter_map(|it| it.uid()).collect())
    }

    async fn all_uids(&self) -> anyhow::Result<BTreeSet<String>> {
        Ok(self.machines().await?.iter().filter_map(kube::ResourceExt::uid).collect())
    }

    async fn root(&self) -> anyhow::Result<kube::api::DynamicObject> {
        list(&self.scene.client, CLUSTER_KIND, NAMESPACE).await?.into_iter().next().context("no Cluster")
    }

    /// Waits until a rollout has committed these stages and no other.
    async fn rolled(&mut self, stages: &[&'static str]) -> anyhow::Result<()> {
        self.stages.extend(stages);
        self.scene.stages_are(NAME, &self.stages).await?;
        self.templates_are_those_of_git().await
    }

    /// Every template that is left is one of git, and every machine was made from one of them.
    async fn templates_are_those_of_git(&self) -> anyhow::Result<()> {
        let folder = format!("clusters/{NAME}/templates");
        let wanted = self.scene.repository.deployed_files(&folder)?;
        let is_pruned = async || {
            let templates = list(&self.scene.client, TEMPLATE, NAMESPACE).await?;
            let names: BTreeSet<String> = templates.iter().map(kube::ResourceExt::name_any).collect();
            let is_known = |name: &String| wanted.iter().any(|path| path.ends_with(&format!("-{name}.yaml")));
            Ok((names.len() == 3 && names.iter().all(is_known)).then_some(()))
        };
        let pruned = until_within("templates are those of git", LONG_PATIENCE, is_pruned).await;
        pruned.with_context(|| format!("{wanted:?}"))?;
        for machine in
            list(&self.scene.client, ("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachine"), NAMESPACE).await?
        {
            let from = machine.annotations().get("cluster.x-k8s.io/cloned-from-name").context("not cloned")?;
            ensure!(wanted.iter().any(|path| path.ends_with(&format!("-{from}.yaml"))), "{from}: {wanted:?}");
        }
        Ok(())
    }

    /// All machines name this build of Kubernetes.
    async fn builds_are(&self, build: &str) -> anyhow::Result<()> {
        for machine in self.machines().await? {
            let version = machine.data.pointer("/spec/version").and_then(Value::as_str);
            ensure!(version == Some(build), "{}: {version:?}", machine.name_any());
        }
        Ok(())
    }
}

/// The stages of a change that concerns everything.
const ALL: [&str; 5] = ["control-plane", "workers/blue", "workers/green", "templates", "verify"];
