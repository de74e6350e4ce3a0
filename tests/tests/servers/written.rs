//! A cluster that nobody keeps in git: its repository is written from what the API server holds, it
//! is recorded, and nothing is left to do.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, apply_as, define, kind, kind_in, list, objects};
use tests::servers::settled::{self, EKSA_CLUSTER, FakeEksAnywhere, NODES};
use tests::servers::{
    ApiServer, ApiServerOptions, ClusterApi, FakeKubelet, FleetRepository, Folder, Programs, demo_definitions,
    demo_fleet, isolated,
};
use tests::waiting::until;

use super::machines;

/// Kubernetes of the demo before its bump.
const KUBERNETES: &str = "v1.33.5";

const BUNDLE: &str = "bundles/bundles-80.yaml";

/// A management cluster, and a repository with what was written of it.
struct Scene {
    folder: Folder,
    server: ApiServer,
    client: kube::Client,
}

impl Scene {
    async fn start(programs: &Programs) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let options = ApiServerOptions { controllers: true, ..ApiServerOptions::default() };
        let server = ApiServer::start(programs, &folder.path().join("server"), options).await?;
        let client = server.client().await?;
        Ok(Self { folder, server, client })
    }

    /// The program, with this repository.
    fn run(&self, repository: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(arguments)
            .env("STEPGATE_REPO", repository)
            .env("STEPGATE_KUBECONFIG", self.server.kubeconfig())
            .env("STEPGATE_MIRROR", self.folder.path().join("mirror"))
            .env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        Ok(command.output()?)
    }

    /// What it prints where it succeeds.
    fn said(&self, repository: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(repository, arguments)?;
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{arguments:?}: {said}");
        Ok(said)
    }

    /// What it prints where it refuses, and that it has written nothing.
    fn refused(&self, to: &str) -> anyhow::Result<String> {
        let folder = self.folder.path().join(to);
        let output = self.run(self.folder.path(), &["adopt", "--write", &folder.display().to_string()])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(2) && !folder.exists(), "{said}");
        Ok(said)
    }

    /// Writes the repository, and records it as it is: all that there is to do is nothing.
    fn adopt(&self, to: &str) -> anyhow::Result<Vec<(String, String)>> {
        let folder = self.folder.path().join(to);
        self.said(self.folder.path(), &["adopt", "--write", &folder.display().to_string()])?;
        let files = files(&folder, &folder)?;
        let repository = FleetRepository::create(&self.folder.path().join(format!("{to}-repository")))?;
        let texts: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        repository.push("Describe what runs", &texts)?;
        let bare = &repository.bare();
        let checked = self.said(bare, &["check"])?;
        ensure!(checked.contains(" 0 errors, 0 other remarks"), "{checked}");
        let adopted = self.said(bare, &["adopt", "--yes"])?;
        ensure!(adopted.contains(" 0 differ\n") && !adopted.contains("unknown"), "{adopted}");
        ensure!(repository.stages()? == ["verify"], "{:?}", repository.stages()?);
        let plan: Value = serde_json::from_slice(&self.run(bare, &["plan", "-o", "json"])?.stdout)?;
        for cluster in plan["clusters"].as_array().with_context(|| plan.to_string())? {
            ensure!(cluster["commits"] == json!(0) && cluster["blocked"] == json!([]), "{plan}");
        }
        // No file is overwritten.
        let again = self.run(self.folder.path(), &["adopt", "--write", &folder.display().to_string()])?;
        let said = String::from_utf8_lossy(&again.stderr).into_owned();
        ensure!(again.status.code() == Some(2) && said.contains("stepgate.yaml are there already"), "{said}");
        Ok(files)
    }
}

/// Path and text of each file below a folder.
fn files(root: &Path, folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(files(root, &path)?);
        } else {
            let name = path.strip_prefix(root)?.display().to_string();
            found.push((name, std::fs::read_to_string(&path)?));
        }
    }
    Ok(found)
}

/// Nothing that only a server writes, and no Secret.
fn assert_declared(files: &[(String, String)]) {
    for (path, text) in files {
        for field in ["uid:", "resourceVersion:", "managedFields:", "creationTimestamp:", "\nstatus:", "kind: Secret"] {
            assert!(!text.contains(field), "{path} has {field}: {text}");
        }
    }
}

#[test]
fn a_cluster_of_eks_anywhere_becomes_a_repository_with_nothing_left_to_do() {
    let name = "written::a_cluster_of_eks_anywhere_becomes_a_repository_with_nothing_left_to_do";
    isolated(name, &["etcd", "kube-apiserver", "kube-controller-manager"], async |programs| {
        let scene = Scene::start(&programs).await?;
        let _kubelet = FakeKubelet::start(&scene.client, &NODES, KUBERNETES).await?;
        let fleet = demo_fleet(scene.folder.path())?;
        ensure!(
            scene.refused("nothing")?.contains("there is no Cluster of EKS Anywhere or Cluster API"),
            "not refused"
        );

        // What EKS Anywhere leaves behind: its components, its release, its specification by
        // kubectl, and the machines.
        let specification = fleet.get("clusters/mgmt/cluster.yaml").context("no cluster")?;
        // Docker has no configurations of machines.
        let specification =
            specification.replace("    machineGroupRef:\n      kind: DockerMachineConfig\n      name: mgmt-md-0\n", "");
        let described = [
            ("bundles/bundles-80.yaml", fleet.get(BUNDLE).context("no bundle")?.as_str()),
            ("clusters/mgmt/cluster.yaml", specification.as_str()),
        ];
        let before = FleetRepository::create(&scene.folder.path().join("before"))?;
        before.push("What EKS Anywhere installs", &described)?;
        let rendered = scene.run(&before.bare(), &["render", "--cluster", "mgmt"])?;
        let mut installed = objects(&String::from_utf8(rendered.stdout)?)?;
        installed.retain(|object| kind(object) != "Kustomization");
        define(&scene.client, &demo_definitions()).await?;
        for kinds in [&["CustomResourceDefinition"][..], &["Namespace"]] {
            let of_kinds: Vec<Value> =
                installed.iter().filter(|object| kinds.contains(&kind(object))).cloned().collect();
            apply(&scene.client, &of_kinds).await?;
            installed.retain(|object| !kinds.contains(&kind(object)));
        }
        apply_as(&scene.client, "kubectl", &installed).await?;
        settled::create(&scene.client, KUBERNETES).await?;
        let said = scene.refused("early")?;
        ensure!(said.contains("Cluster default/mgmt was never carried out"), "{said}");
        let eks_anywhere = FakeEksAnywhere::start(&scene.client);
        let clusters = kind_in(&scene.client, EKSA_CLUSTER, "default").await?;
        let carried_out = async || {
            let status = clusters.get("mgmt").await?.data["status"].clone();
            Ok(status["reconciledGeneration"].is_number().then_some(()))
        };
        until("the specification is carried out", carried_out).await?;

        let files = scene.adopt("written")?;
        let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["bundles/bundles-80.yaml", "clusters/mgmt/cluster.yaml", "stepgate.yaml"]);
        assert_declared(&files);

        // A release that is not carried out, and a controller that is not of it.
        drop(eks_anywhere);
        let ahead = Patch::Merge(json!({"spec": {"kubernetesVersion": "1.34"}}));
        clusters.patch("mgmt", &PatchParams::default(), &ahead).await?;
        let said = scene.refused("half")?;
        ensure!(said.contains("carried out to generation 1 of 2") && said.contains("the cluster says 1.34"), "{said}");
        let older = json!({"spec": {"template": {"spec": {"containers": [{"name": "manager", "image": "registry.example.com/eks-anywhere/eks-anywhere-cluster-controller:v0.23.0-eks-a-79"}]}}}});
        let deployments = kind_in(&scene.client, ("apps/v1", "Deployment"), "eksa-system").await?;
        deployments.patch("eksa-controller-manager", &PatchParams::default(), &Patch::Strategic(older)).await?;
        let said = scene.refused("behind")?;
        ensure!(said.contains("declares Bundles eksa-system/bundles-80, whose controller is"), "{said}");
        scene.folder.done();
        Ok(())
    });
}

#[test]
fn a_cluster_of_cluster_api_becomes_a_repository_with_nothing_left_to_do() {
    let name = "written::a_cluster_of_cluster_api_becomes_a_repository_with_nothing_left_to_do";
    let servers = ["etcd", "kube-apiserver", "kube-controller-manager"];
    let needed: Vec<&str> = servers.into_iter().chain(ClusterApi::NEEDED).collect();
    isolated(name, &needed, async |programs| {
        let scene = Scene::start(&programs).await?;
        let _cluster_api = ClusterApi::start(&programs, &scene.server).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": machines::NAMESPACE}});
        apply(&scene.client, &[namespace]).await?;
        // Nobody said which cluster manages it.
        let specification = machines::cluster(KUBERNETES)
            .replace("  annotations:\n    stepgate.dev/management-cluster: management\n", "");
        let described = [machines::class(&programs, "1s")?, specification];
        for text in &described {
            apply_as(&scene.client, "kubectl", &objects(text)?).await?;
        }
        let machines = async || {
            let found = list(&scene.client, machines::MACHINE, machines::NAMESPACE).await?;
            Ok((!found.is_empty()).then_some(()))
        };
        until("machines are made", machines).await?;
        let said = scene.refused("early")?;
        ensure!(said.contains("cluster machines is not at rest"), "{said}");
        let is_up = async || {
            let clusters = list(&scene.client, machines::CLUSTER_KIND, machines::NAMESPACE).await?;
            let count = |part: &str| {
                let path = format!("/status/{part}/availableReplicas");
                clusters.iter().any(|cluster| cluster.data.pointer(&path) == Some(&json!(3)))
            };
            let is_written = scene.run(scene.folder.path(), &["adopt", "--write", "/proc/nowhere"])?;
            let is_at_rest = !String::from_utf8_lossy(&is_written.stderr).contains("is not at rest");
            Ok((count("controlPlane") && count("workers") && is_at_rest).then_some(()))
        };
        until("the cluster is up", is_up).await?;

        let files = scene.adopt("written")?;
        let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["clusters/machines/cluster.yaml", "stepgate.yaml"]);
        assert_declared(&files);
        let kinds: Vec<String> = objects(&files[0].1)?.iter().map(|object| kind(object).to_owned()).collect();
        ensure!(kinds[0] == "Cluster" && kinds.contains(&"ClusterClass".to_owned()), "{kinds:?}");
        ensure!(
            !kinds.iter().any(|kind| ["Machine", "MachineDeployment", "KubeadmControlPlane"].contains(&kind.as_str())),
            "{kinds:?}"
        );

        // Another cluster of its name.
        let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
        apply(&scene.client, &[other]).await?;
        let mut twin = objects(&machines::cluster(KUBERNETES))?.pop().context("no cluster")?;
        twin["metadata"]["namespace"] = json!("other");
        twin["spec"]["topology"]["classRef"]["namespace"] = json!(machines::NAMESPACE);
        twin["spec"]["paused"] = json!(true);
        apply(&scene.client, &[twin]).await?;
        let said = scene.refused("twins")?;
        ensure!(said.contains("2 clusters are called machines") && said.contains("Cluster other/machines"), "{said}");
        scene.folder.done();
        Ok(())
    });
}
